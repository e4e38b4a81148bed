//! Choosing `@autotune` parameters without measuring.
//!
//! The candidates are the product of the lists, less those that a `where` condition or
//! a block format rules out, with the caller's overrides fixed. Among them the chip's
//! [`Rule`] takes the first of the best. A rule is a file here.

mod host;

use std::collections::BTreeMap;

pub use host::HostRule;
use phobos_lang::{
    Refusal, SourceFile,
    typed::{Kernel, Param},
};

/// The most combinations that are looked at.
const MAX_CANDIDATES: usize = 100_000;

/// Why no candidate is left, or an override is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuneError {
    /// An override that is no parameter of the kernel.
    #[error("kernel `{kernel}` has no @autotune parameter `{name}`{}", nearest.as_ref().map(|n| format!(": did you mean `{n}`?")).unwrap_or_default())]
    UnknownParam {
        /// The kernel.
        kernel: String,
        /// What was given.
        name: String,
        /// The closest parameter.
        nearest: Option<String>,
    },
    /// An override of 0.
    #[error("--param {name}=0: a parameter is at least 1")]
    Zero {
        /// The parameter.
        name: String,
    },
    /// Nothing fits the conditions.
    #[error("{}no candidate of kernel `{kernel}` satisfies its conditions: {why}", flags(overrides))]
    NoCandidate {
        /// The kernel.
        kernel: String,
        /// The overrides that the condition is about.
        overrides: Vec<(String, u64)>,
        /// The condition that ruled out the last one.
        why: String,
    },
    /// Too many combinations.
    #[error("kernel `{kernel}` has more than {MAX_CANDIDATES} combinations of parameters")]
    TooMany {
        /// The kernel.
        kernel: String,
    },
}

/// What a chip prefers.
pub trait Rule {
    /// The rank of a candidate, compared from its first number on: smaller is better.
    fn rank(&self, candidate: &BTreeMap<String, u64>) -> Vec<u128>;
}

/// `--param A=1 --param B=2: `, or nothing.
fn flags(overrides: &[(String, u64)]) -> String {
    let flags: Vec<String> =
        overrides.iter().map(|(name, value)| format!("--param {name}={value}")).collect();
    if flags.is_empty() { String::new() } else { format!("{}: ", flags.join(" ")) }
}

/// The value of every parameter of `kernel`, which was read from `source`.
pub fn choose(
    kernel: &Kernel,
    source: &SourceFile,
    overrides: &BTreeMap<String, u64>,
    first_of_each: bool,
    rule: &dyn Rule,
) -> Result<BTreeMap<String, u64>, TuneError> {
    check_overrides(kernel, overrides)?;
    let mut best: Option<(Vec<u128>, BTreeMap<String, u64>)> = None;
    let mut refused = NoneLeft { concerns: Vec::new(), why: "its lists are empty".to_owned() };
    for candidate in candidates(kernel, overrides, first_of_each)? {
        if let Some(refusal) = kernel.refusal(&candidate) {
            refused.note(&refusal, source, &candidate, overrides);
            continue;
        }
        let rank = rule.rank(&candidate);
        if best.as_ref().is_none_or(|(other, _)| rank < *other) {
            best = Some((rank, candidate));
        }
    }
    best.map(|(_, candidate)| candidate).ok_or_else(|| TuneError::NoCandidate {
        kernel: kernel.name.clone(),
        overrides: refused.concerns,
        why: refused.why,
    })
}

/// What to say when no candidate is left: the last refusal, but of those that an override
/// had a part in, if there are any.
struct NoneLeft {
    concerns: Vec<(String, u64)>,
    why: String,
}

impl NoneLeft {
    fn note(
        &mut self,
        refusal: &Refusal<'_>,
        source: &SourceFile,
        candidate: &BTreeMap<String, u64>,
        overrides: &BTreeMap<String, u64>,
    ) {
        let concerned = overrides.iter().filter(|(name, _)| refusal.concerns(name));
        let concerns: Vec<(String, u64)> = concerned.map(|(name, value)| (name.clone(), *value)).collect();
        if !concerns.is_empty() || self.concerns.is_empty() {
            self.concerns = concerns;
            self.why = refusal.explain(source, candidate).to_string();
        }
    }
}

fn check_overrides(kernel: &Kernel, overrides: &BTreeMap<String, u64>) -> Result<(), TuneError> {
    for (name, value) in overrides {
        if !kernel.params.iter().any(|param| param.name == *name) {
            let names = kernel.params.iter().map(|param| param.name.as_str());
            let nearest = phobos_lang::diagnostics::nearest(name, names).map(str::to_owned);
            return Err(TuneError::UnknownParam { kernel: kernel.name.clone(), name: name.clone(), nearest });
        }
        if *value == 0 {
            return Err(TuneError::Zero { name: name.clone() });
        }
    }
    Ok(())
}

fn candidates(
    kernel: &Kernel,
    overrides: &BTreeMap<String, u64>,
    first_of_each: bool,
) -> Result<Vec<BTreeMap<String, u64>>, TuneError> {
    let mut all = vec![BTreeMap::new()];
    for Param { name, values, .. } in &kernel.params {
        let values: Vec<u64> = match overrides.get(name) {
            Some(value) => vec![*value],
            None if first_of_each => values.first().copied().into_iter().collect(),
            None => values.clone(),
        };
        if all.len() * values.len() > MAX_CANDIDATES {
            return Err(TuneError::TooMany { kernel: kernel.name.clone() });
        }
        all = all
            .iter()
            .flat_map(|candidate| {
                values.iter().map(|value| {
                    let mut next: BTreeMap<String, u64> = candidate.clone();
                    next.insert(name.clone(), *value);
                    next
                })
            })
            .collect();
    }
    Ok(all)
}
