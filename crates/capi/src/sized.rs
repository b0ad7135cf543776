//! Structures that start with their own size, so that either side may be the older one.

use core::mem::{MaybeUninit, size_of};
use core::ptr;

use crate::fw_error;
use crate::fw_error::{FW_ERROR_ARGUMENT, FW_ERROR_SIZE};

/// No structure of any version is larger: a `size` above it was never set.
const LARGEST: usize = 4096;

/// A structure of the header whose first member is `size: usize`.
///
/// # Safety
/// `repr(C)`, starts with `size: usize`, and any bytes but those of `size` may be zero.
pub(crate) unsafe trait Versioned: Copy {
    /// Its size when it first appeared in the header.
    const FIRST: usize;
}

/// What the caller's structure says, as this library's version of it: members that the caller's
/// version lacks are zero.
///
/// # Safety
/// `from` is NULL or points to a `usize` and as many bytes, itself included, as that says.
pub(crate) unsafe fn read<T: Versioned>(from: *const T) -> Result<T, fw_error> {
    if from.is_null() {
        return Err(FW_ERROR_ARGUMENT);
    }
    // SAFETY: not NULL, and the caller promises a `usize` there.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if !(T::FIRST..=LARGEST).contains(&size) {
        return Err(FW_ERROR_SIZE);
    }
    let bytes = from.cast::<u8>();
    let mut beyond = size_of::<T>()..size;
    // SAFETY: below `size`, which the caller promises.
    if beyond.any(|at| unsafe { bytes.add(at).read() } != 0) {
        return Err(FW_ERROR_SIZE);
    }
    let mut known = MaybeUninit::<T>::zeroed();
    // SAFETY: neither goes beyond `size` or beyond `T`; all of `T` is then initialised, and zero
    // where the caller's is shorter, which the trait allows.
    unsafe {
        ptr::copy_nonoverlapping(bytes, known.as_mut_ptr().cast(), size.min(size_of::<T>()));
        Ok(known.assume_init())
    }
}

/// Fills the caller's structure as far as its version goes; its `size` stays, and members that
/// this library does not know become zero.
///
/// # Safety
/// `to` is NULL or points to a `usize` and as many writable bytes, itself included, as that says.
pub(crate) unsafe fn write<T: Versioned>(to: *mut T, value: &T) -> Result<(), fw_error> {
    if to.is_null() {
        return Err(FW_ERROR_ARGUMENT);
    }
    // SAFETY: not NULL, and the caller promises a `usize` there.
    let size = unsafe { to.cast::<usize>().read_unaligned() };
    if !(T::FIRST..=LARGEST).contains(&size) {
        return Err(FW_ERROR_SIZE);
    }
    let head = size_of::<usize>();
    let known = size.min(size_of::<T>());
    let bytes = to.cast::<u8>();
    // SAFETY: neither goes beyond `size` or beyond `T`.
    unsafe {
        ptr::copy_nonoverlapping(
            ptr::from_ref(value).cast::<u8>().add(head),
            bytes.add(head),
            known - head,
        );
        ptr::write_bytes(bytes.add(known), 0, size - known);
    }
    Ok(())
}
