//! Memory of the host device.
//!
//! Kernels write through addresses, so memory is held by raw pointer and never as a
//! reference that lives across a launch. The discipline: every access from Rust
//! happens in a method of [`HostMemory`], under the device's lock, and copies to or
//! from a slice of the caller's; kernels run under the same lock. So no two accesses
//! race, and no Rust reference to the bytes exists while a kernel runs, except to
//! imported bytes, which nobody writes.
#![allow(unsafe_code)]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ops::Range,
    ptr::NonNull,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use super::NAME;
use crate::{device::SharedBytes, error::DeviceError};

/// Alignment of allocated memory: a cache line, and the widest vector.
pub(super) const ALIGNMENT: usize = 64;
/// From here on memory is mapped rather than taken from the heap: pages that nobody
/// touches then take no memory, where the heap would zero what it hands out again.
const MAPPED: usize = 128 << 10;
/// A huge page.
const HUGE: usize = 2 << 20;
/// From here on memory that is zeroed, and used bit by bit as a cache is, asks for huge
/// pages: what is used before its time is then an eighth at most.
const LAZY: usize = 8 * HUGE;
/// A page of x86-64.
const PAGE: usize = 4096;

/// A range of memory and what owns it.
pub(super) struct HostMemory {
    pointer: NonNull<u8>,
    len: usize,
    owner: Owner,
    /// Counts the bytes of allocated buffers.
    counter: Option<Arc<AtomicU64>>,
}

enum Owner {
    /// Nothing to free: the range is empty.
    Empty,
    /// From the global allocator.
    Heap(Layout),
    /// From `mmap`.
    Mapped { _map: Map },
    /// A part of a map that several share.
    Part { _map: Arc<Map> },
    /// The caller's bytes, kept alive by the handle.
    Shared { _bytes: SharedBytes },
}

