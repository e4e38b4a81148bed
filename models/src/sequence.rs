//! What decoders share: the state of a text, and the way through it in batches.

use std::sync::Arc;

use phobos_artifact::{DType, Element};
use phobos_device::{Buffer, Device, DeviceExt, Recording, Tensor};

use crate::{
    Logits, Model, ModelError, Sequence,
    attention::{Parts, Positions, Reach},
    config::Dims,
    ops::{F32, Heads, Input},
};

const I32: Element = Element::Scalar(DType::I32);

/// Where and how large a loaded model runs.
pub(crate) struct Placement {
    pub device: Arc<dyn Device>,
    pub dims: Dims,
    /// Positions of the context, at most i32::MAX.
    pub context: u64,
    /// The most tokens that run through the layers at once.
    pub chunk: u64,
    /// Element of the key/value caches.
    pub cache: DType,
}

/// A graph: what an architecture computes. It moves no bytes itself, so that its launches can
/// be recorded.
pub(crate) trait Graph: Send + Sync + 'static {
    fn placement(&self) -> &Placement;

    /// Reads the tokens `batch.ids` at `batch.positions`; leaves the residual stream in
    /// `batch.x`.
    fn layers(&self, device: &dyn Device, batch: &Batch, caches: &[Cache]) -> Result<(), ModelError>;

    /// The logits [1, V] of the residual stream `x` [1, E]; `h` [1, E] is free for use.
    fn output(&self, device: &dyn Device, x: &Tensor, h: &Input, logits: &Tensor) -> Result<(), ModelError>;
}

impl<G: Graph> Model for G {
    fn sequence(self: Arc<Self>) -> Result<Box<dyn Sequence>, ModelError> {
        let place = self.placement();
        let caches = Cache::all(place)?;
        let work = Work::new(place)?;
        Ok(Box::new(GraphSequence { position: 0, caches, work, steps: Vec::new(), graph: self }))
    }
}

/// Keys and values of one layer.
pub(crate) struct Cache {
    /// [G, S, D]: what a head reads lies together.
    pub keys: Tensor,
    /// [G, S, D]
    pub values: Tensor,
}

impl Cache {
    /// Those of all layers, in one piece of memory: large enough for huge pages.
    fn all(place: &Placement) -> Result<Vec<Cache>, ModelError> {
        let element = Element::Scalar(place.cache);
        let (s, c) = (place.context, &place.dims);
        let shape = [c.kv_heads, s, c.head];
        let too_large =
            || ModelError::Setting(format!("--ctx {s}: the key/value cache does not fit in 64 bits"));
        // Whole cache lines, so that no two tensors share one.
        let each = element.tensor_bytes(&shape).and_then(|bytes| bytes.checked_next_multiple_of(64));
        let all = each.and_then(|each| each.checked_mul(2 * c.layers));
        let (Some(each), Some(all)) = (each, all) else { return Err(too_large()) };
        let buffer = place.device.allocate(all)?;
        (0..c.layers)
            .map(|layer| {
                let tensor = |index: u64| Tensor::new(&buffer, (2 * layer + index) * each, element, shape);
                Ok(Cache { keys: tensor(0)?, values: tensor(1)? })
            })
            .collect()
    }
}

/// Activations, allocated for the largest batch.
struct Work {
    /// What is new in a step: ids [N], then positions [N].
    inputs: Buffer,
    x: Buffer,
    h: Buffer,
    q: Buffer,
    k: Buffer,
    v: Buffer,
    parts: Arc<Parts>,
    o: Buffer,
    act: Buffer,
    logits: Buffer, // [V]
}

/// Activations of a batch of N tokens.
pub(crate) struct Batch {
    /// [N] i32
    pub ids: Tensor,
    /// Where they stand.
    pub positions: Positions,
    /// [N, E]: the residual stream.
    pub x: Tensor,
    /// [N, E]: its norm.
    pub h: Input,
    /// [N, H D]
    pub q: Tensor,
    /// [N, G D]
    pub k: Tensor,
    /// [N, G D]
    pub v: Tensor,
    /// The same with an axis for heads.
    pub heads: Heads,
    /// For attention of one row over a long text.
    pub parts: Arc<Parts>,
    /// [N, H D]
    pub o: Input,
    /// [N, F]
    pub act: Input,
}

impl Work {
    fn new(place: &Placement) -> Result<Work, ModelError> {
        let (n, c) = (place.chunk, &place.dims);
        let rows = |n: u64, width: u64| -> Result<Buffer, ModelError> {
            let bytes = F32.tensor_bytes(&[n, width]).ok_or_else(|| {
                ModelError::Setting(format!("batches of {n} rows of {width} do not fit in 64 bits"))
            })?;
            Ok(place.device.allocate(bytes)?)
        };
        Ok(Work {
            inputs: rows(n, 2)?,
            x: rows(n, c.width)?,
            h: rows(n, c.width)?,
            q: rows(n, c.queries())?,
            k: rows(n, c.keys())?,
            v: rows(n, c.keys())?,
            parts: Arc::new(Parts::new(&*place.device, c)?),
            o: rows(n, c.queries())?,
            act: rows(n, c.feed_forward)?,
            logits: rows(1, c.vocabulary)?,
        })
    }

