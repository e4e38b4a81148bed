//! The architectures against references: plain forward passes in f64, and llama.cpp's
//! logits.

#![allow(clippy::unwrap_used)]

mod builder;
mod compiled;
mod config;
mod gemma3;
mod gemma3_reference;
mod golden;
mod graph;
mod oracle;
mod reference;

use golden::{Tiny, argmax, nmse, smollm2};
use reference::Reference;

#[test]
fn the_plain_reference_matches_llama_cpp() {
    let tiny = Tiny::load("llama");
    let rows = Reference::open(&tiny.model).forward(&tiny.tokens());
    for (position, (found, expected)) in rows.iter().zip(&tiny.logits).enumerate() {
        let nmse = nmse(found.iter().copied(), expected.iter().map(|value| f64::from(*value)));
        assert!(nmse < 1e-8, "position {position}: NMSE {nmse:e}");
    }
    for (row, greedy) in rows[tiny.prompt.len() - 1..].iter().zip(&tiny.greedy) {
        assert_eq!(argmax(row), *greedy as usize);
    }
}

/// The numbers of `compiled::smollm2_logits_match_llama_cpp` are those of exact arithmetic,
/// and not of the kernels.
#[test]
fn the_plain_reference_matches_llama_cpp_on_smollm2() {
    if cfg!(debug_assertions) {
        eprintln!("skipped: too slow without optimisation; `cargo test --release` runs it");
        return;
    }
    let Some(model) = golden::smollm2_model() else { return };
    let model = Reference::open(&model);
    for case in smollm2() {
        let rows = model.forward(&case.tokens[..case.top5.len()]);
        case.assert_matches(rows);
    }
}
