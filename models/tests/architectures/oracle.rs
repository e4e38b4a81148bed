//! A device without a compiler: each of our kernels in plain Rust and f64, behind the
//! same metadata and launch checks as the compiled ones. What a graph launches, with
//! which shapes and in which order, is tested on it alone.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use half::f16;
use phobos_artifact::{
    Access, ArgKind, Argument, Artifact, Chip, CompileRequest, DType, Element, Extent, GridExpr, IndexBits,
    Metadata,
};
use phobos_device::{
    Buffer, CheckedLaunch, Device, DeviceError, DeviceToken, Kernel, MemoryInfo, Permission, SharedBytes,
    Tensor,
};
use phobos_gguf::dequantize;
use phobos_worker::{CompileError, KernelSource};

/// Signatures as in the .ph files: tensors with element (a generic's name or a type),
/// axes and access; then scalars.
type Signature =
    (&'static [(&'static str, &'static str, &'static str, Access)], &'static [(&'static str, DType)]);

fn signature(kernel: &str) -> Signature {
    use Access::{Read, ReadWrite, Write};
    match kernel {
        "embed" => (
            &[("Ids", "i32", "N", Read), ("W", "F", "V E", Read), ("X", "f32", "N E", Write)],
            &[("scale", DType::F32)],
        ),
        "rmsnorm_add" => (
            &[("X", "f32", "N E", Read), ("W", "f32", "E", Read), ("Y", "f32", "N E", ReadWrite)],
            &[("eps", DType::F32)],
        ),
        "rmsnorm" => (
            &[("X", "f32", "N E", Read), ("W", "f32", "E", Read), ("Y", "B", "N E", Write)],
            &[("eps", DType::F32)],
        ),
        "linear" => (&[("X", "A", "M K", Read), ("W", "F", "N K", Read), ("Y", "f32", "M N", Write)], &[]),
        "linear_add" => {
            (&[("X", "A", "M K", Read), ("W", "F", "N K", Read), ("Y", "f32", "M N", ReadWrite)], &[])
        }
        "qkv" => (
            &[
                ("X", "A", "M K", Read),
                ("Wq", "F", "N K", Read),
                ("Wk", "G", "P K", Read),
                ("Wv", "H", "P K", Read),
                ("Q", "f32", "M N", Write),
                ("Key", "f32", "M P", Write),
                ("Value", "f32", "M P", Write),
            ],
            &[],
        ),
        "rope" => (
            &[
                ("Q", "f32", "N H R 2", ReadWrite),
                ("Key", "f32", "N G R 2", Read),
                ("Value", "f32", "N G D", Read),
                ("Cos", "f32", "P R", Read),
                ("Sin", "f32", "P R", Read),
                ("Pos", "i32", "N", Read),
                ("Keys", "T", "G S R 2", Write),
                ("Values", "T", "G S D", Write),
            ],
            &[],
        ),
        "norm_rope" => (
            &[
                ("Q", "f32", "N H 2 R", ReadWrite),
                ("Key", "f32", "N G 2 R", Read),
                ("Value", "f32", "N G D", Read),
                ("Wq", "f32", "2 R", Read),
                ("Wk", "f32", "2 R", Read),
                ("Cos", "f32", "P R", Read),
                ("Sin", "f32", "P R", Read),
                ("Pos", "i32", "N", Read),
                ("Keys", "T", "G S 2 R", Write),
                ("Values", "T", "G S D", Write),
            ],
            &[("eps", DType::F32)],
        ),
        "attention" => (
            &[
                ("Q", "f32", "N H D", Read),
                ("K", "T", "G S D", Read),
                ("V", "T", "G S D", Read),
                ("Pos", "i32", "N", Read),
                ("O", "B", "N E", Write),
            ],
            &[("window", DType::I32), ("scale", DType::F32)],
        ),
        "attention_one" => (
            &[
                ("Q", "f32", "1 G R D", Read),
                ("K", "T", "G S D", Read),
                ("V", "T", "G S D", Read),
                ("Pos", "i32", "1", Read),
                ("O", "B", "1 G R D", Write),
            ],
            &[("window", DType::I32), ("scale", DType::F32)],
        ),
        "attention_part" => (
            &[
                ("Q", "f32", "1 G R D", Read),
                ("K", "T", "G S D", Read),
                ("V", "T", "G S D", Read),
                ("Pos", "i32", "1", Read),
                ("O", "f32", "C G R D", Write),
                ("M", "f32", "C G R 1", Write),
                ("L", "f32", "C G R 1", Write),
            ],
            &[("window", DType::I32), ("scale", DType::F32)],
        ),
        "attention_join" => (
            &[
                ("O", "f32", "C G R D", Read),
                ("M", "f32", "C G R 1", Read),
                ("L", "f32", "C G R 1", Read),
                ("Y", "B", "1 G R D", Write),
            ],
            &[],
        ),
        "softcap" => (&[("X", "f32", "N V", ReadWrite)], &[("cap", DType::F32)]),
        "swiglu" | "geglu" => (
            &[
                ("X", "A", "M K", Read),
                ("Gate", "F", "N K", Read),
                ("Up", "G", "N K", Read),
                ("Y", "B", "M N", Write),
            ],
            &[],
        ),
        other => panic!("no signature of {other}"),
    }
}

