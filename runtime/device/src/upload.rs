//! Filling new buffers piece by piece, so that nothing large is held twice.

use crate::{buffer::Buffer, device::Device, error::DeviceError};

/// How many bytes a device that copies holds beside its own memory, unless one unit is larger.
pub const STAGING_BYTES: u64 = 16 << 20;

/// A buffer to be allocated and filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its length in bytes.
    pub bytes: u64,
    /// Pieces begin at multiples of this many bytes: what must be written together. 0 counts as 1.
    pub unit: u64,
}

/// A part of one of the wanted buffers.
pub struct Piece<'a> {
    /// Which of them.
    pub index: usize,
    /// The first byte in it: a multiple of its unit.
    pub offset: u64,
    /// The memory to write, all zeros.
    pub bytes: &'a mut [u8],
}

/// Where a piece lies.
struct Place {
    index: usize,
    offset: u64,
    bytes: u64,
}

/// The pieces of `wanted` in batches of at most `limit` bytes, or of one unit.
fn batches(wanted: &[Wanted], limit: u64) -> Vec<Vec<Place>> {
    let mut batches = Vec::new();
    let (mut batch, mut room) = (Vec::new(), limit);
    for (index, Wanted { bytes, unit }) in wanted.iter().enumerate() {
        let unit = (*unit).max(1);
        let mut offset = 0;
        while offset < *bytes {
            let left = bytes - offset;
            let mut fit = left.min(room);
            if fit < left {
                fit -= fit % unit;
            }
            if fit == 0 && !batch.is_empty() {
                batches.push(std::mem::take(&mut batch));
                room = limit;
                continue;
            }
            let fit = if fit == 0 { unit.min(left) } else { fit };
            batch.push(Place { index, offset, bytes: fit });
            offset += fit;
            room = room.saturating_sub(fit);
        }
    }
    batches.push(batch);
    batches
}

/// [`Device::allocate_filled`] for a device that copies.
pub(crate) fn allocate_filled<D: Device + ?Sized>(
    device: &D,
    wanted: &[Wanted],
    fill: &mut dyn FnMut(Vec<Piece<'_>>),
) -> Result<Vec<Buffer>, DeviceError> {
    let buffers: Vec<Buffer> =
        wanted.iter().map(|wanted| device.allocate(wanted.bytes)).collect::<Result<_, _>>()?;
    let mut staging = Vec::new();
    for batch in batches(wanted, STAGING_BYTES) {
        let bytes = batch.iter().map(|place| place.bytes).sum::<u64>();
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        staging.clear();
        staging.try_reserve(size).map_err(|_| DeviceError::OutOfMemory {
            device: device.name().to_owned(),
            bytes,
            total: device.memory().total,
        })?;
        staging.resize(size, 0);
        let mut rest: &mut [u8] = &mut staging;
        let mut pieces = Vec::with_capacity(batch.len());
        for Place { index, offset, bytes } in &batch {
            let (piece, after) = rest.split_at_mut(*bytes as usize);
            pieces.push(Piece { index: *index, offset: *offset, bytes: piece });
            rest = after;
        }
        fill(pieces);
        let mut rest: &[u8] = &staging;
        for Place { index, offset, bytes } in &batch {
            let (piece, after) = rest.split_at(*bytes as usize);
            if let Some(buffer) = buffers.get(*index) {
                device.write(buffer, *offset, piece)?;
            }
            rest = after;
        }
    }
    Ok(buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(wanted: &[(u64, u64)], limit: u64) -> Vec<Vec<(usize, u64, u64)>> {
        let wanted: Vec<Wanted> = wanted.iter().map(|&(bytes, unit)| Wanted { bytes, unit }).collect();
        let place = |place: &Place| (place.index, place.offset, place.bytes);
        batches(&wanted, limit).iter().map(|batch| batch.iter().map(place).collect()).collect()
    }

    #[test]
    fn pieces_are_whole_units_within_the_limit() {
        assert_eq!(cut(&[(5, 1), (0, 4), (3, 1)], 16), [vec![(0, 0, 5), (2, 0, 3)]]);
        assert_eq!(
            cut(&[(10, 4), (6, 1)], 8),
            [vec![(0, 0, 8)], vec![(0, 8, 2), (1, 0, 6)]],
            "the last unit may be short"
        );
        assert_eq!(cut(&[(7, 1)], 3), [vec![(0, 0, 3)], vec![(0, 3, 3)], vec![(0, 6, 1)]]);
        assert_eq!(cut(&[(2, 1), (12, 6)], 4), [vec![(0, 0, 2)], vec![(1, 0, 6)], vec![(1, 6, 6)]]);
        assert_eq!(cut(&[], 4), [vec![]]);
    }
}
