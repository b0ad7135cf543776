//! The memory file, mapped.
//!
//! Each ring has a page for its indices and then its words: first the ring to the plane, then
//! the one to the datapath.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use super::CAPACITIES;
use super::memory::{AtomicU64, Control, Memory, WORD};

/// Bytes before a ring's words.
const PAGE: usize = 4096;

const _: () = assert!(size_of::<Control>() <= PAGE);

/// A memory file mapped into this process, as two rings of `capacity` bytes.
#[derive(Debug)]
pub(super) struct Mapping {
    address: NonNull<u8>,
    capacity: usize,
}

/// Bytes of the whole file.
const fn length(capacity: usize) -> usize {
    2 * (PAGE + capacity)
}

fn checked(capacity: usize) -> io::Result<usize> {
    if capacity.is_power_of_two() && CAPACITIES.contains(&capacity) {
        return Ok(capacity);
    }
    let why = format!("a ring of {capacity} bytes: no power of two, too small or too large");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

impl Mapping {
    /// A new memory file of zeros: two empty rings.
    pub(super) fn create(capacity: usize) -> io::Result<(OwnedFd, Self)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("fairwater-ring", flags)?;
        rustix::fs::ftruncate(&file, length(checked(capacity)?) as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        let mapping = Self::map(&file, capacity)?;
        Ok((file, mapping))
    }

    /// A memory file that was received, which must be as [`Mapping::create`] makes them: a file
    /// that could shrink would end this process when it is read.
    pub(super) fn open(file: &OwnedFd, capacity: usize) -> io::Result<Self> {
        let length = length(checked(capacity)?);
        let sealed = rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        let long = u64::try_from(rustix::fs::fstat(file)?.st_size) == Ok(length as u64);
        if !sealed || !long {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the plane passed memory that may shrink, or of another size than it says",
            ));
        }
        Self::map(file, capacity)
    }

    #[expect(unsafe_code, reason = "mapping memory")]
    fn map(file: impl AsFd, capacity: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let address = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                length(capacity),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let address = NonNull::new(address.cast());
        let address = address.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { address, capacity })
    }
}

impl Drop for Mapping {
    #[expect(unsafe_code, reason = "unmapping memory")]
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping that `map` made, and what borrows from it keeps it
        // alive.
        let unmapped =
            unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), length(self.capacity)) };
        debug_assert!(unmapped.is_ok());
    }
}

#[expect(unsafe_code, reason = "the pointer is to memory that this owns")]
// SAFETY: the mapping is owned, at the same address in every thread.
unsafe impl Send for Mapping {}

#[expect(unsafe_code, reason = "all that is shared is atomic")]
// SAFETY: only atomics in the mapping are ever referred to.
unsafe impl Sync for Mapping {}

/// One of the two rings of a mapping.
#[derive(Debug, Clone)]
pub(super) struct RingMemory {
    mapping: Arc<Mapping>,
    /// Where it begins.
    at: usize,
}

impl RingMemory {
    /// The ring to the plane and the one to the datapath.
    pub(super) fn both(mapping: Mapping) -> (Self, Self) {
        let second = PAGE + mapping.capacity;
        let mapping = Arc::new(mapping);
        let to_plane = Self {
            mapping: Arc::clone(&mapping),
            at: 0,
        };
        let to_datapath = Self {
            mapping,
            at: second,
        };
        (to_plane, to_datapath)
    }
}

impl Memory for RingMemory {
    #[inline]
    #[expect(unsafe_code, reason = "a view of mapped memory")]
    fn control(&self) -> &Control {
        // SAFETY: a page from `at` on is within the mapping, which lives as long as `self`; it is
        // aligned, since mappings are to pages; and all of Control is atomic, so that it may be
        // written by others, in this process and in others, while it is borrowed.
        unsafe { self.mapping.address.add(self.at).cast().as_ref() }
    }

    #[inline]
    #[expect(unsafe_code, reason = "a view of mapped memory")]
    fn words(&self) -> &[AtomicU64] {
        let count = self.mapping.capacity / WORD;
        // SAFETY: `capacity` bytes after that page are within the mapping; as above.
        unsafe {
            let first = self.mapping.address.add(self.at + PAGE).cast();
            NonNull::slice_from_raw_parts(first, count).as_ref()
        }
    }
}
