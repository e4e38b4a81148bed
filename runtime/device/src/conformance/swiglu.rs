//! The models' gate.

use phobos_artifact::{DType, Element};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    elementwise::sigmoid,
};

const SOURCE: &str = include_str!("../../../../models/kernels/swiglu.ph");

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(11);
    for f in [1, 17, 33, 255, 256, 257, 600] {
        for n in [1, 3, 17] {
            let gate: Vec<f64> = (0..n * f).map(|_| random.between(-8.0, 8.0)).collect();
            let gate = Data::f32(&[n, f], &gate);
            let up = Data::random(Element::Scalar(DType::F32), &[n, f], &mut random);
            let wanted = gate.values.iter().zip(&up.values).map(|(g, u)| g * sigmoid(*g) * u).collect();
            cases.push(Case::new("swiglu", SOURCE, "swiglu").input("Gate", &gate).input("Up", &up).output(
                "Y",
                &[n, f],
                wanted,
                Tolerance { absolute: 5e-7, relative: 4e-6 },
            ));
        }
    }
    cases
}
