//! `cargo xtask bench`: numbers for BENCHMARKS.md, printed and not written.

mod machine;
mod model;
mod peer;

use crate::error::{Error, Result};
use crate::process;
use crate::workspace::Workspace;

/// Runs the benchmark that the first argument names; the others are its own.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((name, rest)) if name == "model" => model::bench(workspace, rest),
        Some((name, rest)) if name == "emulator" => cargo_bench(workspace, "phobos-emulator", rest),
        Some((name, rest)) if name == "cache" => cargo_bench(workspace, "phobos-kernel-cache", rest),
        Some((name, _)) => {
            Err(Error::Usage(format!("no benchmark `{name}` (there are model, emulator, cache)")))
        }
        None => Err(Error::Usage("which benchmark: model, emulator or cache?".to_owned())),
    }
}

/// The benchmarks that concern one crate alone are its own `cargo bench`.
fn cargo_bench(workspace: &Workspace, package: &str, arguments: &[String]) -> Result<()> {
    machine::Machine::describe(workspace, &[])?.print();
    let mut command = process::cargo(workspace, &["bench", "--package", package, "--benches", "--"]);
    command.args(arguments);
    process::run(&mut command)
}

/// Tokens per second of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Speed {
    /// Processing the prompt.
    prefill: f64,
    /// Generating.
    decode: f64,
}

/// The number after `"name":` in a piece of JSON of which nothing else is wanted.
fn json_number(json: &str, name: &str) -> Option<f64> {
    let (_, rest) = json.split_once(&format!("\"{name}\""))?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start().trim_start_matches('"');
    let end =
        value.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+' | 'e' | 'E')).unwrap_or(value.len());
    value.get(..end)?.parse().ok()
}

/// The middle value, or the mean of the two in the middle; NaN of nothing.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len().saturating_sub(1) / 2), sorted.get(sorted.len() / 2)) {
        (Some(low), Some(high)) => (low + high) / 2.0,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_json() {
        let json = r#"{"n_prompt": 512, "n_gen":0,"avg_ts": "162.5e0", "name": "x"}"#;
        assert_eq!(json_number(json, "n_prompt"), Some(512.0));
        assert_eq!(json_number(json, "n_gen"), Some(0.0));
        assert_eq!(json_number(json, "avg_ts"), Some(162.5));
        assert_eq!(json_number(json, "name"), None);
        assert_eq!(json_number(json, "absent"), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
