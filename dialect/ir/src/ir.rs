//! Walking and editing operations.
#![allow(unsafe_code)]

use std::{cell::RefCell, collections::BTreeMap};

use melior::{
    Context, ContextRef, StringRef,
    ir::{
        Attribute, AttributeLike, BlockLike, Location, RegionLike, Type, TypeLike, ValueLike,
        attribute::{
            ArrayAttribute, DenseI64ArrayAttribute, FloatAttribute, IntegerAttribute, StringAttribute,
            TypeAttribute,
        },
        block::BlockArgument,
        operation::{
            OperationLike, OperationMutLike, OperationRefMut, OperationResult, WalkOrder, WalkResult,
        },
        r#type::FunctionType,
    },
};
use mlir_sys as sys;

use crate::{Blk, Op, Val, ffi};

thread_local! {
    /// One leaked handle per context: melior's `&Context` points at a handle, so it
    /// must have a place that outlives every use.
    static CONTEXTS: RefCell<BTreeMap<usize, &'static ContextRef<'static>>> = const { RefCell::new(BTreeMap::new()) };
}

/// The context that owns `op`.
pub fn context<'c>(op: Op<'c>) -> &'c Context {
    // SAFETY: the context outlives 'c, the lifetime of the handle; the leaked handle
    // holds nothing but its address, so an entry for an address is right for ever.
    unsafe {
        let raw = sys::mlirOperationGetContext(op.to_raw());
        let handle = CONTEXTS.with_borrow_mut(|known| {
            *known.entry(raw.ptr as usize).or_insert_with(|| Box::leak(Box::new(ContextRef::from_raw(raw))))
        });
        handle.to_ref()
    }
}

/// The operation's name, e.g. `arith.addf`.
pub fn name<'c>(op: Op<'c>) -> &'c str {
    // SAFETY: operation names are interned in the context, which outlives 'c.
    unsafe {
        let name: StringRef<'c> =
            StringRef::from_raw(sys::mlirIdentifierStr(sys::mlirOperationGetName(op.to_raw())));
        name.as_str().unwrap_or("")
    }
}

/// Every operation under `root`, outermost first, `root` included. Collect before
/// editing: MLIR's walk does not allow changes.
pub fn collect<'c>(root: Op<'c>) -> Vec<Op<'c>> {
    let mut raw = Vec::new();
    root.walk(WalkOrder::PreOrder, |op| {
        raw.push(op.to_raw());
        WalkResult::Advance
    });
    // SAFETY: nothing was erased since the walk.
    raw.into_iter().map(|op| unsafe { Op::from_raw(op) }).collect()
}

/// The operations of a block in order.
pub fn operations<'c>(block: Blk<'c>) -> Vec<Op<'c>> {
    let mut all = Vec::new();
    let mut next = block.first_operation();
    while let Some(op) = next {
        all.push(op);
        next = op.next_in_block();
    }
    all
}

/// The blocks of all regions of `op`.
pub fn blocks<'c>(op: Op<'c>) -> Vec<Blk<'c>> {
    let mut all = Vec::new();
    for region in op.regions() {
        let mut next = region.first_block();
        while let Some(block) = next {
            all.push(block);
            next = block.next_in_region();
        }
    }
    all
}

/// The only block of region `index`, if it has one.
pub fn body<'c>(op: Op<'c>, index: usize) -> Option<Blk<'c>> {
    op.region(index).ok()?.first_block()
}

/// The operands.
pub fn operands<'c>(op: Op<'c>) -> Vec<Val<'c>> {
    op.operands().collect()
}

/// The results.
pub fn results<'c>(op: Op<'c>) -> Vec<Val<'c>> {
    op.results().map(Val::from).collect()
}

/// The arguments of a block.
pub fn arguments<'c>(block: Blk<'c>) -> Vec<Val<'c>> {
    (0..block.argument_count()).filter_map(|index| block.argument(index).ok()).map(Val::from).collect()
}

/// A key for maps: equal exactly for equal values.
pub fn value_key(value: Val<'_>) -> usize {
    value.to_raw().ptr as usize
}

/// A key for maps: equal exactly for the same operation.
pub fn op_key(op: Op<'_>) -> usize {
    op.to_raw().ptr as usize
}

