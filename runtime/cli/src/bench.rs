//! `phobos-bench`: tokens per second of prompt processing and of generation.
//!
//! The tokens are arbitrary but fixed: the work does not depend on which they are.
//! Both start from an empty context, as is customary, unless a depth is asked for; then
//! that many tokens are in the context before, and reading them is not in the numbers.
//! Generation leaves sampling out.

use std::time::Instant;

use phobos_engine::{Engine, Session};
use serde_json::json;

use crate::{failure::Failure, interrupt, options::BenchOptions, output, progress::Reporter};

/// Loads, measures and prints.
pub fn run(options: &BenchOptions) -> Result<(), Failure> {
    interrupt::install()?;
    let reporter = Reporter::default();
    let start = Instant::now();
    let device = options.place.open()?;
    let engine = Engine::load(&options.gguf, &options.engine, device, &|progress| reporter.report(progress))
        .map_err(|error| {
            reporter.clear();
            Failure::of_loading(error, &options.place.device)
        })?;
    let load = start.elapsed().as_secs_f64();
    reporter.loaded(engine.kernels());

    let mut session = engine.session()?;
    let (mut prompt_rates, mut gen_rates) = (Vec::new(), Vec::new());
    // One pass unmeasured: pages of the file are read and memory is touched.
    for measured in (0..=options.repeat).map(|pass| pass > 0) {
        if options.prompt_tokens > 0 {
            let rate = prompt(&engine, &mut session, options.depth, options.prompt_tokens)?;
            prompt_rates.extend(measured.then_some(rate));
        }
        if options.gen_tokens > 0 {
            let rate = generation(&engine, &mut session, options.depth, options.gen_tokens)?;
            gen_rates.extend(measured.then_some(rate));
        }
    }

    let text = if options.json {
        let rates = |tokens: usize, rates: &[f64]| json!({ "tokens": tokens, "median_tokens_per_second": median(rates), "tokens_per_second": rates });
        let result = json!({
            "file": engine.file(),
            "device": engine.device().name(),
            "threads": options.place.threads,
            "act": options.engine.settings.activations.name(),
            "kv": options.engine.settings.kv.name(),
            "load_seconds": load,
            "kernels": {
                "compiled": engine.kernels().compiled,
                "cached": engine.kernels().cached,
                "stand_ins": engine.kernels().stand_ins,
            },
            "repeat": options.repeat,
            "depth": options.depth,
            "peak_resident_bytes": peak_resident_bytes(),
            "prompt": rates(options.prompt_tokens, &prompt_rates),
            "generation": rates(options.gen_tokens, &gen_rates),
        });
        format!("{result:#}\n")
    } else {
        let line = |name: &str, tokens: usize, rates: &[f64]| match median(rates) {
            Some(rate) => format!("{name}{tokens:<6} {rate:>10.2} tokens/s\n"),
            None => String::new(),
        };
        format!(
            "{}{}",
            line("pp", options.prompt_tokens, &prompt_rates),
            line("tg", options.gen_tokens, &gen_rates)
        )
    };
    output::print(&text)
}

/// The `index`th token of the measurement.
fn token(engine: &Engine, index: usize) -> u32 {
    // A multiplicative walk through the vocabulary; the remainder fits as a token id does.
    (index as u64 * 7919 % engine.vocabulary()) as u32
}

/// Brings the session to the first `depth` tokens of the measurement.
fn fill(engine: &Engine, session: &mut Session, depth: usize) -> Result<(), Failure> {
    let ids: Vec<u32> = (0..depth).map(|index| token(engine, index)).collect();
    // The tokens before are the same in every pass, so only the first one reads them all.
    let kept = session.keep_prefix(&ids);
    match ids.get(kept..) {
        Some(rest) if !rest.is_empty() => Ok(session.read(rest, false).map(drop)?),
        _ => Ok(()),
    }
}

/// Reads a prompt of `tokens` tokens after `depth` others; tokens per second.
fn prompt(engine: &Engine, session: &mut Session, depth: usize, tokens: usize) -> Result<f64, Failure> {
    let ids: Vec<u32> = (depth..depth + tokens).map(|index| token(engine, index)).collect();
    fill(engine, session, depth)?;
    let start = Instant::now();
    session.read(&ids, true)?;
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

/// Reads `tokens` tokens one by one after `depth` others, but at least a first; tokens per second.
fn generation(engine: &Engine, session: &mut Session, depth: usize, tokens: usize) -> Result<f64, Failure> {
    let depth = depth.max(1);
    fill(engine, session, depth)?;
    let start = Instant::now();
    for index in depth..depth + tokens {
        session.read(&[token(engine, index)], true)?;
    }
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

/// The most memory that this process had in use so far, the pages of the mapped file
/// included; `None` where the system does not tell.
fn peak_resident_bytes() -> Option<u64> {
    high_water_mark(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Out of `VmHWM:     20404 kB`.
fn high_water_mark(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The median; the mean of the middle two for an even count; `None` of nothing.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied()?;
    match sorted.len() % 2 {
        1 => Some(upper),
        _ => sorted.get(middle - 1).map(|lower| (lower + upper) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_in_kilobytes() {
        let status = "VmPeak:\t   99999 kB\nVmHWM:\t   20404 kB\nVmRSS:\t   10000 kB\n";
        assert_eq!(high_water_mark(status), Some(20404 * 1024));
        assert_eq!(high_water_mark("VmPeak:\t 1 kB\n"), None);
        assert!(peak_resident_bytes().is_none_or(|bytes| bytes > 1 << 16));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
