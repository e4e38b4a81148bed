//! Project tasks: demo, test, bench, fmt-check.
fn main() {}
