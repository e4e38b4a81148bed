//! Building everything, once, in the one profile that the demo, the tests and the benchmarks share.

use crate::error::Result;
use crate::process;
use crate::progress::step;
use crate::workspace::Workspace;

/// Builds every crate but xtask: all programs, and the plugin's shared object.
///
/// The whole workspace at a time, also where one program would do: cargo unifies features over what it is
/// asked to build, so another selection would compile shared dependencies a second time.
pub fn build(workspace: &Workspace) -> Result<()> {
    step("build all programs (minutes the first time)", || {
        process::run(&mut process::cargo(
            workspace,
            &["build", "--release", "--workspace", "--exclude", "xtask"],
        ))
    })
}
