//! Numbers that nobody can guess.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes of the kernel.
///
/// # Errors
/// The kernel has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}
