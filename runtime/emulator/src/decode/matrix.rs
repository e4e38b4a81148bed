//! Matrix instructions.

use super::{
    body::Decoder,
    inst::{Class, MatrixMove, Mma, NONE, Op, Scales, Slot, WarpOp, Wgmma, WgmmaLeft, WmmaMove},
    select::SPACES,
    types::{Modifiers, Ty},
};
use crate::{
    exec::alu::Shadow,
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
            "wgmma" => self.wgmma(instruction, mods),
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
        let mut kind = None;
        let mut scaled = false;
        let mut vector = None;
        let mut types = Vec::new();
        for word in rest.iter().filter(|word| **word != "satfinite") {
            match word.split_once("::") {
                Some(("kind", name)) => kind = Some(name),
                Some(("scale_vec", "1X")) => vector = Some(1),
                Some(("scale_vec", "2X")) => vector = Some(2),
                Some(("scale_vec", "4X")) => vector = Some(4),
                None if *word == "block_scale" => scaled = true,
                _ => types.push(*word),
            }
        }
        // Scales of UE8M0, or of UE4M3 (without a sign), and how many along k.
        let scale = match (kind, scaled, types.get(4).copied()) {
            (None | Some("f8f6f4"), false, None) if vector.is_none() => None,
            (Some("mxf8f6f4"), true, Some("ue8m0")) if vector.unwrap_or(1) == 1 => Some((1, false)),
            (Some("mxf4"), true, Some("ue8m0")) if vector.unwrap_or(2) == 2 => Some((2, false)),
            (Some("mxf4nvf4"), true, Some("ue8m0")) if matches!(vector, Some(2 | 4)) => {
                Some((vector.unwrap_or(2), false))
            }
            (Some("mxf4nvf4"), true, Some("ue4m3")) if vector.unwrap_or(4) == 4 => Some((4, true)),
            _ => return self.unknown(instruction),
        };
        let [d, a, b, c] = *types.get(..4).unwrap_or_default() else { return self.unknown(instruction) };
        if types.len() != if scaled { 5 } else { 4 } {
            return self.unknown(instruction);
        }
        let packed = matches!(kind, Some("mxf4" | "mxf4nvf4"));
        let element = |word: &str| match Element::parse(word) {
            Some(Element::E2m1) if packed => Some(Element::E2m1Packed),
            other => other,
        };
        let (Some(d), Some(a), Some(b), Some(c)) = (element(d), element(a), element(b), element(c)) else {
            return self.unknown(instruction);
        };
        let small = |e| matches!(e, Element::E2m1 | Element::E2m3 | Element::E3m2);
        if kind.is_none() && (small(a) || small(b)) {
            return self.unknown(instruction);
        }
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
        let wanted = if scale.is_some() { 8 } else { 4 };
        if instruction.operands.len() != wanted {
            return self.fail(format!("`mma` takes {wanted} operands"));
        }
        let scales = match scale {
            None => None,
            Some((count, fractional)) => {
                self.needs(120, instruction)?;
                let mut scales =
                    Scales { count, fractional, data: [NONE; 2], byte: [NONE; 2], thread: [NONE; 2] };
                for part in 0..2 {
                    scales.data[part] = self.source(self.operand(instruction, 4 + 2 * part)?, Ty::B32)?;
                    let Operand::Vector(ids) = self.operand(instruction, 5 + 2 * part)? else {
                        return self.fail("the byte and thread of scales stand in braces");
                    };
                    let [byte, thread] = ids.as_slice() else {
                        return self.fail("the byte and thread of scales are two");
                    };
                    scales.byte[part] = self.source(byte, Ty::U16)?;
                    scales.thread[part] = self.source(thread, Ty::U16)?;
                }
                Some(scales)
            }
        };
        let mma = Mma {
            shape,
            tables: shape.tables(),
            d: self.fragment(self.operand(instruction, 0)?, true, shape.registers(Part::C, true))?,
            a: self.fragment(self.operand(instruction, 1)?, false, shape.registers(Part::A, false))?,
            b: self.fragment(self.operand(instruction, 2)?, false, shape.registers(Part::B, false))?,
            c: self.fragment(self.operand(instruction, 3)?, false, shape.registers(Part::C, false))?,
            scales,
        };
        let mask = self.constant(0xffff_ffff)?;
        let width = if shape.d == Element::F64 { 8 } else { 4 };
        self.emit_warp(WarpOp::Mma(Box::new(mma)), mask, Class::Matrix, width);
        Ok(())
    }

    fn wgmma(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        use Element::{Bf16, E4m3, E5m2, F16, F32, S8, S32, Tf32, U8};
        self.needs(90, instruction)?;
        let words = instruction.modifiers.as_slice();
        // The products are there when they are issued: nothing is left to wait for.
        if matches!(words, ["fence" | "commit_group" | "wait_group", "sync", "aligned"]) {
            let waits = words.first() == Some(&"wait_group");
            if instruction.operands.len() != usize::from(waits) {
                return self.unknown(instruction);
            }
            self.emit(Op::Nop, Class::Matrix, 0, Shadow::Spread);
            return Ok(());
        }
        let (size, types, saturate) = match words {
            ["mma_async", "sync", "aligned", size, d, a, b] => (size, [d, a, b], false),
            ["mma_async", "sync", "aligned", size, d, a, b, "satfinite"] => (size, [d, a, b], true),
            _ => return self.unknown(instruction),
        };
        for word in words {
            mods.take(word);
        }
        mods.all_types();
        let [Some(sum), Some(left), Some(right)] = types.map(|word| Element::parse(word)) else {
            return self.unknown(instruction);
        };
        let Some((64, n, k)) = shape(size) else { return self.unknown(instruction) };
        let float = sum != S32;
        let legal = match (left, right, sum) {
            (F16, F16, F16 | F32) | (Bf16, Bf16, F32) => k == 16,
            (Tf32, Tf32, F32) => k == 8,
            (E4m3 | E5m2, E4m3 | E5m2, F16 | F32) | (S8 | U8, S8 | U8, S32) => k == 32,
            _ => false,
        };
        if !legal || !n.is_multiple_of(8) || !(8..=256).contains(&n) || (saturate && float) {
            return self.unknown(instruction);
        }
        let turns = left.bits() == 16;
        let registers = matches!(self.operand(instruction, 1)?, Operand::Vector(_));
        let flags = match (float, turns, registers) {
            (false, ..) => 0,
            (true, false, _) => 2,
            (true, true, true) => 3,
            (true, true, false) => 4,
        };
        self.done(instruction, mods, 4 + flags)?;
        let count = n / 2 / sum.per_register();
        let d = self.fragment(self.operand(instruction, 0)?, true, count)?;
        let a = if registers {
            WgmmaLeft::Registers(self.fragment(self.operand(instruction, 1)?, false, 4)?)
        } else {
            WgmmaLeft::Descriptor(self.source(self.operand(instruction, 1)?, Ty::B64)?)
        };
        let b = self.source(self.operand(instruction, 2)?, Ty::B64)?;
        let scale_d = match self.operand(instruction, 3)? {
            Operand::Int(value) => (NONE, *value != 0),
            operand => self.predicate(operand)?,
        };
        let mut constants = Vec::new();
        for operand in instruction.operands.iter().skip(4) {
            match operand {
                Operand::Int(value) => constants.push(*value as i64),
                _ => return self.fail("the scales and transpositions of `wgmma` are constants"),
            }
        }
        let (scales, transposed) = constants.split_at(constants.len().min(2));
        if scales.iter().any(|scale| !matches!(scale, 1 | -1))
            || transposed.iter().any(|t| !matches!(t, 0 | 1))
        {
            return self.fail("the scales of `wgmma` are 1 or -1, its transpositions 0 or 1");
        }
        let op = Wgmma {
            n,
            k,
            left,
            right,
            sum,
            d,
            a,
            b,
            scale_d,
            negate: scales.iter().product::<i64>() == -1,
            left_along_m: transposed.len() == 2 && transposed.first() == Some(&1),
            right_along_n: transposed.last() == Some(&1),
            saturate,
        };
        let mask = self.constant(0xffff_ffff)?;
        self.emit_warp(WarpOp::Wgmma(Box::new(op)), mask, Class::Matrix, 4);
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
                scales: None,
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
        Element::E2m3 | Element::E3m2 | Element::E2m1 | Element::E2m1Packed => 120,
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
