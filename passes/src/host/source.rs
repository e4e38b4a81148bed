//! Where a tile's elements come from, and reading them a vector at a time.

use std::rc::Rc;

use melior::ir::ValueLike;
use phobos_artifact::format::{self, Format};
use phobos_dialect::{Op, PassError, Type, Val, ir, types::block_format};

use super::{
    Lowering,
    emit::{Size, element_bytes},
    format::Blocks,
};

/// A tensor of the kernel.
#[derive(Clone)]
pub(super) struct Memory<'c> {
    pub pointer: Val<'c>,
    pub dims: Vec<Size<'c>>,
    /// A scalar type or a block format.
    pub element: Type<'c>,
    /// Whether the kernel stores to it.
    pub written: bool,
}

/// A strided window of a tensor or of scratch.
#[derive(Clone)]
pub(super) struct View<'c> {
    pub pointer: Val<'c>,
    /// The start of the tensor or scratch that it lies in: views of different roots do
    /// not overlap.
    pub root: Val<'c>,
    pub element: Type<'c>,
    /// Elements from one position of an axis to the next.
    pub strides: Vec<Size<'c>>,
    /// Whether it is a whole scratch tile that no other view shares.
    pub owned: bool,
}

/// How a tile's elements are had.
#[derive(Clone)]
pub(super) enum Kind<'c> {
    /// They are in memory.
    View(View<'c>),
    /// All are this scalar.
    Splat(Val<'c>),
    /// The index along an axis.
    Iota(usize),
    /// Computed by the body of a `phobos.map` from its inputs.
    Map(Rc<MapSource<'c>>),
    /// Encoded: a window of a block format.
    Blocks(Blocks<'c>),
    /// Decoded from such a window.
    Decode(Blocks<'c>),
    /// To be rounded to a format of activations where it is stored.
    Quantize(Rc<Source<'c>>, &'static Format),
}

/// A `phobos.map` that has not been computed yet.
pub(super) struct MapSource<'c> {
    pub op: Op<'c>,
    pub inputs: Vec<MapInput<'c>>,
}

/// An input of a map.
pub(super) enum MapInput<'c> {
    Tile { source: Source<'c>, value: Val<'c> },
    Scalar(Val<'c>),
}

/// A tile: its shape, element, validity, and how its elements are had.
#[derive(Clone)]
pub(super) struct Source<'c> {
    pub kind: Kind<'c>,
    pub element: Type<'c>,
    pub shape: Vec<i64>,
    /// Valid lanes of each axis: nothing beyond is read.
    pub extents: Vec<Size<'c>>,
}

/// Consecutive elements along one axis, as `vectors` vectors of `width` lanes.
#[derive(Clone)]
pub(super) struct Chunk<'c> {
    /// The first element's index on each axis.
    pub index: Vec<Size<'c>>,
    /// The axis that the lanes run along.
    pub axis: usize,
    pub width: u64,
    pub vectors: usize,
    /// When not all lanes are there: the mask of the first vector, and how many there are.
    /// The others follow from it ([`Lowering::tail_mask`]). Blocks are read whole.
    pub tail: Option<(Val<'c>, Val<'c>)>,
}

impl<'c> Source<'c> {
    /// A wholly valid tile.
    pub(super) fn whole(kind: Kind<'c>, element: Type<'c>, shape: Vec<i64>) -> Source<'c> {
        let extents = shape.iter().map(|extent| Size::Const(*extent)).collect();
        Source { kind, element, shape, extents }
    }

    /// How many elements along the last axis must be read together.
    pub(super) fn granularity(&self) -> u64 {
        match &self.kind {
            Kind::Decode(blocks) | Kind::Blocks(blocks) => blocks.format.elements as u64,
            Kind::Map(map) => map
                .inputs
                .iter()
                .map(|input| match input {
                    MapInput::Tile { source, .. } => source.granularity(),
                    MapInput::Scalar(_) => 1,
                })
                .max()
                .unwrap_or(1),
            Kind::Quantize(_, format) => format.elements as u64,
            Kind::View(_) | Kind::Splat(_) | Kind::Iota(_) => 1,
        }
    }

    /// Whether `elements` along an axis may be read together wherever the tile ends among them:
    /// nothing but blocks of so many is read there.
    pub(super) fn has_whole_blocks(&self, axis: usize, elements: u64) -> bool {
        match &self.kind {
            Kind::Splat(_) | Kind::Iota(_) => true,
            Kind::Decode(blocks) | Kind::Blocks(blocks) => blocks.format.elements as u64 == elements,
            Kind::View(_) | Kind::Quantize(..) => false,
            Kind::Map(map) => map.inputs.iter().all(|input| match input {
                MapInput::Scalar(_) => true,
                MapInput::Tile { source, .. } => {
                    let lead = self.shape.len() - source.shape.len();
                    let stretched = axis < lead || source.shape[axis - lead] == 1;
                    stretched || source.has_whole_blocks(axis - lead, elements)
                }
            }),
        }
    }

    /// The axis that vectors run along: the last that is longer than 1.
    pub(super) fn lane_axis(&self) -> usize {
        lane_axis(&self.shape)
    }

    /// The window of a matrix [rows, columns] of a block format whose rows start a group.
    pub(super) fn aligned_blocks(&self) -> Option<&Blocks<'c>> {
        match &self.kind {
            Kind::Decode(blocks) | Kind::Blocks(blocks)
                if blocks.aligned && blocks.row_axis == Some(0) && blocks.column_axis == 1 =>
            {
                Some(blocks)
            }
            _ => None,
        }
    }

    /// The view, when the elements are in memory as they are.
    pub(super) fn view(&self) -> Option<&View<'c>> {
        match &self.kind {
            Kind::View(view) => Some(view),
            _ => None,
        }
    }
}

