//! `cvt`: every pair of types, with rounding, saturation and flushing.

use super::{Alu, Function, Lanes, Shadow};
use crate::{
    decode::types::{Modifiers, Ty},
    number::{
        BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, F64, Format, Round, Specials, TF32, bf16_to_f32,
        f16_to_f32, narrow, narrow_scale, pack, widen, widen_scale,
    },
};

/// A conversion of one value.
#[derive(Clone, Copy, Debug)]
pub struct Cvt {
    dst: Ty,
    src: Ty,
    /// Rounding of a float result.
    round: Round,
    /// Rounding to an integral value, also for float results (`cvt.rni.f32.f32`).
    integral: Option<Round>,
    ftz: bool,
    sat: bool,
    finite: bool,
    relu: bool,
    /// Bytes of the destination register, to which small integers are extended.
    width: u8,
}

/// A conversion of two `f32`s to a packed pair; the first source is the high half.
#[derive(Clone, Copy, Debug)]
pub struct Cvt2 {
    dst: Ty,
    round: Round,
    finite: bool,
    relu: bool,
}

fn format(ty: Ty) -> Option<Format> {
    Some(match ty {
        Ty::F16 | Ty::F16x2 => F16,
        Ty::Bf16 | Ty::Bf16x2 => BF16,
        Ty::Tf32 => TF32,
        Ty::F32 => F32,
        Ty::F64 => F64,
        Ty::E4m3x2 => E4M3,
        Ty::E5m2x2 => E5M2,
        Ty::E2m3x2 => E2M3,
        Ty::E3m2x2 => E3M2,
        Ty::E2m1x2 => E2M1,
        _ => return None,
    })
}

/// Whether a type is a packed pair.
fn pair(ty: Ty) -> bool {
    use Ty::{Bf16x2, E2m1x2, E2m3x2, E3m2x2, E4m3x2, E5m2x2, F16x2, Ue8m0x2};
    matches!(ty, F16x2 | Bf16x2 | E4m3x2 | E5m2x2 | E2m3x2 | E3m2x2 | E2m1x2 | Ue8m0x2)
}

/// Bits from one element of a pair to the next.
fn stride(ty: Ty) -> u32 {
    u32::from(ty.bytes()) * 4
}

pub(super) fn select(mods: &mut Modifiers<'_>, width: u8) -> Option<Alu> {
    let types = mods.all_types();
    let [dst, src] = *types.as_slice() else { return None };
    let round = mods.choose(&[
        ("rn", Round::NearestEven),
        ("rna", Round::NearestAway),
        ("rz", Round::Zero),
        ("rm", Round::Down),
        ("rp", Round::Up),
    ]);
    let integral = mods.choose(&[
        ("rni", Round::NearestEven),
        ("rzi", Round::Zero),
        ("rmi", Round::Down),
        ("rpi", Round::Up),
    ]);
    let (ftz, sat, finite, relu) =
        (mods.take("ftz"), mods.take("sat"), mods.take("satfinite"), mods.take("relu"));
    // Two-source forms.
    if pair(dst) && src == Ty::F32 {
        if ftz || sat || integral.is_some() {
            return None;
        }
        let function = Cvt2 { dst, round: round?, finite, relu };
        return Some(Alu::new(Function::Convert2(function), dst, [Ty::F32; 4]));
    }
    let halves = |ty| matches!(ty, Ty::F16x2 | Ty::Bf16x2);
    let legal = match (pair(dst), pair(src)) {
        (true, true) => halves(dst) != halves(src) && !(ftz || sat || integral.is_some()),
        (one, other) => !one && !other,
    };
    let scalar = |ty: Ty| {
        !matches!(ty, Ty::Pred | Ty::B8 | Ty::B16 | Ty::B32 | Ty::B64 | Ty::B128)
            && !matches!(ty, Ty::U16x2 | Ty::S16x2 | Ty::F32x2)
    };
    if !legal || !scalar(dst) || !scalar(src) || (src == Ty::Tf32) || (dst == Ty::Tf32 && src != Ty::F32) {
        return None;
    }
    let function = Cvt {
        dst,
        src,
        round: round.unwrap_or(Round::NearestEven),
        integral,
        ftz,
        sat,
        finite,
        relu,
        width: width.max(dst.bytes()),
    };
    let mut alu = Alu::new(Function::Convert(function), dst, [src; 4]);
    if !dst.float() && !src.float() && !sat {
        let bytes = src.bytes().min(dst.bytes());
        let signed = if src.bytes() < dst.bytes() { src.signed() } else { dst.signed() };
        alu = alu.shadow(Shadow::Extend { from: bytes, signed });
        // The frequent plain cases as straight code.
        if let Some(fast) = plain(dst, src, width) {
            alu.function = Function::One(fast);
        }
    } else if let Some(fast) = usual(&function) {
        alu.function = Function::One(fast);
    }
    Some(alu)
}

