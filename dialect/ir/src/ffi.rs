//! The C API of `cpp/PhobosCAPI.cpp` and `cpp/PhobosOpt.cpp`.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use mlir_sys::{MlirAttribute, MlirContext, MlirDialectRegistry, MlirOperation, MlirStringRef, MlirType};

#[repr(C)]
pub(crate) struct OptionSpec {
    pub name: MlirStringRef,
    pub description: MlirStringRef,
    pub initial: MlirStringRef,
}

#[repr(C)]
pub(crate) struct PassSpec {
    pub argument: MlirStringRef,
    pub description: MlirStringRef,
    pub anchor: MlirStringRef,
    pub options: *const OptionSpec,
    pub option_count: isize,
    pub dependent_dialects: unsafe extern "C" fn(*mut c_void, MlirDialectRegistry),
    pub run: unsafe extern "C" fn(*mut c_void, MlirOperation, *const MlirStringRef, isize) -> bool,
    pub user: *mut c_void,
}

unsafe extern "C" {
    pub(crate) fn phobosDimsAttrGet(
        context: MlirContext,
        count: isize,
        dims: *const MlirAttribute,
    ) -> MlirAttribute;
    pub(crate) fn phobosAttributeIsADims(attribute: MlirAttribute) -> bool;
    pub(crate) fn phobosDimsAttrGetCount(attribute: MlirAttribute) -> isize;
    pub(crate) fn phobosDimsAttrGetDim(attribute: MlirAttribute, axis: isize) -> MlirAttribute;

    pub(crate) fn phobosTensorTypeGet(
        count: isize,
        dims: *const MlirAttribute,
        element: MlirType,
    ) -> MlirType;
    pub(crate) fn phobosTypeIsATensor(r#type: MlirType) -> bool;
    pub(crate) fn phobosTensorTypeGetRank(r#type: MlirType) -> isize;
    pub(crate) fn phobosTensorTypeGetDim(r#type: MlirType, axis: isize) -> MlirAttribute;
    pub(crate) fn phobosTensorTypeGetElementType(r#type: MlirType) -> MlirType;

    pub(crate) fn phobosBlockTypeGet(context: MlirContext, format: MlirStringRef) -> MlirType;
    pub(crate) fn phobosTypeIsABlock(r#type: MlirType) -> bool;
    pub(crate) fn phobosBlockTypeGetFormat(r#type: MlirType) -> MlirStringRef;

    pub(crate) fn phobosReduceKindAttrGet(context: MlirContext, kind: i32) -> MlirAttribute;
    pub(crate) fn phobosReduceKindAttrGetValue(attribute: MlirAttribute) -> i32;

    pub(crate) fn phobosSimplify(root: MlirOperation);

    pub(crate) fn phobosRegisterPass(spec: *const PassSpec);
    pub(crate) fn phobosRegisterPipeline(
        name: MlirStringRef,
        description: MlirStringRef,
        text: MlirStringRef,
    );
    pub(crate) fn phobosOptMain(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(crate) fn phobosInsertDialect(registry: *mut c_void);
}

/// A string as MLIR takes it. The callee must not keep it longer than `text` lives.
pub(crate) fn string_ref(text: &str) -> MlirStringRef {
    MlirStringRef { data: text.as_ptr().cast(), length: text.len() }
}
