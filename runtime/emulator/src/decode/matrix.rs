//! Matrix instructions.

use super::{
    body::Decoder,
    inst::{Class, MatrixMove, Mma, NONE, Slot, WarpOp, WmmaMove},
    select::SPACES,
    types::{Modifiers, Ty},
};
use crate::{
    exec::mma::{Element, MmaShape, Part},
    ptx::{
        PtxError,
        ast::{Instruction, Operand, Space},
    },
};

/// `m16n8k16` as three numbers.
fn shape(word: &str) -> Option<(u32, u32, u32)> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

impl<'m, 's> Decoder<'m, 's> {
    pub(super) fn matrix(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        match instruction.base {
            "mma" => self.mma(instruction),
            "wmma" => self.wmma(instruction),
            "movmatrix" => {
                let known = [mods.take("sync"), mods.take("aligned"), mods.take("m8n8"), mods.take("trans")];
                if known.contains(&false) || mods.ty() != Some(Ty::B16) {
                    return self.unknown(instruction);
                }
                self.done(instruction, mods, 2)?;
                let dst = self.destination(self.operand(instruction, 0)?)?.slot;
                let a = self.source(self.operand(instruction, 1)?, Ty::B32)?;
                let mask = self.constant(0xffff_ffff)?;
                self.emit_warp(WarpOp::TransposeMatrix { dst, a }, mask, Class::Matrix, 4);
                Ok(())
            }
            _ => self.matrix_move(instruction, mods),
        }
    }