/// Emits the code for one index, or for one chunk.
pub(super) type AtIndex<'f, 'c> = &'f mut dyn FnMut(&mut Lowering<'c>, &[Size<'c>]) -> Result<(), PassError>;
pub(super) type AtChunk<'f, 'c> = &'f mut dyn FnMut(&mut Lowering<'c>, &Chunk<'c>) -> Result<(), PassError>;

/// The last axis longer than 1, or the last.
pub(super) fn lane_axis(shape: &[i64]) -> usize {
    shape.iter().rposition(|extent| *extent != 1).unwrap_or(shape.len().saturating_sub(1))
}

/// The block format of a memory element.
pub(super) fn format_of(op: Op<'_>, element: Type<'_>) -> Result<Option<&'static Format>, PassError> {
    match block_format(element) {
        None => Ok(None),
        Some(name) => format::by_name(&name)
            .map(Some)
            .ok_or_else(|| PassError::at(op, format!("block format `{name}` is not known to this compiler"))),
    }
}

impl<'c> Lowering<'c> {
    /// The address of an element of a view.
    pub(super) fn address(&self, view: &View<'c>, index: &[Size<'c>]) -> Result<Val<'c>, PassError> {
        let bytes = i64::from(element_bytes(view.element));
        let mut offset = Size::Const(0);
        for (position, stride) in index.iter().zip(&view.strides) {
            offset = self.add(offset, self.multiply(*position, *stride)?)?;
        }
        self.byte_offset(view.pointer, self.multiply(offset, Size::Const(bytes))?)
    }

    /// Reads a chunk of `source`, which may have a lower rank than the chunk's index
    /// and axes of extent 1 that the reader stretches.
    pub(super) fn read(&mut self, source: &Source<'c>, chunk: &Chunk<'c>) -> Result<Vec<Val<'c>>, PassError> {
        let lead = chunk.index.len() - source.shape.len();
        let mut index = chunk.index[lead..].to_vec();
        for (position, extent) in index.iter_mut().zip(&source.shape) {
            if *extent == 1 {
                *position = Size::Const(0);
            }
        }
        let stretched = chunk.axis < lead || source.shape[chunk.axis - lead] == 1;
        if stretched {
            // One element for all lanes.
            let axis = index.len() - 1;
            let one = Chunk { index, axis, width: 1, vectors: 1, tail: None };
            let values = self.read_here(source, &one)?;
            let scalar = self.lane(values[0], 0)?;
            return Ok(vec![self.splat(scalar, chunk.width)?; chunk.vectors]);
        }
        let here = Chunk { index, axis: chunk.axis - lead, ..chunk.clone() };
        self.read_here(source, &here)
    }

    /// Reads one element as a scalar.
    pub(super) fn read_scalar(
        &mut self,
        source: &Source<'c>,
        index: &[Size<'c>],
    ) -> Result<Val<'c>, PassError> {
        let chunk = Chunk { index: index.to_vec(), axis: index.len() - 1, width: 1, vectors: 1, tail: None };
        let values = self.read(source, &chunk)?;
        self.lane(values[0], 0)
    }

    fn read_here(&mut self, source: &Source<'c>, chunk: &Chunk<'c>) -> Result<Vec<Val<'c>>, PassError> {
        match &source.kind {
            Kind::Splat(value) => Ok(vec![self.splat(*value, chunk.width)?; chunk.vectors]),
            Kind::Iota(axis) => (0..chunk.vectors)
                .map(|vector| self.lane_index(chunk, vector, *axis, source.element))
                .collect(),
            Kind::View(view) => {
                (0..chunk.vectors).map(|vector| self.read_view(view, chunk, vector)).collect()
            }
            Kind::Map(map) => {
                let map = map.clone();
                self.map_body(&map, chunk)
            }
            Kind::Decode(blocks) => self.decode(blocks, chunk),
            Kind::Blocks(_) | Kind::Quantize(..) => {
                Err(PassError::new(self.b.location(), "internal error: an encoded tile is read"))
            }
        }
    }

    /// Which lanes of a vector are there, when not all of the chunk are.
    pub(super) fn tail_mask(&self, chunk: &Chunk<'c>, vector: usize) -> Result<Option<Val<'c>>, PassError> {
        match chunk.tail {
            Some((mask, _)) if vector == 0 => Ok(Some(mask)),
            Some((_, left)) => {
                let left = self.left_from(chunk, vector, left)?;
                Ok(Some(self.mask_below(left, chunk.width)?))
            }
            None => Ok(None),
        }
    }

    /// How many of `left` lanes there are from the start of a vector; less than 0 beyond them.
    fn left_from(&self, chunk: &Chunk<'c>, vector: usize, left: Val<'c>) -> Result<Val<'c>, PassError> {
        match vector {
            0 => Ok(left),
            _ => self.b.binary("arith.subi", left, self.b.i64(vector as i64 * chunk.width as i64)?),
        }
    }

    /// The chunk's first index with the lanes of earlier vectors added.
    fn vector_start(&self, chunk: &Chunk<'c>, vector: usize) -> Result<Vec<Size<'c>>, PassError> {
        let mut index = chunk.index.clone();
        index[chunk.axis] = self.add(index[chunk.axis], Size::Const(vector as i64 * chunk.width as i64))?;
        Ok(index)
    }

    fn read_view(&mut self, view: &View<'c>, chunk: &Chunk<'c>, vector: usize) -> Result<Val<'c>, PassError> {
        let index = self.vector_start(chunk, vector)?;
        let ty = self.b.vector(chunk.width, view.element);
        let pointer = self.address(view, &index)?;
        if chunk.width == 1 || view.strides[chunk.axis] == Size::Const(1) {
            return match self.tail_mask(chunk, vector)? {
                Some(mask) => self.load_masked(pointer, ty, mask),
                None => self.load_element(pointer, ty),
            };
        }
        // Lanes are apart in memory: one load each.
        let mut value = self.b.constant(ty, 0.0)?;
        for lane in 0..chunk.width as i64 {
            let mut position = Size::Const(lane);
            if let Some((_, left)) = chunk.tail {
                // Lanes beyond the tail read its last element again.
                let count = self.left_from(chunk, vector, left)?;
                let last = self.b.binary("arith.subi", count, self.b.i64(1)?)?;
                position = Size::Value(self.b.binary("arith.minsi", self.b.i64(lane)?, last)?);
            }
            let offset = self.multiply(position, view.strides[chunk.axis])?;
            let bytes = self.multiply(offset, Size::Const(i64::from(element_bytes(view.element))))?;
            let place = self.byte_offset(pointer, bytes)?;
            let scalar = self.load_element(place, view.element)?;
            let at = self.b.parsed_attribute(&format!("array<i64: {lane}>"))?;
            value = self.b.value("vector.insert", &[scalar, value], ty, &[("static_position", at)])?;
        }
        Ok(value)
    }

    /// Each lane's index along `axis`, in vectors of integers.
    pub(super) fn lane_index(
        &mut self,
        chunk: &Chunk<'c>,
        vector: usize,
        axis: usize,
        element: Type<'c>,
    ) -> Result<Val<'c>, PassError> {
        let start = self.value(self.vector_start(chunk, vector)?[axis])?;
        let start = self.resize(start, element)?;
        let first = self.splat(start, chunk.width)?;
        if axis != chunk.axis {
            return Ok(first);
        }
        let counting = self.counting(first.r#type())?;
        self.b.binary("arith.addi", first, counting)
    }

    /// An integer in another width, signed.
    pub(super) fn resize(&self, value: Val<'c>, ty: Type<'c>) -> Result<Val<'c>, PassError> {
        let (from, to) = (ir::bit_width(value.r#type()).unwrap_or(64), ir::bit_width(ty).unwrap_or(64));
        match from.cmp(&to) {
            std::cmp::Ordering::Equal => Ok(value),
            std::cmp::Ordering::Less => self.b.value("arith.extsi", &[value], ty, &[]),
            std::cmp::Ordering::Greater => self.b.value("arith.trunci", &[value], ty, &[]),
        }
    }

    /// Writes vectors along an axis of a view.
    pub(super) fn write(
        &mut self,
        view: &View<'c>,
        chunk: &Chunk<'c>,
        values: &[Val<'c>],
    ) -> Result<(), PassError> {
        for (vector, value) in values.iter().enumerate() {
            let index = self.vector_start(chunk, vector)?;
            let pointer = self.address(view, &index)?;
            let mask = self.tail_mask(chunk, vector)?;
            if chunk.width == 1 || view.strides[chunk.axis] == Size::Const(1) {
                self.store_element(*value, pointer, mask)?;
                continue;
            }
            for lane in 0..chunk.width as i64 {
                let bytes = i64::from(element_bytes(view.element));
                let offset = self.multiply(Size::Const(lane * bytes), view.strides[chunk.axis])?;
                let place = self.byte_offset(pointer, offset)?;
                let scalar = self.lane(*value, lane)?;
                match mask {
                    Some(mask) => {
                        let inside = self.lane(mask, lane)?;
                        self.if_then(inside, |lowering| lowering.store_element(scalar, place, None))?;
                    }
                    None => self.store_element(scalar, place, None)?,
                }
            }
        }
        Ok(())
    }

    /// Runs `body` for all chunks of a tile of `shape` within `extents`, lanes along
    /// `axis`; `granularity` elements are never split.
    pub(super) fn for_chunks(
        &mut self,
        shape: &[i64],
        extents: &[Size<'c>],
        axis: usize,
        granularity: u64,
        body: AtChunk<'_, 'c>,
    ) -> Result<(), PassError> {
        self.for_outer(shape, extents, &[axis], &mut |lowering, index| {
            lowering.for_lanes(shape, extents, axis, granularity, index, body)
        })
    }

    /// Runs `body` for every index of the axes that are not in `except`.
    pub(super) fn for_outer(
        &mut self,
        shape: &[i64],
        extents: &[Size<'c>],
        except: &[usize],
        body: AtIndex<'_, 'c>,
    ) -> Result<(), PassError> {
        let index = vec![Size::Const(0); shape.len()];
        self.outer_axes(extents, except, 0, index, body)
    }

    fn outer_axes(
        &mut self,
        extents: &[Size<'c>],
        except: &[usize],
        axis: usize,
        index: Vec<Size<'c>>,
        body: AtIndex<'_, 'c>,
    ) -> Result<(), PassError> {
        if axis == extents.len() {
            return body(self, &index);
        }
        if except.contains(&axis) {
            return self.outer_axes(extents, except, axis + 1, index, body);
        }
        self.for_loop(Size::Const(0), extents[axis], 1, &[], |lowering, position, _| {
            let mut index = index;
            index[axis] = position;
            lowering.outer_axes(extents, except, axis + 1, index, body)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Runs `body` for the chunks of one row: whole vectors or blocks, then a masked tail.
    /// A tile of blocks ends inside one where another tile cuts it.
    pub(super) fn for_lanes(
        &mut self,
        shape: &[i64],
        extents: &[Size<'c>],
        axis: usize,
        granularity: u64,
        index: &[Size<'c>],
        body: AtChunk<'_, 'c>,
    ) -> Result<(), PassError> {
        let width = self.target.lanes.min((shape[axis] as u64).next_power_of_two());
        let unit = width.max(granularity);
        let vectors = (unit / width) as usize;
        let extent = extents[axis];
        let whole = self.round_down(extent, unit as i64)?;
        let chunk_at = |position: Size<'c>| {
            let mut index = index.to_vec();
            index[axis] = position;
            Chunk { index, axis, width, vectors, tail: None }
        };
        self.for_loop(Size::Const(0), whole, unit as i64, &[], |lowering, position, _| {
            body(lowering, &chunk_at(position))?;
            Ok(Vec::new())
        })?;
        if self.is_multiple(extent, unit as i64) {
            return Ok(());
        }
        let left = self.b.binary("arith.subi", self.value(extent)?, self.value(whole)?)?;
        let some = self.b.compare_integers(
            phobos_dialect::build::IntegerPredicate::SignedGreater,
            left,
            self.b.i64(0)?,
        )?;
        self.if_then(some, |lowering| {
            let mask = lowering.mask_below(left, width)?;
            let mut tail = chunk_at(whole);
            tail.tail = Some((mask, left));
            body(lowering, &tail)
        })
    }
}
