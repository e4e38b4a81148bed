//! Hyper-parameters from GGUF metadata, checked.

use std::fmt::Display;

use phobos_gguf::{FromValue, GgufFile, Metadata, PerLayer};

use crate::{ModelError, rope::RopeConfig};

/// The architecture that a file names.
pub(crate) fn architecture(file: &GgufFile) -> Result<&str, ModelError> {
    Ok(file.metadata().require::<&str>("general.architecture")?)
}

/// The extents of a decoder. Every count is at least 1, `head` is even, and `heads` is a
/// multiple of `kv_heads`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dims {
    /// Layers.
    pub layers: u64,
    /// E: width of the residual stream.
    pub width: u64,
    /// H: query heads.
    pub heads: u64,
    /// G: key/value heads; query head h uses h / (H / G).
    pub kv_heads: u64,
    /// D: elements of a head.
    pub head: u64,
    /// F: width of the feed-forward layer.
    pub feed_forward: u64,
    /// V: tokens of the vocabulary, from the embedding's rows.
    pub vocabulary: u64,
    /// Positions that the model was trained on.
    pub context: u64,
}

impl Dims {
    /// H D: elements of all query heads.
    pub fn queries(&self) -> u64 {
        self.heads * self.head
    }

    /// G D: elements of all key heads, and of all value heads.
    pub fn keys(&self) -> u64 {
        self.kv_heads * self.head
    }
}

/// The keys of one architecture.
pub(crate) struct Keys<'a> {
    file: &'a GgufFile,
    metadata: Metadata<'a>,
    prefix: &'a str,
}

/// What a graph knows of the keys of its architecture.
pub(crate) struct KeyTable {
    /// Keys that it reads, beside [`READ`].
    pub read: &'static [&'static str],
    /// Keys whose meaning it lacks, and the one value that needs none.
    pub neutral: &'static [(&'static str, f64)],
}

/// Keys that every graph reads.
const READ: [&str; 15] = [
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.factor",
    "rope.scaling.type",
];

/// Keys that change nothing: what the tensors say as well, and what tells of how the model
/// came to be. The scaling of a type that is read needs no original length.
const HARMLESS: [&str; 4] =
    ["rope.scaling.finetuned", "rope.scaling.original_context_length", "tensor_data_layout", "vocab_size"];

impl KeyTable {
    fn knows(&self, name: &str) -> bool {
        let plain = READ.iter().chain(self.read).chain(&HARMLESS).any(|known| *known == name);
        plain || self.neutral.iter().any(|(known, _)| *known == name)
    }
}

/// The largest count accepted: products of four of them and an element size fit 128
/// bits, products of two fit 64 bits, and each fits the i32 of a kernel scalar.
const MAX_COUNT: u64 = 1 << 30;

