//! The device layout of block formats: rows interleaved, so that one vector load takes
//! the same bytes of [`GROUP_ROWS`] rows, and a matrix is one linear stream.
//!
//! A matrix of `rows` x `columns` elements (the last two axes; leading axes are whole
//! matrices one after the other) is cut into groups of [`GROUP_ROWS`] rows. A group
//! holds its blocks column by column, and a block column holds, for each
//! [`Piece`] of the format in order, that piece of every row of the group:
//!
//! ```text
//! group 0: block 0: piece 0 of rows 0, 1, ..., 15, piece 1 of rows 0, ..., 15, ...
//!          block 1: ...
//! group 1: ...
//! ```
//! The last group is filled up with rows of zero bytes. The bytes of a whole group are
//! those of its rows in the file: nothing grows but by the padding.
//!
//! Activations are on the left of products, a few rows at a time, and are read an element
//! for all lanes: they stay in rows ([`Layout::Rows`]).

use super::Format;
use crate::Element;

/// Rows of a group: the f32 lanes of the widest vectors of the host.
pub const GROUP_ROWS: usize = 16;

/// Bytes of a block that stay together in the device layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte in the block as the file has it.
    pub offset: usize,
    /// How many bytes: 2 for scales, 4 where vectors of codes are read.
    pub bytes: usize,
}

/// The pieces of a block of `bytes` bytes, in the order of the file: 2 bytes at each of
/// `scales`, 4 bytes elsewhere. `N` must be how many there are.
pub(super) const fn pieces<const N: usize>(bytes: usize, scales: &[usize]) -> [Piece; N] {
    let mut pieces = [Piece { offset: 0, bytes: 0 }; N];
    let (mut piece, mut offset) = (0, 0);
    while offset < bytes {
        let mut size = 4;
        let mut scale = 0;
        while scale < scales.len() {
            if scales[scale] == offset {
                size = 2;
            }
            scale += 1;
        }
        pieces[piece] = Piece { offset, bytes: size };
        piece += 1;
        offset += size;
    }
    assert!(piece == N && offset == bytes);
    pieces
}

/// How a matrix of a format lies on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// [`GROUP_ROWS`] rows interleaved, in these pieces, in the order of the list.
    Interleaved(&'static [Piece]),
    /// Row after row, block after block.
    Rows,
}

/// Bytes that do not make up what they should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The bytes of a matrix are too many or too few.
    #[error(
        "{rows} rows of {blocks_per_row} blocks of `{format}` are {wanted} bytes in {place}, not {found}"
    )]
    Matrix {
        /// The format.
        format: &'static str,
        /// Where the bytes are: the file or the device layout.
        place: &'static str,
        /// The rows.
        rows: usize,
        /// The blocks of a row.
        blocks_per_row: usize,
        /// The bytes that they are.
        wanted: usize,
        /// The bytes that were given.
        found: usize,
    },
    /// The bytes of a tensor are too many or too few.
    #[error("a tensor of {element} of shape {shape:?} is {wanted} bytes in {place}, not {found}")]
    Tensor {
        /// The element type.
        element: Element,
        /// The shape.
        shape: Vec<u64>,
        /// Where the bytes are: the file or the device layout.
        place: &'static str,
        /// The bytes that it is.
        wanted: u64,
        /// The bytes that were given.
        found: usize,
    },
    /// A shape that no tensor has: it overflows, or its rows are not whole blocks.
    #[error("no tensor of {element} has the shape {shape:?}: its rows are whole blocks of {}", element.block_elements())]
    Shape {
        /// The element type.
        element: Element,
        /// The shape.
        shape: Vec<u64>,
    },
}

impl Format {
    /// Rows that lie together on a device: 1, or [`GROUP_ROWS`].
    pub const fn group_rows(&self) -> usize {
        match self.layout {
            Layout::Interleaved(_) => GROUP_ROWS,
            Layout::Rows => 1,
        }
    }

