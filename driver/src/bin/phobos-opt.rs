//! `phobos-opt`: mlir-opt with the phobos dialect and passes.

use phobos_worker::fingerprint::{llvm_version, version_line};

fn main() {
    // mlir-opt's own --version knows only LLVM's.
    if std::env::args_os().skip(1).any(|argument| argument == "--version") {
        println!("{}, MLIR {}", version_line("phobos-opt"), llvm_version());
        return;
    }
    phobos_passes::register();
    std::process::exit(phobos_dialect::driver::opt_main());
}
