//! Moves an endpoint's packets to and from a device, and its flows' messages to and from the plane: the one part of
//! this crate with a clock and system calls.

mod descriptor;
mod driver;
#[cfg(feature = "af-xdp")]
mod xdp;

#[cfg(feature = "af-xdp")]
pub use self::xdp::{XdpConfig, XdpPort};
pub use descriptor::DescriptorPort;
pub use driver::{Driver, Pause};

use std::io;
use std::os::fd::BorrowedFd;

/// A device that carries IP packets.
pub trait PacketPort {
    /// Gives packets that have arrived to `take`, a batch at most; how many there were. Does not wait.
    ///
    /// # Errors
    /// The device is gone, or broken.
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize>;

    /// Asks `write` for packets, as long as there are any and the device takes them, a batch at most; how many there
    /// were. `write` writes one IP packet at the beginning of its argument and returns the length.
    ///
    /// # Errors
    /// The device is gone, or broken.
    fn send(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize>;

    /// Becomes readable when a packet arrives.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Whether the last [`Self::send`] ended for want of room: the device is to be asked again when it is writable.
    fn is_full(&self) -> bool;
}
