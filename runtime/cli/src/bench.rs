//! `phobos-bench`: tokens per second of prompt processing and of generation.
//!
//! The tokens are arbitrary but fixed: the work does not depend on which they are.
//! Generation starts from an empty context, as is customary, and leaves sampling out.

use std::time::Instant;

use phobos_engine::{Engine, Session};
use serde_json::json;

use crate::{failure::Failure, interrupt, options::BenchOptions, output, progress::Reporter};

/// Loads, measures and prints.
pub fn run(options: &BenchOptions) -> Result<(), Failure> {
    interrupt::install()?;
    let reporter = Reporter::default();
    let start = Instant::now();
    let engine = Engine::load(&options.gguf, &options.engine, &|progress| reporter.report(progress))
        .inspect_err(|_| reporter.clear())?;
    let load = start.elapsed().as_secs_f64();
    reporter.loaded(engine.kernels());

    let mut session = engine.session()?;
    let (mut prompt_rates, mut gen_rates) = (Vec::new(), Vec::new());
    // One pass unmeasured: pages of the file are read and memory is touched.
    for measured in (0..=options.repeat).map(|pass| pass > 0) {
        if options.prompt_tokens > 0 {
            let rate = prompt(&engine, &mut session, options.prompt_tokens)?;
            prompt_rates.extend(measured.then_some(rate));
        }
        if options.gen_tokens > 0 {
            let rate = generation(&engine, &mut session, options.gen_tokens)?;
            gen_rates.extend(measured.then_some(rate));
        }
    }

    let text = if options.json {
        let rates = |tokens: usize, rates: &[f64]| json!({ "tokens": tokens, "median_tokens_per_second": median(rates), "tokens_per_second": rates });
        let result = json!({
            "file": engine.file(),
            "device": engine.device().name(),
            "threads": options.engine.threads,
            "kv": options.engine.settings.kv.name(),
            "load_seconds": load,
            "kernels": { "compiled": engine.kernels().compiled, "cached": engine.kernels().cached },
            "repeat": options.repeat,
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

/// Reads a prompt of `tokens` tokens into an empty session; tokens per second.
fn prompt(engine: &Engine, session: &mut Session, tokens: usize) -> Result<f64, Failure> {
    let ids: Vec<u32> = (0..tokens).map(|index| token(engine, index)).collect();
    session.reset();
    let start = Instant::now();
    session.read(&ids, true)?;
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

/// Reads `tokens` tokens one by one after a first; tokens per second.
fn generation(engine: &Engine, session: &mut Session, tokens: usize) -> Result<f64, Failure> {
    session.reset();
    session.read(&[token(engine, 0)], true)?;
    let start = Instant::now();
    for index in 1..=tokens {
        session.read(&[token(engine, index)], true)?;
    }
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
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
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
