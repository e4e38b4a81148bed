//! Tensor maps: what `cp.async.bulk.tensor` knows of a tensor.
//!
//! A driver's encoding is its own affair. This one is the emulator's: whoever
//! launches a kernel makes the 128 bytes with [`TensorMap::encode`].

/// Bytes of a tensor map.
pub const BYTES: usize = 128;
/// The most bytes of a box: more than any shared memory.
const MOST: u64 = 1 << 18;
const MAGIC: u32 = 0x4d54_4850;

/// How rows of shared memory are permuted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Swizzle {
    #[default]
    None,
    Bytes32,
    Bytes64,
    Bytes128,
}

impl Swizzle {
    /// The permuted address: 16-byte pieces change places within a row, by the
    /// row's place among eight.
    pub fn apply(self, address: u64) -> u64 {
        let mask = match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 3,
            Swizzle::Bytes128 => 7,
        };
        address ^ (address >> 7 & mask) << 4
    }

    /// Bytes of a row.
    pub fn span(self) -> u64 {
        match self {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }
}

/// A tensor of up to five dimensions, the fastest first, and the box that a copy
/// moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorMap {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element: u8,
    /// Where the tensor lies.
    pub base: u64,
    /// Elements by dimension.
    pub sizes: Vec<u64>,
    /// Bytes from one index to the next, from the second dimension on.
    pub strides: Vec<u64>,
    /// Elements of the box by dimension.
    pub extents: Vec<u32>,
    /// How the box lies in shared memory.
    pub swizzle: Swizzle,
    /// What elements outside of the tensor read as: zeros, or NaNs of this code.
    pub fill: u64,
}

impl TensorMap {
    /// The 128 bytes.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut put = |at: usize, data: &[u8]| {
            if let Some(target) = bytes.get_mut(at..at + data.len()) {
                target.copy_from_slice(data);
            }
        };
        put(0, &MAGIC.to_le_bytes());
        put(4, &[self.sizes.len() as u8, self.element, self.swizzle as u8]);
        put(8, &self.base.to_le_bytes());
        put(16, &self.fill.to_le_bytes());
        for (i, size) in self.sizes.iter().take(5).enumerate() {
            put(24 + 8 * i, &size.to_le_bytes());
        }
        for (i, stride) in self.strides.iter().take(4).enumerate() {
            put(64 + 8 * i, &stride.to_le_bytes());
        }
        for (i, extent) in self.extents.iter().take(5).enumerate() {
            put(96 + 4 * i, &extent.to_le_bytes());
        }
        bytes
    }

    /// The map in 128 bytes, or what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<TensorMap, String> {
        let word = |at: usize| {
            bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
        };
        let half = |at: usize| word(at) as u32;
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        if bytes.len() < BYTES || half(0) != MAGIC {
            return Err("there is no tensor map of this emulator there".to_owned());
        }
        let rank = usize::from(byte(4));
        let swizzle = match byte(6) {
            0 => Swizzle::None,
            1 => Swizzle::Bytes32,
            2 => Swizzle::Bytes64,
            3 => Swizzle::Bytes128,
            other => return Err(format!("a tensor map with the swizzle {other}")),
        };
        let map = TensorMap {
            element: byte(5),
            base: word(8),
            fill: word(16),
            sizes: (0..rank.min(5)).map(|i| word(24 + 8 * i)).collect(),
            strides: (1..rank.min(5)).map(|i| word(64 + 8 * (i - 1))).collect(),
            extents: (0..rank.min(5)).map(|i| half(96 + 4 * i)).collect(),
            swizzle,
        };
        if !(1..=5).contains(&rank) || !matches!(map.element, 1 | 2 | 4 | 8) {
            return Err(format!("a tensor map of rank {rank} with elements of {} bytes", map.element));
        }
        let small = |extent: &u32| (1..=256).contains(extent);
        if !map.extents.iter().all(small) || map.box_bytes() > MOST {
            return Err(format!("a tensor map with a box of {:?}", map.extents));
        }
        Ok(map)
    }

    /// Bytes of a box.
    pub fn box_bytes(&self) -> u64 {
        self.extents.iter().fold(self.element.into(), |bytes, extent| bytes * u64::from(*extent))
    }

    /// Each element of the box at `start`, in the order of shared memory: its address,
    /// or `None` outside of the tensor.
    pub fn elements(&self, start: &[i32]) -> Vec<Option<u64>> {
        let count = self.extents.iter().fold(1usize, |count, extent| count * *extent as usize);
        let mut list = Vec::with_capacity(count);
        for flat in 0..count {
            let mut rest = flat;
            let mut address = Some(self.base);
            for (dim, extent) in self.extents.iter().enumerate() {
                let at = i64::from(start.get(dim).copied().unwrap_or(0)) + (rest % *extent as usize) as i64;
                rest /= *extent as usize;
                let stride = match dim {
                    0 => self.element.into(),
                    _ => self.strides.get(dim - 1).copied().unwrap_or(0),
                };
                let inside = at >= 0 && (at as u64) < self.sizes.get(dim).copied().unwrap_or(0);
                address = address
                    .filter(|_| inside)
                    .map(|address| address.wrapping_add((at as u64).wrapping_mul(stride)));
            }
            list.push(address);
        }
        list
    }
}

