//! The models' gates, and their cap on logits.

use phobos_artifact::{DType, Element};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    elementwise::{gelu, sigmoid},
};

const SWIGLU: &str = include_str!("../../../../models/kernels/swiglu.ph");
const GEGLU: &str = include_str!("../../../../models/kernels/geglu.ph");
const SOFTCAP: &str = include_str!("../../../../models/kernels/softcap.ph");

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(11);
    for f in [1, 17, 33, 255, 256, 257, 600] {
        for n in [1, 3, 17] {
            let gate: Vec<f64> = (0..n * f).map(|_| random.between(-8.0, 8.0)).collect();
            let gate = Data::f32(&[n, f], &gate);
            let up = Data::random(Element::Scalar(DType::F32), &[n, f], &mut random);
            let mut case = |source, kernel, function: fn(f64) -> f64, absolute| {
                let wanted = gate.values.iter().zip(&up.values).map(|(g, u)| function(*g) * u).collect();
                let case = Case::new(kernel, source, kernel).input("Gate", &gate).input("Up", &up);
                cases.push(case.output("Y", &[n, f], wanted, Tolerance { absolute, relative: 4e-6 }));
            };
            case(SWIGLU, "swiglu", |g| g * sigmoid(g), 5e-7);
            case(GEGLU, "geglu", gelu, 4e-6);
        }
    }
    for (n, v, cap) in [(1, 1, 1.0f32), (1, 1023, 30.0), (3, 1025, 0.5)] {
        let x: Vec<f64> = (0..n * v).map(|_| random.between(-60.0, 60.0)).collect();
        let x = Data::f32(&[n, v], &x);
        let limit = f64::from(cap);
        let capped = x.values.iter().map(|x| limit * (x / limit).tanh()).collect();
        cases.push(
            Case::new("softcap", SOFTCAP, "softcap")
                .update("X", &x, capped, Tolerance { absolute: 1e-6, relative: 2e-6 })
                .scalar("cap", cap),
        );
    }
    cases
}