// SAFETY: the pointer is to memory that the value owns or keeps alive; accesses from
// several threads are ordered by the device's lock (see the module's text).
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// No memory.
    pub fn empty() -> HostMemory {
        HostMemory { pointer: dangling(), len: 0, owner: Owner::Empty, counter: None }
    }

    /// `bytes` zeros, aligned to [`ALIGNMENT`]. `counter` holds the bytes while they live.
    pub fn zeroed(bytes: u64, counter: Option<Arc<AtomicU64>>) -> Result<HostMemory, DeviceError> {
        let fail = || out_of_memory(bytes);
        let len = usize::try_from(bytes).map_err(|_| fail())?;
        if len == 0 {
            return Ok(HostMemory::empty());
        }
        check_size(bytes)?;
        let (pointer, owner) = if len >= MAPPED {
            let map = Map::new(len, len >= LAZY).ok_or_else(fail)?;
            (map.pointer, Owner::Mapped { _map: map })
        } else {
            let layout = Layout::from_size_align(len, ALIGNMENT).map_err(|_| fail())?;
            // SAFETY: the layout's size is not 0.
            let pointer = unsafe { alloc_zeroed(layout) };
            (NonNull::new(pointer).ok_or_else(fail)?, Owner::Heap(layout))
        };
        if let Some(counter) = &counter {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(HostMemory { pointer, len, owner, counter })
    }

    /// Memory of `lengths` bytes each, aligned to [`ALIGNMENT`], in one map, which `fill` has
    /// written. `counter` holds the bytes while they live.
    pub fn filled(
        lengths: &[u64],
        counter: &Arc<AtomicU64>,
        fill: &mut dyn FnMut(Vec<&mut [u8]>),
    ) -> Result<Vec<HostMemory>, DeviceError> {
        let whole = lengths
            .iter()
            .try_fold(0u64, |sum, len| sum.checked_add(len.checked_next_multiple_of(ALIGNMENT as u64)?));
        let bytes = whole.unwrap_or(u64::MAX);
        check_size(bytes)?;
        let size = usize::try_from(bytes).map_err(|_| out_of_memory(bytes))?;
        if size == 0 {
            fill(lengths.iter().map(|_| &mut [][..]).collect());
            return Ok(lengths.iter().map(|_| HostMemory::empty()).collect());
        }
        let map = Map::new(size, size >= HUGE).ok_or_else(|| out_of_memory(bytes))?;
        // SAFETY: zeroed memory of this size that nobody else has a pointer to; the slice ends
        // before anyone gets one.
        let mut rest = unsafe { std::slice::from_raw_parts_mut(map.pointer.as_ptr(), size) };
        let mut slices = Vec::with_capacity(lengths.len());
        for len in lengths {
            // Each length is a part of `size`, so it fits.
            let (part, after) = rest.split_at_mut((*len as usize).next_multiple_of(ALIGNMENT));
            let (part, _padding) = part.split_at_mut(*len as usize);
            slices.push(part);
            rest = after;
        }
        fill(slices);

        let map = Arc::new(map);
        let mut offset = 0;
        let part = |len: &u64| {
            let pointer = map.pointer.as_ptr().wrapping_add(offset);
            offset += (*len as usize).next_multiple_of(ALIGNMENT);
            counter.fetch_add(*len, Ordering::Relaxed);
            HostMemory {
                pointer: NonNull::new(pointer).unwrap_or_else(dangling),
                len: *len as usize,
                owner: Owner::Part { _map: Arc::clone(&map) },
                counter: Some(Arc::clone(counter)),
            }
        };
        Ok(lengths.iter().map(part).collect())
    }

    /// `range` of the caller's bytes, in place.
    pub fn shared(bytes: SharedBytes, range: Range<usize>) -> Result<HostMemory, DeviceError> {
        let all: &[u8] = (*bytes).as_ref();
        let part = all.get(range.clone()).ok_or(DeviceError::OutOfBounds {
            action: "import",
            offset: range.start as u64,
            bytes: range.end.saturating_sub(range.start) as u64,
            len: all.len() as u64,
        })?;
        // `AsRef` lends the slice for as long as the object may be shared, and the
        // handle in `owner` keeps it shared.
        let pointer = NonNull::from(part).cast();
        let len = part.len();
        Ok(HostMemory { pointer, len, owner: Owner::Shared { _bytes: bytes }, counter: None })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The address that kernels get.
    pub fn address(&self) -> u64 {
        self.pointer.as_ptr().expose_provenance() as u64
    }

    /// A pointer to byte `offset`, which must be at most the length.
    pub fn pointer_at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.len);
        self.pointer.as_ptr().wrapping_add(offset)
    }

    /// Copies `data` to `offset`. The caller holds the device's lock, and the memory is
    /// not [`Owner::Shared`].
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let start = self.offset("write", offset, data.len() as u64)?;
        if matches!(self.owner, Owner::Shared { .. }) {
            return Err(DeviceError::ReadOnly { action: "write" });
        }
        // SAFETY: the range was checked; the memory is ours and the lock makes the access
        // exclusive; `data` is a Rust slice, which never overlaps memory held by pointer.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.pointer_at(start), data.len()) };
        Ok(())
    }

    /// Copies from `offset` into `data`. The caller holds the device's lock.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        let start = self.offset("read", offset, data.len() as u64)?;
        // SAFETY: the range was checked; under the lock nobody writes the memory; `data` is
        // exclusive, so it overlaps neither our memory nor shared bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer_at(start), data.as_mut_ptr(), data.len()) };
        Ok(())
    }

    /// Copies `bytes` bytes of `source`, which may be this memory. The caller holds the
    /// device's lock.
    pub fn copy_from(
        &self,
        offset: u64,
        source: &HostMemory,
        source_offset: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let from = source.offset("copy from", source_offset, bytes)?;
        let to = self.offset("copy to", offset, bytes)?;
        if matches!(self.owner, Owner::Shared { .. }) {
            return Err(DeviceError::ReadOnly { action: "copy to" });
        }
        // SAFETY: both ranges were checked, so `bytes` fits usize; the lock makes the access
        // exclusive; `copy` allows overlap.
        unsafe { std::ptr::copy(source.pointer_at(from), self.pointer_at(to), bytes as usize) };
        Ok(())
    }

    /// `offset` as an index, when `bytes` bytes from there on lie inside.
    fn offset(&self, action: &'static str, offset: u64, bytes: u64) -> Result<usize, DeviceError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len as u64 => Ok(offset as usize),
            _ => Err(DeviceError::OutOfBounds { action, offset, bytes, len: self.len as u64 }),
        }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        match &self.owner {
            // A map is unmapped by its own drop.
            Owner::Empty | Owner::Shared { .. } | Owner::Mapped { .. } | Owner::Part { .. } => {}
            // SAFETY: allocated with this layout in `zeroed`, freed once.
            Owner::Heap(layout) => unsafe { dealloc(self.pointer.as_ptr(), *layout) },
        }
        if let Some(counter) = &self.counter {
            counter.fetch_sub(self.len as u64, Ordering::Relaxed);
        }
    }
}

