//! Device allocations between launches.

use super::GLOBAL_BASE;

/// The size of the pages in which a run keeps what it wrote.
pub const PAGE: u64 = 1024;
/// Freed allocations remembered, so that a use after free is named as one.
const FREED_KEPT: usize = 4096;

/// One allocation. Its address is never given out again.
#[derive(Debug)]
pub struct Allocation {
    /// The address of its first byte, a multiple of [`PAGE`].
    pub base: u64,
    /// Its size in bytes.
    pub len: u64,
    /// The content; empty when freed.
    pub bytes: Vec<u8>,
    /// A bit a byte: written at least once. `None` means all of them.
    pub defined: Option<Vec<u64>>,
    /// Whether it was freed.
    pub freed: bool,
    /// Whether kernels may only read it: reads need no race detection then.
    pub read_only: bool,
    /// A name for reports.
    pub name: String,
}

/// All allocations of a device.
#[derive(Debug)]
pub struct GlobalMemory {
    allocations: Vec<Allocation>,
    next: u64,
    live_bytes: u64,
}

/// An access to device memory from the host that cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The handle is of a freed or unknown allocation.
    #[error("address {0:#x} is not the base of a live allocation")]
    NotAllocated(u64),
    /// The range leaves the allocation.
    #[error("bytes {offset}..{offset}+{bytes} are outside an allocation of {len} bytes")]
    OutOfRange {
        /// The first byte.
        offset: u64,
        /// The bytes wanted.
        bytes: u64,
        /// The allocation's size.
        len: u64,
    },
    /// The host has no memory for it.
    #[error("cannot allocate {0} bytes of emulated device memory")]
    TooLarge(u64),
}

impl Default for GlobalMemory {
    fn default() -> Self {
        GlobalMemory { allocations: Vec::new(), next: GLOBAL_BASE, live_bytes: 0 }
    }
}

impl GlobalMemory {
    /// Allocates `bytes`, zeroed; with `defined` reading them is no error.
    pub fn allocate(
        &mut self,
        bytes: u64,
        defined: bool,
        name: impl Into<String>,
    ) -> Result<u64, MemoryError> {
        let too_large = || MemoryError::TooLarge(bytes);
        let len = usize::try_from(bytes).map_err(|_| too_large())?;
        let mut content = Vec::new();
        content.try_reserve_exact(len).map_err(|_| too_large())?;
        content.resize(len, 0);
        let map = if defined { None } else { Some(vec![0; len.div_ceil(64)]) };
        let base = self.next;
        // At least a page between allocations: neighbours are out of bounds.
        let span = bytes
            .checked_next_multiple_of(PAGE)
            .and_then(|span| span.checked_add(PAGE))
            .ok_or_else(too_large)?;
        self.next = base.checked_add(span).ok_or_else(too_large)?;
        self.live_bytes += bytes;
        self.allocations.push(Allocation {
            base,
            len: bytes,
            bytes: content,
            defined: map,
            freed: false,
            read_only: false,
            name: name.into(),
        });
        Ok(base)
    }