/// `cvt.pack.sat`: two saturated integers beside each other, the first above the
/// second, and for bytes what was in c above them.
pub(super) fn select_pack(mods: &mut Modifiers<'_>) -> Option<Alu> {
    fn saturated<const LOW: i32, const HIGH: i32>(v: u64) -> u64 {
        (v as u32 as i32).clamp(LOW, HIGH) as u32 as u64
    }
    if !mods.take("sat") {
        return None;
    }
    let word = [Ty::S32, Ty::S32, Ty::B32, Ty::B32];
    // Parts of four and two bits: what was in c moves up by both.
    let small = mods.choose(&[("s4", (4, true)), ("u4", (4, false)), ("s2", (2, true)), ("u2", (2, false))]);
    if let Some(part) = small {
        if mods.all_types() != [Ty::S32, Ty::B32] {
            return None;
        }
        let function = match part {
            (4, true) => {
                lanes3!(|a, b, c| (c << 8 | (saturated::<-8, 7>(a) & 15) << 4 | saturated::<-8, 7>(b) & 15)
                    & 0xffff_ffff)
            }
            (4, false) => {
                lanes3!(|a, b, c| (c << 8 | saturated::<0, 15>(a) << 4 | saturated::<0, 15>(b)) & 0xffff_ffff)
            }
            (_, true) => {
                lanes3!(|a, b, c| (c << 4 | (saturated::<-2, 1>(a) & 3) << 2 | saturated::<-2, 1>(b) & 3)
                    & 0xffff_ffff)
            }
            (_, false) => {
                lanes3!(|a, b, c| (c << 4 | saturated::<0, 3>(a) << 2 | saturated::<0, 3>(b)) & 0xffff_ffff)
            }
        };
        return Some(Alu::new(Function::Three(function), Ty::B32, word));
    }
    let function = match mods.all_types().as_slice() {
        [Ty::S16, Ty::S32] => Function::Two(lanes2!(|a, b| {
            (saturated::<-32768, 32767>(a) << 16 | saturated::<-32768, 32767>(b) & 0xffff) & 0xffff_ffff
        })),
        [Ty::U16, Ty::S32] => {
            Function::Two(lanes2!(|a, b| saturated::<0, 65535>(a) << 16 | saturated::<0, 65535>(b)))
        }
        [Ty::S8, Ty::S32, Ty::B32] => Function::Three(lanes3!(|a, b, c| {
            let pair = (saturated::<-128, 127>(a) & 0xff) << 8 | saturated::<-128, 127>(b) & 0xff;
            (c << 16 | pair) & 0xffff_ffff
        })),
        [Ty::U8, Ty::S32, Ty::B32] => Function::Three(lanes3!(|a, b, c| {
            (c << 16 | saturated::<0, 255>(a) << 8 | saturated::<0, 255>(b)) & 0xffff_ffff
        })),
        _ => return None,
    };
    Some(Alu::new(function, Ty::B32, word))
}

