//! Building operations.
#![allow(unsafe_code)]

use melior::{
    Context,
    ir::{
        Attribute, Block, BlockLike, Identifier, Location, Region, RegionLike, Type, TypeLike, ValueLike,
        attribute::{
            DenseElementsAttribute, DenseI32ArrayAttribute, FloatAttribute, IntegerAttribute, StringAttribute,
        },
        operation::{OperationBuilder, OperationLike},
        r#type::IntegerType,
    },
};

use crate::{Blk, Op, PassError, Val, ir};

/// Builds operations at an insertion point: the end of a block, or before an
/// operation.
#[derive(Clone, Copy)]
pub struct Builder<'c> {
    context: &'c Context,
    location: Location<'c>,
    block: Blk<'c>,
    before: Option<Op<'c>>,
}

impl<'c> Builder<'c> {
    /// Builds at the end of `block`.
    pub fn at_end(context: &'c Context, block: Blk<'c>, location: Location<'c>) -> Builder<'c> {
        Builder { context, location, block, before: None }
    }

    /// Builds before `op`, with its location.
    pub fn before(op: Op<'c>) -> Result<Builder<'c>, PassError> {
        let block =
            op.block().ok_or_else(|| PassError::at(op, "internal error: operation outside a block"))?;
        Ok(Builder { context: ir::context(op), location: op.location(), block, before: Some(op) })
    }

    /// The same insertion point with another location.
    pub fn with_location(self, location: Location<'c>) -> Builder<'c> {
        Builder { location, ..self }
    }

    /// The same location at the end of another block.
    pub fn in_block(self, block: Blk<'c>) -> Builder<'c> {
        Builder { block, before: None, ..self }
    }

    /// The context.
    pub fn context(&self) -> &'c Context {
        self.context
    }

    /// The location given to operations.
    pub fn location(&self) -> Location<'c> {
        self.location
    }

    /// The block being built in.
    pub fn block(&self) -> Blk<'c> {
        self.block
    }

    /// Builds any operation. Each of `regions` is one block's argument types; the
    /// blocks are empty and are filled through [`ir::body`].
    pub fn op(
        &self,
        name: &str,
        operands: &[Val<'c>],
        results: &[Type<'c>],
        attributes: &[(&str, Attribute<'c>)],
        regions: &[&[Type<'c>]],
    ) -> Result<Op<'c>, PassError> {
        let attributes: Vec<_> =
            attributes.iter().map(|(name, value)| (Identifier::new(self.context, name), *value)).collect();
        let regions = regions
            .iter()
            .map(|arguments| {
                let arguments: Vec<_> = arguments.iter().map(|ty| (*ty, self.location)).collect();
                let region = Region::new();
                region.append_block(Block::new(&arguments));
                region
            })
            .collect();
        let op = OperationBuilder::new(name, self.location)
            .add_operands(operands)
            .add_results(results)
            .add_attributes(&attributes)
            .add_regions_vec(regions)
            .build()
            .map_err(|error| {
                PassError::new(self.location, format!("internal error: cannot build {name}: {error}"))
            })?;
        Ok(match self.before {
            Some(before) => self.block.insert_operation_before(before, op),
            None => self.block.append_operation(op),
        })
    }

    /// Builds an operation with one result and returns it.
    pub fn value(
        &self,
        name: &str,
        operands: &[Val<'c>],
        result: Type<'c>,
        attributes: &[(&str, Attribute<'c>)],
    ) -> Result<Val<'c>, PassError> {
        let op = self.op(name, operands, &[result], attributes, &[])?;
        self.result(op, 0)
    }

    /// Result `index` of an operation.
    pub fn result(&self, op: Op<'c>, index: usize) -> Result<Val<'c>, PassError> {
        op.result(index)
            .map(Val::from)
            .map_err(|_| PassError::at(op, format!("internal error: {} has no result {index}", ir::name(op))))
    }

    /// A copy of `op` with other operands and result types, without its regions.
    pub fn copy(&self, op: Op<'c>, operands: &[Val<'c>], results: &[Type<'c>]) -> Result<Op<'c>, PassError> {
        let attributes: Vec<(String, Attribute<'c>)> = op
            .attributes()
            .map(|(name, value)| (name.as_string_ref().as_str().unwrap_or("").to_owned(), value))
            .collect();
        let attributes: Vec<_> = attributes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        self.op(ir::name(op), operands, results, &attributes, &[])
    }

    // ---- types ----

    /// The signless integer type of a width.
    pub fn int(&self, bits: u32) -> Type<'c> {
        IntegerType::new(self.context, bits).into()
    }

    /// `f32`.
    pub fn f32(&self) -> Type<'c> {
        Type::float32(self.context)
    }

    /// `index`.
    pub fn index(&self) -> Type<'c> {
        Type::index(self.context)
    }

    /// `!llvm.ptr`.
    pub fn pointer(&self) -> Type<'c> {
        melior::dialect::llvm::r#type::pointer(self.context, 0)
    }

    /// `vector<lanes x element>`.
    pub fn vector(&self, lanes: u64, element: Type<'c>) -> Type<'c> {
        Type::vector(&[lanes], element)
    }

    // ---- attributes ----

    /// A 64-bit integer attribute.
    pub fn i64_attribute(&self, value: i64) -> Attribute<'c> {
        IntegerAttribute::new(self.int(64), value).into()
    }

    /// A string attribute.
    pub fn string_attribute(&self, value: &str) -> Attribute<'c> {
        StringAttribute::new(self.context, value).into()
    }

    /// An attribute from its text. For attributes that have no builder.
    pub fn parsed_attribute(&self, text: &str) -> Result<Attribute<'c>, PassError> {
        Attribute::parse(self.context, text)
            .ok_or_else(|| PassError::new(self.location, format!("internal error: bad attribute {text}")))
    }

    /// A unit attribute.
    pub fn unit_attribute(&self) -> Attribute<'c> {
        Attribute::unit(self.context)
    }

    /// The segment sizes of an `AttrSizedOperandSegments` operation.
    pub fn segments(&self, sizes: &[usize]) -> (&'static str, Attribute<'c>) {
        let sizes: Vec<i32> = sizes.iter().map(|size| *size as i32).collect();
        ("operandSegmentSizes", DenseI32ArrayAttribute::new(self.context, &sizes).into())
    }

    // ---- constants ----

    /// A constant of an integer, index or float type, or a vector of one.
    pub fn constant(&self, ty: Type<'c>, number: f64) -> Result<Val<'c>, PassError> {
        let element = element_type(ty);
        let scalar: Attribute<'c> = if ir::is_float(element) {
            FloatAttribute::new(self.context, element, number).into()
        } else {
            IntegerAttribute::new(element, number as i64).into()
        };
        self.constant_attribute(ty, scalar)
    }

    /// An integer constant of an integer or index type, or a vector of one.
    pub fn integer(&self, ty: Type<'c>, number: i64) -> Result<Val<'c>, PassError> {
        self.constant_attribute(ty, IntegerAttribute::new(element_type(ty), number).into())
    }

    fn constant_attribute(&self, ty: Type<'c>, scalar: Attribute<'c>) -> Result<Val<'c>, PassError> {
        let value = if is_vector(ty) { DenseElementsAttribute::splat(ty, scalar).into() } else { scalar };
        self.value("arith.constant", &[], ty, &[("value", value)])
    }

    /// A vector constant of integers.
    pub fn integer_vector(&self, ty: Type<'c>, numbers: &[i64]) -> Result<Val<'c>, PassError> {
        let element = element_type(ty);
        let numbers: Vec<Attribute<'c>> =
            numbers.iter().map(|number| IntegerAttribute::new(element, *number).into()).collect();
        let value = DenseElementsAttribute::new(ty, &numbers).map_err(|error| {
            PassError::new(self.location, format!("internal error: vector constant: {error}"))
        })?;
        self.value("arith.constant", &[], ty, &[("value", value.into())])
    }

    /// An i64 constant.
    pub fn i64(&self, number: i64) -> Result<Val<'c>, PassError> {
        self.integer(self.int(64), number)
    }

    /// An index constant.
    pub fn index_constant(&self, number: i64) -> Result<Val<'c>, PassError> {
        self.integer(self.index(), number)
    }

    // ---- arithmetic ----

    /// A binary operation whose result has the operands' type, e.g. `arith.addi`.
    pub fn binary(&self, name: &str, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>, PassError> {
        self.value(name, &[a, b], a.r#type(), &[])
    }

    /// A unary operation whose result has the operand's type.
    pub fn unary(&self, name: &str, a: Val<'c>) -> Result<Val<'c>, PassError> {
        self.value(name, &[a], a.r#type(), &[])
    }

    /// `arith.cmpi` with a predicate of MLIR's numbering.
    pub fn compare_integers(
        &self,
        predicate: IntegerPredicate,
        a: Val<'c>,
        b: Val<'c>,
    ) -> Result<Val<'c>, PassError> {
        let result = with_element(a.r#type(), self.int(1));
        self.value("arith.cmpi", &[a, b], result, &[("predicate", self.i64_attribute(predicate as i64))])
    }

    /// `arith.cmpf` with a predicate of MLIR's numbering.
    pub fn compare_floats(
        &self,
        predicate: FloatPredicate,
        a: Val<'c>,
        b: Val<'c>,
    ) -> Result<Val<'c>, PassError> {
        let result = with_element(a.r#type(), self.int(1));
        self.value("arith.cmpf", &[a, b], result, &[("predicate", self.i64_attribute(predicate as i64))])
    }

    /// `arith.select`.
    pub fn select(&self, condition: Val<'c>, yes: Val<'c>, no: Val<'c>) -> Result<Val<'c>, PassError> {
        self.value("arith.select", &[condition, yes, no], yes.r#type(), &[])
    }
}

/// Predicates of `arith.cmpi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IntegerPredicate {
    Equal = 0,
    NotEqual = 1,
    SignedLess = 2,
    SignedLessEqual = 3,
    SignedGreater = 4,
    SignedGreaterEqual = 5,
    UnsignedLess = 6,
    UnsignedLessEqual = 7,
    UnsignedGreater = 8,
    UnsignedGreaterEqual = 9,
}

/// Predicates of `arith.cmpf`: ordered ones are false, and `UnorderedNotEqual` is
/// true, when an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FloatPredicate {
    OrderedEqual = 1,
    OrderedGreater = 2,
    OrderedGreaterEqual = 3,
    OrderedLess = 4,
    OrderedLessEqual = 5,
    UnorderedNotEqual = 13,
    Unordered = 14,
}

/// Whether a type is a vector.
pub fn is_vector(ty: Type<'_>) -> bool {
    ty.is_vector()
}

/// The element of a vector; any other type itself.
pub fn element_type<'c>(ty: Type<'c>) -> Type<'c> {
    if !ty.is_vector() {
        return ty;
    }
    // SAFETY: a vector is a shaped type.
    unsafe { Type::from_raw(mlir_sys::mlirShapedTypeGetElementType(ty.to_raw())) }
}

/// The number of lanes of a vector of rank 1; 1 for any other type.
pub fn lanes(ty: Type<'_>) -> u64 {
    if !ty.is_vector() {
        return 1;
    }
    // SAFETY: a vector has a rank of at least 1 here.
    unsafe { mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), 0) as u64 }
}

/// `ty` with another element: a vector stays one.
pub fn with_element<'c>(ty: Type<'c>, element: Type<'c>) -> Type<'c> {
    if ty.is_vector() { Type::vector(&[lanes(ty)], element) } else { element }
}
