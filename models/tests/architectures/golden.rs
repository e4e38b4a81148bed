//! Reference data: the tiny models with their logits, and the best logits of real ones.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// A file of `tests/goldens`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path(name)).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// A tiny model: prompt, greedy continuation, logits after each token of the
/// prompt and of the continuation but its last.
pub struct Tiny {
    pub model: PathBuf,
    pub prompt: Vec<u32>,
    pub greedy: Vec<u32>,
    pub logits: Vec<Vec<f32>>,
}

impl Tiny {
    /// That of `architecture`.
    pub fn load(architecture: &str) -> Tiny {
        let name = format!("{architecture}-f32");
        let refs = &json("refs.json")[&name];
        let vocabulary = refs["n_vocab"].as_u64().unwrap() as usize;
        let bytes = fs::read(path(&format!("{name}.logits.f32"))).unwrap();
        let values: Vec<f32> =
            bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
        let logits: Vec<Vec<f32>> = values.chunks(vocabulary).map(<[f32]>::to_vec).collect();
        let tiny = Tiny {
            model: path(&format!("{name}.gguf")),
            prompt: ids(&refs["ids"]),
            greedy: ids(&refs["greedy"]),
            logits,
        };
        assert_eq!(tiny.logits.len(), tiny.prompt.len() + tiny.greedy.len());
        tiny
    }

    /// The tokens whose logits are known, in order: each row of `logits` follows one.
    pub fn tokens(&self) -> Vec<u32> {
        self.prompt.iter().chain(&self.greedy).copied().collect()
    }
}

/// llama.cpp on a real model: the five best logits after each token.
pub struct RealCase {
    pub name: String,
    pub tokens: Vec<u32>,
    pub top5: Vec<Vec<(usize, f64)>>,
    /// Rows whose best token leads by more than 1.
    pub decided: usize,
}

impl RealCase {
    fn new(name: &str, case: &Value, decided: usize) -> RealCase {
        let step = |step: &Value| {
            let pairs = step["top5"].as_array().unwrap().iter();
            pairs.map(|p| (p[0].as_u64().unwrap() as usize, p[1].as_f64().unwrap())).collect()
        };
        RealCase {
            name: name.to_owned(),
            tokens: ids(&case["ids"]).into_iter().chain(ids(&case["greedy"])).collect(),
            top5: case["steps"].as_array().unwrap().iter().map(step).collect(),
            decided,
        }
    }

    /// Checks logits, a row per token, against llama.cpp's.
    ///
    /// llama.cpp quantises activations to 8 bits on these files, so its logits carry that
    /// noise: exact products differ from them by an NMSE of 1e-3 to 2e-3 over whole rows, 1e-4
    /// over the best logits. The reference data has the five best of each row, so the NMSE here
    /// is over those, all rows together; the best token must be the same wherever it leads by
    /// more than 1.
    pub fn assert_matches<T: Into<f64> + PartialOrd + Copy>(&self, rows: impl IntoIterator<Item = Vec<T>>) {
        let (mut found, mut expected, mut decided) = (Vec::new(), Vec::new(), 0);
        for (row, top5) in rows.into_iter().zip(&self.top5) {
            found.extend(top5.iter().map(|(id, _)| row[*id].into()));
            expected.extend(top5.iter().map(|(_, logit)| *logit));
            if top5[0].1 - top5[1].1 > 1.0 {
                assert_eq!(argmax(&row), top5[0].0, "{}: row {}", self.name, found.len() / 5 - 1);
                decided += 1;
            }
        }
        assert_eq!(found.len(), self.top5.len() * 5, "{}", self.name);
        assert_eq!(decided, self.decided, "{}: rows that have a clear best token", self.name);
        let nmse = nmse(found, expected);
        eprintln!("{}: NMSE {nmse:e} over the five best logits of {} rows", self.name, self.top5.len());
        assert!(nmse < 1e-3, "{}: NMSE {nmse:e}", self.name);
    }
}

/// SmolLM2 with an f32 key/value cache.
pub fn smollm2() -> Vec<RealCase> {
    let json = json("smollm2_refs.json");
    let cases = [("capital-f32kv", 13), ("chat-f32kv", 24)];
    cases.map(|(name, decided)| RealCase::new(name, &json[name], decided)).into()
}

/// Gemma 3 270M.
pub fn gemma3_270m() -> RealCase {
    RealCase::new("gemma3-270m", &json("gemma3_270m_refs.json"), 7)
}

/// The real SmolLM2, or a word on standard error.
pub fn smollm2_model() -> Option<PathBuf> {
    real("SmolLM2-135M-Instruct.Q4_1.gguf", "demo")
}

/// The real Gemma 3 270M, or a word on standard error.
pub fn gemma3_270m_model() -> Option<PathBuf> {
    real("gemma3-270m-q4_k_m.gguf", "fetch gemma3")
}

fn real(name: &str, task: &str) -> Option<PathBuf> {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if !model.is_file() {
        eprintln!("skipped: {} is not there; `cargo xtask {task}` fetches it", model.display());
        return None;
    }
    Some(model)
}

/// Mean square of the error over mean square of the reference.
pub fn nmse(found: impl IntoIterator<Item = f64>, reference: impl IntoIterator<Item = f64>) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    for (found, reference) in found.into_iter().zip(reference) {
        error += (found - reference).powi(2);
        norm += reference.powi(2);
    }
    error / norm
}

/// The index of the largest value.
pub fn argmax<T: PartialOrd + Copy>(values: &[T]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}
