//! Why a call fails, and why a connection is closed.

use thiserror::Error;

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// Both ends have sent and acknowledged all, FIN included.
    Finished,
    /// The peer answered the SYN with a reset.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer answered nothing, retransmission after retransmission.
    TimedOut,
    /// This end gave the connection up ([`crate::Connection::abort`]).
    Aborted,
}

impl CloseReason {
    /// In words, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Refused => "refused by the peer",
            Self::Reset => "reset by the peer",
            Self::TimedOut => "timed out",
            Self::Aborted => "aborted",
        }
    }
}

/// Why bytes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// This end has said that it has no more to send.
    #[error("the sending side was shut down")]
    Shutdown,
    /// The connection is closed.
    #[error("the connection is closed: {}", .0.as_str())]
    Closed(CloseReason),
    /// No connection has that name any more.
    #[error("there is no such connection")]
    Unknown,
}

/// Why a connection was not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is one between these addresses.
    #[error("there is a connection between these addresses already")]
    InUse,
    /// One address is of IPv4 and the other of IPv6.
    #[error("the addresses are of two families")]
    Families,
    /// See [`crate::EndpointConfig::max_connections`].
    #[error("there are too many connections")]
    Full,
}
