//! Kernel arguments as they are typed.

use std::{fs, str::FromStr};

use phobos_emulator::{
    Emulator, Kernel,
    number::{BF16, F16, Round, narrow, widen},
};

/// A command line or file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InputError(String);

impl InputError {
    /// An error with a message.
    pub fn new(message: impl Into<String>) -> InputError {
        InputError(message.into())
    }
}

/// `X`, `X,Y` or `X,Y,Z`.
#[derive(Clone, Copy, Debug)]
pub struct Extents(pub [u32; 3]);

impl FromStr for Extents {
    type Err = InputError;
    fn from_str(text: &str) -> Result<Extents, InputError> {
        let mut extents = [1; 3];
        let parts: Vec<&str> = text.split([',', 'x']).collect();
        if parts.len() > 3 {
            return Err(InputError::new("more than three extents"));
        }
        for (slot, part) in extents.iter_mut().zip(parts) {
            *slot = part.trim().parse().map_err(|_| InputError::new(format!("`{part}` is not an extent")))?;
        }
        Ok(Extents(extents))
    }
}

/// Element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    U8,
    I8,
    U16,
    I16,
    F16,
    Bf16,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
}

impl Type {
    fn parse(name: &str) -> Option<Type> {
        Some(match name {
            "u8" => Type::U8,
            "i8" => Type::I8,
            "u16" => Type::U16,
            "i16" => Type::I16,
            "f16" => Type::F16,
            "bf16" => Type::Bf16,
            "u32" => Type::U32,
            "i32" => Type::I32,
            "f32" => Type::F32,
            "u64" => Type::U64,
            "i64" => Type::I64,
            "f64" => Type::F64,
            _ => return None,
        })
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Type::U8 | Type::I8 => 1,
            Type::U16 | Type::I16 | Type::F16 | Type::Bf16 => 2,
            Type::U32 | Type::I32 | Type::F32 => 4,
            Type::U64 | Type::I64 | Type::F64 => 8,
        }
    }

    fn float(self) -> bool {
        matches!(self, Type::F16 | Type::Bf16 | Type::F32 | Type::F64)
    }

    /// Whether two codes of a float are as near as sums in another order are.
    pub fn near(self, a: &[u8], b: &[u8]) -> bool {
        let tolerance = match self {
            Type::F16 => 4e-3,
            Type::Bf16 => 3e-2,
            Type::F32 => 1e-4,
            Type::F64 => 1e-10,
            _ => return false,
        };
        let value = |bytes: &[u8]| self.show(bytes).parse::<f64>().unwrap_or(f64::NAN);
        let (a, b) = (value(a), value(b));
        (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
    }

    fn encode(self, value: f64) -> u64 {
        match self {
            Type::F16 => narrow(value, F16, Round::NearestEven),
            Type::Bf16 => narrow(value, BF16, Round::NearestEven),
            Type::F32 => u64::from((value as f32).to_bits()),
            Type::F64 => value.to_bits(),
            _ => value as i64 as u64,
        }
    }

    /// The value of little-endian bytes, for people.
    pub fn show(self, bytes: &[u8]) -> String {
        let mut word = [0; 8];
        word[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
        let bits = u64::from_le_bytes(word);
        match self {
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => bits.to_string(),
            Type::I8 => (bits as i8).to_string(),
            Type::I16 => (bits as i16).to_string(),
            Type::I32 => (bits as i32).to_string(),
            Type::I64 => (bits as i64).to_string(),
            Type::F16 => widen(bits, F16).to_string(),
            Type::Bf16 => widen(bits, BF16).to_string(),
            Type::F32 => f32::from_bits(bits as u32).to_string(),
            Type::F64 => f64::from_bits(bits).to_string(),
        }
    }
}

/// How a buffer is filled.
#[derive(Clone, Debug)]
enum Fill {
    Undefined(u64),
    Zero(u64),
    Iota(u64),
    Random(u64),
    File(String),
}

/// One `--arg`.
#[derive(Clone, Debug)]
pub struct Argument {
    ty: Type,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Scalar(u64),
    Buffer(Fill),
}

impl FromStr for Argument {
    type Err = InputError;
    fn from_str(text: &str) -> Result<Argument, InputError> {
        let parse_type =
            |name: &str| Type::parse(name).ok_or_else(|| InputError::new(format!("unknown type `{name}`")));
        if let Some((name, value)) = text.split_once('=') {
            let ty = parse_type(name)?;
            let bad = || InputError::new(format!("`{value}` is not a value of {name}"));
            let bits = if ty.float() {
                ty.encode(value.parse().map_err(|_| bad())?)
            } else if let Some(hex) = value.strip_prefix("0x") {
                u64::from_str_radix(hex, 16).map_err(|_| bad())?
            } else {
                value.parse::<i128>().map_err(|_| bad())? as u64
            };
            return Ok(Argument { ty, kind: Kind::Scalar(bits) });
        }
        let parts: Vec<&str> = text.splitn(3, ':').collect();
        let count = |text: &str| {
            text.parse::<u64>().map_err(|_| InputError::new(format!("`{text}` is not a number of elements")))
        };
        let (ty, fill) = match parts.as_slice() {
            [ty, size] => (parse_type(ty)?, Fill::Undefined(count(size)?)),
            [ty, "zero", size] => (parse_type(ty)?, Fill::Zero(count(size)?)),
            [ty, "iota", size] => (parse_type(ty)?, Fill::Iota(count(size)?)),
            [ty, "random", size] => (parse_type(ty)?, Fill::Random(count(size)?)),
            [ty, "file", path] => (parse_type(ty)?, Fill::File((*path).to_owned())),
            _ => {
                return Err(InputError::new(
                    "expected TYPE:COUNT, TYPE:zero|iota|random:COUNT, TYPE:file:PATH or TYPE=VALUE",
                ));
            }
        };
        Ok(Argument { ty, kind: Kind::Buffer(fill) })
    }
}

/// A buffer in the emulated memory.
#[derive(Clone, Copy, Debug)]
pub struct BoundBuffer {
    /// The argument's position.
    pub index: usize,
    /// The element type.
    pub ty: Type,
    /// Its address.
    pub base: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Arguments in place.
#[derive(Debug)]
pub struct Bound {
    /// The parameter buffer.
    pub params: Vec<u8>,
    /// The buffers among them.
    pub buffers: Vec<BoundBuffer>,
}

impl Bound {
    /// `INDEX:FILE`, or `FILE` for the last buffer.
    pub fn file_target<'t>(&self, text: &'t str) -> Result<(usize, &'t str), InputError> {
        if let Some((index, path)) = text.split_once(':')
            && let Ok(index) = index.parse::<usize>()
        {
            return match self.buffers.iter().find(|buffer| buffer.index == index) {
                Some(_) => Ok((index, path)),
                None => Err(InputError::new(format!("argument {index} is not a buffer"))),
            };
        }
        match self.buffers.last() {
            Some(last) => Ok((last.index, text)),
            None => Err(InputError::new("no argument is a buffer")),
        }
    }

    /// How many bytes of a buffer are undefined, and the first.
    pub fn undefined(&self, emulator: &Emulator, index: usize) -> Option<(u64, u64)> {
        let buffer = self.buffers.iter().find(|buffer| buffer.index == index)?;
        emulator.memory.undefined(buffer.base).ok()?
    }

    /// The bytes of the buffer at argument `index`.
    pub fn read(&self, emulator: &Emulator, index: usize) -> Result<Vec<u8>, InputError> {
        let Some(buffer) = self.buffers.iter().find(|buffer| buffer.index == index) else {
            return Err(InputError::new(format!("argument {index} is not a buffer")));
        };
        let mut bytes = vec![0; buffer.bytes as usize];
        emulator
            .memory
            .read(buffer.base, 0, &mut bytes)
            .map_err(|error| InputError::new(error.to_string()))?;
        Ok(bytes)
    }
}

/// Allocates and fills the buffers and builds the parameters.
pub fn bind(
    emulator: &mut Emulator,
    kernel: &Kernel,
    args: &[Argument],
    seed: u64,
) -> Result<Bound, InputError> {
    if args.len() != kernel.params.len() {
        let params: Vec<String> =
            kernel.params.iter().map(|param| format!("{} ({})", param.name, param.ty)).collect();
        return Err(InputError::new(format!(
            "kernel `{}` takes {} arguments, {} given: {}",
            kernel.name,
            kernel.params.len(),
            args.len(),
            params.join(", ")
        )));
    }
    let mut bound = Bound { params: vec![0; kernel.param_bytes as usize], buffers: Vec::new() };
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for (index, (arg, param)) in args.iter().zip(&kernel.params).enumerate() {
        let (value, size) = match &arg.kind {
            Kind::Scalar(bits) => (*bits, arg.ty.bytes()),
            Kind::Buffer(fill) => (buffer(emulator, &mut bound, index, arg.ty, fill, &mut random)?, 8),
        };
        if size != param.bytes as usize {
            return Err(InputError::new(format!(
                "argument {index}: {size} bytes for the parameter `{}` of {} bytes",
                param.name, param.bytes
            )));
        }
        let start = param.offset as usize;
        if let Some(target) = bound.params.get_mut(start..start + size) {
            target.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
    Ok(bound)
}

fn buffer(
    emulator: &mut Emulator,
    bound: &mut Bound,
    index: usize,
    ty: Type,
    fill: &Fill,
    random: &mut u64,
) -> Result<u64, InputError> {
    let failed = |error: phobos_emulator::memory::global::MemoryError| {
        InputError::new(format!("argument {index}: {error}"))
    };
    let bytes_of = |count: u64| {
        count
            .checked_mul(ty.bytes() as u64)
            .ok_or_else(|| InputError::new(format!("argument {index}: too large")))
    };
    let name = format!("argument {index}");
    let mut next = || {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let (bytes, defined, data) = match fill {
        Fill::Undefined(count) => (bytes_of(*count)?, false, Vec::new()),
        Fill::Zero(count) => (bytes_of(*count)?, true, Vec::new()),
        Fill::File(path) => {
            let data = fs::read(path).map_err(|error| InputError::new(format!("{path}: {error}")))?;
            (data.len() as u64, true, data)
        }
        Fill::Iota(count) | Fill::Random(count) => {
            let bytes = bytes_of(*count)?;
            // Allocate before filling: an absurd count is an error, not an abort.
            let base = emulator.memory.allocate(bytes, true, name).map_err(failed)?;
            let mut data = Vec::with_capacity(bytes as usize);
            for i in 0..*count {
                let code = match fill {
                    Fill::Iota(_) if ty.float() => ty.encode(i as f64),
                    Fill::Iota(_) => i,
                    // Floats in -1..1, integers of all bits.
                    _ if ty.float() => ty.encode((next() >> 40) as f64 / f64::from(1 << 23) - 1.0),
                    _ => next(),
                };
                data.extend_from_slice(&code.to_le_bytes()[..ty.bytes()]);
            }
            emulator.memory.write(base, 0, &data).map_err(failed)?;
            bound.buffers.push(BoundBuffer { index, ty, base, bytes });
            return Ok(base);
        }
    };
    let base = emulator.memory.allocate(bytes, defined, name).map_err(failed)?;
    if !data.is_empty() {
        emulator.memory.write(base, 0, &data).map_err(failed)?;
    }
    bound.buffers.push(BoundBuffer { index, ty, base, bytes });
    Ok(base)
}
