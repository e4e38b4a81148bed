//! What `--explain` says of a dot: the way it takes, its register tile, how the right side
//! lies in memory, and what stopped a faster way.

use super::{
    Lowering,
    dot::{Dot, Way},
    source::Kind,
};

impl Lowering<'_> {
    pub(super) fn dot_remark(&self, dot: &Dot<'_>, way: &Way<'_>) -> String {
        let (lanes, rows) = (self.target.lanes, self.target.rows);
        let tile =
            format!("register tile of {} rows by {} columns", rows.min(dot.shape[0] as usize), 2 * lanes);
        let side = match &dot.rhs.kind {
            Kind::Decode(blocks) => {
                format!("the right side in {} (16 rows interleaved), decoded", blocks.format.name)
            }
            Kind::View(_) => "the right side in memory".to_owned(),
            _ => "the right side as it is computed".to_owned(),
        };
        let how = match way {
            Way::BlockRows(_) => format!("dot_t: {side}, streamed across {lanes} rows in 4 chains of sums"),
            Way::Rows => format!("dot_t: {side}, streamed row by row in 4 chains of sums"),
            Way::Packed => format!("dot_t: {tile} over packed panels of {side}"),
            Way::Outer => format!("dot: {tile} on {side}, in place where it is contiguous"),
        };
        let mut why = Vec::new();
        if matches!(way, Way::Rows | Way::BlockRows(_)) {
            why.push(format!("rows on the left are too few for a register tile ({})", dot.shape[0]));
        }
        if let Kind::Decode(blocks) = &dot.rhs.kind {
            if !blocks.aligned && matches!(way, Way::Rows | Way::Packed) {
                why.push(
                    "it does not start at a multiple of 16 rows, so rows are decoded one by one".to_owned(),
                );
            }
            if !matches!(dot.lhs.kind, Kind::Decode(_)) {
                why.push("integer products need a left side in q8_1 or q16_1".to_owned());
            }
        }
        match why.is_empty() {
            true => how,
            false => format!("{how}: {}", why.join("; ")),
        }
    }
}