/// Integer extensions and cuts into registers of the result's own width.
fn plain(dst: Ty, src: Ty, width: u8) -> Option<super::F1> {
    if width != dst.bytes() {
        return None;
    }
    Some(match (dst.bytes(), src) {
        (8, Ty::U32) | (4, Ty::U32 | Ty::S32) => lanes1!(|a| a as u32 as u64),
        (8, Ty::S32) => lanes1!(|a| a as i32 as i64 as u64),
        (4, Ty::U64 | Ty::S64) => lanes1!(|a| a as u32 as u64),
        (4 | 8, Ty::U16) | (2, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64 | Ty::U16 | Ty::S16) => {
            lanes1!(|a| a as u16 as u64)
        }
        (4, Ty::S16) => lanes1!(|a| a as i16 as i32 as u32 as u64),
        (8, Ty::S16) => lanes1!(|a| a as i16 as i64 as u64),
        (8, Ty::U64 | Ty::S64) => lanes1!(|a| a),
        (2 | 4 | 8, Ty::U8) => lanes1!(|a| a as u8 as u64),
        (4, Ty::S8) => lanes1!(|a| a as i8 as i32 as u32 as u64),
        _ => return None,
    })
}

/// The float conversions that compilers emit most, as straight code.
fn usual(cvt: &Cvt) -> Option<super::F1> {
    if cvt.ftz || cvt.sat || cvt.relu || cvt.finite || cvt.integral.is_some() {
        return None;
    }
    let nearest = cvt.round == Round::NearestEven;
    Some(match (cvt.dst, cvt.src) {
        (Ty::F32, Ty::F16) => lanes1!(|a| canonical(f16_to_f32(a as u16))),
        (Ty::F32, Ty::Bf16) => lanes1!(|a| canonical(bf16_to_f32(a as u16))),
        (Ty::F32, Ty::S32) if nearest => lanes1!(|a| (a as i32 as f32).to_bits() as u64),
        (Ty::F32, Ty::U32) if nearest => lanes1!(|a| (a as u32 as f32).to_bits() as u64),
        _ => return None,
    })
}

fn canonical(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) }
}

enum Value {
    Int(i128),
    Float(f64),
}

