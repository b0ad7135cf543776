//! Links carry packets between a plane and a datapath on one host (Linux).
//!
//! | link | for | peers |
//! | --- | --- | --- |
//! | [`datagram`] | what was written for CCP | many at one socket, told apart by address |
//! | [`seqpacket`] | datapaths in other processes | one a connection, with credentials |
//! | [`ring`] | the same, faster: packets go through shared memory | one a connection |
//! | [`in_process`] | a datapath in the plane's own process | one |
//!
//! Nothing here ever blocks but what is asked to: [`Poller::wait`], [`ring::Ring::connect`] and
//! [`spin`]. A packet that cannot go now
//! stays with the sender, who tries again later: no link tells when there is room, because a
//! peer that does not read must cost nothing.

pub mod datagram;
pub mod directory;
mod error;
#[cfg(not(loom))]
pub mod in_process;
mod path;
mod peer_groups;
mod poller;
pub mod ring;
pub mod seqpacket;
mod spin;

pub use error::LinkError;
pub use peer_groups::peer_groups;
pub use poller::{Pollable, Poller, Source, Trigger};
pub use spin::{AdaptiveSpin, DEFAULT_SPIN, spin};

/// The bound on a packet, bytes: that of a message in our encoding. A buffer of this size
/// receives whatever comes.
pub const MAX_PACKET: usize = crate::own::MAX_MESSAGE;

/// A channel to one peer that carries whole packets, in order.
pub trait Link: Pollable + Send {
    /// Sends one packet, without blocking.
    ///
    /// # Errors
    /// The packet was not sent: see [`LinkError`].
    fn send(&mut self, packet: &[u8]) -> Result<(), LinkError>;

    /// Receives one packet at the beginning of `buffer`, without blocking, and returns its
    /// length.
    ///
    /// # Errors
    /// [`LinkError::WouldBlock`] when there is none now.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError>;

    /// Whether a packet is known to be there, at the cost of a look at memory: to spin on. A
    /// socket cannot tell and says no.
    fn is_pending(&self) -> bool {
        false
    }

    /// To be called before waiting for this link, once [`Link::receive`] would block. When it
    /// returns false, something has come meanwhile: receive again rather than wait.
    #[must_use]
    fn prepare_to_wait(&mut self) -> bool {
        true
    }
}

/// Where peers connect.
pub trait Listener: Pollable {
    /// What a peer is spoken to by.
    type Link: Link;

    /// The next peer that connected, if one did.
    ///
    /// # Errors
    /// Of accepting or setting up this peer; the listener goes on.
    fn accept(&mut self) -> std::io::Result<Option<Self::Link>>;
}