/// Answers requests with metadata and no code.
#[derive(Default)]
pub struct OracleSource {
    /// Requests answered.
    pub requests: AtomicUsize,
}

impl KernelSource for OracleSource {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let (tensors, scalars) = signature(&request.kernel);
        let mut arguments = Vec::new();
        let mut dims = BTreeSet::new();
        for (name, element, axes, access) in tensors {
            let element = match request.elements.get(*element) {
                Some(bound) => *bound,
                None => element.parse().unwrap(),
            };
            let shape = axes.split(' ').map(|axis| match axis.parse() {
                Ok(constant) => Extent::Const(constant),
                Err(_) => Extent::Name(axis.to_owned()),
            });
            let shape: Vec<Extent> = shape.collect();
            dims.extend(shape.iter().filter_map(|extent| match extent {
                Extent::Name(name) if !request.dims.contains_key(name) => Some(name.clone()),
                _ => None,
            }));
            let kind = ArgKind::Tensor { element, shape, access: *access };
            arguments.push(Argument { name: (*name).to_owned(), kind });
        }
        for (name, dtype) in scalars {
            arguments.push(Argument { name: (*name).to_owned(), kind: ArgKind::Scalar { dtype: *dtype } });
        }
        arguments.extend(dims.into_iter().map(|name| Argument { name, kind: ArgKind::Dim }));
        let metadata = Metadata {
            kernel: request.kernel.clone(),
            chip: request.chip,
            fingerprint: String::new(),
            arguments,
            grid: [(); 3].map(|()| GridExpr::Const(1)),
            threads: 1,
            shared_bytes: 0,
            scratch_bytes: 0,
            index_bits: IndexBits::B64,
            params: request.params.clone(),
            bound_dims: request.dims.clone(),
            contracts: Vec::new(),
            remarks: Vec::new(),
        };
        Ok(Artifact { metadata, images: Vec::new() })
    }
}

/// Memory of a buffer.
type Bytes = Mutex<Vec<u8>>;

pub struct OracleDevice {
    token: DeviceToken,
    chips: Vec<Chip>,
    next_address: AtomicU64,
    launches: Mutex<BTreeMap<String, usize>>,
    /// How many of the next artifacts it refuses to load.
    pub refusals: AtomicUsize,
}

impl Default for OracleDevice {
    fn default() -> OracleDevice {
        OracleDevice {
            token: DeviceToken::new(),
            chips: vec![Chip::Sm(86)],
            next_address: AtomicU64::new(1 << 20),
            launches: Mutex::default(),
            refusals: AtomicUsize::new(0),
        }
    }
}

impl OracleDevice {
    /// Launches by kernel so far.
    pub fn launches(&self, kernel: &str) -> usize {
        self.launches.lock().unwrap().get(kernel).copied().unwrap_or(0)
    }

    fn buffer(&self, bytes: Vec<u8>, permission: Permission) -> Buffer {
        let len = bytes.len() as u64;
        let address = self.next_address.fetch_add(len.next_multiple_of(64) + 64, Ordering::Relaxed);
        Buffer::new(&self.token, address, len, permission, Box::new(Bytes::new(bytes)))
    }
}

fn bytes(buffer: &Buffer) -> &Bytes {
    buffer.backing().unwrap()
}

fn range(offset: u64, len: usize) -> Range<usize> {
    offset as usize..offset as usize + len
}

impl Device for OracleDevice {
    fn name(&self) -> &str {
        "oracle"
    }

