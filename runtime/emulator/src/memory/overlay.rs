//! What a run sees and changes of global memory.
//!
//! A run works on pages of its own over the memory as it was; they are committed
//! afterwards. CTAs that run at the same time therefore never see each other's
//! writes, and the outcome depends on the order of the commits alone, which is
//! the order of the CTAs: never on the number of worker threads.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use super::{
    clock::Released,
    global::{GlobalMemory, PAGE},
    race::Shadow,
};

/// Words of a page.
pub const PAGE_WORDS: usize = PAGE as usize / 4;
/// Words of a page's bitmap of bytes.
pub const MAP: usize = PAGE as usize / 64;

/// A page key is an address divided by the page size: spread its low bits.
#[derive(Default)]
pub struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A page that the run touched.
#[derive(Debug)]
pub struct Page {
    /// The allocation it belongs to.
    pub allocation: usize,
    /// Its first byte within the allocation.
    pub start: u64,
    /// The content.
    pub data: Box<[u8; PAGE as usize]>,
    /// A bit a byte: written by the run.
    pub written: [u64; MAP],
    /// A bit a byte: defined.
    pub defined: [u64; MAP],
    /// Who accessed what.
    pub shadow: Shadow,
    /// Bytes read by non-coherent loads, by instruction.
    pub noncoherent: Vec<NonCoherent>,
}

/// What one non-coherent load read of a page.
#[derive(Clone, Debug)]
pub struct NonCoherent {
    /// The instruction.
    pub pc: u32,
    /// The CTA and the thread in it that read first.
    pub thread: (u32, u32),
    /// A bit a byte.
    pub bytes: [u64; MAP],
}

/// A reduction whose result nobody in the run reads: applied at the commit.
#[derive(Clone, Copy, Debug)]
pub struct Deferred {
    /// The address.
    pub address: u64,
    /// What to do with the old value.
    pub atomic: crate::decode::inst::AtomicOp,
    /// Its type.
    pub ty: crate::decode::types::Ty,
    /// The operand.
    pub operand: u64,
}

/// Why an address cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAddress {
    /// No allocation holds all of it.
    OutOfBounds,
    /// The allocation was freed.
    Freed,
    /// A write to an allocation that kernels may only read.
    ReadOnly,
}

/// Global memory as a run sees it.
#[derive(Debug)]
pub struct Overlay<'m> {
    base: &'m GlobalMemory,
    /// The pages touched, in order.
    pub pages: Vec<Page>,
    index: HashMap<u64, u32, BuildHasherDefault<PageHasher>>,
    /// The page found last.
    last: (u64, u32),
    /// The allocation found last: base, end and index.
    last_allocation: (u64, u64, usize),
    /// Reductions to apply at the commit.
    pub deferred: Vec<Deferred>,
    /// What released writes made visible, by address.
    pub released: HashMap<u64, Released>,
}

impl<'m> Overlay<'m> {
    /// An untouched view of `base`.
    pub fn new(base: &'m GlobalMemory) -> Overlay<'m> {
        Overlay {
            base,
            pages: Vec::new(),
            index: HashMap::default(),
            last: (u64::MAX, 0),
            last_allocation: (1, 0, 0),
            deferred: Vec::new(),
            released: HashMap::new(),
        }
    }

    /// The memory below.
    pub fn memory(&self) -> &'m GlobalMemory {
        self.base
    }

    /// The allocation of `bytes` bytes at `address` and the offset in it.
    #[inline]
    pub fn locate(&mut self, address: u64, bytes: u64) -> Result<(usize, u64), BadAddress> {
        let (low, high, index) = self.last_allocation;
        if address >= low && address < high && high - address >= bytes {
            return Ok((index, address - low));
        }
        let index = self.base.find(address).ok_or(BadAddress::OutOfBounds)?;
        let allocation = self.base.allocation(index).ok_or(BadAddress::OutOfBounds)?;
        if allocation.freed {
            return Err(BadAddress::Freed);
        }
        let end = allocation.base + allocation.len;
        if end - address < bytes {
            return Err(BadAddress::OutOfBounds);
        }
        self.last_allocation = (allocation.base, end, index);
        Ok((index, address - allocation.base))
    }

    /// Whether kernels may only read an allocation.
    #[inline]
    pub fn read_only(&self, allocation: usize) -> bool {
        self.base.allocation(allocation).is_some_and(|allocation| allocation.read_only)
    }

    /// The page of a located address, if the run has one.
    #[inline]
    pub fn page(&mut self, address: u64) -> Option<&mut Page> {
        let key = address / PAGE;
        if self.last.0 != key {
            self.last = (key, *self.index.get(&key)?);
        }
        self.pages.get_mut(self.last.1 as usize)
    }

    /// The page of a located address, made if need be.
    #[inline]
    pub fn page_mut(&mut self, address: u64, allocation: usize, offset: u64) -> Option<&mut Page> {
        let key = address / PAGE;
        if self.last.0 != key {
            let found = match self.index.get(&key) {
                Some(found) => *found,
                None => self.make(key, allocation, offset)?,
            };
            self.last = (key, found);
        }
        self.pages.get_mut(self.last.1 as usize)
    }

