//! Small pieces of code: sizes, loops, addresses, loads and stores, shuffles.

use std::collections::BTreeMap;

use melior::ir::{Attribute, BlockLike, ValueLike};
use phobos_dialect::{
    PassError, Type, Val,
    build::{IntegerPredicate, element_type, is_vector, lanes},
    ir,
};

use super::Lowering;

/// A number of elements or bytes: known, or an `i64` value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Size<'c> {
    Const(i64),
    Value(Val<'c>),
}

impl<'c> Lowering<'c> {
    /// The size as an `i64` value.
    pub(super) fn value(&self, size: Size<'c>) -> Result<Val<'c>, PassError> {
        match size {
            Size::Const(number) => self.b.i64(number),
            Size::Value(value) => Ok(value),
        }
    }

    /// A size from an `i64` value, known if it is a constant.
    pub(super) fn size(&self, value: Val<'c>) -> Size<'c> {
        ir::constant_integer(value).map_or(Size::Value(value), Size::Const)
    }

    /// As at run time, addresses wrap: one that did belongs to a position outside, where
    /// nothing is read or written.
    pub(super) fn add(&self, a: Size<'c>, b: Size<'c>) -> Result<Size<'c>, PassError> {
        match (a, b) {
            (Size::Const(a), Size::Const(b)) => Ok(Size::Const(a.wrapping_add(b))),
            (Size::Const(0), other) | (other, Size::Const(0)) => Ok(other),
            _ => Ok(Size::Value(self.b.binary("arith.addi", self.value(a)?, self.value(b)?)?)),
        }
    }

    pub(super) fn multiply(&self, a: Size<'c>, b: Size<'c>) -> Result<Size<'c>, PassError> {
        match (a, b) {
            (Size::Const(a), Size::Const(b)) => Ok(Size::Const(a.wrapping_mul(b))),
            (Size::Const(0), _) | (_, Size::Const(0)) => Ok(Size::Const(0)),
            (Size::Const(1), other) | (other, Size::Const(1)) => Ok(other),
            _ => Ok(Size::Value(self.b.binary("arith.muli", self.value(a)?, self.value(b)?)?)),
        }
    }

