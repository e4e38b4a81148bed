//! Executes PTX text on the CPU and reports what is wrong with it.
