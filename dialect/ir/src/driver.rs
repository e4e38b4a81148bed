//! A context with every dialect, pipelines by text, and the mlir-opt driver.
#![allow(unsafe_code)]

use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int, c_void},
    rc::Rc,
};

use melior::{
    Context,
    diagnostic::DiagnosticSeverity,
    dialect::DialectRegistry,
    ir::Module,
    pass::PassManager,
    utility::{parse_pass_pipeline, register_all_dialects, register_all_llvm_translations},
};

use crate::ffi;

/// A context with the phobos dialect and all of MLIR's. Passes run on the calling
/// thread: a worker compiles one kernel at a time.
pub fn new_context() -> Context {
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    // SAFETY: a live registry.
    unsafe { ffi::phobosInsertDialect(registry.to_raw().ptr) };
    let context = Context::new_with_registry(&registry, false);
    context.load_all_available_dialects();
    register_all_llvm_translations(&context);
    context
}

/// An error of MLIR: the diagnostics it gave, one per line.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct MlirError(pub String);

/// Runs `work` and returns what it reported as errors beside its result.
pub fn with_diagnostics<T>(context: &Context, work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let messages = Rc::new(RefCell::new(Vec::new()));
    let sink = messages.clone();
    let handler = context.attach_diagnostic_handler(move |diagnostic| {
        if matches!(diagnostic.severity(), DiagnosticSeverity::Error) {
            sink.borrow_mut().push(format!("{}: {diagnostic}", diagnostic.location()));
        }
        true
    });
    let result = work();
    context.detach_diagnostic_handler(handler);
    let messages = messages.borrow().clone();
    (result, messages)
}

/// Runs a textual pass pipeline on a module, verifying after every pass.
pub fn run_pipeline<'c>(
    context: &'c Context,
    module: &mut Module<'c>,
    pipeline: &str,
) -> Result<(), MlirError> {
    let (result, messages) = with_diagnostics(context, || {
        let manager = PassManager::new(context);
        manager.enable_verifier(true);
        parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline)?;
        manager.run(module)
    });
    result.map_err(|error| {
        MlirError(if messages.is_empty() { format!("{error} in {pipeline}") } else { messages.join("\n") })
    })
}

/// Runs the mlir-opt driver over the process's arguments and returns the exit code.
pub fn opt_main() -> i32 {
    let arguments: Vec<CString> =
        std::env::args_os().filter_map(|text| CString::new(text.into_encoded_bytes()).ok()).collect();
    let mut pointers: Vec<*mut c_char> = arguments.iter().map(|text| text.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    // SAFETY: argv is NULL-terminated and outlives the call.
    unsafe { ffi::phobosOptMain(arguments.len() as c_int, pointers.as_mut_ptr()) }
}

/// Adds the phobos dialect to a registry that a plugin host passes.
///
/// # Safety
/// `registry` is a live `mlir::DialectRegistry`.
pub unsafe fn insert_dialect(registry: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { ffi::phobosInsertDialect(registry) }
}
