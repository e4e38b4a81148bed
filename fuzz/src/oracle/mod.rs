//! The oracle: runs a checked kernel by the rules of SPEC.md, sections 4 to 8, 10 and 11,
//! one program after the other and one element after the other. It shares no code with the
//! lowering and the passes, and is slow and plain so that it can be read against the text.

mod expr;
pub mod memory;
pub mod tile;

use std::collections::BTreeMap;

use phobos_artifact::Element;
use phobos_lang::typed::{AxisIndex, Block, Dim, Expr, Kernel, Stmt, StmtKind, Type, VarId};

use self::{memory::Memory, tile::Tile};
use crate::number::{Kind, Number, binary};

/// A value of the language.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A scalar or an index.
    Scalar(Kind, Number),
    /// A tile.
    Tile(Tile),
}

/// Why a program says nothing about the compiler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Two programs of the grid touch one element, and one of them writes it.
    #[error("two programs touch one element")]
    Race,
    /// It takes too many steps.
    #[error("too many steps")]
    Steps,
    /// A condition, a position or a bound is not known exactly.
    #[error("{0} depends on a value that is not specified")]
    Unspecified(&'static str),
    /// An index does not fit 64 bits.
    #[error("an index overflows")]
    Overflow,
    /// Something that the oracle does not have.
    #[error("the oracle has no {0}")]
    Missing(&'static str),
}

/// What a kernel is run with.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// `@autotune` parameters and dims by name.
    pub names: BTreeMap<String, u64>,
    /// The scalar parameters in order.
    pub scalars: Vec<Number>,
}

/// The most elements and statements that are evaluated.
const MOST_STEPS: u64 = 4_000_000;

struct Oracle<'a> {
    kernel: &'a Kernel,
    bindings: &'a Bindings,
    memory: &'a mut [Memory],
    vars: Vec<Option<Value>>,
    program: [u64; 3],
    /// The number of the program, for the owners of elements.
    number: u64,
    steps: u64,
}

/// Runs every program of the grid. `memory` has the tensors of the kernel in order.
pub fn run(kernel: &Kernel, bindings: &Bindings, memory: &mut [Memory]) -> Result<(), Stop> {
    let mut grid = [0; 3];
    for (axis, expr) in kernel.grid.iter().enumerate() {
        grid[axis] = expr.eval(&bindings.names).map_err(|_| Stop::Missing("value of the grid"))?;
    }
    let vars = vec![None; kernel.vars.len()];
    let mut oracle = Oracle { kernel, bindings, memory, vars, program: [0; 3], number: 0, steps: 0 };
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                oracle.program = [x, y, z];
                oracle.vars.fill(None);
                oracle.block(&kernel.body)?;
                oracle.number += 1;
            }
        }
    }
    Ok(())
}

/// The start of a span or the position of a point, and the extent of a span.
type Axis = (i64, Option<usize>);