    /// The pieces of an interleaved format; none of the others.
    pub const fn pieces(&self) -> &'static [Piece] {
        match self.layout {
            Layout::Interleaved(pieces) => pieces,
            Layout::Rows => &[],
        }
    }

    /// Bytes of a matrix on a device, or `None` when the size overflows.
    pub fn device_matrix_bytes(&self, rows: u64, blocks_per_row: u64) -> Option<u64> {
        let groups = rows.div_ceil(self.group_rows() as u64);
        groups.checked_mul(blocks_per_row)?.checked_mul((self.group_rows() * self.bytes) as u64)
    }

    /// Where byte `offset` of a block is, counted in bytes per row from the start of its
    /// block column: the offset of its piece there, the piece, and its place in it.
    /// `None` outside the block, and for formats that are not interleaved.
    pub fn device_place(&self, offset: usize) -> Option<(usize, Piece, usize)> {
        let mut before = 0;
        for piece in self.pieces() {
            if (piece.offset..piece.offset + piece.bytes).contains(&offset) {
                return Some((before, *piece, offset - piece.offset));
            }
            before += piece.bytes;
        }
        None
    }

    /// The bytes of a row and of a group of a matrix, whose two orders have `file` and `device` bytes.
    fn matrix_bytes(
        &self,
        (rows, blocks_per_row): (usize, usize),
        file: usize,
        device: usize,
    ) -> Result<(usize, usize), LayoutError> {
        let row_bytes = blocks_per_row * self.bytes;
        let group_bytes = self.group_rows() * row_bytes;
        let sizes = [
            ("the file", rows * row_bytes, file),
            ("the device layout", rows.div_ceil(self.group_rows()) * group_bytes, device),
        ];
        match sizes.into_iter().find(|(_, wanted, found)| wanted != found) {
            None => Ok((row_bytes, group_bytes)),
            Some((place, wanted, found)) => {
                Err(LayoutError::Matrix { format: self.name, place, rows, blocks_per_row, wanted, found })
            }
        }
    }

    /// Reorders one matrix from the file's order into the device layout.
    pub fn to_device(
        &self,
        rows: usize,
        blocks_per_row: usize,
        file: &[u8],
        device: &mut [u8],
    ) -> Result<(), LayoutError> {
        let (row_bytes, group_bytes) = self.matrix_bytes((rows, blocks_per_row), file.len(), device.len())?;
        if group_bytes == 0 {
            return Ok(());
        }
        if self.layout == Layout::Rows {
            device.copy_from_slice(file);
            return Ok(());
        }
        for (group, source) in device.chunks_exact_mut(group_bytes).zip(file.chunks(group_bytes)) {
            self.interleave(row_bytes, source, group);
        }
        Ok(())
    }

    /// Brings one matrix back from the device layout into the file's order: the inverse of
    /// [`Format::to_device`]. The rows that fill up the last group are left out.
    pub fn from_device(
        &self,
        rows: usize,
        blocks_per_row: usize,
        device: &[u8],
        file: &mut [u8],
    ) -> Result<(), LayoutError> {
        let (row_bytes, group_bytes) = self.matrix_bytes((rows, blocks_per_row), file.len(), device.len())?;
        if group_bytes == 0 {
            return Ok(());
        }
        if self.layout == Layout::Rows {
            file.copy_from_slice(device);
            return Ok(());
        }
        for (group, target) in device.chunks_exact(group_bytes).zip(file.chunks_mut(group_bytes)) {
            self.separate(row_bytes, group, target);
        }
        Ok(())
    }

    /// One group; `target` takes its rows, fewer than a group at the end of a matrix.
    fn separate(&self, row_bytes: usize, group: &[u8], target: &mut [u8]) {
        for (index, column) in group.chunks_exact(GROUP_ROWS * self.bytes).enumerate() {
            let mut rest = column;
            for piece in self.pieces() {
                let (source, after) = rest.split_at(GROUP_ROWS * piece.bytes);
                let at = index * self.bytes + piece.offset;
                for (piece, row) in source.chunks_exact(piece.bytes).zip(target.chunks_exact_mut(row_bytes)) {
                    if let Some(place) = row.get_mut(at..at + piece.len()) {
                        place.copy_from_slice(piece);
                    }
                }
                rest = after;
            }
        }
    }

    /// One group; `source` holds its rows, fewer than a group at the end of a matrix.
    fn interleave(&self, row_bytes: usize, source: &[u8], group: &mut [u8]) {
        let mut rows: [&[u8]; GROUP_ROWS] = [&[]; GROUP_ROWS];
        if source.len() < group.len() {
            group.fill(0);
        }
        for (row, blocks) in rows.iter_mut().zip(source.chunks_exact(row_bytes)) {
            *row = blocks;
        }
        // The group is written in order; the rows are read as so many streams.
        for (index, column) in group.chunks_exact_mut(GROUP_ROWS * self.bytes).enumerate() {
            let mut rest = column;
            for piece in self.pieces() {
                let (target, after) = rest.split_at_mut(GROUP_ROWS * piece.bytes);
                let at = index * self.bytes + piece.offset;
                match piece.bytes {
                    2 => gather::<2>(&rows, at, target),
                    4 => gather::<4>(&rows, at, target),
                    bytes => {
                        for (target, row) in target.chunks_exact_mut(bytes).zip(rows) {
                            if let Some(piece) = row.get(at..at + bytes) {
                                target.copy_from_slice(piece);
                            }
                        }
                    }
                }
                rest = after;
            }
        }
    }
}

