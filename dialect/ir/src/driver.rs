//! A context with every dialect, pipelines by text, and the mlir-opt driver.
#![allow(unsafe_code)]

use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int, c_void},
    fmt,
    rc::Rc,
    sync::Once,
};

use melior::{
    Context,
    diagnostic::DiagnosticSeverity,
    dialect::DialectRegistry,
    ir::{Location, Module},
    pass::PassManager,
    utility::{parse_pass_pipeline, register_all_dialects, register_all_llvm_translations},
};

use crate::{
    ffi,
    pass::{Fault, reported},
};

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

/// Registers MLIR's own passes by name, once per process. phobos-opt does so itself.
pub fn register_mlir_passes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(melior::utility::register_all_passes);
}

/// An error that MLIR reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// File, line and column, from 1.
    pub place: Option<(String, usize, usize)>,
    /// What is wrong.
    pub message: String,
    /// Whose fault it is.
    pub fault: Fault,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line, column)) = &self.place {
            write!(f, "{file}:{line}:{column}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// A pipeline failed: what was reported.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.iter().map(Report::to_string).collect::<Vec<_>>().join("\n"))]
pub struct MlirError(pub Vec<Report>);

/// Runs `work` and returns what it reported as errors beside its result.
pub fn with_diagnostics<T>(context: &Context, work: impl FnOnce() -> T) -> (T, Vec<Report>) {
    let messages = Rc::new(RefCell::new(Vec::new()));
    let sink = messages.clone();
    let handler = context.attach_diagnostic_handler(move |diagnostic| {
        if matches!(diagnostic.severity(), DiagnosticSeverity::Error) {
            let place = file_line_column(diagnostic.location());
            let (fault, message) = reported(&diagnostic.to_string());
            sink.borrow_mut().push(Report { place, message, fault });
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
        let unsaid = || {
            vec![Report { place: None, message: format!("{error} in {pipeline}"), fault: Fault::Internal }]
        };
        MlirError(if messages.is_empty() { unsaid() } else { messages })
    })
}

/// The file, line and column of a location that has them.
pub fn file_line_column(location: Location<'_>) -> Option<(String, usize, usize)> {
    if !location.is_file_line_col_range() {
        return None;
    }
    let file = location.file_line_col_range_filename();
    let file = file.as_string_ref().as_str().unwrap_or("?").to_owned();
    let (line, column) =
        (location.file_line_col_range_start_line(), location.file_line_col_range_start_column());
    Some((file, line, column))
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
