//! What decoding a program takes from the heap is in proportion to the bytes that arrived,
//! whatever they say.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use fairwater_lang::binary;

/// Bytes that were ever asked for.
static ASKED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: it is the system's allocator, which it only counts for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

#[test]
fn decoding_takes_memory_in_proportion() {
    // Each begins a program that claims to be vast: variables, events, a body, nested forms.
    let claims: [&[u8]; 6] = [
        &[1, 0xff, 3],
        &[1, 0, 0xff, 0xff, 3],
        &[1, 0, 1, 0, 1, 0xff, 0xff, 3],
        &[1, 0, 1, 0xff, 0xff, 0x7f],
        &[1, 0, 1, 0, 12, 12, 12, 12],
        &[1, 0, 1, 0, 1, 1, 2, 1],
    ];
    for claim in claims {
        for filler in 0..64_u8 {
            for length in [0, 1, 10, 100, 1000, 10_000] {
                let bytes = [claim, &vec![filler; length]].concat();
                let before = ASKED.load(Ordering::Relaxed);
                let program = binary::decode(&bytes);
                let asked = ASKED.load(Ordering::Relaxed) - before;
                assert!(
                    asked <= 512 * bytes.len(),
                    "{asked} for {claim:?} {filler} × {length}"
                );
                drop(program);
            }
        }
    }
}
