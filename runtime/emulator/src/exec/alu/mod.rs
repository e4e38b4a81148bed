//! Instructions that map lanes to lanes: no memory, no other lane, no control.
//!
//! Each is selected once, at decode, to a function over whole warps of registers;
//! the compiler vectorises those over the 32 lanes.

#[macro_use]
mod lanes;
mod bits;
mod cvt;
mod float;
mod half;
mod int;
mod mixed;
mod set;

pub use cvt::{Cvt, Cvt2};
pub use set::{Compare, compare};

use crate::decode::types::{Modifiers, Ty};

/// One register of a warp: a value a lane, zero-extended from its width.
pub type Lanes = [u64; 32];
/// A function of one source.
pub type F1 = fn(&Lanes, &mut Lanes);
/// A function of two sources.
pub type F2 = fn(&Lanes, &Lanes, &mut Lanes);
/// A function of three sources.
pub type F3 = fn(&Lanes, &Lanes, &Lanes, &mut Lanes);
/// A function of four sources.
pub type F4 = fn(&Lanes, &Lanes, &Lanes, &Lanes, &mut Lanes);

/// A selected function.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Function {
    One(F1),
    Two(F2),
    Three(F3),
    Four(F4),
    Convert(Cvt),
    Convert2(Cvt2),
}

/// How undefined bytes of the sources reach the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadow {
    /// Any undefined byte makes the whole result undefined.
    Spread,
    /// Byte by byte.
    Bytes,
    /// Byte by byte; a zero byte of a defined operand defines the result's.
    And,
    /// Byte by byte; an all-ones byte of a defined operand defines the result's.
    Or,
    /// Half by half (packed 16-bit arithmetic).
    Halves,
    /// Word by word (packed `f32`).
    Words,
    /// Shifted left with the value.
    ShiftLeft,
    /// Shifted right with the value.
    ShiftRight,
    /// A bit field taken from the first source.
    Extract,
    /// Bytes selected from the first two sources by the third.
    Permute,
    /// The second or first source by the predicate in the third.
    Select,
    /// A conversion: extended or cut at the width of the source.
    Extend {
        /// Bytes of the source.
        from: u8,
        /// Whether the sign is extended.
        signed: bool,
    },
}

/// An instruction of this family.
#[derive(Clone, Copy, Debug)]
pub struct Alu {
    /// What computes it.
    pub function: Function,
    /// The type of the result.
    pub dst: Ty,
    /// The types of the sources, as many as the function has.
    pub src: [Ty; 4],
    /// How undefined bytes spread.
    pub shadow: Shadow,
}

impl Alu {
    fn new(function: Function, dst: Ty, src: [Ty; 4]) -> Alu {
        Alu { function, dst, src, shadow: Shadow::Spread }
    }

    /// All operands of one type.
    fn uniform(function: Function, ty: Ty) -> Alu {
        Alu::new(function, ty, [ty; 4])
    }

    fn shadow(self, shadow: Shadow) -> Alu {
        Alu { shadow, ..self }
    }

    /// How many sources it reads.
    pub fn sources(&self) -> usize {
        match self.function {
            Function::One(_) | Function::Convert(_) => 1,
            Function::Two(_) | Function::Convert2(_) => 2,
            Function::Three(_) => 3,
            Function::Four(_) => 4,
        }
    }
}

/// The function of an opcode, or `None` if this family has none. Modifiers that
/// are understood are taken; `width` is the bytes of the destination register,
/// `sources` how many operands it is given.
pub fn select(base: &str, mods: &mut Modifiers<'_>, width: u8, sources: usize) -> Option<Alu> {
    if base == "cvt" && mods.take("pack") {
        return cvt::select_pack(mods);
    }
    if base == "cvt" {
        return cvt::select(mods, width);
    }
    let ty = mods.ty()?;
    match ty {
        Ty::F32 | Ty::F64 | Ty::F32x2 if !matches!(base, "selp" | "slct" | "mov" | "movf") => {
            float::select(base, ty, mods, sources)
        }
        Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 if !matches!(base, "selp" | "slct" | "mov") => {
            half::select(base, ty, mods)
        }
        _ => bits::select(base, ty, mods).or_else(|| int::select(base, ty, mods)),
    }
}