impl Oracle<'_> {
    fn step(&mut self, count: usize) -> Result<(), Stop> {
        self.steps += count as u64 + 1;
        if self.steps > MOST_STEPS { Err(Stop::Steps) } else { Ok(()) }
    }

    fn dim(&self, dim: &Dim) -> Result<usize, Stop> {
        let value = match dim {
            Dim::Const(value) => Some(*value),
            Dim::Param(name) | Dim::TensorDim(name) => self.bindings.names.get(name).copied(),
        };
        value.map(|value| value as usize).ok_or(Stop::Missing("value of a dim"))
    }

    fn dims(&self, dims: &[Dim]) -> Result<Vec<usize>, Stop> {
        dims.iter().map(|dim| self.dim(dim)).collect()
    }

    fn block(&mut self, block: &Block) -> Result<(), Stop> {
        block.statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn set(&mut self, var: VarId, value: Value) {
        self.vars[var.0] = Some(value);
    }

    fn statement(&mut self, statement: &Stmt) -> Result<(), Stop> {
        self.step(1)?;
        match &statement.kind {
            StmtKind::Let { var, value }
            | StmtKind::VarInit { var, value: Some(value) }
            | StmtKind::Assign { var, value } => {
                let value = self.eval(value)?;
                self.set(*var, value);
            }
            StmtKind::VarInit { var, value: None } => {
                let value = self.undefined(*var)?;
                self.set(*var, value);
            }
            StmtKind::TileInsert { var, slice, value } => {
                let axes = self.axes(slice)?;
                let value = self.eval(value)?;
                let Some(Value::Tile(mut tile)) = self.vars[var.0].take() else {
                    return Err(Stop::Missing("tile to insert into"));
                };
                insert(&mut tile, &axes, &value);
                self.set(*var, Value::Tile(tile));
            }
            StmtKind::StoreSlice { tensor, slice, value } => {
                let axes = self.axes(slice)?;
                let Value::Tile(tile) = self.eval(value)? else {
                    return Err(Stop::Missing("store of a scalar"));
                };
                self.store(tensor.0, &axes, &tile)?;
            }
            StmtKind::StorePoint { tensor, indices, value } => {
                let at = indices.iter().map(|index| self.index(index)).collect::<Result<Vec<_>, _>>()?;
                let Value::Scalar(_, value) = self.eval(value)? else {
                    return Err(Stop::Missing("point store"));
                };
                if let Some(lane) = self.memory[tensor.0].place(&at) {
                    self.memory[tensor.0].write(lane, value, self.number)?;
                }
            }
            StmtKind::For { var, start, end, step, body, .. } => {
                let (mut at, end, step) = (self.index(start)?, self.index(end)?, self.index(step)?);
                while step > 0 && at < end {
                    self.set(*var, Value::Scalar(None, Number::Int(at)));
                    self.block(body)?;
                    // Past the last index there is nothing left to do.
                    let Some(next) = at.checked_add(step) else { break };
                    at = next;
                }
            }
            StmtKind::While { condition, body, .. } => {
                while self.condition(condition)? {
                    self.block(body)?;
                    self.step(1)?;
                }
            }
            StmtKind::If { condition, then, otherwise, .. } => {
                let taken = if self.condition(condition)? { then } else { otherwise };
                self.block(taken)?;
            }
            StmtKind::GridBarrier { .. } => return Err(Stop::Missing("grid_barrier")),
            StmtKind::Assert { .. } => return Err(Stop::Missing("assert")),
            StmtKind::Expr(_) => return Err(Stop::Missing("atomic_add")),
        }
        Ok(())
    }

    /// A variable without a value yet: nothing is said of its elements.
    fn undefined(&self, var: VarId) -> Result<Value, Stop> {
        Ok(match &self.kernel.vars[var.0].ty {
            Type::Tile(ty) => Value::Tile(Tile::whole(ty.element, self.dims(&ty.dims)?, |_| Number::Unknown)),
            Type::Scalar(dtype) => Value::Scalar(Some(*dtype), Number::Unknown),
            Type::Index | Type::Unit => Value::Scalar(None, Number::Unknown),
        })
    }

    fn condition(&mut self, condition: &Expr) -> Result<bool, Stop> {
        match self.eval(condition)? {
            Value::Scalar(_, Number::Int(value)) => Ok(value != 0),
            _ => Err(Stop::Unspecified("a condition")),
        }
    }

    fn index(&mut self, expr: &Expr) -> Result<i64, Stop> {
        match self.eval(expr)? {
            Value::Scalar(_, Number::Int(value)) => Ok(value),
            _ => Err(Stop::Unspecified("an index")),
        }
    }

    fn axes(&mut self, slice: &[AxisIndex]) -> Result<Vec<Axis>, Stop> {
        slice
            .iter()
            .map(|axis| match axis {
                AxisIndex::Point(at) => Ok((self.index(at)?, None)),
                AxisIndex::Span { start, extent } => Ok((self.index(start)?, Some(self.dim(extent)?))),
            })
            .collect()
    }

    /// Writes what is valid and inside the tensor; nothing of a slice that starts before 0.
    fn store(&mut self, tensor: usize, axes: &[Axis], tile: &Tile) -> Result<(), Stop> {
        self.step(tile.lanes.len())?;
        if let Element::Block(format) = tile.element {
            return self.store_blocks(tensor, axes, tile, format.elements);
        }
        if axes.iter().any(|(start, _)| *start < 0) {
            return Ok(());
        }
        for at in tile::positions(&tile.dims).filter(|at| tile.is_valid(at)) {
            let place = place(axes, &at);
            if let Some(lane) = self.memory[tensor].place(&place) {
                self.memory[tensor].write(lane, tile.get(&at), self.number)?;
            }
        }
        Ok(())
    }

    /// The same for a format of activations, block by block. Of a block that is valid in part
    /// the language does not say what is written.
    fn store_blocks(
        &mut self,
        tensor: usize,
        axes: &[Axis],
        tile: &Tile,
        elements: usize,
    ) -> Result<(), Stop> {
        if axes.iter().any(|(start, _)| *start < 0) {
            return Ok(());
        }
        for (block, bytes) in tile.blocks.iter().enumerate() {
            let first = tile::position(&tile.dims, block * elements);
            let mut last = first.clone();
            if let Some(last) = last.last_mut() {
                *last += elements - 1;
            }
            let Some(lane) = self.memory[tensor].place(&place(axes, &first)) else { continue };
            if !tile.is_valid(&first) {
                continue;
            }
            let whole = tile.is_valid(&last);
            for offset in 0..elements {
                let value = if whole { tile.lanes[block * elements + offset] } else { Number::Unknown };
                self.memory[tensor].write(lane + offset, value, self.number)?;
            }
            self.memory[tensor].blocks[lane / elements] = if whole { bytes.clone() } else { None };
        }
        Ok(())
    }
}