    /// The registers of a fragment.
    fn fragment(
        &mut self,
        operand: &Operand<'s>,
        written: bool,
        count: u32,
    ) -> Result<Box<[Slot]>, PtxError> {
        let items: Vec<&Operand<'s>> = match operand {
            Operand::Vector(items) => items.iter().collect(),
            single => vec![single],
        };
        if items.len() != count as usize {
            return self.fail(format!("a fragment of {count} registers is needed, {} given", items.len()));
        }
        items
            .into_iter()
            .map(|item| if written { Ok(self.destination(item)?.slot) } else { self.source(item, Ty::B64) })
            .collect()
    }

    fn matrix_move(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        let load = instruction.base == "ldmatrix";
        self.needs(if load { 75 } else { 90 }, instruction)?;
        if !mods.take("sync") || !mods.take("aligned") || !mods.take("m8n8") || mods.ty() != Some(Ty::B16) {
            return self.unknown(instruction);
        }
        let Some(count) = mods.choose(&[("x1", 1), ("x2", 2), ("x4", 4)]) else {
            return self.unknown(instruction);
        };
        let transposed = mods.take("trans");
        let space = mods.choose(&SPACES).unwrap_or(Space::Generic);
        self.done(instruction, mods, 2)?;
        let (registers, address) = if load { (0, 1) } else { (1, 0) };
        let registers = self.fragment(self.operand(instruction, registers)?, load, count)?;
        let (address, space) = self.plain_address(self.operand(instruction, address)?, space)?;
        let moved = Box::new(MatrixMove { registers, address, space, transposed });
        let mask = self.constant(0xffff_ffff)?;
        let (op, class) = if load {
            (WarpOp::LoadMatrix(moved), Class::LoadShared)
        } else {
            (WarpOp::StoreMatrix(moved), Class::StoreShared)
        };
        self.emit_warp(op, mask, class, 4);
        Ok(())
    }

    fn mma(&mut self, instruction: &Instruction<'s>) -> Result<(), PtxError> {
        let words = instruction.modifiers.as_slice();
        let ["sync", "aligned", size, a_layout, b_layout, rest @ ..] = words else {
            return self.unknown(instruction);
        };
        let (Some((m, n, k)), saturate) = (shape(size), rest.first() == Some(&"satfinite")) else {
            return self.unknown(instruction);
        };
        // `.kind::f8f6f4` names what sm_120 calls the plain FP8 product.
        let rest: Vec<&str> =
            rest.iter().copied().filter(|word| !matches!(*word, "satfinite" | "kind::f8f6f4")).collect();
        let [d, a, b, c] = rest.as_slice() else { return self.unknown(instruction) };
        let (Some(d), Some(a), Some(b), Some(c)) =
            (Element::parse(d), Element::parse(a), Element::parse(b), Element::parse(c))
        else {
            return self.unknown(instruction);
        };
        let layout = |word: &str| match word {
            "row" => Some(false),
            "col" => Some(true),
            _ => None,
        };
        let (Some(a_column), Some(b_column)) = (layout(a_layout), layout(b_layout)) else {
            return self.unknown(instruction);
        };
        let shape = MmaShape { m, n, k, a, b, c, d, a_column, b_column, saturate, wmma: false };
        let volta = a == Element::F16 && k == 4;
        if !shape.known() || (!volta && (a_column || !b_column)) || (saturate && d != Element::S32) {
            return self.unknown(instruction);
        }
        self.needs(chip_of(&shape), instruction)?;
        if instruction.operands.len() != 4 {
            return self.fail("`mma` takes 4 operands");
        }
        let mma = Mma {
            shape,
            tables: shape.tables(),
            d: self.fragment(self.operand(instruction, 0)?, true, shape.registers(Part::C, true))?,
            a: self.fragment(self.operand(instruction, 1)?, false, shape.registers(Part::A, false))?,
            b: self.fragment(self.operand(instruction, 2)?, false, shape.registers(Part::B, false))?,
            c: self.fragment(self.operand(instruction, 3)?, false, shape.registers(Part::C, false))?,
        };
        let mask = self.constant(0xffff_ffff)?;
        let width = if shape.d == Element::F64 { 8 } else { 4 };
        self.emit_warp(WarpOp::Mma(Box::new(mma)), mask, Class::Matrix, width);
        Ok(())
    }

    fn wmma(&mut self, instruction: &Instruction<'s>) -> Result<(), PtxError> {
        let mut words: Vec<&str> = instruction.modifiers.clone();
        let mut take = |word: &str| match words.iter().position(|w| *w == word) {
            Some(at) => {
                words.remove(at);
                true
            }
            None => false,
        };
        let (load, store) = (take("load"), take("store"));
        let multiply = !load && !store && take("mma");
        if !(load || store || multiply) || !take("sync") {
            return self.unknown(instruction);
        }
        take("aligned");
        let saturate = take("satfinite");
        if multiply {
            // wmma.mma.sync.aligned.alayout.blayout.shape.dtype[.atype.btype].ctype
            let [a_layout, b_layout, size, types @ ..] = words.as_slice() else {
                return self.unknown(instruction);
            };
            let types: Option<Vec<Element>> = types.iter().map(|word| Element::parse(word)).collect();
            let (d, a, b, c) = match types.as_deref() {
                Some([d, c]) => (*d, Element::F16, Element::F16, *c),
                Some([d, a, b, c]) => (*d, *a, *b, *c),
                _ => return self.unknown(instruction),
            };
            let Some((m, n, k)) = shape(size) else { return self.unknown(instruction) };
            let layouts = [*a_layout, *b_layout];
            if layouts.iter().any(|layout| !matches!(*layout, "row" | "col")) {
                return self.unknown(instruction);
            }
            let shape = MmaShape {
                m,
                n,
                k,
                a,
                b,
                c,
                d,
                a_column: *a_layout == "col",
                b_column: *b_layout == "col",
                saturate,
                wmma: true,
            };
            if !wmma_known(&shape) || instruction.operands.len() != 4 {
                return self.unknown(instruction);
            }
            let mma = Mma {
                shape,
                tables: shape.tables(),
                d: self.fragment(self.operand(instruction, 0)?, true, shape.registers(Part::C, true))?,
                a: self.fragment(self.operand(instruction, 1)?, false, shape.registers(Part::A, false))?,
                b: self.fragment(self.operand(instruction, 2)?, false, shape.registers(Part::B, false))?,
                c: self.fragment(self.operand(instruction, 3)?, false, shape.registers(Part::C, false))?,
            };
            let mask = self.constant(0xffff_ffff)?;
            let width = if shape.d == Element::F64 { 8 } else { 4 };
            self.emit_warp(WarpOp::Mma(Box::new(mma)), mask, Class::Matrix, width);
            return Ok(());
        }
        // wmma.load.part.sync.aligned.layout.shape.space.type and wmma.store.d...
        let part = match words.first() {
            Some(&"a") if load => Part::A,
            Some(&"b") if load => Part::B,
            Some(&"c") if load => Part::C,
            Some(&"d") if store => Part::C,
            _ => return self.unknown(instruction),
        };
        words.remove(0);
        let [layout, size, tail @ ..] = words.as_slice() else { return self.unknown(instruction) };
        let (space, ty) = match tail {
            [ty] => (Space::Generic, *ty),
            [space, ty] => match SPACES.iter().find(|(word, _)| word == space) {
                Some((_, space @ (Space::Global | Space::Shared | Space::Generic))) => (*space, *ty),
                _ => return self.unknown(instruction),
            },
            _ => return self.unknown(instruction),
        };
        let (Some((m, n, k)), Some(element)) = (shape(size), Element::parse(ty)) else {
            return self.unknown(instruction);
        };
        let column_major = match *layout {
            "row" => false,
            "col" => true,
            _ => return self.unknown(instruction),
        };
        // Only the moved matrix's type matters here; the multiplication checks the rest.
        let shape = MmaShape {
            m,
            n,
            k,
            a: element,
            b: element,
            c: element,
            d: element,
            a_column: false,
            b_column: false,
            saturate: false,
            wmma: true,
        };
        if !matches!((m, n, k), (16, 16, 16) | (32, 8, 16) | (8, 32, 16) | (16, 16, 8) | (8, 8, 4))
            || element.bits() < 8
        {
            return self.unknown(instruction);
        }
        let (registers, address) = if load { (0, 1) } else { (1, 0) };
        let count = shape.registers(part, store);
        let registers = self.fragment(self.operand(instruction, registers)?, load, count)?;
        let (address, space) = self.plain_address(self.operand(instruction, address)?, space)?;
        let stride = match instruction.operands.get(2) {
            Some(operand) => self.source(operand, Ty::U32)?,
            None => NONE,
        };
        let moved = WmmaMove { shape, part, registers, address, space, stride, column_major, store };
        let mask = self.constant(0xffff_ffff)?;
        self.emit_warp(WarpOp::Wmma(Box::new(moved)), mask, Class::Matrix, 4);
        Ok(())
    }
}

