//! A global allocator that counts the bytes it has handed out.
#![allow(
    unsafe_code,
    reason = "`GlobalAlloc` is an unsafe trait; every call goes to the system's allocator as it came"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with two counters, over all threads.
///
/// Bytes are those asked for: what the system's allocator adds for itself is not seen, nor both
/// blocks of a growing one that has to move.
pub(crate) struct Counting {
    live: AtomicUsize,
    peak: AtomicUsize,
}

impl Counting {
    pub(crate) const fn new() -> Self {
        Self {
            live: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// Bytes that are allocated now.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// The most bytes that were allocated at once while `run` ran, above what was before it.
    pub(crate) fn peak_during<T>(&self, run: impl FnOnce() -> T) -> (usize, T) {
        let before = self.live();
        self.peak.store(before, Relaxed);
        let result = run();
        (self.peak.load(Relaxed).saturating_sub(before), result)
    }

    fn allocated(&self, block: *mut u8, bytes: usize) -> *mut u8 {
        if !block.is_null() {
            let live = self.live.fetch_add(bytes, Relaxed) + bytes;
            self.peak.fetch_max(live, Relaxed);
        }
        block
    }

    fn freed(&self, bytes: usize) {
        self.live.fetch_sub(bytes, Relaxed);
    }
}

// SAFETY: every method hands its arguments to `System`, which keeps the contract, and returns
// `System`'s block; the counters touch no allocated memory and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        self.allocated(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        self.allocated(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `System` with this layout, by the caller's contract.
        unsafe { System.dealloc(block, layout) };
        self.freed(layout.size());
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the block came from `System` with this layout, by the caller's contract.
        let moved = unsafe { System.realloc(block, layout, size) };
        if !moved.is_null() {
            self.freed(layout.size());
        }
        self.allocated(moved, size)
    }
}
