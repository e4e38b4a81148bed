//! What tests of the driver ask for.

use std::collections::BTreeMap;

use phobos_artifact::{Chip, CompileOptions, CompileRequest, HostLevel};

/// The levels that this CPU has, but for v4-vnni: its code differs in integer products only.
#[allow(dead_code)] // not every test file runs at all of them
pub fn levels() -> impl Iterator<Item = HostLevel> {
    let best = HostLevel::detect();
    [HostLevel::V2, HostLevel::V3, HostLevel::V4].into_iter().filter(move |level| best >= Some(*level))
}

/// The kernel `k` of `source`, with nothing bound.
pub fn request(source: &str, level: HostLevel) -> CompileRequest {
    CompileRequest {
        source: source.into(),
        kernel: "k".into(),
        elements: BTreeMap::new(),
        dims: BTreeMap::new(),
        ranges: BTreeMap::new(),
        params: BTreeMap::new(),
        options: CompileOptions::default(),
        chip: Chip::Host(level),
    }
}