    fn chips(&self) -> &[Chip] {
        &self.chips
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer, DeviceError> {
        Ok(self.buffer(vec![0; bytes as usize], Permission::ReadWrite))
    }

    fn import(&self, bytes: SharedBytes, range: Range<usize>) -> Result<Buffer, DeviceError> {
        Ok(self.buffer((*bytes).as_ref()[range].to_vec(), Permission::ReadOnly))
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        bytes(buffer).lock().unwrap()[range(offset, data.len())].copy_from_slice(data);
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        data.copy_from_slice(&bytes(buffer).lock().unwrap()[range(offset, data.len())]);
        Ok(())
    }

    fn copy(&self, from: &Buffer, at: u64, to: &Buffer, to_at: u64, len: u64) -> Result<(), DeviceError> {
        let data = bytes(from).lock().unwrap()[range(at, len as usize)].to_vec();
        self.write(to, to_at, &data)
    }

    fn load(&self, artifact: &Artifact) -> Result<Kernel, DeviceError> {
        let less = |left: usize| left.checked_sub(1);
        if self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            let kernel = artifact.metadata.kernel.clone();
            return Err(DeviceError::BadArtifact { kernel, reason: "refused".to_owned() });
        }
        Kernel::new(&self.token, &artifact.metadata, || Ok(Box::new(()) as Box<dyn Any + Send + Sync>))
    }

