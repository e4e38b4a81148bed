//! Tiles, tensors in memory and block elements as Rust data.
#![allow(unsafe_code)]

use std::{collections::BTreeMap, fmt};

use melior::{
    Context,
    ir::{
        Attribute, AttributeLike, Type, TypeLike,
        attribute::{IntegerAttribute, StringAttribute},
        r#type::{DimSize, IntegerType, RankedTensorType, ShapedTypeLike},
    },
};

use crate::ffi;

/// The extent of an axis: a number, or the name of a parameter or dim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dim {
    /// A fixed extent.
    Const(i64),
    /// A name.
    Name(String),
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(extent) => write!(f, "{extent}"),
            Dim::Name(name) => f.write_str(name),
        }
    }
}

impl Dim {
    /// This dim with `values` substituted.
    pub fn bind(&self, values: &BTreeMap<String, i64>) -> Dim {
        match self {
            Dim::Name(name) => values.get(name).map_or_else(|| self.clone(), |extent| Dim::Const(*extent)),
            Dim::Const(_) => self.clone(),
        }
    }

    fn attribute<'c>(&self, context: &'c Context) -> Attribute<'c> {
        match self {
            Dim::Const(extent) => IntegerAttribute::new(IntegerType::new(context, 64).into(), *extent).into(),
            Dim::Name(name) => StringAttribute::new(context, name).into(),
        }
    }

    fn from_attribute(attribute: Attribute<'_>) -> Dim {
        match StringAttribute::try_from(attribute) {
            Ok(name) => Dim::Name(name.value().to_owned()),
            Err(_) => Dim::Const(IntegerAttribute::try_from(attribute).map_or(0, |extent| extent.value())),
        }
    }
}

/// A tile type: a builtin ranked tensor, symbolic where a dim has a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile<'c> {
    /// The extent of each axis.
    pub dims: Vec<Dim>,
    /// The element type.
    pub element: Type<'c>,
}

impl<'c> Tile<'c> {
    /// A tile type.
    pub fn new(dims: Vec<Dim>, element: Type<'c>) -> Tile<'c> {
        Tile { dims, element }
    }

    /// Reads a tile type; `None` if `ty` is no tile.
    pub fn from_type(ty: Type<'c>) -> Option<Tile<'c>> {
        let ranked = RankedTensorType::try_from(ty).ok()?;
        let dims = match ranked.encoding().filter(|encoding| is_dims(*encoding)) {
            Some(encoding) => (0..dims_count(encoding)).map(|axis| dims_entry(encoding, axis)).collect(),
            None => (0..ranked.rank())
                .map(|axis| {
                    Dim::Const(match ranked.dim_size(axis) {
                        Ok(DimSize::Static(extent)) => extent as i64,
                        _ => -1,
                    })
                })
                .collect(),
        };
        Some(Tile { dims, element: ranked.element() })
    }

    /// The MLIR type.
    pub fn to_type(&self, context: &'c Context) -> Type<'c> {
        let symbolic = self.dims.iter().any(|dim| matches!(dim, Dim::Name(_)));
        let extents: Vec<u64> = self
            .dims
            .iter()
            .map(|dim| match dim {
                Dim::Const(extent) => *extent as u64,
                Dim::Name(_) => i64::MIN as u64,
            })
            .collect();
        let encoding = symbolic.then(|| dims_attribute(context, &self.dims));
        RankedTensorType::new(&extents, self.element, encoding).into()
    }

    /// The extents, if all are numbers.
    pub fn shape(&self) -> Option<Vec<i64>> {
        self.dims
            .iter()
            .map(|dim| match dim {
                Dim::Const(extent) => Some(*extent),
                Dim::Name(_) => None,
            })
            .collect()
    }

    /// The same tile with `values` substituted.
    pub fn bind(&self, values: &BTreeMap<String, i64>) -> Tile<'c> {
        Tile { dims: self.dims.iter().map(|dim| dim.bind(values)).collect(), element: self.element }
    }
}

/// A tensor in memory: `!phobos.tensor<[M, 64], f32>`.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryTensor<'c> {
    /// The extent of each axis.
    pub dims: Vec<Dim>,
    /// The element: a scalar type or a block format.
    pub element: Type<'c>,
}

impl<'c> MemoryTensor<'c> {
    /// Reads a tensor type; `None` if `ty` is none.
    pub fn from_type(ty: Type<'c>) -> Option<MemoryTensor<'c>> {
        let raw = ty.to_raw();
        // SAFETY: `raw` is a type of a live context; the accessors are called only
        // after the check and within the rank.
        unsafe {
            if !ffi::phobosTypeIsATensor(raw) {
                return None;
            }
            let dims = (0..ffi::phobosTensorTypeGetRank(raw))
                .map(|axis| Dim::from_attribute(Attribute::from_raw(ffi::phobosTensorTypeGetDim(raw, axis))))
                .collect();
            Some(MemoryTensor { dims, element: Type::from_raw(ffi::phobosTensorTypeGetElementType(raw)) })
        }
    }

    /// The MLIR type.
    pub fn to_type(&self, context: &'c Context) -> Type<'c> {
        let dims: Vec<_> = self.dims.iter().map(|dim| dim.attribute(context).to_raw()).collect();
        // SAFETY: the attributes and the element belong to `context`.
        unsafe {
            Type::from_raw(ffi::phobosTensorTypeGet(
                dims.len() as isize,
                dims.as_ptr(),
                self.element.to_raw(),
            ))
        }
    }

    /// The same tensor with `values` substituted.
    pub fn bind(&self, values: &BTreeMap<String, i64>) -> MemoryTensor<'c> {
        MemoryTensor { dims: self.dims.iter().map(|dim| dim.bind(values)).collect(), element: self.element }
    }
}

/// The element type of a block format.
pub fn block_type<'c>(context: &'c Context, format: &str) -> Type<'c> {
    // SAFETY: MLIR copies the name into the context.
    unsafe { Type::from_raw(ffi::phobosBlockTypeGet(context.to_raw(), ffi::string_ref(format))) }
}

