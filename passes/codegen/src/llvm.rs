//! The LLVM C API, wrapped.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_char, c_void},
    fs, ptr,
    sync::Once,
};

use llvm_sys::{
    core::{
        LLVMContextCreate, LLVMContextDispose, LLVMContextSetDiagnosticHandler, LLVMDisposeMemoryBuffer,
        LLVMDisposeMessage, LLVMDisposeModule, LLVMGetBufferSize, LLVMGetBufferStart,
        LLVMGetDiagInfoDescription, LLVMGetDiagInfoSeverity, LLVMPrintModuleToString, LLVMSetTarget,
    },
    error::LLVMGetErrorMessage,
    prelude::{LLVMContextRef, LLVMDiagnosticInfoRef, LLVMModuleRef},
    target::{
        LLVM_InitializeNativeAsmPrinter, LLVM_InitializeNativeTarget, LLVMDisposeTargetData,
        LLVMSetModuleDataLayout,
    },
    target_machine::{
        LLVMCodeGenFileType, LLVMCodeGenOptLevel, LLVMCreateTargetDataLayout, LLVMCreateTargetMachineOptions,
        LLVMCreateTargetMachineWithOptions, LLVMDisposeTargetMachine, LLVMDisposeTargetMachineOptions,
        LLVMGetTargetFromTriple, LLVMRelocMode, LLVMTargetMachineEmitToMemoryBuffer,
        LLVMTargetMachineOptionsSetCPU, LLVMTargetMachineOptionsSetCodeGenOptLevel,
        LLVMTargetMachineOptionsSetFeatures, LLVMTargetMachineOptionsSetRelocMode, LLVMTargetMachineRef,
    },
    transforms::pass_builder::{
        LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions,
        LLVMPassBuilderOptionsSetLoopVectorization, LLVMPassBuilderOptionsSetSLPVectorization, LLVMRunPasses,
    },
};
use phobos_artifact::HostLevel;
use phobos_dialect::Op;

use crate::{CodegenError, host};

/// What [`Translated::emit`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Assembly text.
    Assembly,
    /// A relocatable object.
    Object,
}

/// What LLVM's diagnostic handler collects.
#[derive(Default)]
struct Errors(Vec<String>);

/// A module in LLVM IR with the machine that it is compiled for.
pub struct Translated {
    context: LLVMContextRef,
    module: LLVMModuleRef,
    machine: LLVMTargetMachineRef,
    /// What LLVM reported as errors; boxed, since LLVM holds its address.
    errors: Box<Errors>,
}

const TRIPLE: &CStr = c"x86_64-unknown-linux-gnu";

impl Translated {
    /// Translates an MLIR module in the `llvm` dialect for a level of the host.
    pub fn for_host(module: Op<'_>, level: HostLevel) -> Result<Translated, CodegenError> {
        static INITIALIZE: Once = Once::new();
        // SAFETY: registers LLVM's native target; once per process.
        INITIALIZE.call_once(|| unsafe {
            LLVM_InitializeNativeTarget();
            LLVM_InitializeNativeAsmPrinter();
        });
        let machine = host_machine(level)?;
        // SAFETY: the context is new; everything made here is owned by the result, whose
        // Drop frees it in the right order. mlir-sys and llvm-sys declare the same C
        // types under two names.
        unsafe {
            let context = LLVMContextCreate();
            let translated = mlir_sys::mlirTranslateModuleToLLVMIR(module.to_raw(), context.cast());
            let mut result =
                Translated { context, module: translated.cast(), machine, errors: Box::default() };
            if translated.is_null() {
                return Err(CodegenError::Translate("see the diagnostics before".into()));
            }
            let sink: *mut Errors = &mut *result.errors;
            LLVMContextSetDiagnosticHandler(context, Some(collect_diagnostic), sink.cast());
            LLVMSetTarget(result.module, TRIPLE.as_ptr());
            let layout = LLVMCreateTargetDataLayout(machine);
            LLVMSetModuleDataLayout(result.module, layout);
            LLVMDisposeTargetData(layout);
            Ok(result)
        }
    }

    /// Runs LLVM's -O3 pipeline. Its vectorisers are off: the code is vectors already,
    /// and guesses about the remaining scalar loops only grow it.
    pub fn optimize(&mut self) -> Result<(), CodegenError> {
        // SAFETY: module and machine are live; the options are freed here.
        unsafe {
            let options = LLVMCreatePassBuilderOptions();
            LLVMPassBuilderOptionsSetLoopVectorization(options, 0);
            LLVMPassBuilderOptionsSetSLPVectorization(options, 0);
            let error = LLVMRunPasses(self.module, c"default<O3>".as_ptr(), self.machine, options);
            LLVMDisposePassBuilderOptions(options);
            if !error.is_null() {
                return Err(CodegenError::Llvm(take_message(LLVMGetErrorMessage(error))));
            }
        }
        self.check()
    }