/// The operation that defines `value`; `None` for a block argument.
pub fn definition<'c>(value: Val<'c>) -> Option<Op<'c>> {
    let result = OperationResult::try_from(value).ok()?;
    // SAFETY: an operation result's owner is live while the value is.
    Some(unsafe { Op::from_raw(result.owner().to_raw()) })
}

/// The block that `value` is an argument of, and its position.
pub fn argument_of<'c>(value: Val<'c>) -> Option<(Blk<'c>, usize)> {
    let argument = BlockArgument::try_from(value).ok()?;
    // SAFETY: the owner block is live while the value is.
    let block = unsafe { Blk::from_raw(sys::mlirBlockArgumentGetOwner(value.to_raw())) };
    Some((block, argument.argument_number()))
}

/// The block an operation is in.
pub fn block_of<'c>(op: Op<'c>) -> Option<Blk<'c>> {
    op.block()
}

/// The operations that use `value`, each as often as it uses it.
pub fn users<'c>(value: Val<'c>) -> Vec<Op<'c>> {
    let mut all = Vec::new();
    // SAFETY: the use list is walked without editing it.
    unsafe {
        let mut operand = sys::mlirValueGetFirstUse(value.to_raw());
        while !sys::mlirOpOperandIsNull(operand) {
            all.push(Op::from_raw(sys::mlirOpOperandGetOwner(operand)));
            operand = sys::mlirOpOperandGetNextUse(operand);
        }
    }
    all
}

/// Makes every use of `from` a use of `to`.
pub fn replace_uses<'c>(from: Val<'c>, to: Val<'c>) {
    // SAFETY: both values are live; MLIR checks nothing else here.
    unsafe { sys::mlirValueReplaceAllUsesOfWith(from.to_raw(), to.to_raw()) }
}

/// Erases an operation whose results have no uses.
pub fn erase(op: Op<'_>) {
    // SAFETY: the caller keeps no handle to it (see the crate's note on handles).
    unsafe { sys::mlirOperationDestroy(op.to_raw()) }
}

/// Moves an operation before another, which may be in another block.
pub fn move_before<'c>(op: Op<'c>, other: Op<'c>) {
    // SAFETY: both operations are live and in blocks.
    unsafe { sys::mlirOperationMoveBefore(op.to_raw(), other.to_raw()) }
}

/// Replaces an operand.
pub fn set_operand<'c>(op: Op<'c>, index: usize, value: Val<'c>) {
    mutable(op).set_operand(index, value);
}

/// Sets an attribute.
pub fn set_attribute<'c>(op: Op<'c>, name: &str, value: Attribute<'c>) {
    mutable(op).set_attribute(name, value);
}

fn mutable<'c>(op: Op<'c>) -> OperationRefMut<'c, 'c> {
    // SAFETY: the same operation; MLIR has no notion of a shared reference to it.
    unsafe { OperationRefMut::from_raw(op.to_raw()) }
}

/// An integer attribute.
pub fn integer_attribute(op: Op<'_>, name: &str) -> Option<i64> {
    IntegerAttribute::try_from(op.attribute(name).ok()?).ok().map(|attribute| attribute.value())
}

/// A string attribute.
pub fn string_attribute<'c>(op: Op<'c>, name: &str) -> Option<&'c str> {
    StringAttribute::try_from(op.attribute(name).ok()?).ok().map(|attribute| attribute.value())
}

/// The function type of a kernel or function.
pub fn function_type<'c>(op: Op<'c>) -> Option<FunctionType<'c>> {
    let attribute = TypeAttribute::try_from(op.attribute("function_type").ok()?).ok()?;
    FunctionType::try_from(attribute.value()).ok()
}

/// The operands of an `AttrSizedOperandSegments` operation, one list per segment.
pub fn operand_segments<'c>(op: Op<'c>) -> Vec<Vec<Val<'c>>> {
    let mut rest = operands(op).into_iter();
    let Some(sizes) = op
        .attribute("operandSegmentSizes")
        .ok()
        .and_then(|attribute| melior::ir::attribute::DenseI32ArrayAttribute::try_from(attribute).ok())
    else {
        return vec![rest.collect()];
    };
    (0..sizes.len())
        .map(|index| rest.by_ref().take(sizes.element(index).unwrap_or(0).max(0) as usize).collect())
        .collect()
}

