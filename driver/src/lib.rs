//! Compile requests to artifacts; phobos-opt, phobos-compile and the worker.
