//! Forward passes, one file per architecture, and the kernels they launch.
