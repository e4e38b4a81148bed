//! `phobos-opt`: mlir-opt with the phobos dialect and passes.

fn main() {
    phobos_passes::register();
    std::process::exit(phobos_dialect::driver::opt_main());
}