    /// How many bytes of the allocation at `base` are undefined, and the first.
    pub fn undefined(&self, base: u64) -> Result<Option<(u64, u64)>, MemoryError> {
        let allocation = &self.allocations[self.index_of(base)?];
        let Some(map) = &allocation.defined else { return Ok(None) };
        let undefined = |at: &u64| map.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 0);
        let mut all = (0..allocation.len).filter(undefined);
        Ok(all.next().map(|first| (1 + all.count() as u64, first)))
    }

    /// Forbids kernels to write the allocation at `base`.
    pub fn protect(&mut self, base: u64) -> Result<(), MemoryError> {
        let index = self.index_of(base)?;
        self.allocations[index].read_only = true;
        Ok(())
    }

    /// Names the allocation at `base` in reports.
    pub fn rename(&mut self, base: u64, name: impl Into<String>) -> Result<(), MemoryError> {
        let index = self.index_of(base)?;
        self.allocations[index].name = name.into();
        Ok(())
    }

    /// Frees the allocation at `base`.
    pub fn free(&mut self, base: u64) -> Result<(), MemoryError> {
        let index = self.index_of(base)?;
        let allocation = &mut self.allocations[index];
        allocation.freed = true;
        allocation.bytes = Vec::new();
        allocation.defined = None;
        self.live_bytes -= allocation.len;
        let freed = self.allocations.iter().filter(|allocation| allocation.freed).count();
        if freed > FREED_KEPT
            && let Some(oldest) = self.allocations.iter().position(|allocation| allocation.freed)
        {
            self.allocations.remove(oldest);
        }
        Ok(())
    }

    /// The address that the next allocation will have.
    pub fn next_base(&self) -> u64 {
        self.next
    }

    /// Bytes in live allocations.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    fn index_of(&self, base: u64) -> Result<usize, MemoryError> {
        match self.allocations.binary_search_by_key(&base, |allocation| allocation.base) {
            Ok(index) if !self.allocations[index].freed => Ok(index),
            _ => Err(MemoryError::NotAllocated(base)),
        }
    }

    fn range(
        &self,
        base: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<(usize, std::ops::Range<usize>), MemoryError> {
        let index = self.index_of(base)?;
        let len = self.allocations[index].len;
        let end = offset.checked_add(bytes).filter(|end| *end <= len);
        let Some(end) = end else { return Err(MemoryError::OutOfRange { offset, bytes, len }) };
        Ok((index, offset as usize..end as usize))
    }

    /// Writes from the host; the bytes become defined.
    pub fn write(&mut self, base: u64, offset: u64, data: &[u8]) -> Result<(), MemoryError> {
        let (index, range) = self.range(base, offset, data.len() as u64)?;
        let allocation = &mut self.allocations[index];
        if range.len() as u64 == allocation.len {
            allocation.defined = None;
        }
        if let Some(map) = &mut allocation.defined {
            for byte in range.clone() {
                map[byte / 64] |= 1 << (byte % 64);
            }
        }
        allocation.bytes[range].copy_from_slice(data);
        Ok(())
    }

    /// Reads to the host.
    pub fn read(&self, base: u64, offset: u64, data: &mut [u8]) -> Result<(), MemoryError> {
        let (index, range) = self.range(base, offset, data.len() as u64)?;
        data.copy_from_slice(&self.allocations[index].bytes[range]);
        Ok(())
    }

    /// The index of the allocation that holds `address`, freed ones included.
    #[inline]
    pub fn find(&self, address: u64) -> Option<usize> {
        let after = self.allocations.partition_point(|allocation| allocation.base <= address);
        let index = after.checked_sub(1)?;
        let allocation = &self.allocations[index];
        if address - allocation.base < allocation.len { Some(index) } else { None }
    }

    /// The allocation nearest below `address`, for messages.
    pub fn nearest(&self, address: u64) -> Option<&Allocation> {
        let after = self.allocations.partition_point(|allocation| allocation.base <= address);
        match after.checked_sub(1) {
            Some(index) => self.allocations.get(index),
            None => self.allocations.first(),
        }
    }

    /// An allocation by index.
    #[inline]
    pub fn allocation(&self, index: usize) -> Option<&Allocation> {
        self.allocations.get(index)
    }

    /// An allocation by index, for the commit of a run.
    pub(super) fn allocation_mut(&mut self, index: usize) -> Option<&mut Allocation> {
        self.allocations.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_use_after_free() {
        let mut memory = GlobalMemory::default();
        let a = memory.allocate(100, true, "a").unwrap();
        let b = memory.allocate(8, false, "b").unwrap();
        assert!(b >= a + 100 + PAGE);
        assert_eq!(memory.find(a + 99), Some(0));
        assert_eq!(memory.find(a + 100), None);
        memory.write(b, 4, &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.allocation(1).unwrap().defined, Some(vec![0xf0]));
        assert_eq!(memory.write(b, 5, &[0; 4]), Err(MemoryError::OutOfRange { offset: 5, bytes: 4, len: 8 }));
        memory.free(a).unwrap();
        assert_eq!(memory.free(a), Err(MemoryError::NotAllocated(a)));
        assert!(memory.find(a + 5).is_some());
    }
}