    fn launch(&self, launch: &CheckedLaunch<'_>) -> Result<(), DeviceError> {
        let name = &launch.kernel().metadata().kernel;
        *self.launches.lock().unwrap().entry(name.clone()).or_default() += 1;
        let tensors: Vec<&Tensor> = launch.tensors().collect();
        // The slots after the tensors: scalars in the order of the signature.
        run(name, &tensors, &launch.slots()[tensors.len()..]);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn memory(&self) -> MemoryInfo {
        MemoryInfo::default()
    }
}

/// The values of a tensor in f64.
fn load(tensor: &Tensor) -> Vec<f64> {
    let all = bytes(&tensor.buffer).lock().unwrap();
    let bytes = &all[range(tensor.offset, tensor.bytes().unwrap() as usize)];
    if tensor.element == Element::Scalar(DType::I32) {
        return bytes.as_chunks::<4>().0.iter().map(|value| f64::from(i32::from_le_bytes(*value))).collect();
    }
    dequantize(tensor.element, bytes).unwrap().into_iter().map(f64::from).collect()
}

/// Rounds `values` to the element of `tensor`, from its element `first` on.
fn store(tensor: &Tensor, first: usize, values: &[f64]) {
    let data: Vec<u8> = match tensor.element {
        Element::Scalar(DType::F32) => {
            values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect()
        }
        Element::Scalar(DType::F16) => {
            values.iter().flat_map(|value| f16::from_f64(*value).to_le_bytes()).collect()
        }
        Element::Block(format) => {
            let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
            format.quantize(&values).unwrap()
        }
        other => panic!("a kernel writes {other}"),
    };
    let first = first / tensor.element.block_elements();
    let start = tensor.offset + (first * tensor.element.block_bytes()) as u64;
    bytes(&tensor.buffer).lock().unwrap()[range(start, data.len())].copy_from_slice(&data);
}

/// Rows [N, heads, D] at `positions` [N] of a cache [heads, S, D].
fn store_heads(cache: &Tensor, positions: &[f64], heads: usize, rows: &[f64]) {
    let length = cache.shape[1] as usize;
    let d = cache.shape[2..].iter().product::<u64>() as usize;
    for (at, row) in rows.chunks(d).enumerate() {
        store(cache, ((at % heads) * length + positions[at / heads] as usize) * d, row);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(x: &[f64], w: &[f64], eps: f64) -> Vec<f64> {
    let scale = (dot(x, x) / x.len() as f64 + eps).sqrt().recip();
    x.iter().zip(w).map(|(x, w)| x * scale * w).collect()
}

fn float(bits: u64) -> f64 {
    f64::from(f32::from_bits(bits as u32))
}

/// One launch: `t` are the tensors, `s` the slots of the scalars.
fn run(kernel: &str, t: &[&Tensor], s: &[u64]) {
    let axis = |tensor: usize, axis: usize| t[tensor].shape[axis] as usize;
    let v: Vec<Vec<f64>> = t.iter().map(|tensor| load(tensor)).collect();
    match kernel {
        "embed" => {
            let (e, scale) = (axis(1, 1), float(s[0]));
            let rows = v[0].iter().flat_map(|id| &v[1][*id as usize * e..][..e]);
            store(t[2], 0, &rows.map(|value| value * scale).collect::<Vec<_>>());
        }
        "rmsnorm" | "rmsnorm_add" => {
            let (e, eps) = (axis(0, 1), float(s[0]));
            let mut y: Vec<f64> = v[0].chunks(e).flat_map(|x| norm(x, &v[1], eps)).collect();
            if kernel == "rmsnorm_add" {
                y.iter_mut().zip(&v[2]).for_each(|(y, old)| *y += old);
            }
            store(t[2], 0, &y);
        }
        "linear" | "linear_add" => {
            let k = axis(0, 1);
            let mut y: Vec<f64> =
                v[0].chunks(k).flat_map(|x| v[1].chunks(k).map(move |w| dot(x, w))).collect();
            if kernel == "linear_add" {
                y.iter_mut().zip(&v[2]).for_each(|(y, old)| *y += old);
            }
            store(t[2], 0, &y);
        }
        "qkv" => {
            let k = axis(0, 1);
            for (weight, to) in [(1, 4), (2, 5), (3, 6)] {
                let rows = |x| v[weight].chunks(k).map(move |w| dot(x, w));
                store(t[to], 0, &v[0].chunks(k).flat_map(rows).collect::<Vec<_>>());
            }
        }
        "rope" => {
            let (r, pos) = (axis(0, 2), &v[5]);
            for (tensor, to) in [(0, 0), (1, 6)] {
                let heads = axis(tensor, 1);
                let mut x = v[tensor].clone();
                for (n, row) in x.chunks_mut(heads * r * 2).enumerate() {
                    let angles = pos[n] as usize * r;
                    for head in row.chunks_mut(r * 2) {
                        for (i, pair) in head.chunks_mut(2).enumerate() {
                            let (c, s) = (v[3][angles + i], v[4][angles + i]);
                            let (a, b) = (pair[0], pair[1]);
                            (pair[0], pair[1]) = (a * c - b * s, a * s + b * c);
                        }
                    }
                }
                match to {
                    0 => store(t[0], 0, &x),
                    _ => store_heads(t[to], pos, heads, &x),
                }
            }
            store_heads(t[7], pos, axis(2, 1), &v[2]);
        }
        "norm_rope" => {
            let (r, pos, eps) = (axis(0, 3), &v[7], float(s[0]));
            for (tensor, weight, to) in [(0, 3, 0), (1, 4, 8)] {
                let heads = axis(tensor, 1);
                let mut x = Vec::with_capacity(v[tensor].len());
                for (at, head) in v[tensor].chunks(r * 2).enumerate() {
                    let angles = pos[at / heads] as usize * r;
                    let normed = norm(head, &v[weight], eps);
                    let turn = |i: usize| {
                        let (a, b, c, s) = (normed[i], normed[r + i], v[5][angles + i], v[6][angles + i]);
                        (a * c - b * s, a * s + b * c)
                    };
                    x.extend((0..r).map(|i| turn(i).0));
                    x.extend((0..r).map(|i| turn(i).1));
                }
                match to {
                    0 => store(t[0], 0, &x),
                    _ => store_heads(t[to], pos, heads, &x),
                }
            }
            store_heads(t[9], pos, axis(2, 1), &v[2]);
        }
        "attention" | "attention_one" => {
            let (n, d, g, length) = (axis(0, 0), axis(1, 2), axis(1, 0), axis(1, 1));
            let h = v[0].len() / (n * d);
            let (window, scale) = (s[0] as usize, float(s[1]));
            let mut o = Vec::with_capacity(n * h * d);
            for row in 0..n * h {
                let (query, head) = (row / h, row % h);
                let q = &v[0][row * d..][..d];
                let at = |s: usize| (head / (h / g) * length + s) * d;
                let pos = v[3][query] as usize;
                let seen = (pos + 1).saturating_sub(window)..=pos;
                let exp: Vec<f64> =
                    seen.clone().map(|s| (dot(q, &v[1][at(s)..][..d]) * scale).exp()).collect();
                let sum: f64 = exp.iter().sum();
                o.extend(
                    (0..d)
                        .map(|i| seen.clone().zip(&exp).map(|(s, p)| p * v[2][at(s) + i]).sum::<f64>() / sum),
                );
            }
            store(t[4], 0, &o);
        }
        "swiglu" | "geglu" => {
            let k = axis(0, 1);
            let f = |gate: f64| match kernel {
                "swiglu" => gate / (1.0 + (-gate).exp()),
                _ => {
                    let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044715 * gate.powi(3));
                    0.5 * gate * (1.0 + inner.tanh())
                }
            };
            let rows = |x: &[f64], w: &[f64]| w.chunks(k).map(|w| dot(x, w)).collect::<Vec<_>>();
            let mut y = Vec::new();
            for x in v[0].chunks(k) {
                y.extend(rows(x, &v[1]).into_iter().zip(rows(x, &v[2])).map(|(gate, up)| f(gate) * up));
            }
            store(t[3], 0, &y);
        }
        "softcap" => {
            let cap = float(s[0]);
            store(t[0], 0, &v[0].iter().map(|x| cap * (x / cap).tanh()).collect::<Vec<_>>());
        }
        other => panic!("no kernel {other}"),
    }
}
