//! `cargo xtask bench`: numbers for BENCHMARKS.md, printed and not written.

mod cache;
mod compile;
mod host;
mod machine;
mod model;
mod others;
mod peer;
mod start;

use crate::error::{Error, Result};
use crate::process;
use crate::workspace::Workspace;
use std::fmt::Display;
use std::process::Command;
use std::str::FromStr;

/// Runs the benchmark that the first argument names; the others are its own.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((name, rest)) if name == "model" => model::bench(workspace, rest),
        Some((name, rest)) if name == "host" => host::bench(workspace, rest),
        Some((name, rest)) if name == "emulator" => emulator(workspace, rest),
        Some((name, rest)) if name == "cache" => cache::bench(workspace, rest),
        Some((name, rest)) if name == "compile" => compile::bench(workspace, rest),
        Some((name, _)) => Err(Error::Usage(format!(
            "no benchmark `{name}` (there are model, host, emulator, cache, compile)"
        ))),
        None => Err(Error::Usage("which benchmark: model, host, emulator, cache or compile?".to_owned())),
    }
}

/// The speed of the emulator is an example of its own crate.
fn emulator(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    machine::Machine::describe(workspace, &[])?.print();
    let words = ["run", "--release", "--package", "phobos-emulator", "--example", "speed", "--"];
    process::run(process::cargo(workspace, &words).args(arguments))
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

/// `median (lowest to highest)`.
fn spread(values: &[f64], decimals: usize) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    format!("{:.decimals$} ({low:.decimals$} to {high:.decimals$})", median(values))
}

/// The commit that is measured, on stdout.
fn print_commit(workspace: &Workspace) {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(workspace.root());
    print!("Commit {}", process::capture(&mut git).unwrap_or_default().trim());
}

/// `text` as a number from 1 to `most`, the value of the option `name`.
fn number<T>(name: &str, text: &str, most: T) -> Result<T>
where
    T: FromStr + PartialOrd + From<u8> + Display + Copy,
{
    text.parse()
        .ok()
        .filter(|n| (T::from(1)..=most).contains(n))
        .ok_or_else(|| Error::Usage(format!("{name}: `{text}` is no number from 1 to {most}")))
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
