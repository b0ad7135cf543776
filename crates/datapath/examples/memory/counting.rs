//! An allocator that counts: the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// What the system's allocator takes for a request: 8 bytes of its own, in steps of 16.
const fn taken(size: usize) -> usize {
    let with_header = (size + 8).next_multiple_of(16);
    if with_header < 32 { 32 } else { with_header }
}

#[expect(unsafe_code, reason = "an allocator that counts")]
// SAFETY: the system's allocator does it; this counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that are allocated now.
pub(crate) fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}