/// Where a lane of a slice lies: points take part in the position and not in the tile.
fn place(axes: &[Axis], at: &[usize]) -> Vec<i64> {
    let mut lanes = at.iter();
    axes.iter()
        .map(|(start, extent)| match extent {
            None => *start,
            Some(_) => start.saturating_add(lanes.next().map_or(0, |lane| *lane as i64)),
        })
        .collect()
}

/// The extents of a slice of something that is valid up to `valid` on each axis: what a span
/// has left, and nothing where it starts before 0. A point outside leaves nothing valid on
/// the first axis that stays.
fn slice_extents(axes: &[Axis], valid: &[usize]) -> Vec<usize> {
    let mut extents = Vec::new();
    let mut missed = false;
    for ((start, extent), valid) in axes.iter().zip(valid) {
        let left = if *start < 0 { 0 } else { (*valid as i64).saturating_sub(*start).max(0) as usize };
        match extent {
            Some(extent) => extents.push(left.min(*extent)),
            None => missed |= left == 0,
        }
    }
    if let (true, Some(first)) = (missed, extents.first_mut()) {
        *first = 0;
    }
    extents
}

/// `tile[axes] = value`: invalid elements of the value become 0, positions outside the tile
/// are ignored, and the tile stays as valid as it was.
fn insert(tile: &mut Tile, axes: &[Axis], value: &Value) {
    tile.product = None;
    if axes.iter().any(|(start, _)| *start < 0) {
        return;
    }
    let kind = match tile.element {
        Element::Scalar(dtype) => Some(dtype),
        Element::Block(_) => return,
    };
    let lengths: Vec<usize> = axes.iter().filter_map(|(_, extent)| *extent).collect();
    for at in tile::positions(&lengths) {
        let place = place(axes, &at);
        if !place.iter().zip(&tile.dims).all(|(at, dim)| *at < *dim as i64) {
            continue;
        }
        let place: Vec<usize> = place.iter().map(|at| *at as usize).collect();
        let new = match value {
            Value::Scalar(_, value) => *value,
            Value::Tile(value) if value.is_valid(&at) => value.get(&at),
            Value::Tile(_) => Number::zero(kind),
        };
        if tile.is_valid(&place) {
            let lane = tile::lane(&tile.dims, &place);
            tile.lanes[lane] = new;
        }
    }
}

/// An index operation; indices do not wrap (SPEC.md section 6).
fn index_binary(op: phobos_lang::typed::BinaryOp, a: Number, b: Number) -> Result<Number, Stop> {
    use phobos_lang::typed::BinaryOp as Op;
    if let (Number::Int(x), Number::Int(y)) = (a, b) {
        let fits = match op {
            Op::Add => x.checked_add(y).is_some(),
            Op::Sub => x.checked_sub(y).is_some(),
            Op::Mul => x.checked_mul(y).is_some(),
            _ => true,
        };
        if !fits {
            return Err(Stop::Overflow);
        }
    }
    Ok(binary(op, None, a, b))
}
