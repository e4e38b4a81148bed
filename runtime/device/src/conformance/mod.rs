//! The suite that every device must pass: each operation of the language and each
//! kernel of the models, compiled from `.ph` source, against references in `f64`.
//!
//! It needs a device and something that compiles; it is the same for the host, the
//! emulator and a GPU. Sizes are chosen around the tile: 1, 17, 33, tile - 1, tile,
//! tile + 1. Every tensor lies between guards full of NaN, so that an element taken
//! from outside spoils the result, and a byte written outside is found. Outputs start
//! as NaN, so that an element not written is found too.
//!
//! The tolerance of each operation stands in its table, for `f32` unless the name says
//! otherwise; those of approximate functions allow for the error bounds of PTX's
//! `.approx` instructions.
//!
//! ```no_run
//! # use phobos_artifact::{Artifact, Chip, CompileRequest};
//! # fn compile(_: &CompileRequest) -> Result<Artifact, String> { Err(String::new()) }
//! # fn f(device: &dyn phobos_device::Device) {
//! let report = phobos_device::conformance::run(device, &compile, &|op| op.starts_with("dot"));
//! assert!(report.failures.is_empty(), "{report}");
//! # }
//! ```

mod attention;
mod attention_parts;
mod block;
mod case;
mod casts;
mod control;
mod cut;
mod data;
mod dot;
mod dot_narrow;
mod dot_quantized;
mod elementwise;
mod gate;
mod harness;
mod integer;
mod linear;
mod norm;
mod qkv;
mod quantize;
mod reduction;
mod report;
mod rope;
mod seed;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use phobos_artifact::{Artifact, Chip, CompileRequest};

use crate::device::Device;
pub use case::{Case, Tolerance};
pub use data::{Data, Random};
pub use report::{Failure, Problem, Report};

/// Something that compiles: a pool of workers, a cache in front of it, the compiler itself.
pub type Compile<'a> = &'a dyn Fn(&CompileRequest) -> Result<Artifact, String>;

/// A family of operations, and how to make its cases.
pub struct Family {
    /// The name.
    pub name: &'static str,
    /// Makes the cases, the same ones each time.
    pub cases: fn() -> Vec<Case>,
}

/// Every family, the simplest first.
pub const FAMILIES: &[Family] = &[
    Family { name: "elementwise", cases: elementwise::cases },
    Family { name: "integer", cases: integer::cases },
    Family { name: "casts", cases: casts::cases },
    Family { name: "reduction", cases: reduction::cases },
    Family { name: "shape", cases: shape::cases },
    Family { name: "control", cases: control::cases },
    Family { name: "dot", cases: dot::cases },
    Family { name: "linear", cases: linear::cases },
    Family { name: "quantize", cases: quantize::cases },
    Family { name: "dot_quantized", cases: dot_quantized::cases },
    Family { name: "qkv", cases: qkv::cases },
    Family { name: "cut", cases: cut::cases },
    Family { name: "dot_narrow", cases: dot_narrow::cases },
    Family { name: "norm", cases: norm::cases },
    Family { name: "rope", cases: rope::cases },
    Family { name: "attention", cases: attention::cases },
    Family { name: "attention_parts", cases: attention_parts::cases },
    Family { name: "gate", cases: gate::cases },
    Family { name: "seed", cases: seed::cases },
];

/// The distinct requests of every case whose operation passes `filter`, in the order in
/// which [`run`] makes them on a device whose best chip is `chip`: for a source that
/// compiles several at once.
pub fn requests(chip: Chip, filter: &dyn Fn(&str) -> bool) -> Vec<CompileRequest> {
    let mut seen = BTreeSet::new();
    FAMILIES
        .iter()
        .flat_map(|family| (family.cases)())
        .filter(|case| filter(&case.op))
        .map(|case| case.request_for(chip))
        .filter(|request| seen.insert(format!("{request:?}")))
        .collect()
}

/// Runs every case whose operation passes `filter`, and reports all that fail.
pub fn run(device: &dyn Device, compile: Compile<'_>, filter: &dyn Fn(&str) -> bool) -> Report {
    let mut harness = harness::Harness::new(device, compile);
    for family in FAMILIES {
        for case in (family.cases)().iter().filter(|case| filter(&case.op)) {
            harness.run(case);
        }
    }
    harness.finish()
}