/// The `N` bytes at `at` of each row, one after the other. A row that is not there leaves
/// its place as it was.
fn gather<const N: usize>(rows: &[&[u8]; GROUP_ROWS], at: usize, target: &mut [u8]) {
    for (target, row) in target.as_chunks_mut::<N>().0.iter_mut().zip(rows) {
        if let Some(piece) = row.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
            *target = *piece;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ALL;
    use super::*;

    #[test]
    fn every_byte_lands_where_device_place_says() {
        for format in ALL {
            let (rows, blocks) = (19, 3);
            let file: Vec<u8> =
                (0..rows * blocks * format.bytes).map(|byte| (byte * 7 + byte / 251) as u8).collect();
            let mut device =
                vec![1; format.device_matrix_bytes(rows as u64, blocks as u64).unwrap() as usize];
            format.to_device(rows, blocks, &file, &mut device).unwrap();
            let mut back = vec![1; file.len()];
            format.from_device(rows, blocks, &device, &mut back).unwrap();
            assert!(back == file, "{}", format.name);
            for row in 0..32 {
                for block in 0..blocks {
                    for byte in 0..format.bytes {
                        let (before, piece, at) = format.device_place(byte).unwrap();
                        let column = (row / GROUP_ROWS * blocks + block) * GROUP_ROWS * format.bytes;
                        let place = column + before * GROUP_ROWS + row % GROUP_ROWS * piece.bytes + at;
                        let wanted =
                            if row < rows { file[(row * blocks + block) * format.bytes + byte] } else { 0 };
                        assert_eq!(
                            device[place], wanted,
                            "{} row {row} block {block} byte {byte}",
                            format.name
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_sizes_are_refused() {
        let format = ALL[0];
        let mut device = vec![0; 16 * format.bytes];
        assert!(format.to_device(2, 1, &vec![0; format.bytes], &mut device).is_err());
        assert!(format.to_device(1, 1, &vec![0; format.bytes], &mut device[1..]).is_err());
        assert!(format.from_device(1, 1, &device[1..], &mut vec![0; format.bytes]).is_err());
        assert!(format.from_device(2, 1, &device, &mut vec![0; format.bytes]).is_err());
    }
}
