//! `setp` and `set` of a warp.

use super::{
    Executor,
    alu::{self, Lanes},
    lanes_of,
};
use crate::{
    decode::inst::{Combine, NONE, SetPredicate},
    machine::Cta,
};

impl Executor<'_> {
    pub(super) fn set_predicate(
        &mut self,
        cta: &mut Cta,
        w: usize,
        active: u32,
        set: &SetPredicate,
        width: u8,
    ) {
        let warp = &mut cta.warps[w];
        let (a, b) = (&warp.regs[set.a as usize], &warp.regs[set.b as usize]);
        let (mut low, mut high): (Lanes, Lanes) = ([0; 32], [0; 32]);
        (set.low)(a, b, &mut low);
        match set.high {
            Some(compare) => compare(a, b, &mut high),
            None => high = low.map(|value| value ^ 1),
        }
        let mut combined = NONE;
        if let Some((how, slot, negate)) = set.combine {
            combined = slot;
            let other = &warp.regs[slot as usize];
            for values in [&mut low, &mut high] {
                for (value, other) in values.iter_mut().zip(other) {
                    let other = u64::from((*other != 0) != negate);
                    *value = match how {
                        Combine::And => *value & other,
                        Combine::Or => *value | other,
                        Combine::Xor => *value ^ other,
                    };
                }
            }
        }
        let sources = [set.a, set.b, combined, NONE];
        if let Some(value) = set.value {
            let packed = set.high.is_some();
            let result: Lanes = std::array::from_fn(|lane| {
                let half = if packed { (high[lane] * value) << 16 } else { 0 };
                (low[lane] * value) | half
            });
            self.finish(warp, set.p, sources, &result, active, width, alu::Shadow::Spread);
            return;
        }
        // p may be a source of q's shadow: remember it before writing.
        let undefined = sources.iter().fold(0, |any, slot| any | warp.undefined_lanes(*slot)) & active;
        // A defined predicate may decide the combination by itself.
        let forced = match set.combine {
            Some((how @ (Combine::And | Combine::Or), slot, negate)) => {
                warp.predicate(slot, negate != (how == Combine::And), active) & !warp.undefined_lanes(slot)
            }
            _ => 0,
        };
        for (slot, values) in [(set.p, &low), (set.q, &high)] {
            if slot == NONE {
                continue;
            }
            warp.write(slot, values, active);
            warp.undefined[slot as usize] &= !active;
            for lane in lanes_of(undefined & !forced) {
                warp.mark(slot, lane, 1);
            }
        }
    }
}
