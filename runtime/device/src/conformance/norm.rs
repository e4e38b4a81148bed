//! The models' root mean square norm, stored, stored as blocks, and added.

use phobos_artifact::{DType, Element, format::ACTIVATIONS};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    quantize::{named, written},
};

const SOURCE: &str = include_str!("../../../../models/kernels/rmsnorm.ph");

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(8);
    let f32s = Element::Scalar(DType::F32);
    for e in [1, 2, 17, 31, 32, 33, 64, 576] {
        for n in [1, 3, 17] {
            let x = Data::random(f32s, &[n, e], &mut random);
            let w = Data::random(f32s, &[e], &mut random);
            let wanted = reference(&x.values, &w.values, f64::from(1e-5f32));
            let y = Data::random(f32s, &[n, e], &mut random);
            let added = wanted.iter().zip(&y.values).map(|(norm, y)| norm + y).collect();
            cases.push(
                Case::new("rmsnorm_add", SOURCE, "rmsnorm_add")
                    .bind("E", e)
                    .input("X", &x)
                    .input("W", &w)
                    .update("Y", &y, added, Tolerance { absolute: 2e-6, relative: 4e-6 })
                    .scalar("eps", 1e-5f32),
            );
            let tolerance = Tolerance { absolute: 1e-6, relative: 4e-6 };
            let blocks = ACTIVATIONS.map(Element::Block).into_iter().filter(|_| e.is_multiple_of(32));
            for to in [f32s].into_iter().chain(blocks) {
                let case = Case::new(named("rmsnorm", to), SOURCE, "rmsnorm")
                    .element("B", to)
                    .bind("E", e)
                    .input("X", &x)
                    .input("W", &w);
                let case = written(case, ("Y", to), &[n, e], wanted.clone(), tolerance, &[]);
                cases.push(case.scalar("eps", 1e-5f32));
            }
        }
    }
    // A row of zeros: eps alone keeps it from dividing by 0.
    let x = Data::f32(&[1, 33], &[0.0; 33]);
    let w = Data::f32(&[33], &[1.0; 33]);
    cases.push(
        Case::new("rmsnorm", SOURCE, "rmsnorm")
            .element("B", f32s)
            .bind("E", 33)
            .input("X", &x)
            .input("W", &w)
            .output("Y", &[1, 33], vec![0.0; 33], Tolerance::EXACT)
            .scalar("eps", 1e-5f32),
    );
    cases
}

/// Each row over its root mean square, times `w`.
pub(super) fn reference(x: &[f64], w: &[f64], eps: f64) -> Vec<f64> {
    x.chunks(w.len())
        .flat_map(|row| {
            let square = row.iter().map(|x| x * x).sum::<f64>() / w.len() as f64;
            row.iter().zip(w).map(move |(x, w)| x / (square + eps).sqrt() * w)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_root_mean_square_one() {
        assert_eq!(reference(&[3.0, -3.0, 1.0, 1.0], &[1.0, 2.0], 0.0), [1.0, -2.0, 1.0, 2.0]);
    }
}