    /// The module as text.
    pub fn to_text(&self) -> String {
        // SAFETY: the module is live; LLVM's string is copied and freed.
        unsafe { take_message(LLVMPrintModuleToString(self.module)) }
    }

    /// Generates code.
    pub fn emit(&mut self, kind: FileKind) -> Result<Vec<u8>, CodegenError> {
        let kind = match kind {
            FileKind::Assembly => LLVMCodeGenFileType::LLVMAssemblyFile,
            FileKind::Object => LLVMCodeGenFileType::LLVMObjectFile,
        };
        // SAFETY: module and machine are live; the buffer and message are freed.
        let bytes = unsafe {
            let (mut buffer, mut message) = (ptr::null_mut(), ptr::null_mut());
            let failed = LLVMTargetMachineEmitToMemoryBuffer(
                self.machine,
                self.module,
                kind,
                &mut message,
                &mut buffer,
            );
            if failed != 0 {
                return Err(CodegenError::Llvm(take_message(message)));
            }
            let start = LLVMGetBufferStart(buffer).cast::<u8>();
            let bytes = std::slice::from_raw_parts(start, LLVMGetBufferSize(buffer)).to_vec();
            LLVMDisposeMemoryBuffer(buffer);
            bytes
        };
        self.check()?;
        Ok(bytes)
    }

    fn check(&mut self) -> Result<(), CodegenError> {
        if self.errors.0.is_empty() { Ok(()) } else { Err(CodegenError::Llvm(self.errors.0.join("; "))) }
    }
}

impl Drop for Translated {
    fn drop(&mut self) {
        // SAFETY: made by `for_host` and not freed before; the module before its context.
        unsafe {
            if !self.module.is_null() {
                LLVMDisposeModule(self.module);
            }
            LLVMDisposeTargetMachine(self.machine);
            LLVMContextDispose(self.context);
        }
    }
}

fn host_machine(level: HostLevel) -> Result<LLVMTargetMachineRef, CodegenError> {
    let cpu = CString::new(host::cpu(level)).unwrap_or_default();
    let features = CString::new(host::features(level)).unwrap_or_default();
    // SAFETY: all strings are NUL-terminated and outlive the calls.
    unsafe {
        let (mut target, mut message) = (ptr::null_mut(), ptr::null_mut());
        if LLVMGetTargetFromTriple(TRIPLE.as_ptr(), &mut target, &mut message) != 0 {
            return Err(CodegenError::Llvm(take_message(message)));
        }
        let options = LLVMCreateTargetMachineOptions();
        LLVMTargetMachineOptionsSetCPU(options, cpu.as_ptr());
        LLVMTargetMachineOptionsSetFeatures(options, features.as_ptr());
        LLVMTargetMachineOptionsSetCodeGenOptLevel(options, LLVMCodeGenOptLevel::LLVMCodeGenLevelAggressive);
        LLVMTargetMachineOptionsSetRelocMode(options, LLVMRelocMode::LLVMRelocPIC);
        let machine = LLVMCreateTargetMachineWithOptions(target, TRIPLE.as_ptr(), options);
        LLVMDisposeTargetMachineOptions(options);
        Ok(machine)
    }
}

/// Copies and frees a message of LLVM's.
unsafe fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return "no message".into();
    }
    // SAFETY: the caller passes a NUL-terminated string that LLVM allocated.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeMessage(message);
        text
    }
}

extern "C" fn collect_diagnostic(info: LLVMDiagnosticInfoRef, sink: *mut c_void) {
    // SAFETY: `sink` is the boxed list given at registration, which outlives the
    // context; LLVM calls this on the thread that runs it.
    unsafe {
        let description = take_message(LLVMGetDiagInfoDescription(info));
        if matches!(LLVMGetDiagInfoSeverity(info), llvm_sys::LLVMDiagnosticSeverity::LLVMDSError) {
            (*sink.cast::<Errors>()).0.push(description);
        }
    }
}

/// The libLLVM and libMLIR that this process has loaded, by path: what the worker's
/// hello tells beside the fingerprint.
pub fn loaded_libraries() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths: Vec<&str> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| path.contains("libLLVM") || path.contains("libMLIR"))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    let described: Vec<String> = paths.iter().map(|path| format!("{path} {}", build_id(path))).collect();
    described.join(", ")
}

/// The build id of an ELF file, in hex.
fn build_id(path: &str) -> String {
    use object::Object;
    let id = fs::File::open(path).ok().and_then(|file| {
        let cache = object::ReadCache::new(file);
        let file = object::File::parse(&cache).ok()?;
        file.build_id().ok().flatten().map(<[u8]>::to_vec)
    });
    match id {
        Some(id) => id.iter().map(|byte| format!("{byte:02x}")).collect(),
        None => "without build id".into(),
    }
}
