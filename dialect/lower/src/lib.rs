//! Lowering of a checked .ph kernel to symbolic tile IR in the phobos dialect.
