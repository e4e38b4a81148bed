//! What is known of index values, whatever the launch: an interval for each.
//!
//! Index arithmetic does not wrap (SPEC.md, 6): a result beyond i64 is the nearest i64, which
//! is outside of every tensor. Where the intervals show that nothing can wrap, plain
//! arithmetic is right.

use std::collections::BTreeMap;

use melior::ir::{BlockLike, ValueLike, operation::OperationLike};
use phobos_artifact::limits::{MAX_EXTENT, MAX_PROGRAMS};
use phobos_dialect::{Op, Val, ir};

/// The least and the greatest value of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub low: i64,
    pub high: i64,
}

impl Range {
    const ALL: Range = Range { low: i64::MIN, high: i64::MAX };

    fn of_width(bits: u32, signed: bool) -> Range {
        match (bits, signed) {
            (1..=63, true) => Range { low: -(1 << (bits - 1)), high: (1 << (bits - 1)) - 1 },
            (1..=63, false) => Range { low: 0, high: i64::MAX >> (63 - bits) },
            _ => Range::ALL,
        }
    }

    fn below(high: u64) -> Range {
        Range { low: 0, high: i64::try_from(high).unwrap_or(i64::MAX) }
    }

    fn union(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// The exact interval of a sum, difference or product, which may lie beyond i64.
fn exact(name: &str, a: Range, b: Range) -> Option<(i128, i128)> {
    let wide = |range: Range| (i128::from(range.low), i128::from(range.high));
    let ((a_low, a_high), (b_low, b_high)) = (wide(a), wide(b));
    match name {
        "arith.addi" => Some((a_low + b_low, a_high + b_high)),
        "arith.subi" => Some((a_low - b_high, a_high - b_low)),
        "arith.muli" => {
            let corners = [a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high];
            Some((
                corners.into_iter().fold(i128::MAX, i128::min),
                corners.into_iter().fold(i128::MIN, i128::max),
            ))
        }
        _ => None,
    }
}

fn saturated(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

/// The intervals found so far. Each value is looked at once, on a stack of its own:
/// straight code is as deep as it is long.
#[derive(Default)]
pub(crate) struct Ranges {
    known: BTreeMap<usize, Range>,
}

impl Ranges {
    /// The interval of an integer or index value of a kernel.
    pub(crate) fn of(&mut self, value: Val<'_>) -> Range {
        let mut open = vec![value];
        while let Some(value) = open.last().copied() {
            let before = open.len();
            open.extend(dependencies(value).into_iter().filter(|other| self.lookup(*other).is_none()));
            if open.len() == before {
                if self.lookup(value).is_none() {
                    let range = self.evaluate(value);
                    self.known.insert(ir::value_key(value), range);
                }
                open.pop();
            }
        }
        self.lookup(value).unwrap_or(Range::ALL)
    }

    /// Whether an operation on indices cannot leave i64.
    pub(crate) fn cannot_wrap(&mut self, op: Op<'_>) -> bool {
        let [a, b] = ir::operands(op)[..] else { return true };
        let (a, b) = (self.of(a), self.of(b));
        exact(ir::name(op), a, b)
            .is_none_or(|(low, high)| low >= i128::from(i64::MIN) && high <= i128::from(i64::MAX))
    }

    /// Only what a pass does not replace is kept: a key of an erased value may be given to
    /// another.
    fn lookup(&self, value: Val<'_>) -> Option<Range> {
        match ir::definition(value) {
            Some(op) if !is_followed(op) => Some(self.leaf(value, Some(op))),
            _ => self.known.get(&ir::value_key(value)).copied(),
        }
    }

    fn leaf(&self, value: Val<'_>, op: Option<Op<'_>>) -> Range {
        let ty = value.r#type();
        let own = if ir::is_index(ty) {
            Range::ALL
        } else {
            ir::bit_width(ty).map_or(Range::ALL, |bits| Range::of_width(bits, true))
        };
        let Some(op) = op else { return own };
        match ir::name(op) {
            "arith.constant" => {
                ir::constant_integer(value).map_or(own, |number| Range { low: number, high: number })
            }
            "phobos.dim" => Range::below(MAX_EXTENT),
            "phobos.program_id" => Range::below(MAX_PROGRAMS),
            "arith.index_castui" | "arith.extui" => op
                .operand(0)
                .ok()
                .and_then(|from| ir::bit_width(from.r#type()))
                .map_or(own, |bits| Range::of_width(bits, false)),
            _ => own,
        }
    }

    fn evaluate(&self, value: Val<'_>) -> Range {
        let known: Vec<Range> =
            dependencies(value).into_iter().map(|other| self.lookup(other).unwrap_or(Range::ALL)).collect();
        let Some(op) = ir::definition(value) else {
            return match known[..] {
                // An induction variable: from the start to before the end.
                [start, end] => Range { low: start.low, high: end.high.saturating_sub(1).max(start.low) },
                _ => self.leaf(value, None),
            };
        };
        let Some(a) = known.first().copied() else { return self.leaf(value, Some(op)) };
        let b = known.get(1).copied().unwrap_or(a);
        match ir::name(op) {
            "arith.index_cast" | "arith.extsi" => a,
            name @ ("arith.addi" | "arith.subi" | "arith.muli") => match exact(name, a, b) {
                Some((low, high)) => Range { low: saturated(low), high: saturated(high) },
                None => Range::ALL,
            },
            // No quotient is farther from 0 than its dividend; the least value divided by -1 wraps.
            "arith.divsi" if a.low >= 0 && b.low >= 0 => Range { low: 0, high: a.high / b.low.max(1) },
            "arith.divsi" if a.low > i64::MIN => {
                let most = a.high.max(-a.low);
                Range { low: -most, high: most }
            }
            "arith.divui" if a.low >= 0 && b.low >= 0 => Range { low: 0, high: a.high },
            "arith.remui" if a.low >= 0 && b.low >= 0 => Range { low: 0, high: a.high.min(b.high) },
            "arith.minsi" => Range { low: a.low.min(b.low), high: a.high.min(b.high) },
            "arith.maxsi" => Range { low: a.low.max(b.low), high: a.high.max(b.high) },
            "arith.select" => a.union(b),
            _ => Range::ALL,
        }
    }
}

/// Whether an interval follows from those of the operands. A pass replaces none of these.
fn is_followed(op: Op<'_>) -> bool {
    match ir::name(op) {
        "arith.index_cast" | "arith.extsi" | "arith.divsi" | "arith.divui" | "arith.remui"
        | "arith.minsi" | "arith.maxsi" | "arith.select" => true,
        // Of other types they wrap.
        "arith.addi" | "arith.subi" | "arith.muli" => {
            op.result(0).is_ok_and(|result| ir::is_index(result.r#type()))
        }
        _ => false,
    }
}

/// The values whose intervals give that of `value`.
fn dependencies(value: Val<'_>) -> Vec<Val<'_>> {
    match ir::definition(value) {
        Some(op) if is_followed(op) => {
            let skipped = usize::from(ir::name(op) == "arith.select");
            ir::operands(op).split_off(skipped)
        }
        Some(_) => Vec::new(),
        None => ir::argument_of(value)
            .filter(|(_, position)| *position == 0)
            .and_then(|(block, _)| block.parent_operation())
            .filter(|parent| ir::name(*parent) == "scf.for")
            .map(|parent| ir::operands(parent)[..2].to_vec())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_types() {
        assert_eq!(Range::of_width(8, true), Range { low: -128, high: 127 });
        assert_eq!(Range::of_width(8, false), Range { low: 0, high: 255 });
        assert_eq!(Range::of_width(63, false), Range { low: 0, high: i64::MAX });
        assert_eq!(Range::of_width(64, false), Range::ALL);
        assert_eq!(Range::of_width(64, true), Range::ALL);
    }

    #[test]
    fn products_of_dims_may_leave_i64() {
        let dim = Range::below(MAX_EXTENT);
        let fits = |(low, high): (i128, i128)| i64::try_from(low).is_ok() && i64::try_from(high).is_ok();
        assert!(exact("arith.addi", dim, dim).is_some_and(fits));
        assert!(!exact("arith.muli", dim, dim).is_some_and(fits));
        assert!(exact("arith.muli", dim, Range { low: -(1 << 12), high: 1 << 12 }).is_some_and(fits));
        assert_eq!(
            exact("arith.muli", Range { low: -3, high: 2 }, Range { low: -5, high: 7 }),
            Some((-21, 15))
        );
        assert!(
            !exact("arith.subi", Range { low: i64::MIN, high: 0 }, Range { low: 1, high: 1 })
                .is_some_and(fits)
        );
    }
}
