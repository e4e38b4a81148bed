//! The angles of rotary position embedding (Su et al. 2021, arXiv:2104.09864).

use crate::ModelError;

/// How positions become angles.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// The base of the geometric progression of frequencies.
    pub base: f64,
    /// How many elements of a head are rotated, from its first on; even.
    pub rotated: u64,
    /// Positions are divided by this ("linear" scaling).
    pub factor: f64,
}

/// Cosines and sines, a row per position and a column per pair of a head.
pub(crate) struct Tables {
    /// [positions, head / 2]
    pub cos: Vec<f32>,
    /// [positions, head / 2]
    pub sin: Vec<f32>,
}

impl Tables {
    /// Pair i of `rotated / 2` turns by `position / factor * base^(-2i / rotated)`, divided
    /// by `factors[i]` when given. The pairs after those do not turn: cosine 1, sine 0.
    pub fn new(
        rope: &RopeConfig,
        head: u64,
        positions: u64,
        factors: Option<&[f32]>,
    ) -> Result<Tables, ModelError> {
        let (pairs, turning) = (head / 2, rope.rotated / 2);
        let frequencies: Vec<f64> = (0..turning)
            .map(|i| {
                let divisor = factors.and_then(|f| f.get(i as usize)).map_or(1.0, |f| f64::from(*f));
                rope.base.powf(-2.0 * i as f64 / rope.rotated as f64) / rope.factor / divisor
            })
            .collect();
        let too_large = || ModelError::Setting(format!("--ctx {positions}: no memory for the rope tables"));
        let size = positions.checked_mul(pairs).and_then(|size| usize::try_from(size).ok());
        let size = size.ok_or_else(too_large)?;
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for table in [&mut cos, &mut sin] {
            table.try_reserve_exact(size).map_err(|_| too_large())?;
        }
        for position in 0..positions {
            for pair in 0..pairs as usize {
                let angle = frequencies.get(pair).map_or(0.0, |frequency| position as f64 * frequency);
                cos.push(angle.cos() as f32);
                sin.push(angle.sin() as f32);
            }
        }
        Ok(Tables { cos, sin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_follow_the_paper() {
        let rope = RopeConfig { base: 10_000.0, rotated: 4, factor: 1.0 };
        let tables = Tables::new(&rope, 4, 3, None).unwrap();
        // Frequencies 1 and 0.01; row of position 2.
        assert_eq!(tables.cos[4..6], [2f64.cos() as f32, 0.02f64.cos() as f32]);
        assert_eq!(tables.sin[4..6], [2f64.sin() as f32, 0.02f64.sin() as f32]);
        assert_eq!(tables.cos[..2], [1.0, 1.0]);
    }

    #[test]
    fn factors_divide_and_the_rest_of_a_head_stays() {
        let rope = RopeConfig { base: 100.0, rotated: 4, factor: 2.0 };
        let tables = Tables::new(&rope, 8, 2, Some(&[1.0, 4.0])).unwrap();
        let row = [0.5f64, 0.1 / 2.0 / 4.0, 0.0, 0.0];
        assert_eq!(tables.sin[4..], row.map(|angle| angle.sin() as f32));
        assert_eq!(tables.cos[4..], row.map(|angle| angle.cos() as f32));
    }
}
