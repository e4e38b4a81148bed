//! The llama architecture against references: a plain forward pass in f64, and
//! llama.cpp's logits.

#![allow(clippy::unwrap_used)]

mod compiled;
mod config;
mod golden;
mod graph;
mod oracle;
mod reference;

use golden::{Tiny, argmax, nmse};
use reference::Reference;

#[test]
fn the_plain_reference_matches_llama_cpp() {
    let tiny = Tiny::load();
    let rows = Reference::open(&tiny.model).forward(&tiny.tokens());
    for (position, (found, expected)) in rows.iter().zip(&tiny.logits).enumerate() {
        let nmse = nmse(found.iter().copied(), expected.iter().map(|value| f64::from(*value)));
        assert!(nmse < 1e-8, "position {position}: NMSE {nmse:e}");
    }
    for (row, greedy) in rows[tiny.prompt.len() - 1..].iter().zip(&tiny.greedy) {
        assert_eq!(argmax(row), *greedy as usize);
    }
}
