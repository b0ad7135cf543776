//! States of a connection.

/// State of a connection (RFC 9293 §3.3.2). A listening port is no connection: see [`crate::Endpoint::listen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// A SYN was sent, and no SYN has come.
    SynSent,
    /// A SYN has come, and no ACK of this end's.
    SynReceived,
    /// Data flows.
    Established,
    /// This end's FIN was sent and is not acknowledged; the peer's has not come.
    FinWait1,
    /// This end's FIN is acknowledged; the peer's has not come.
    FinWait2,
    /// The peer's FIN has come; this end's was not sent.
    CloseWait,
    /// Both FINs were sent, the peer's came before this end's was acknowledged.
    Closing,
    /// The peer's FIN has come, then this end's was sent and is not acknowledged.
    LastAck,
    /// Both ends have finished; this end waits lest the peer has missed its last ACK.
    TimeWait,
    /// There is no connection any more.
    Closed,
}

/// How far this end has come with its FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnFin {
    Unsent,
    Sent,
    Acknowledged,
}

impl State {
    /// The state of a synchronized connection (RFC 9293 §3.3.2, figure 5). `is_passive` tells that the peer's FIN had
    /// come when this end's was sent.
    pub(crate) const fn of_fins(own: OwnFin, peer: bool, is_passive: bool) -> Self {
        match (own, peer) {
            (OwnFin::Unsent, false) => Self::Established,
            (OwnFin::Unsent, true) => Self::CloseWait,
            (OwnFin::Sent, false) => Self::FinWait1,
            (OwnFin::Sent, true) if is_passive => Self::LastAck,
            (OwnFin::Sent, true) => Self::Closing,
            (OwnFin::Acknowledged, false) => Self::FinWait2,
            (OwnFin::Acknowledged, true) if is_passive => Self::Closed,
            (OwnFin::Acknowledged, true) => Self::TimeWait,
        }
    }

    /// Whether the handshake is done and the connection is not over.
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(
            self,
            Self::SynSent | Self::SynReceived | Self::TimeWait | Self::Closed
        )
    }
}