/// The first chip that has a shape of `mma.sync`.
fn chip_of(shape: &MmaShape) -> u32 {
    match shape.a {
        Element::F16 if shape.k == 4 => 70,
        Element::F16 if shape.k == 8 => 75,
        Element::S8 | Element::U8 if shape.m == 8 => 75,
        Element::S4 | Element::U4 if shape.m == 8 => 75,
        Element::E4m3 | Element::E5m2 => 89,
        Element::F64 if shape.m == 16 => 90,
        _ => 80,
    }
}

/// Whether it is one of the shapes of `wmma`, with its types.
fn wmma_known(shape: &MmaShape) -> bool {
    use Element::{Bf16, F16, F32, F64, S8, S32, Tf32, U8};
    let size = (shape.m, shape.n, shape.k);
    let sixteen = matches!(size, (16, 16, 16) | (32, 8, 16) | (8, 32, 16));
    match (shape.a, shape.b, shape.c, shape.d) {
        (F16, F16, F16 | F32, F16 | F32) => sixteen,
        (Bf16, Bf16, F32, F32) => sixteen,
        (S8, S8, S32, S32) | (U8, U8, S32, S32) => sixteen,
        (Tf32, Tf32, F32, F32) => size == (16, 16, 8),
        (F64, F64, F64, F64) => size == (8, 8, 4),
        _ => false,
    }
}