/// The value of an `arith.constant` of integer or index type.
pub fn constant_integer(value: Val<'_>) -> Option<i64> {
    let op = definition(value)?;
    if name(op) != "arith.constant" {
        return None;
    }
    integer_attribute(op, "value")
}

/// The value of an `arith.constant` of float type.
pub fn constant_float(value: Val<'_>) -> Option<f64> {
    let op = definition(value)?;
    if name(op) != "arith.constant" {
        return None;
    }
    FloatAttribute::try_from(op.attribute("value").ok()?).ok().map(|attribute| attribute.value())
}

/// The element of an `arith.constant` tile that is the same in every lane, as an
/// attribute of the element type.
pub fn constant_splat<'c>(op: Op<'c>) -> Option<Attribute<'c>> {
    if name(op) != "arith.constant" {
        return None;
    }
    let value = op.attribute("value").ok()?.to_raw();
    // SAFETY: a live attribute; each accessor is called after its check.
    unsafe {
        if !sys::mlirAttributeIsADenseElements(value) || !sys::mlirDenseElementsAttrIsSplat(value) {
            return None;
        }
        Some(Attribute::from_raw(sys::mlirDenseElementsAttrGetSplatValue(value)))
    }
}

/// The bit width of a signless integer or float type.
pub fn bit_width(ty: Type<'_>) -> Option<u32> {
    // SAFETY: a live type; each accessor is called after its check.
    unsafe {
        let raw = ty.to_raw();
        if sys::mlirTypeIsAInteger(raw) {
            Some(sys::mlirIntegerTypeGetWidth(raw))
        } else if sys::mlirTypeIsAFloat(raw) {
            Some(sys::mlirFloatTypeGetWidth(raw))
        } else {
            None
        }
    }
}

/// Whether a type is a floating-point scalar.
pub fn is_float(ty: Type<'_>) -> bool {
    // SAFETY: a live type.
    unsafe { sys::mlirTypeIsAFloat(ty.to_raw()) }
}

/// Whether a type is `index`.
pub fn is_index(ty: Type<'_>) -> bool {
    // SAFETY: a live type.
    unsafe { sys::mlirTypeIsAIndex(ty.to_raw()) }
}

/// Folds and canonicalises everything inside `op` but arith and math on tiles.
pub fn simplify(op: Op<'_>) {
    // SAFETY: the operation is live; the caller keeps no handle to what is inside.
    unsafe { ffi::phobosSimplify(op.to_raw()) }
}

/// The integers of an array attribute of them; empty if there is none.
pub fn i64_array_attribute(op: Op<'_>, name: &str) -> Vec<i64> {
    let array =
        op.attribute(name).ok().and_then(|attribute| DenseI64ArrayAttribute::try_from(attribute).ok());
    let Some(array) = array else { return Vec::new() };
    (0..array.len()).filter_map(|index| array.element(index).ok()).collect()
}

/// Reports an error at a location through MLIR's diagnostics.
pub fn emit_error(location: Location<'_>, message: &str) {
    let text = std::ffi::CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: MLIR copies the message.
    unsafe { sys::mlirEmitError(location.to_raw(), text.as_ptr()) }
}

/// The operation of a module. The module must outlive the handle.
pub fn module_operation<'c>(module: &melior::ir::Module<'c>) -> Op<'c> {
    // SAFETY: the same operation; the caller keeps the module alive.
    unsafe { Op::from_raw(module.as_operation().to_raw()) }
}

/// Moves the blocks of region `index` of `from` into region `index` of `to`.
pub fn take_region<'c>(to: Op<'c>, from: Op<'c>, index: usize) {
    if let (Ok(target), Ok(source)) = (to.region(index), from.region(index)) {
        // SAFETY: both regions are live; MLIR erases the target's old blocks.
        unsafe { sys::mlirRegionTakeBody(target.to_raw(), source.to_raw()) }
    }
}

/// The strings of an array attribute; empty if there is none.
pub fn string_array_attribute(op: Op<'_>, name: &str) -> Vec<String> {
    let array = op.attribute(name).ok().and_then(|attribute| ArrayAttribute::try_from(attribute).ok());
    let Some(array) = array else { return Vec::new() };
    (0..array.len())
        .filter_map(|index| StringAttribute::try_from(array.element(index).ok()?).ok())
        .map(|text| text.value().to_owned())
        .collect()
}
