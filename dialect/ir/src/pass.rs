//! Passes written in Rust: a plain function per pass, registered by name.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
};

use melior::ir::{Location, operation::OperationLike};
use mlir_sys::{MlirDialectRegistry, MlirOperation, MlirStringRef};

use crate::{Op, ffi, ir};

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The program or the request is wrong.
    User,
    /// The language has it and this compiler does not yet.
    Unsupported,
    /// The compiler is wrong.
    Internal,
}

/// How messages of the compiler's own faults begin.
const INTERNAL: &str = "internal error: ";

/// An error at a place in the source.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct PassError {
    message: String,
    fault: Fault,
    // A raw location: it is only used while the context is alive, inside the pass
    // driver below, and lets the error type be free of lifetimes.
    location: mlir_sys::MlirLocation,
}

impl PassError {
    /// An error at a location. A message that begins with `internal error: ` is the
    /// compiler's own fault, and any other says what is not available yet.
    pub fn new(location: Location<'_>, message: impl Into<String>) -> PassError {
        let message = message.into();
        let (fault, message) = match message.strip_prefix(INTERNAL) {
            Some(message) => (Fault::Internal, message.to_owned()),
            None => (Fault::Unsupported, message),
        };
        PassError { message, fault, location: location.to_raw() }
    }

    /// An error at an operation, as [`PassError::new`].
    pub fn at(op: Op<'_>, message: impl Into<String>) -> PassError {
        PassError::new(op.location(), message)
    }

    /// The program, or what was bound in it, is wrong.
    pub fn user(op: Op<'_>, message: impl Into<String>) -> PassError {
        PassError::of(Fault::User, op, message)
    }

    /// The language has this, and the compiler does not yet.
    pub fn unsupported(op: Op<'_>, message: impl Into<String>) -> PassError {
        PassError::of(Fault::Unsupported, op, message)
    }

    /// A promise of the compiler does not hold.
    pub fn internal(op: Op<'_>, message: impl Into<String>) -> PassError {
        PassError::of(Fault::Internal, op, message)
    }

    fn of(fault: Fault, op: Op<'_>, message: impl Into<String>) -> PassError {
        PassError { message: message.into(), fault, location: op.location().to_raw() }
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        self.fault
    }
}

thread_local! {
    /// The fault of the error that a pass is reporting. MLIR's diagnostics carry none,
    /// and call their handler on this thread before they return.
    static REPORTING: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Whose fault the error is that a diagnostic handler was called with, and the message
/// without words that only say so. What no pass of ours reports (a verifier, a pass of
/// MLIR) is about IR that the compiler made.
pub(crate) fn reported(message: &str) -> (Fault, String) {
    let fault = REPORTING.get().unwrap_or(Fault::Internal);
    let plain = match fault {
        Fault::Internal => message.strip_prefix(INTERNAL).unwrap_or(message),
        Fault::User | Fault::Unsupported => message,
    };
    (fault, plain.to_owned())
}

fn report(location: Location<'_>, fault: Fault, message: &str) {
    REPORTING.set(Some(fault));
    match fault {
        Fault::Internal => ir::emit_error(location, &format!("{INTERNAL}{message}")),
        Fault::User | Fault::Unsupported => ir::emit_error(location, message),
    }
    REPORTING.set(None);
}

/// The function of a pass: the operation it is anchored on, and its options.
pub type PassFn = for<'c> fn(Op<'c>, &Options<'_>) -> Result<(), PassError>;

/// A pass: its command-line name, a sentence, the operation it runs on, its options
/// and its function.
pub struct Pass {
    /// The name, which is also the flag of phobos-opt.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// The operation it runs on, e.g. `phobos.kernel`; empty for any.
    pub anchor: &'static str,
    /// Its options.
    pub options: &'static [PassOption],
    /// The work.
    pub run: PassFn,
}

/// An option of a pass.
pub struct PassOption {
    /// The name.
    pub name: &'static str,
    /// What it sets.
    pub description: &'static str,
    /// Its value when not given.
    pub default: &'static str,
}

/// The option values of one run.
pub struct Options<'a> {
    specs: &'static [PassOption],
    values: Vec<&'a str>,
}

impl<'a> Options<'a> {
    /// The value of an option; empty if the pass has no such option.
    pub fn get(&self, name: &str) -> &'a str {
        let position = self.specs.iter().position(|option| option.name == name);
        position.and_then(|index| self.values.get(index)).copied().unwrap_or("")
    }
}

/// Registers passes with MLIR's global registry, by name.
pub fn register(passes: &'static [Pass]) {
    for pass in passes {
        let options: Vec<_> = pass
            .options
            .iter()
            .map(|option| ffi::OptionSpec {
                name: ffi::string_ref(option.name),
                description: ffi::string_ref(option.description),
                initial: ffi::string_ref(option.default),
            })
            .collect();
        let options = Vec::leak(options);
        let spec = Box::leak(Box::new(ffi::PassSpec {
            argument: ffi::string_ref(pass.name),
            description: ffi::string_ref(pass.description),
            anchor: ffi::string_ref(pass.anchor),
            options: options.as_ptr(),
            option_count: options.len() as isize,
            dependent_dialects,
            run: run_pass,
            user: std::ptr::from_ref(pass).cast_mut().cast(),
        }));
        // SAFETY: the spec and all it points to are leaked or static.
        unsafe { ffi::phobosRegisterPass(spec) }
    }
}

/// Registers a named pipeline.
pub fn register_pipeline(name: &str, description: &str, text: &str) {
    // SAFETY: the registry copies the strings.
    unsafe {
        ffi::phobosRegisterPipeline(
            ffi::string_ref(name),
            ffi::string_ref(description),
            ffi::string_ref(text),
        );
    }
}

unsafe extern "C" fn dependent_dialects(_user: *mut c_void, registry: MlirDialectRegistry) {
    // SAFETY: MLIR passes a live registry; the handles are static.
    unsafe {
        ffi::phobosInsertDialect(registry.ptr);
        for handle in [
            mlir_sys::mlirGetDialectHandle__arith__(),
            mlir_sys::mlirGetDialectHandle__func__(),
            mlir_sys::mlirGetDialectHandle__llvm__(),
            mlir_sys::mlirGetDialectHandle__math__(),
            mlir_sys::mlirGetDialectHandle__scf__(),
            mlir_sys::mlirGetDialectHandle__vector__(),
        ] {
            mlir_sys::mlirDialectHandleInsertDialect(handle, registry);
        }
    }
}

unsafe extern "C" fn run_pass(
    user: *mut c_void,
    op: MlirOperation,
    values: *const MlirStringRef,
    count: isize,
) -> bool {
    // SAFETY: `user` is the static Pass given to `register`; MLIR passes a live
    // operation and `count` strings that live for this call.
    let (pass, op, values) = unsafe {
        let pass = &*user.cast::<Pass>();
        let values = (0..count)
            .map(|index| {
                let text = *values.offset(index);
                std::str::from_utf8(std::slice::from_raw_parts(text.data.cast::<u8>(), text.length))
                    .unwrap_or("")
            })
            .collect();
        (pass, Op::from_raw(op), values)
    };
    let options = Options { specs: pass.options, values };
    // A panic must not unwind into C++: it becomes an error that names the pass.
    match catch_unwind(AssertUnwindSafe(|| (pass.run)(op, &options))) {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            // SAFETY: the location belongs to the live context of `op`.
            report(unsafe { Location::from_raw(error.location) }, error.fault, &error.message);
            false
        }
        Err(_) => {
            report(op.location(), Fault::Internal, &format!("pass {} panicked", pass.name));
            false
        }
    }
}
