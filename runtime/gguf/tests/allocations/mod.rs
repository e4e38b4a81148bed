//! A global allocator that counts what the calling thread holds, so that a test
//! can state how much memory a call needs at its peak.

// A global allocator cannot be written without unsafe.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let held = HELD.get() + bytes;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

// SAFETY: every call goes to the system allocator with its arguments unchanged;
// the counters are thread-local cells without destructors and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Counted before it is tried: an absurd request counts even if refused.
        count(layout.size() as isize);
        // SAFETY: the caller's contract is that of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `pointer` came from the system allocator with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `body` and returns its result with the most bytes that this thread held
/// at once during it, beyond those it held before.
pub fn peak<T>(body: impl FnOnce() -> T) -> (T, isize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = body();
    (result, PEAK.get() - before)
}
