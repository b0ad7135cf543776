//! Memory for code: written first, executable afterwards, never both.

use std::io;

use memmap2::{Mmap, MmapMut};
use wasmtime_internal_jit_icache_coherence::{clear_cache, pipeline_flush_mt};

/// Code in pages of its own, which go when it is dropped.
#[derive(Debug)]
pub(super) struct Executable {
    pages: Mmap,
}

impl Executable {
    /// Pages that hold `code`, which is not empty, from their start on.
    pub(super) fn new(code: &[u8]) -> io::Result<Self> {
        let mut writable = MmapMut::map_anon(code.len())?;
        writable.copy_from_slice(code);
        #[expect(unsafe_code, reason = "addresses of caches")]
        // SAFETY: the address and the length are those of the mapping.
        unsafe {
            clear_cache(writable.as_ptr().cast(), writable.len())?;
        }
        let pages = writable.make_exec()?;
        // Another core may have fetched what was at these addresses before.
        pipeline_flush_mt()?;
        Ok(Self { pages })
    }

    pub(super) fn start(&self) -> *const u8 {
        self.pages.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }
}