fn integral(value: f64, round: Round) -> f64 {
    match round {
        Round::NearestEven => value.round_ties_even(),
        Round::NearestAway => value.round(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

fn range(ty: Ty) -> (i128, i128) {
    let bits = u32::from(ty.bytes()) * 8;
    if ty.signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

impl Cvt {
    /// Converts the value of one lane.
    pub fn lane(&self, bits: u64) -> u64 {
        if pair(self.dst) {
            let (from, to) = (stride(self.src), stride(self.dst));
            return (0..2).fold(0, |result, element| {
                let code = bits >> (from * element) & ((1 << from) - 1);
                let value = match format(self.src) {
                    Some(format) => widen(code, format),
                    None => widen_scale(code),
                };
                result | self.scalar(code, value) << (to * element)
            });
        }
        match self.read(bits) {
            Value::Int(value) => self.integer(value),
            Value::Float(value) => self.scalar(bits, value),
        }
    }

    fn read(&self, bits: u64) -> Value {
        match self.src {
            Ty::U8 => Value::Int((bits as u8).into()),
            Ty::U16 => Value::Int((bits as u16).into()),
            Ty::U32 => Value::Int((bits as u32).into()),
            Ty::U64 => Value::Int(bits.into()),
            Ty::S8 => Value::Int((bits as i8).into()),
            Ty::S16 => Value::Int((bits as i16).into()),
            Ty::S32 => Value::Int((bits as i32).into()),
            Ty::S64 => Value::Int((bits as i64).into()),
            Ty::F16 => Value::Float(f16_to_f32(bits as u16).into()),
            Ty::Bf16 => Value::Float(bf16_to_f32(bits as u16).into()),
            Ty::F64 => Value::Float(f64::from_bits(bits)),
            _ => {
                let value = f32::from_bits(bits as u32);
                Value::Float(
                    if self.ftz && value.is_subnormal() { 0.0f32.copysign(value) } else { value }.into(),
                )
            }
        }
    }

    fn int_result(&self, value: i128) -> u64 {
        // Cut to the type, then extend to the register.
        let cut = 64 - u32::from(self.dst.bytes()) * 8;
        let extended = if self.dst.signed() {
            ((value as u64) << cut) as i64 >> cut
        } else {
            ((value as u64) << cut >> cut) as i64
        } as u64;
        if self.width >= 8 { extended } else { extended & ((1 << (self.width * 8)) - 1) }
    }

    fn integer(&self, value: i128) -> u64 {
        if let Some(format) = format(self.dst) {
            let code = pack(value < 0, value.unsigned_abs() as u64, 0, false, format, self.round);
            return self.finish(code, format);
        }
        let (low, high) = range(self.dst);
        self.int_result(if self.sat { value.clamp(low, high) } else { value })
    }

    /// From a float; `bits` is the source for results that keep its payload.
    fn scalar(&self, bits: u64, value: f64) -> u64 {
        let value = match self.integral {
            Some(round) => integral(value, round),
            None => value,
        };
        if self.dst == Ty::Ue8m0x2 {
            return narrow_scale(value, self.round, self.finite);
        }
        let Some(format) = format(self.dst) else {
            // To an integer: what is no number has a value of its own, the rest is clamped.
            let (low, high) = range(self.dst);
            if value.is_nan() {
                let zero = self.src != Ty::F64 && self.dst.bytes() < 8;
                return self.int_result(if zero { 0 } else { 1 << (self.dst.bytes() * 8 - 1) });
            }
            let value = if self.integral.is_some() { value } else { value.trunc() };
            return self.int_result((value as i128).clamp(low, high));
        };
        if value.is_nan() && self.dst == Ty::F64 && self.src == Ty::F64 {
            return bits;
        }
        let mut code = narrow(value, format, self.round);
        let overflow = value.is_finite() || self.finite;
        if (self.finite || format.specials == Specials::Nan)
            && overflow
            && code & !format.sign() == format.infinity()
            && !value.is_nan()
        {
            code = code & format.sign() | format.largest();
        }
        self.finish(code, format)
    }

    fn finish(&self, code: u64, format: Format) -> u64 {
        let nan = code & !format.sign() > format.infinity()
            || (format.specials == Specials::Nan && code & !format.sign() == format.nan());
        let negative = code & format.sign() != 0;
        let mut code = code;
        if self.ftz && format == F32 && code & format.infinity() == 0 {
            code &= format.sign();
        }
        if self.sat {
            let one = narrow(1.0, format, Round::NearestEven);
            code = if nan || negative { 0 } else { code.min(one) };
        }
        if self.relu && negative && !nan {
            code = 0;
        }
        if self.dst == Ty::Tf32 { code << 13 } else { code }
    }

    /// Converts a warp.
    pub fn run(&self, source: &Lanes, result: &mut Lanes) {
        for (result, source) in result.iter_mut().zip(source) {
            *result = self.lane(*source);
        }
    }
}

impl Cvt2 {
    /// Converts a warp: `high` goes to the upper half.
    pub fn run(&self, high: &Lanes, low: &Lanes, result: &mut Lanes) {
        let shift = stride(self.dst);
        let cvt = Cvt {
            dst: self.dst,
            src: Ty::F32,
            round: self.round,
            integral: None,
            ftz: false,
            sat: false,
            finite: self.finite,
            relu: self.relu,
            width: self.dst.bytes(),
        };
        for ((result, high), low) in result.iter_mut().zip(high).zip(low) {
            let value = |bits: &u64| cvt.scalar(*bits, f32::from_bits(*bits as u32).into());
            *result = value(low) | value(high) << shift;
        }
    }
}