    /// `a` rounded down to a multiple of `unit`.
    pub(super) fn round_down(&self, a: Size<'c>, unit: i64) -> Result<Size<'c>, PassError> {
        match a {
            Size::Const(a) => Ok(Size::Const(a - a % unit)),
            Size::Value(value) => {
                let unit = self.b.i64(unit)?;
                let count = self.b.binary("arith.divui", value, unit)?;
                Ok(Size::Value(self.b.binary("arith.muli", count, unit)?))
            }
        }
    }

    /// `a` rounded up to a multiple of `unit`.
    pub(super) fn round_up(&self, a: Size<'c>, unit: i64) -> Result<Size<'c>, PassError> {
        self.round_down(self.add(a, Size::Const(unit - 1))?, unit)
    }

    /// Whether a size is a multiple of `of` whatever the launch.
    pub(super) fn is_multiple(&self, size: Size<'c>, of: i64) -> bool {
        match size {
            Size::Const(number) => number % of == 0,
            Size::Value(value) => self.value_is_multiple(value, of, &mut BTreeMap::new()),
        }
    }

    fn value_is_multiple(&self, value: Val<'c>, of: i64, known: &mut BTreeMap<usize, bool>) -> bool {
        if let Some(number) = ir::constant_integer(value) {
            return number % of == 0;
        }
        if let Some(known) = known.get(&ir::value_key(value)) {
            return *known;
        }
        let dim = self.dims.iter().find(|(_, dim)| **dim == value);
        let answer = match (dim, ir::definition(value)) {
            // Launches hold a dim that blocks lie along to whole blocks.
            (Some((name, _)), _) => self.block_dims.get(name).is_some_and(|block| block % of == 0),
            (None, Some(op)) => {
                let operands = ir::operands(op);
                match ir::name(op) {
                    "arith.muli" => {
                        operands.into_iter().any(|value| self.value_is_multiple(value, of, known))
                    }
                    "arith.addi" | "arith.subi" | "arith.minsi" | "arith.maxsi" => {
                        operands.into_iter().all(|value| self.value_is_multiple(value, of, known))
                    }
                    "arith.select" => {
                        operands.into_iter().skip(1).all(|value| self.value_is_multiple(value, of, known))
                    }
                    _ => false,
                }
            }
            // The position of a loop: its start and its step.
            (None, None) => ir::argument_of(value)
                .filter(|(_, position)| *position == 0)
                .and_then(|(block, _)| block.parent_operation())
                .filter(|parent| ir::name(*parent) == "scf.for")
                .is_some_and(|parent| {
                    let operands = ir::operands(parent);
                    [operands.first(), operands.get(2)]
                        .into_iter()
                        .all(|value| value.is_some_and(|value| self.value_is_multiple(*value, of, known)))
                }),
        };
        known.insert(ir::value_key(value), answer);
        answer
    }

    pub(super) fn divide(&self, a: Size<'c>, unit: i64) -> Result<Size<'c>, PassError> {
        match a {
            Size::Const(a) => Ok(Size::Const(a / unit)),
            Size::Value(_) if unit == 1 => Ok(a),
            Size::Value(value) => Ok(Size::Value(self.b.binary("arith.divui", value, self.b.i64(unit)?)?)),
        }
    }

    /// Runs `body` for `low, low + step, ...` below `high`, with values carried from
    /// one iteration to the next. A loop of one known iteration is no loop.
    pub(super) fn for_loop(
        &mut self,
        low: Size<'c>,
        high: Size<'c>,
        step: i64,
        initial: &[Val<'c>],
        body: impl FnOnce(&mut Self, Size<'c>, &[Val<'c>]) -> Result<Vec<Val<'c>>, PassError>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        if let (Size::Const(low), Size::Const(high)) = (low, high) {
            if low >= high {
                return Ok(initial.to_vec());
            }
            if low.saturating_add(step) >= high {
                return body(self, Size::Const(low), initial);
            }
        }
        self.emit_loop([low, high], step, initial, &[], body)
    }

    /// [`Self::for_loop`], which LLVM does not unroll: for code that would grow large.
    pub(super) fn for_loop_rolled(
        &mut self,
        low: Size<'c>,
        high: Size<'c>,
        step: i64,
        initial: &[Val<'c>],
        body: impl FnOnce(&mut Self, Size<'c>, &[Val<'c>]) -> Result<Vec<Val<'c>>, PassError>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let rolled = self.b.parsed_attribute("#llvm.loop_annotation<unroll = <disable = true>>")?;
        self.emit_loop([low, high], step, initial, &[("llvm.loop_annotation", rolled)], body)
    }

    fn emit_loop(
        &mut self,
        [low, high]: [Size<'c>; 2],
        step: i64,
        initial: &[Val<'c>],
        attributes: &[(&str, Attribute<'c>)],
        body: impl FnOnce(&mut Self, Size<'c>, &[Val<'c>]) -> Result<Vec<Val<'c>>, PassError>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let mut operands = vec![self.value(low)?, self.value(high)?, self.b.i64(step)?];
        operands.extend(initial);
        let types: Vec<Type<'c>> = initial.iter().map(ValueLike::r#type).collect();
        let mut arguments = vec![self.b.int(64)];
        arguments.extend(&types);
        let op = self.b.op("scf.for", &operands, &types, attributes, &[&arguments])?;
        let block =
            ir::body(op, 0).ok_or_else(|| PassError::at(op, "internal error: a loop without a body"))?;
        let arguments = ir::arguments(block);
        let outer = self.b;
        self.b = outer.in_block(block);
        let yielded = body(self, Size::Value(arguments[0]), &arguments[1..])?;
        self.b.op("scf.yield", &yielded, &[], &[], &[])?;
        self.b = outer;
        Ok(ir::results(op))
    }

    /// Runs `body` when `condition` holds.
    pub(super) fn if_then(
        &mut self,
        condition: Val<'c>,
        body: impl FnOnce(&mut Self) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        let op = self.b.op("scf.if", &[condition], &[], &[], &[&[], &[]])?;
        let outer = self.b;
        let blocks = ir::blocks(op);
        let [then, otherwise] = blocks[..] else {
            return Err(PassError::at(op, "internal error: a branch without bodies"));
        };
        self.b = outer.in_block(then);
        body(self)?;
        self.b.op("scf.yield", &[], &[], &[], &[])?;
        self.b = outer.in_block(otherwise);
        self.b.op("scf.yield", &[], &[], &[], &[])?;
        self.b = outer;
        Ok(())
    }

    // ---- memory ----

    /// `pointer + offset` in bytes.
    pub(super) fn byte_offset(&self, pointer: Val<'c>, offset: Size<'c>) -> Result<Val<'c>, PassError> {
        if offset == Size::Const(0) {
            return Ok(pointer);
        }
        let offset = self.value(offset)?;
        self.b.value(
            "llvm.getelementptr",
            &[pointer, offset],
            self.b.pointer(),
            &[
                ("elem_type", melior::ir::attribute::TypeAttribute::new(self.b.int(8)).into()),
                ("rawConstantIndices", self.b.parsed_attribute("array<i32: -2147483648>")?),
            ],
        )
    }

    /// A load of exactly `ty`.
    pub(super) fn raw_load(
        &self,
        pointer: Val<'c>,
        ty: Type<'c>,
        alignment: i64,
    ) -> Result<Val<'c>, PassError> {
        self.b.value("llvm.load", &[pointer], ty, &[("alignment", self.b.i64_attribute(alignment))])
    }

    pub(super) fn raw_store(
        &self,
        value: Val<'c>,
        pointer: Val<'c>,
        alignment: i64,
    ) -> Result<(), PassError> {
        self.b.op(
            "llvm.store",
            &[value, pointer],
            &[],
            &[("alignment", self.b.i64_attribute(alignment))],
            &[],
        )?;
        Ok(())
    }

    /// Loads a scalar or vector of elements; a `bool` is a byte in memory.
    pub(super) fn load_element(&self, pointer: Val<'c>, ty: Type<'c>) -> Result<Val<'c>, PassError> {
        let stored = self.stored(ty);
        let value = self.raw_load(pointer, stored, i64::from(element_bytes(ty)))?;
        self.unpack_stored(value, ty)
    }

    /// Loads the lanes of a vector whose mask is set; the others are 0.
    pub(super) fn load_masked(
        &self,
        pointer: Val<'c>,
        ty: Type<'c>,
        mask: Val<'c>,
    ) -> Result<Val<'c>, PassError> {
        let stored = self.stored(ty);
        let zero = self.b.constant(stored, 0.0)?;
        let alignment = self.b.parsed_attribute(&format!("{} : i32", element_bytes(ty)))?;
        let value = self.b.value(
            "llvm.intr.masked.load",
            &[pointer, mask, zero],
            stored,
            &[("alignment", alignment)],
        )?;
        self.unpack_stored(value, ty)
    }

    /// Stores a scalar or vector of elements, or its lanes whose mask is set.
    pub(super) fn store_element(
        &self,
        value: Val<'c>,
        pointer: Val<'c>,
        mask: Option<Val<'c>>,
    ) -> Result<(), PassError> {
        let bytes = element_bytes(value.r#type());
        let value = self.to_stored(value)?;
        let Some(mask) = mask else { return self.raw_store(value, pointer, i64::from(bytes)) };
        let alignment = self.b.parsed_attribute(&format!("{bytes} : i32"))?;
        self.b.op(
            "llvm.intr.masked.store",
            &[value, pointer, mask],
            &[],
            &[("alignment", alignment)],
            &[],
        )?;
        Ok(())
    }

    /// The type in memory: bytes for bools, and the bits of half floats, which LLVM would
    /// send through library calls when a masked access has no register type of its own.
    fn stored(&self, ty: Type<'c>) -> Type<'c> {
        match ir::bit_width(element_type(ty)) {
            Some(1) => phobos_dialect::build::with_element(ty, self.b.int(8)),
            Some(16) => phobos_dialect::build::with_element(ty, self.b.int(16)),
            _ => ty,
        }
    }

    fn unpack_stored(&self, value: Val<'c>, ty: Type<'c>) -> Result<Val<'c>, PassError> {
        if value.r#type() == ty {
            return Ok(value);
        }
        if ir::bit_width(element_type(ty)) == Some(16) {
            return self.bitcast(value, element_type(ty));
        }
        let zero = self.b.integer(value.r#type(), 0)?;
        self.b.compare_integers(IntegerPredicate::NotEqual, value, zero)
    }

    fn to_stored(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        let stored = self.stored(value.r#type());
        if stored == value.r#type() {
            return Ok(value);
        }
        if ir::bit_width(element_type(stored)) == Some(16) {
            return self.bitcast(value, element_type(stored));
        }
        self.b.value("arith.extui", &[value], stored, &[])
    }

    /// A new piece of scratch, 64-byte aligned, with room behind it for one vector.
    pub(super) fn allocate(&mut self, bytes: u64) -> Result<Val<'c>, PassError> {
        let start = self.scratch_bytes;
        self.scratch_bytes += (bytes + 64).next_multiple_of(64);
        self.byte_offset(self.scratch, Size::Const(start as i64))
    }

    // ---- vectors ----

    /// A vector with `scalar` in every lane.
    pub(super) fn splat(&self, scalar: Val<'c>, width: u64) -> Result<Val<'c>, PassError> {
        self.b.value("vector.broadcast", &[scalar], self.b.vector(width, scalar.r#type()), &[])
    }

    /// The lane of a vector, or the scalar itself.
    pub(super) fn lane(&self, vector: Val<'c>, lane: i64) -> Result<Val<'c>, PassError> {
        let ty = vector.r#type();
        if !is_vector(ty) {
            return Ok(vector);
        }
        let position = self.b.parsed_attribute(&format!("array<i64: {lane}>"))?;
        self.b.value("vector.extract", &[vector], element_type(ty), &[("static_position", position)])
    }

    /// The lanes `mask` of `a` and, from `lanes(a)` on, of `b`.
    pub(super) fn shuffle(&self, a: Val<'c>, b: Val<'c>, mask: &[i64]) -> Result<Val<'c>, PassError> {
        let element = element_type(a.r#type());
        let text = mask.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let mask_attribute = self.b.parsed_attribute(&format!("array<i64: {text}>"))?;
        self.b.value(
            "vector.shuffle",
            &[a, b],
            self.b.vector(mask.len() as u64, element),
            &[("mask", mask_attribute)],
        )
    }

    /// The vector 0, 1, 2, ... of a type.
    pub(super) fn counting(&self, ty: Type<'c>) -> Result<Val<'c>, PassError> {
        let numbers: Vec<i64> = (0..lanes(ty) as i64).collect();
        self.b.integer_vector(ty, &numbers)
    }

    /// Which lanes of a vector are below `count`.
    pub(super) fn mask_below(&self, count: Val<'c>, width: u64) -> Result<Val<'c>, PassError> {
        let positions = self.counting(self.b.vector(width, self.b.int(64)))?;
        let limit = self.splat(count, width)?;
        self.b.compare_integers(IntegerPredicate::SignedLess, positions, limit)
    }

    /// The transpose of `rows` vectors of as many lanes each, by exchanging blocks of
    /// 1, 2, 4, ... lanes (Eklundh 1972).
    pub(super) fn transpose(&self, mut rows: Vec<Val<'c>>) -> Result<Vec<Val<'c>>, PassError> {
        let width = rows.len();
        let mut block = 1;
        while block < width {
            for low in (0..width).filter(|row| row & block == 0) {
                let high = low | block;
                let (mut first, mut second) = (Vec::new(), Vec::new());
                for lane in 0..width {
                    let from_low = lane & block == 0;
                    first.push(if from_low { lane } else { width + (lane ^ block) } as i64);
                    second.push(if from_low { lane | block } else { width + lane } as i64);
                }
                let (a, b) = (rows[low], rows[high]);
                rows[low] = self.shuffle(a, b, &first)?;
                rows[high] = self.shuffle(a, b, &second)?;
            }
            block *= 2;
        }
        Ok(rows)
    }
}

/// Bytes of a scalar or vector in memory, at most.
pub(super) fn value_bytes(ty: Type<'_>) -> u64 {
    u64::from(element_bytes(ty)) * lanes(ty)
}

/// Bytes of one element in memory.
pub(super) fn element_bytes(ty: Type<'_>) -> u32 {
    ir::bit_width(element_type(ty)).unwrap_or(64).div_ceil(8)
}
