//! Macros that turn an expression on one lane into a function on a warp.

/// `lanes1!(|a| expression of u64)` as an [`F1`](super::F1).
macro_rules! lanes1 {
    (|$a:ident| $e:expr) => {{
        fn run(x: &$crate::exec::alu::Lanes, d: &mut $crate::exec::alu::Lanes) {
            for (d, x) in d.iter_mut().zip(x) {
                let $a = *x;
                *d = $e;
            }
        }
        run as $crate::exec::alu::F1
    }};
}

/// `lanes2!(|a, b| expression of u64)` as an [`F2`](super::F2).
macro_rules! lanes2 {
    (|$a:ident, $b:ident| $e:expr) => {{
        fn run(x: &$crate::exec::alu::Lanes, y: &$crate::exec::alu::Lanes, d: &mut $crate::exec::alu::Lanes) {
            for ((d, x), y) in d.iter_mut().zip(x).zip(y) {
                let ($a, $b) = (*x, *y);
                *d = $e;
            }
        }
        run as $crate::exec::alu::F2
    }};
}

/// `lanes3!(|a, b, c| expression of u64)` as an [`F3`](super::F3).
macro_rules! lanes3 {
    (|$a:ident, $b:ident, $c:ident| $e:expr) => {{
        fn run(
            x: &$crate::exec::alu::Lanes,
            y: &$crate::exec::alu::Lanes,
            z: &$crate::exec::alu::Lanes,
            d: &mut $crate::exec::alu::Lanes,
        ) {
            for (((d, x), y), z) in d.iter_mut().zip(x).zip(y).zip(z) {
                let ($a, $b, $c) = (*x, *y, *z);
                *d = $e;
            }
        }
        run as $crate::exec::alu::F3
    }};
}

/// `lanes4!(|a, b, c, e| expression of u64)` as an [`F4`](super::F4).
macro_rules! lanes4 {
    (|$a:ident, $b:ident, $c:ident, $g:ident| $e:expr) => {{
        fn run(
            x: &$crate::exec::alu::Lanes,
            y: &$crate::exec::alu::Lanes,
            z: &$crate::exec::alu::Lanes,
            w: &$crate::exec::alu::Lanes,
            d: &mut $crate::exec::alu::Lanes,
        ) {
            for ((((d, x), y), z), w) in d.iter_mut().zip(x).zip(y).zip(z).zip(w) {
                let ($a, $b, $c, $g) = (*x, *y, *z, *w);
                *d = $e;
            }
        }
        run as $crate::exec::alu::F4
    }};
}

/// An expression at every integer type: inside, `T` is the type and the operands
/// have it; the result is a `T`.
macro_rules! int1 {
    ($ty:expr, |$a:ident| $e:expr) => {
        match $ty {
            Ty::U16 | Ty::B16 => Some(int1!(@ u16, u16, |$a| $e)),
            Ty::S16 => Some(int1!(@ i16, u16, |$a| $e)),
            Ty::U32 | Ty::B32 => Some(int1!(@ u32, u32, |$a| $e)),
            Ty::S32 => Some(int1!(@ i32, u32, |$a| $e)),
            Ty::U64 | Ty::B64 => Some(int1!(@ u64, u64, |$a| $e)),
            Ty::S64 => Some(int1!(@ i64, u64, |$a| $e)),
            _ => None,
        }
    };
    (@ $t:ty, $u:ty, |$a:ident| $e:expr) => {
        lanes1!(|$a| {
            #[allow(unused)]
            type T = $t;
            let $a = $a as T;
            ($e) as $u as u64
        })
    };
}

/// [`int1`] with two operands.
macro_rules! int2 {
    ($ty:expr, |$a:ident, $b:ident| $e:expr) => {
        match $ty {
            Ty::U16 | Ty::B16 => Some(int2!(@ u16, u16, |$a, $b| $e)),
            Ty::S16 => Some(int2!(@ i16, u16, |$a, $b| $e)),
            Ty::U32 | Ty::B32 => Some(int2!(@ u32, u32, |$a, $b| $e)),
            Ty::S32 => Some(int2!(@ i32, u32, |$a, $b| $e)),
            Ty::U64 | Ty::B64 => Some(int2!(@ u64, u64, |$a, $b| $e)),
            Ty::S64 => Some(int2!(@ i64, u64, |$a, $b| $e)),
            _ => None,
        }
    };
    (@ $t:ty, $u:ty, |$a:ident, $b:ident| $e:expr) => {
        lanes2!(|$a, $b| {
            #[allow(unused)]
            type T = $t;
            let ($a, $b) = ($a as T, $b as T);
            ($e) as $u as u64
        })
    };
}

/// [`int1`] with three operands.
macro_rules! int3 {
    ($ty:expr, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        match $ty {
            Ty::U16 | Ty::B16 => Some(int3!(@ u16, u16, |$a, $b, $c| $e)),
            Ty::S16 => Some(int3!(@ i16, u16, |$a, $b, $c| $e)),
            Ty::U32 | Ty::B32 => Some(int3!(@ u32, u32, |$a, $b, $c| $e)),
            Ty::S32 => Some(int3!(@ i32, u32, |$a, $b, $c| $e)),
            Ty::U64 | Ty::B64 => Some(int3!(@ u64, u64, |$a, $b, $c| $e)),
            Ty::S64 => Some(int3!(@ i64, u64, |$a, $b, $c| $e)),
            _ => None,
        }
    };
    (@ $t:ty, $u:ty, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        lanes3!(|$a, $b, $c| {
            #[allow(unused)]
            type T = $t;
            let ($a, $b, $c) = ($a as T, $b as T, $c as T);
            ($e) as $u as u64
        })
    };
}
