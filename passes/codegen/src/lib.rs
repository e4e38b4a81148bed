//! LLVM code generation: a shared object for the host, PTX text for a GPU.
