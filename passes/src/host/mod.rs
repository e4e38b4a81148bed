//! stub
use phobos_dialect::pass::Pass;
pub(crate) const PASS: Pass = Pass {
    name: "convert-phobos-to-host",
    description: "",
    anchor: "builtin.module",
    options: &[],
    run: |_, _| Ok(()),
};