    fn make(&mut self, key: u64, index: usize, offset: u64) -> Option<u32> {
        let allocation = self.base.allocation(index)?;
        let start = offset / PAGE * PAGE;
        let mut data = Box::new([0; PAGE as usize]);
        let source = allocation.bytes.get(start as usize..)?;
        let size = source.len().min(PAGE as usize);
        data[..size].copy_from_slice(&source[..size]);
        let mut defined = [u64::MAX; MAP];
        if let Some(map) = &allocation.defined {
            for (slot, word) in defined.iter_mut().zip(map.iter().skip(start as usize / 64)) {
                *slot = *word;
            }
        }
        let at = self.pages.len() as u32;
        let shadow = Shadow::new(PAGE_WORDS);
        self.pages.push(Page {
            allocation: index,
            start,
            data,
            written: [0; MAP],
            defined,
            shadow,
            noncoherent: Vec::new(),
        });
        self.index.insert(key, at);
        Some(at)
    }

    /// Reads up to 8 bytes that [`Overlay::locate`] accepted, little-endian, not
    /// crossing a page (aligned accesses never do).
    #[inline]
    pub fn read(&mut self, address: u64, allocation: usize, offset: u64, bytes: u8) -> u64 {
        let mut value = [0u8; 8];
        let n = usize::from(bytes.min(8));
        if !self.pages.is_empty()
            && let Some(page) = self.page(address)
        {
            let at = (offset % PAGE) as usize;
            if let Some(source) = page.data.get(at..at + n) {
                value[..n].copy_from_slice(source);
            }
            return u64::from_le_bytes(value);
        }
        if let Some(source) =
            self.base.allocation(allocation).and_then(|a| a.bytes.get(offset as usize..offset as usize + n))
        {
            value[..n].copy_from_slice(source);
        }
        u64::from_le_bytes(value)
    }

    /// Writes up to 8 bytes; `defined` has a bit for each.
    #[inline]
    pub fn write(
        &mut self,
        address: u64,
        allocation: usize,
        offset: u64,
        bytes: u8,
        value: u64,
        defined: u8,
    ) {
        let Some(page) = self.page_mut(address, allocation, offset) else { return };
        let at = (offset % PAGE) as usize;
        let n = usize::from(bytes.min(8));
        if let Some(target) = page.data.get_mut(at..at + n) {
            target.copy_from_slice(&value.to_le_bytes()[..n]);
        }
        let mask = (1u64 << n) - 1;
        page.written[at / 64] |= mask << (at % 64);
        let slot = &mut page.defined[at / 64];
        *slot = *slot & !(mask << (at % 64)) | (u64::from(defined) & mask) << (at % 64);
    }

    /// Remembers a non-coherent load, to be held against what the launch writes.
    pub fn note_noncoherent(&mut self, address: u64, bytes: u8, pc: u32, thread: (u32, u32)) {
        let Ok((allocation, offset)) = self.locate(address, bytes.into()) else { return };
        if self.read_only(allocation) {
            return;
        }
        let Some(page) = self.page_mut(address, allocation, offset) else { return };
        let at = (offset % PAGE) as usize;
        let mask = ((1u64 << bytes.min(8)) - 1) << (at % 64);
        let known = page.noncoherent.iter().position(|read| read.pc == pc);
        let slot = known.unwrap_or_else(|| {
            page.noncoherent.push(NonCoherent { pc, thread, bytes: [0; MAP] });
            page.noncoherent.len() - 1
        });
        if let Some(word) = page.noncoherent.get_mut(slot).and_then(|read| read.bytes.get_mut(at / 64)) {
            *word |= mask;
        }
    }

    /// What this run leaves behind, detached from the memory below.
    pub fn finish(self) -> Changes {
        Changes { pages: self.pages, deferred: self.deferred }
    }
}

/// What a run changed, to be committed.
#[derive(Debug)]
pub struct Changes {
    /// The pages touched.
    pub pages: Vec<Page>,
    /// Reductions to apply, in order.
    pub deferred: Vec<Deferred>,
}

impl GlobalMemory {
    /// Makes a run's changes the memory's.
    pub fn commit(&mut self, changes: &Changes) {
        for page in &changes.pages {
            let Some(allocation) = self.allocation_mut(page.allocation) else { continue };
            let start = page.start as usize;
            for (group, written) in page.written.iter().enumerate() {
                if *written == 0 {
                    continue;
                }
                let at = start + group * 64;
                let size = allocation.bytes.len().saturating_sub(at).min(64);
                let source = &page.data[group * 64..group * 64 + size];
                let Some(target) = allocation.bytes.get_mut(at..at + size) else { continue };
                if *written == u64::MAX {
                    target.copy_from_slice(source);
                } else {
                    for byte in 0..size {
                        if written >> byte & 1 == 1 {
                            target[byte] = source[byte];
                        }
                    }
                }
                if allocation.defined.is_none() && page.defined[group] & written != *written {
                    allocation.defined = Some(vec![u64::MAX; allocation.bytes.len().div_ceil(64)]);
                }
                if let Some(slot) = allocation.defined.as_mut().and_then(|map| map.get_mut(at / 64)) {
                    *slot = *slot & !written | page.defined[group] & written;
                }
            }
        }
        for deferred in &changes.deferred {
            let Some(index) = self.find(deferred.address) else { continue };
            let Some(allocation) = self.allocation_mut(index) else { continue };
            let at = (deferred.address - allocation.base) as usize;
            let n = usize::from(deferred.ty.bytes());
            let Some(target) = allocation.bytes.get_mut(at..at + n) else { continue };
            let mut value = [0; 8];
            value[..n].copy_from_slice(target);
            let new = crate::exec::atomic::apply(
                deferred.atomic,
                deferred.ty,
                u64::from_le_bytes(value),
                deferred.operand,
                0,
            );
            target.copy_from_slice(&new.to_le_bytes()[..n]);
        }
    }
}
