//! The phobos dialect and passes as a plugin of stock mlir-opt.
