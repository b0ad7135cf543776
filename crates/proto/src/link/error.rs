//! Why a packet was not sent or received.

use rustix::io::Errno;

/// Why a packet was not sent or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LinkError {
    /// There is no room now, or nothing to receive. For Unix datagrams this is ordinary: a
    /// socket's queue holds 10 packets unless `net.unix.max_dgram_qlen` says more.
    #[error("it would block")]
    WouldBlock,
    /// The packet is longer than the link carries, or than the buffer; when receiving, it is
    /// lost.
    #[error("the packet is too long")]
    TooLong,
    /// The peer is gone, or was never there.
    #[error("the peer is gone")]
    Gone,
    /// The peer wrote what no peer writes to memory that is shared with it. The link is of no
    /// use any more.
    #[error("the peer broke the shared memory's rules")]
    Broken,
}

impl From<Errno> for LinkError {
    fn from(errno: Errno) -> Self {
        match errno {
            // Out of memory or descriptors passes, as a full queue does.
            Errno::AGAIN
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::MFILE
            | Errno::NFILE
            | Errno::TOOMANYREFS => Self::WouldBlock,
            Errno::MSGSIZE => Self::TooLong,
            _ => Self::Gone,
        }
    }
}