/// An aligned address for empty ranges.
fn dangling() -> NonNull<u8> {
    NonNull::<Line>::dangling().cast()
}

#[repr(align(64))]
struct Line;

/// Zeroed pages; unmapped when dropped.
struct Map {
    pointer: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the pages; what is done with them is up to `HostMemory`.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// `len` bytes, and more to the end of a page. With `huge`, in huge pages where they fit
    /// and the system has them.
    fn new(len: usize, huge: bool) -> Option<Map> {
        let len = len.checked_next_multiple_of(PAGE)?;
        // A huge page lies at a multiple of its size, where not every system puts a map: as
        // much more is mapped, and what is before the first multiple and behind is given back.
        let slack = if huge { HUGE } else { 0 };
        let mapped = len.checked_add(slack)?;
        // SAFETY: a new anonymous mapping at an address of the system's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        let before = if slack > 0 { address.align_offset(HUGE).min(slack) } else { 0 };
        let start = address.wrapping_byte_add(before);
        // SAFETY: whole pages at both ends of the mapping, outside of the `len` bytes that stay.
        unsafe {
            if before > 0 {
                libc::munmap(address, before);
            }
            if before < slack {
                libc::munmap(start.wrapping_byte_add(len), slack - before);
            }
        }
        if slack > 0 {
            // Advice only: where huge pages are off the mapping works all the same.
            // SAFETY: the range that was just mapped.
            unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        }
        NonNull::new(start.cast()).map(|pointer| Map { pointer, len })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, unmapped once.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.len) };
    }
}

/// Refuses what the machine does not have. Linux overcommits: without this check a wild
/// size succeeds and kills the process once it is touched.
fn check_size(bytes: u64) -> Result<(), DeviceError> {
    if total() != 0 && bytes > total() { Err(out_of_memory(bytes)) } else { Ok(()) }
}

pub(super) fn out_of_memory(bytes: u64) -> DeviceError {
    DeviceError::OutOfMemory { device: NAME.to_owned(), bytes, total: total() }
}

/// Bytes of memory the machine has; 0 where /proc/meminfo does not say.
pub(super) fn total() -> u64 {
    static TOTAL: OnceLock<u64> = OnceLock::new();
    *TOTAL.get_or_init(|| meminfo("MemTotal"))
}

/// Bytes of memory that could still be taken; 0 where /proc/meminfo does not say.
pub(super) fn available() -> u64 {
    meminfo("MemAvailable")
}