/// The format's name, if `ty` is a block element.
pub fn block_format(ty: Type<'_>) -> Option<String> {
    let raw = ty.to_raw();
    // SAFETY: the name lives as long as the context; it is copied here.
    unsafe {
        if !ffi::phobosTypeIsABlock(raw) {
            return None;
        }
        let name = ffi::phobosBlockTypeGetFormat(raw);
        let bytes = std::slice::from_raw_parts(name.data.cast::<u8>(), name.length);
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// What a reduction or scan combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReduceKind {
    Sum,
    Prod,
    Max,
    Min,
    Any,
    All,
}

impl ReduceKind {
    const ALL: [ReduceKind; 6] = [
        ReduceKind::Sum,
        ReduceKind::Prod,
        ReduceKind::Max,
        ReduceKind::Min,
        ReduceKind::Any,
        ReduceKind::All,
    ];

    /// The attribute.
    pub fn attribute<'c>(self, context: &'c Context) -> Attribute<'c> {
        // SAFETY: the enum's order is that of the ODS cases.
        unsafe { Attribute::from_raw(ffi::phobosReduceKindAttrGet(context.to_raw(), self as i32)) }
    }

    /// Reads the `kind` attribute of a verified `phobos.reduce` or `phobos.scan`.
    pub fn from_attribute(attribute: Attribute<'_>) -> Option<ReduceKind> {
        // The textual form tells whether it is one without another C function.
        if !attribute.to_string().starts_with("#phobos.reduce_kind") {
            return None;
        }
        // SAFETY: checked above to be a reduce_kind attribute.
        let value = unsafe { ffi::phobosReduceKindAttrGetValue(attribute.to_raw()) };
        ReduceKind::ALL.get(value as usize).copied()
    }
}

fn dims_attribute<'c>(context: &'c Context, dims: &[Dim]) -> Attribute<'c> {
    let dims: Vec<_> = dims.iter().map(|dim| dim.attribute(context).to_raw()).collect();
    // SAFETY: the attributes belong to `context`.
    unsafe {
        Attribute::from_raw(ffi::phobosDimsAttrGet(context.to_raw(), dims.len() as isize, dims.as_ptr()))
    }
}

fn is_dims(attribute: Attribute<'_>) -> bool {
    // SAFETY: a live attribute.
    unsafe { ffi::phobosAttributeIsADims(attribute.to_raw()) }
}

fn dims_count(attribute: Attribute<'_>) -> usize {
    // SAFETY: callers check `is_dims` first.
    unsafe { ffi::phobosDimsAttrGetCount(attribute.to_raw()) as usize }
}

fn dims_entry(attribute: Attribute<'_>, axis: usize) -> Dim {
    // SAFETY: callers check `is_dims` first and stay below `dims_count`.
    Dim::from_attribute(unsafe {
        Attribute::from_raw(ffi::phobosDimsAttrGetDim(attribute.to_raw(), axis as isize))
    })
}
