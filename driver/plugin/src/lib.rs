//! The phobos dialect and passes as a plugin of stock mlir-opt.
//!
//! ```text
//! mlir-opt --load-dialect-plugin=libphobos_plugin.so --load-pass-plugin=libphobos_plugin.so \
//!     --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize{bind=TILE=64},cse))' k.mlir
//! ```
//! mlir-opt and this library share one libMLIR; it must be the version that the plugin
//! was built against. Passes of a plugin are known to `--pass-pipeline` only, not as
//! flags of their own. phobos-opt has the dialect already and must not load it again.

use std::ffi::{CStr, c_char, c_void};

/// `MLIR_PLUGIN_API_VERSION` of mlir/Tools/Plugins/PassPlugin.h and DialectPlugin.h.
const API_VERSION: u32 = 1;
const NAME: &CStr = c"phobos";
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"unknown",
};

/// `mlir::PassPluginLibraryInfo` and `mlir::DialectPluginLibraryInfo`: they differ only
/// in what the callback takes.
#[repr(C)]
pub struct PluginInfo<Callback> {
    api_version: u32,
    name: *const c_char,
    version: *const c_char,
    register: Callback,
}

impl<Callback> PluginInfo<Callback> {
    const fn new(register: Callback) -> PluginInfo<Callback> {
        PluginInfo { api_version: API_VERSION, name: NAME.as_ptr(), version: VERSION.as_ptr(), register }
    }
}

/// Entry point of `--load-pass-plugin`.
// SAFETY: no other symbol of the process has this name, which MLIR looks up in this
// library alone; the result has the layout that it reads.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mlirGetPassPluginInfo() -> PluginInfo<extern "C" fn()> {
    PluginInfo::new(register_passes)
}

/// Entry point of `--load-dialect-plugin`. The callback takes a `mlir::DialectRegistry *`.
// SAFETY: as above.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mlirGetDialectPluginInfo() -> PluginInfo<extern "C" fn(*mut c_void)> {
    PluginInfo::new(insert_dialect)
}

extern "C" fn register_passes() {
    phobos_passes::register();
}

#[allow(unsafe_code)]
extern "C" fn insert_dialect(registry: *mut c_void) {
    // SAFETY: MLIR calls this with the registry that it is filling.
    unsafe { phobos_dialect::driver::insert_dialect(registry) }
}
