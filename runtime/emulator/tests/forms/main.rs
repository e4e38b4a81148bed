//! The instruction forms of the PTX ISA, one row each, against exact integer and
//! rational arithmetic on edge values. A new instruction brings its row.
//!
//! A row is a body that computes `%d` from `%a`, `%b` and `%c`, the types of the
//! four, the operands to try, and the value by definition.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod convert;
mod exact;
mod float;
mod int;
mod logic;

use common::ops::{T, run};

/// What a result must be.
#[derive(Clone, Copy)]
pub enum Want {
    /// These bits.
    Bits(u64),
    /// Any NaN of the format: the ISA leaves its bits open.
    AnyNan(exact::Format),
}

/// Rows run so far, and what differed.
#[derive(Default)]
pub struct Table {
    forms: usize,
    wrong: Vec<String>,
}

impl Table {
    /// One form. `wanted` sees the operands as bits of their types.
    pub fn row(
        &mut self,
        body: &str,
        d: T,
        sources: [T; 3],
        operands: &[[u64; 3]],
        wanted: impl Fn([u64; 3]) -> Want,
    ) {
        self.forms += 1;
        let cut =
            |value: u64, t: T| if t.bytes() == 8 { value } else { value & ((1 << (8 * t.bytes())) - 1) };
        for (row, got) in operands.iter().zip(run(body, d, sources, operands)) {
            let row = [0, 1, 2].map(|i| cut(row[i], sources[i]));
            let right = match wanted(row) {
                Want::Bits(bits) => got == cut(bits, d),
                Want::AnyNan(format) => format.is_nan(got),
            };
            if !right {
                let want = match wanted(row) {
                    Want::Bits(bits) => format!("{:#x}", cut(bits, d)),
                    Want::AnyNan(_) => "a NaN".to_owned(),
                };
                let [a, b, c] = row;
                self.wrong.push(format!("{body} a {a:#x} b {b:#x} c {c:#x}: {got:#x}, want {want}"));
                return;
            }
        }
    }

    /// The same where every result is bits.
    pub fn bits(
        &mut self,
        body: &str,
        d: T,
        sources: [T; 3],
        operands: &[[u64; 3]],
        wanted: impl Fn([u64; 3]) -> u64,
    ) {
        self.row(body, d, sources, operands, |row| Want::Bits(wanted(row)));
    }

    /// Fails with every form that differs; there must be at least `least` forms.
    #[track_caller]
    pub fn finish(self, least: usize) {
        let wrong = self.wrong.len();
        assert!(self.wrong.is_empty(), "{wrong} of {} forms:\n{}", self.forms, self.wrong.join("\n"));
        assert!(self.forms >= least, "{} forms", self.forms);
    }
}

/// Each value with each.
pub fn pairs(values: &[u64]) -> Vec<[u64; 3]> {
    values.iter().flat_map(|a| values.iter().map(move |b| [*a, *b, 0])).collect()
}

/// Each three values.
pub fn triples(values: &[u64]) -> Vec<[u64; 3]> {
    values.iter().flat_map(|a| pairs(values).into_iter().map(move |[b, c, _]| [*a, b, c])).collect()
}