    fn batch(&self, c: &Dims, n: u64, reach: Reach) -> Result<Batch, ModelError> {
        let rows = |buffer: &Buffer, width: u64| Tensor::of(buffer, F32, [n, width]);
        let heads = |buffer: &Buffer, heads: u64| Tensor::of(buffer, F32, [n, heads, c.head]);
        Ok(Batch {
            ids: Tensor::of(&self.inputs, I32, [n])?,
            positions: Positions {
                tensor: Tensor::new(&self.inputs, n * I32.block_bytes() as u64, I32, [n])?,
                reach,
            },
            x: rows(&self.x, c.width)?,
            h: Input::new(&self.h, n, c.width)?,
            q: rows(&self.q, c.queries())?,
            k: rows(&self.k, c.keys())?,
            v: rows(&self.v, c.keys())?,
            heads: Heads {
                query: heads(&self.q, c.heads)?,
                key: heads(&self.k, c.kv_heads)?,
                value: heads(&self.v, c.kv_heads)?,
            },
            parts: Arc::clone(&self.parts),
            o: Input::new(&self.o, n, c.queries())?,
            act: Input::new(&self.act, n, c.feed_forward)?,
        })
    }
}

/// A text being read and written.
struct GraphSequence<G> {
    graph: Arc<G>,
    position: u64,
    caches: Vec<Cache>,
    work: Work,
    /// Steps of one token that were recorded, each with the logits behind it.
    steps: Vec<(Reach, Step)>,
}

/// The launches of one token.
struct Step {
    layers: Recording,
    logits: Recording,
}

impl<G: Graph> GraphSequence<G> {
    /// Runs `ids`, at most a chunk, through the layers.
    fn layers(&mut self, ids: &[i32]) -> Result<(), ModelError> {
        let n = ids.len() as u64;
        // The context has at most i32::MAX positions.
        let positions = (self.position..self.position + n).map(|position| position as i32);
        let inputs: Vec<i32> = ids.iter().copied().chain(positions).collect();
        self.graph.placement().device.write_slice(&self.work.inputs, 0, &inputs)?;
        let reach = Reach::of(self.position + n - 1);
        if n == 1 && self.recorded(reach).is_none() {
            let step = self.record(reach)?;
            self.steps.push((reach, step));
        }
        if let (1, Some(step)) = (n, self.recorded(reach)) {
            return Ok(self.graph.placement().device.replay(&step.layers)?);
        }
        let place = self.graph.placement();
        let batch = self.work.batch(&place.dims, n, reach)?;
        self.graph.layers(&*place.device, &batch, &self.caches)
    }

    fn recorded(&self, reach: Reach) -> Option<&Step> {
        self.steps.iter().find(|(other, _)| *other == reach).map(|(_, step)| step)
    }

    /// The step of one token.
    fn record(&self, reach: Reach) -> Result<Step, ModelError> {
        let place = self.graph.placement();
        let batch = self.work.batch(&place.dims, 1, reach)?;
        let layers = |device: &dyn Device| self.graph.layers(device, &batch, &self.caches);
        Ok(Step {
            layers: Recording::of(&*place.device, layers)?,
            logits: Recording::of(&*place.device, |device| self.output(device, 0))?,
        })
    }

    /// The logits of row `row` of the last batch.
    fn output(&self, device: &dyn Device, row: u64) -> Result<(), ModelError> {
        let (dims, w) = (&self.graph.placement().dims, &self.work);
        let row_bytes = dims.width * F32.block_bytes() as u64;
        let x = Tensor::new(&w.x, row * row_bytes, F32, [1, dims.width])?;
        let h = Input::new(&w.h, 1, dims.width)?;
        let logits = Tensor::of(&w.logits, F32, [1, dims.vocabulary])?;
        self.graph.output(device, &x, &h, &logits)
    }

    /// Appends the logits of row `row` of the last batch to `out`.
    fn logits(&self, row: u64, out: &mut Vec<f32>) -> Result<(), ModelError> {
        let place = self.graph.placement();
        let (device, vocabulary) = (&*place.device, place.dims.vocabulary);
        // The launches for row 0 do not depend on the reach.
        match self.steps.first() {
            Some((_, step)) if row == 0 => device.replay(&step.logits)?,
            _ => self.output(device, row)?,
        }
        let start = out.len();
        out.resize(start + vocabulary as usize, 0.0);
        if let Some(rows) = out.get_mut(start..) {
            device.read_slice(&self.work.logits, 0, rows)?;
        }
        Ok(())
    }
}

impl<G: Graph> Sequence for GraphSequence<G> {
    fn position(&self) -> u64 {
        self.position
    }

    fn context(&self) -> u64 {
        self.graph.placement().context
    }

    fn chunk(&self) -> u64 {
        self.graph.placement().chunk
    }

    fn truncate(&mut self, position: u64) {
        // Rows above are overwritten before a query can see them.
        self.position = self.position.min(position);
    }

    fn forward(&mut self, ids: &[u32], logits: Logits) -> Result<Vec<f32>, ModelError> {
        let (limit, chunk) = (self.context(), self.chunk());
        let vocabulary = self.graph.placement().dims.vocabulary;
        let new = ids.len() as u64;
        if new > limit - self.position {
            return Err(ModelError::ContextFull { used: self.position, new, limit });
        }
        let signed = |id: &u32| match i32::try_from(*id) {
            Ok(signed) if u64::from(*id) < vocabulary => Ok(signed),
            _ => Err(ModelError::TokenId { id: *id, vocabulary }),
        };
        let ids = ids.iter().map(signed).collect::<Result<Vec<i32>, ModelError>>()?;

        let mut out = Vec::new();
        for batch in ids.chunks(chunk as usize) {
            self.layers(batch)?;
            if logits == Logits::All {
                for row in 0..batch.len() as u64 {
                    self.logits(row, &mut out)?;
                }
            }
            self.position += batch.len() as u64;
        }
        if let (Logits::Last, Some(last)) = (logits, ids.len().checked_sub(1)) {
            self.logits(last as u64 % chunk, &mut out)?;
        }
        Ok(out)
    }
}