fn meminfo(field: &str) -> u64 {
    let find = || {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    find().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_aligned_and_counted() {
        let counter = Arc::new(AtomicU64::new(0));
        for len in [1usize, 63, 4096, MAPPED, LAZY, LAZY + 1] {
            let memory = HostMemory::zeroed(len as u64, Some(Arc::clone(&counter))).unwrap();
            assert_eq!(memory.address() % ALIGNMENT as u64, 0);
            assert_eq!(counter.load(Ordering::Relaxed), len as u64);
            let mut bytes = vec![1u8; len];
            memory.read(0, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0), "{len}");
        }
        assert_eq!(counter.load(Ordering::Relaxed), 0);
        assert_eq!(HostMemory::zeroed(0, None).unwrap().len(), 0);
    }

    #[test]
    fn memory_is_filled_in_place_and_its_parts_live_apart() {
        let counter = Arc::new(AtomicU64::new(0));
        let lengths = [3u64, 0, 64, HUGE as u64, 1];
        let mut parts = HostMemory::filled(&lengths, &counter, &mut |slices| {
            for (index, slice) in slices.into_iter().enumerate() {
                assert!(slice.iter().all(|byte| *byte == 0));
                slice.fill(index as u8 + 1);
            }
        })
        .unwrap();
        assert_eq!(counter.load(Ordering::Relaxed), lengths.iter().sum::<u64>());
        let last = parts.pop().unwrap();
        for (index, (part, len)) in parts.iter().zip(lengths).enumerate() {
            assert_eq!((part.len() as u64, part.address() % ALIGNMENT as u64), (len, 0));
            let mut bytes = vec![0; part.len()];
            part.read(0, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == index as u8 + 1), "{index}");
        }
        drop(parts);
        assert_eq!(counter.load(Ordering::Relaxed), 1);
        let mut byte = [0];
        last.read(0, &mut byte).unwrap();
        assert_eq!(byte, [5]);
        assert!(
            HostMemory::filled(&[], &counter, &mut |slices| assert!(slices.is_empty())).unwrap().is_empty()
        );
        assert!(HostMemory::filled(&[u64::MAX, 1], &counter, &mut |_| unreachable!()).is_err());
    }

    #[test]
    fn large_maps_start_where_a_huge_page_does() {
        for len in [HUGE, HUGE + 1, 3 * HUGE - 1] {
            let map = Map::new(len, true).unwrap();
            assert_eq!((map.pointer.as_ptr() as usize % HUGE, map.len >= len), (0, true));
        }
    }

    #[test]
    fn wild_sizes_are_refused() {
        for bytes in [u64::MAX, 1 << 62, total() + 1] {
            assert!(matches!(HostMemory::zeroed(bytes, None), Err(DeviceError::OutOfMemory { .. })));
        }
    }

    #[test]
    fn ranges_are_checked() {
        let memory = HostMemory::zeroed(8, None).unwrap();
        assert!(memory.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]).is_ok());
        for (offset, len) in [(1, 8), (8, 1), (u64::MAX, 1)] {
            assert!(memory.write(offset, &vec![0; len]).is_err());
            assert!(memory.read(offset, &mut vec![0; len]).is_err());
            assert!(memory.copy_from(offset, &memory, 0, len as u64).is_err());
            assert!(memory.copy_from(0, &memory, offset, len as u64).is_err());
        }
        memory.copy_from(2, &memory, 0, 6).unwrap();
        let mut bytes = [0; 8];
        memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn shared_bytes_stay_in_place_and_are_not_written() {
        let bytes: SharedBytes = Arc::new(vec![7u8; 100]);
        let address = (*bytes).as_ref().as_ptr() as u64;
        let memory = HostMemory::shared(Arc::clone(&bytes), 10..20).unwrap();
        assert_eq!((memory.address(), memory.len()), (address + 10, 10));
        assert!(matches!(memory.write(0, &[1]), Err(DeviceError::ReadOnly { .. })));
        #[allow(clippy::reversed_empty_ranges)]
        for range in [0..101, 101..102, 20..10] {
            assert!(HostMemory::shared(Arc::clone(&bytes), range).is_err());
        }
    }
}
