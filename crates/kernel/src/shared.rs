//! Memory shared by the kernel and the plane: maps with `BPF_F_MMAPABLE`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

use memmap2::{MmapOptions, MmapRaw};

/// A mapped BPF array. Each access is one aligned atomic word, as the kernel writes meanwhile.
#[derive(Debug)]
pub struct Shared {
    map: MmapRaw,
}

impl Shared {
    /// Maps `len` bytes of the map for reading and writing.
    ///
    /// # Errors
    /// The map cannot be mapped.
    pub fn writable(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Ok(Self {
            map: MmapOptions::new().len(len).map_raw(fd.as_raw_fd())?,
        })
    }

    /// Maps `len` bytes of the map read-only; storing to a word would fault.
    ///
    /// # Errors
    /// The map cannot be mapped.
    pub fn read_only(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Ok(Self {
            map: MmapOptions::new()
                .len(len)
                .map_raw_read_only(fd.as_raw_fd())?,
        })
    }

    /// Bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    fn at(&self, offset: usize, size: usize) -> *mut u8 {
        assert!(
            offset.is_multiple_of(size) && offset + size <= self.map.len(),
            "word in bounds"
        );
        self.map.as_mut_ptr().wrapping_add(offset)
    }

    /// The 32-bit word at that offset, a multiple of 4 within the map.
    #[must_use]
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        let word = self.at(offset, 4);
        #[expect(unsafe_code, reason = "the kernel shares this memory")]
        // SAFETY: in bounds and aligned (checked above; a mapping starts at a page), alive as
        // long as `self`, and only ever reached through atomics.
        unsafe {
            AtomicU32::from_ptr(word.cast())
        }
    }

    /// The 64-bit word at that offset, a multiple of 8 within the map.
    #[must_use]
    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        let word = self.at(offset, 8);
        #[expect(unsafe_code, reason = "the kernel shares this memory")]
        // SAFETY: as for `u32`.
        unsafe {
            AtomicU64::from_ptr(word.cast())
        }
    }

    /// A copy of `N` 32-bit words from that offset on.
    pub(crate) fn words<const N: usize>(&self, offset: usize) -> [u32; N] {
        std::array::from_fn(|i| {
            self.u32(offset + 4 * i)
                .load(std::sync::atomic::Ordering::Relaxed)
        })
    }

    /// A NUL-padded name of `4 × N` bytes.
    pub(crate) fn name<const N: usize>(&self, offset: usize) -> String {
        let bytes: Vec<u8> = self
            .words::<N>(offset)
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .take_while(|b| *b != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
