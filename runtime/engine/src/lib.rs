//! Generation: sampling, sessions, and how a model gets its kernels.