/// A field of a map, as `tensormap.replace` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Field {
    Address,
    Rank,
    BoxDim(u8),
    GlobalDim(u8),
    GlobalStride(u8),
    ElementStride(u8),
    ElementType,
    Interleave,
    Swizzle,
    Fill,
}

impl Field {
    /// Where a new value goes: the first byte, how many, and what they hold; `None`
    /// for values that are not modelled.
    pub fn encode(self, value: u64) -> Option<(u64, u8, u64)> {
        Some(match self {
            Field::Address => (8, 8, value),
            Field::Rank => (4, 1, (value & 0xff) + 1),
            Field::BoxDim(dim) => (96 + 4 * u64::from(dim), 4, value),
            Field::GlobalDim(dim) => (24 + 8 * u64::from(dim), 8, value & 0xffff_ffff),
            Field::GlobalStride(dim) => (64 + 8 * u64::from(dim), 8, value),
            Field::ElementStride(_) if value & 0xffff_ffff == 1 => (7, 1, 0),
            Field::ElementType => {
                let bytes = match value {
                    0 => 1,
                    1 | 6 | 0xa => 2,
                    2 | 3 | 7 | 8 | 0xb | 0xc => 4,
                    4 | 5 | 9 => 8,
                    _ => return None,
                };
                (5, 1, bytes)
            }
            Field::Interleave if value == 0 => (7, 1, 0),
            Field::Swizzle if value <= 3 => (6, 1, value),
            Field::Fill if value <= 1 => (16, 8, if value == 1 { u64::MAX } else { 0 }),
            _ => return None,
        })
    }
}

/// The first four bytes of a map.
pub fn magic() -> u64 {
    MAGIC.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_survives_its_encoding() {
        let map = TensorMap {
            element: 2,
            base: 0x7f00_0000_1000,
            sizes: vec![100, 7, 3],
            strides: vec![256, 2048],
            extents: vec![64, 4, 1],
            swizzle: Swizzle::Bytes128,
            fill: 0,
        };
        assert_eq!(TensorMap::decode(&map.encode()), Ok(map.clone()));
        let elements = map.elements(&[60, 5, 1]);
        assert_eq!((elements.len(), map.box_bytes()), (256, 512));
        assert_eq!(elements[0], Some(map.base + 120 + 5 * 256 + 2048));
        assert_eq!(
            (elements[39], elements[40], elements[64 * 2]),
            (Some(map.base + 198 + 5 * 256 + 2048), None, None)
        );
        assert!(TensorMap::decode(&[0; 128]).is_err());
    }

    #[test]
    fn swizzles_permute_within_their_rows() {
        assert_eq!(Swizzle::Bytes128.apply(0x380 + 0x10), 0x380 + 0x60);
        assert_eq!(Swizzle::Bytes64.apply(0x180 + 0x20), 0x180 + 0x10);
        assert_eq!(Swizzle::Bytes32.apply(0x80), 0x90);
        assert_eq!(Swizzle::None.apply(0x3f0), 0x3f0);
    }
}