impl<'a> Keys<'a> {
    pub fn new(file: &'a GgufFile) -> Result<Keys<'a>, ModelError> {
        Ok(Keys { file, metadata: file.metadata(), prefix: architecture(file)? })
    }

    /// Checks the keys of the architecture against what its graph knows of them: those whose
    /// meaning it lacks are absent or have the one value that needs none. Gives a warning for
    /// each key that it does not know.
    pub fn check(&self, table: &KeyTable) -> Result<Vec<String>, ModelError> {
        for (name, neutral) in table.neutral {
            let value = match self.optional::<bool>(name) {
                Ok(flag) => flag.map(|flag| f64::from(u8::from(flag))),
                Err(_) => self.optional::<f64>(name)?,
            };
            if value.is_some_and(|value| value != *neutral) {
                let problem = format!("this version's {} graph has no use for it", self.prefix);
                return Err(self.error(name, problem));
            }
        }
        let prefix = self.key("");
        let names = self.metadata.iter().filter_map(|(key, _)| key.strip_prefix(&prefix));
        let unknown = names.filter(|name| !table.knows(name));
        Ok(unknown
            .map(|name| {
                let name = self.key(name).escape_debug().to_string();
                format!("metadata key `{name}`: not known, and left aside")
            })
            .collect())
    }

    pub fn dims(&self) -> Result<Dims, ModelError> {
        let layers = self.count("block_count", None)?;
        let width = self.count("embedding_length", None)?;
        let heads = self.uniform("attention.head_count", layers, None)?;
        let kv_heads = self.uniform("attention.head_count_kv", layers, Some(heads))?;
        if !heads.is_multiple_of(kv_heads) {
            let problem = format!("{kv_heads} does not divide the {heads} query heads");
            return Err(self.error("attention.head_count_kv", problem));
        }
        let head = self.count("attention.key_length", Some(width / heads))?;
        let value_head = self.count("attention.value_length", Some(width / heads))?;
        if head != value_head {
            let problem = format!("{value_head} differs from the key length {head}, which is not supported");
            return Err(self.error("attention.value_length", problem));
        }
        if !head.is_multiple_of(2) {
            return Err(self.error("attention.key_length", format!("{head} is odd")));
        }
        let table = self.file.require_tensor("token_embd.weight")?;
        let vocabulary = match table.rows_shape().first() {
            Some(rows @ 1..=MAX_COUNT) => *rows,
            _ => {
                return Err(ModelError::Tensor {
                    file: self.file.name().to_owned(),
                    name: table.name.clone(),
                    problem: format!("wanted a row for each of 1 to {MAX_COUNT} tokens"),
                });
            }
        };
        Ok(Dims {
            layers,
            width,
            heads,
            kv_heads,
            head,
            feed_forward: self.uniform("feed_forward_length", layers, None)?,
            vocabulary,
            context: self.count("context_length", None)?,
        })
    }

    /// What is added to the mean square in RMSNorm.
    pub fn eps(&self) -> Result<f32, ModelError> {
        let eps = self.number("attention.layer_norm_rms_epsilon", None, |eps| (0.0..1.0).contains(&eps))?;
        Ok(eps as f32)
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    pub fn error(&self, name: &str, problem: impl Display) -> ModelError {
        let (file, key) = (self.file.name().to_owned(), self.key(name));
        ModelError::Key { file, key, problem: problem.to_string() }
    }

    pub fn optional<T: FromValue<'a>>(&self, name: &str) -> Result<Option<T>, ModelError> {
        Ok(self.metadata.optional(&self.key(name))?)
    }

    /// A count from 1 to [`MAX_COUNT`].
    pub fn count(&self, name: &str, default: Option<u64>) -> Result<u64, ModelError> {
        match self.optional(name)?.or(default) {
            Some(value) => self.in_range(name, value),
            None => self.in_range(name, self.metadata.require(&self.key(name))?),
        }
    }

    fn in_range(&self, name: &str, value: u64) -> Result<u64, ModelError> {
        match value {
            1..=MAX_COUNT => Ok(value),
            _ => Err(self.error(name, format!("{value} is not in 1 to {MAX_COUNT}"))),
        }
    }

    /// A count that may be given per layer, but is the same for each.
    fn uniform(&self, name: &str, layers: u64, default: Option<u64>) -> Result<u64, ModelError> {
        let layers = usize::try_from(layers).unwrap_or(usize::MAX);
        match self.metadata.per_layer::<u64>(&self.key(name), layers)? {
            Some(PerLayer::Each(values)) => {
                let first = values.first().copied().unwrap_or(0);
                match values.iter().find(|value| **value != first) {
                    None => self.in_range(name, first),
                    Some(other) => {
                        let problem = format!("layers differ ({first} and {other}), which is not supported");
                        Err(self.error(name, problem))
                    }
                }
            }
            _ => self.count(name, default),
        }
    }

    pub fn number(
        &self,
        name: &str,
        default: Option<f64>,
        accepted: impl Fn(f64) -> bool,
    ) -> Result<f64, ModelError> {
        let value = match self.optional::<f64>(name)?.or(default) {
            Some(value) => value,
            None => self.metadata.require(&self.key(name))?,
        };
        if accepted(value) { Ok(value) } else { Err(self.error(name, format!("{value} is out of range"))) }
    }

    /// How many positions a query sees, its own among them; `None` for all, which 0 stands for.
    pub fn window(&self) -> Result<Option<u64>, ModelError> {
        match self.optional::<u64>("attention.sliding_window")? {
            None | Some(0) => Ok(None),
            Some(_) => self.count("attention.sliding_window", None).map(Some),
        }
    }

    pub fn rope(&self, head: u64) -> Result<RopeConfig, ModelError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let rotated = self.count("rope.dimension_count", Some(head))?;
        if rotated > head || !rotated.is_multiple_of(2) {
            let problem = format!("{rotated} is not an even number up to the head size {head}");
            return Err(self.error("rope.dimension_count", problem));
        }
        let base = self.number("rope.freq_base", Some(10_000.0), positive)?;
        let factor = match self.optional::<&str>("rope.scaling.type")? {
            None => match self.optional::<f64>("rope.scale_linear")? {
                // The older name of linear scaling; 0 stands for none.
                Some(scale) if scale != 0.0 => self.number("rope.scale_linear", None, positive)?,
                _ => 1.0,
            },
            Some("none") => 1.0,
            Some("linear") => self.number("rope.scaling.factor", None, positive)?,
            Some(other) => {
                let problem = format!("`{}` is not supported: expected none or linear", other.escape_debug());
                return Err(self.error("rope.scaling.type", problem));
            }
        };
        Ok(RopeConfig { base, rotated, factor })
    }
}
