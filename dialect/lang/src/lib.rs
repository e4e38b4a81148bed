//! The .ph language: lexer, parser, checker and diagnostics. Knows nothing of MLIR.
