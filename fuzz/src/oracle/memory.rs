//! Tensors as the oracle holds them, and who touched which element.

use half::{bf16, f16};
use phobos_artifact::{DType, Element};

use super::{Stop, tile};
use crate::number::Number;

/// A tensor in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// The element type.
    pub element: Element,
    /// The extents, outermost first.
    pub shape: Vec<usize>,
    /// The elements in row-major order, of block formats decoded.
    pub cells: Vec<Number>,
    /// Of a block format: the bytes of each block, where they are known.
    pub blocks: Vec<Option<Vec<u8>>>,
    /// Which elements the kernel wrote.
    pub written: Vec<bool>,
    writer: Vec<Option<u64>>,
    reader: Vec<Reader>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reader {
    Nobody,
    Program(u64),
    Several,
}

impl Memory {
    /// A tensor that holds `bytes`, in the order of a file.
    pub fn new(element: Element, shape: &[u64], bytes: &[u8]) -> Memory {
        let cells = decode(element, bytes);
        let blocks = match element {
            Element::Scalar(_) => Vec::new(),
            Element::Block(format) => bytes.chunks(format.bytes).map(|block| Some(block.to_vec())).collect(),
        };
        let count = cells.len();
        Memory {
            element,
            shape: shape.iter().map(|extent| *extent as usize).collect(),
            cells,
            blocks,
            written: vec![false; count],
            writer: vec![None; count],
            reader: vec![Reader::Nobody; count],
        }
    }

    /// The lane of a position, if the tensor has it.
    pub fn place(&self, at: &[i64]) -> Option<usize> {
        let inside = at.iter().zip(&self.shape).all(|(at, extent)| (0..*extent as i64).contains(at));
        let at: Vec<usize> = at.iter().map(|at| *at as usize).collect();
        inside.then(|| tile::lane(&self.shape, &at))
    }

    /// What a program reads at a lane.
    pub fn read(&mut self, lane: usize, program: u64) -> Result<Number, Stop> {
        self.reader[lane] = match self.reader[lane] {
            Reader::Nobody => Reader::Program(program),
            Reader::Program(other) if other == program => Reader::Program(program),
            _ => Reader::Several,
        };
        match self.writer[lane] {
            Some(writer) if writer != program => Err(Stop::Race),
            _ => Ok(self.cells[lane]),
        }
    }

    /// Writes a lane for a program.
    pub fn write(&mut self, lane: usize, value: Number, program: u64) -> Result<(), Stop> {
        let read_by_others = match self.reader[lane] {
            Reader::Nobody => false,
            Reader::Program(reader) => reader != program,
            Reader::Several => true,
        };
        if read_by_others || self.writer[lane].is_some_and(|writer| writer != program) {
            return Err(Stop::Race);
        }
        self.writer[lane] = Some(program);
        self.written[lane] = true;
        self.cells[lane] = value;
        Ok(())
    }
}

/// The values of whole elements or blocks.
pub fn decode(element: Element, bytes: &[u8]) -> Vec<Number> {
    match element {
        Element::Block(format) => bytes
            .chunks(format.bytes)
            .flat_map(|block| format.decode(block).unwrap_or_default())
            .map(|value| finite(value.into()))
            .collect(),
        Element::Scalar(dtype) => {
            bytes.chunks_exact(dtype.bytes()).map(|bytes| scalar(dtype, bytes)).collect()
        }
    }
}

/// A decoded value; no number is promised of a block that holds an infinity.
fn finite(value: f64) -> Number {
    if value.is_finite() { Number::exact(value) } else { Number::Unknown }
}

/// The value of a scalar in memory.
pub fn scalar(dtype: DType, bytes: &[u8]) -> Number {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    match dtype {
        DType::Bool | DType::U8 | DType::U32 => Number::Int(bits as i64),
        DType::I8 => Number::Int((bits as i8).into()),
        DType::I16 => Number::Int((bits as i16).into()),
        DType::I32 => Number::Int((bits as i32).into()),
        DType::I64 => Number::Int(bits as i64),
        DType::F16 => Number::exact(f16::from_bits(bits as u16).to_f64()),
        DType::Bf16 => Number::exact(bf16::from_bits(bits as u16).to_f64()),
        DType::F32 => Number::exact(f32::from_bits(bits as u32).into()),
        DType::F64 => Number::exact(f64::from_bits(bits)),
    }
}
