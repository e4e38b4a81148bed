//! The rule for the host.
//!
//! What a request says of the rows of a product decides its tiles: one row streams the
//! weights once, so that a program takes the whole depth and few columns, and all threads
//! have work; many rows use each weight often, so that a panel of columns and a part of the
//! depth stay in a core's L2 cache. Without such a range the rule aims at a volume.

use std::collections::BTreeMap;

use phobos_artifact::{DimRange, GridExpr};
use phobos_lang::typed::Kernel;

use super::Rule;

/// The product of parameters that is aimed at without a range: a 64³ tile, whose operands
/// fit a core's L2 cache.
const TARGET_VOLUME: u128 = 64 * 64 * 64;

/// Columns of a program, and elements of the depth that it takes at a time.
struct Panel {
    columns: u64,
    depth: u64,
}

/// For one row.
const STREAM: Panel = Panel { columns: 32, depth: 4096 };
/// For more: 64 columns by 512 elements are 128 KiB of f32.
const REUSE: Panel = Panel { columns: 64, depth: 512 };

/// Ranks candidates of one kernel.
pub struct HostRule {
    /// What is wanted of each parameter; empty when the request has no range that decides.
    wanted: BTreeMap<String, u64>,
}

impl HostRule {
    /// For `kernel` with dims in `ranges`.
    pub fn new(kernel: &Kernel, ranges: &BTreeMap<String, DimRange>) -> HostRule {
        let mut tiled = BTreeMap::new();
        kernel.grid.iter().for_each(|axis| tiles(axis, &mut tiled));
        let ranged = |param: &str| tiled.get(param).and_then(|dim: &String| ranges.get(dim));
        let rows: Vec<DimRange> =
            kernel.params.iter().filter_map(|param| ranged(&param.name).copied()).collect();
        if rows.is_empty() {
            return HostRule { wanted: BTreeMap::new() };
        }
        let panel = if rows.iter().all(|range| range.most() == Some(1)) { STREAM } else { REUSE };
        let wanted = |name: &str| match (ranged(name), tiled.contains_key(name)) {
            (Some(range), _) => range.most().unwrap_or(u64::MAX),
            (None, true) => panel.columns,
            // A parameter that no axis of the grid has walks the depth.
            (None, false) => panel.depth,
        };
        let wanted = kernel.params.iter().map(|param| (param.name.clone(), wanted(&param.name))).collect();
        HostRule { wanted }
    }
}

/// The dim that each parameter tiles: `ceil(M / TILE_M)` in an axis of the grid.
fn tiles(axis: &GridExpr, found: &mut BTreeMap<String, String>) {
    match axis {
        GridExpr::Const(_) | GridExpr::Name(_) => {}
        GridExpr::CeilDiv(a, b) => match (&**a, &**b) {
            (GridExpr::Name(dim), GridExpr::Name(param)) => {
                found.insert(param.clone(), dim.clone());
            }
            (a, b) => [a, b].into_iter().for_each(|part| tiles(part, found)),
        },
        GridExpr::Mul(a, b) | GridExpr::Add(a, b) => [a, b].into_iter().for_each(|part| tiles(part, found)),
    }
}

impl Rule for HostRule {
    /// With a range: for each parameter whether it is above what is wanted, then how far it
    /// is from it. Without: whether the volume is above the target, how far it is from it, and
    /// how far parameters are from each other.
    fn rank(&self, candidate: &BTreeMap<String, u64>) -> Vec<u128> {
        if !self.wanted.is_empty() {
            let each = candidate.iter().filter_map(|(name, value)| Some((*self.wanted.get(name)?, *value)));
            let above = each.clone().filter(|(wanted, value)| value > wanted).count() as u128;
            let distances = each.map(|(wanted, value)| u128::from(wanted.abs_diff(value)));
            return std::iter::once(above).chain(distances).collect();
        }
        let volume =
            candidate.values().fold(1u128, |volume, value| volume.saturating_mul(u128::from(*value)));
        let imbalance = match (candidate.values().max(), candidate.values().min()) {
            (Some(most), Some(least)) => most - least,
            _ => 0,
        };
        vec![u128::from(volume > TARGET_VOLUME), volume.abs_diff(TARGET_VOLUME), u128::from(imbalance)]
    }
}
