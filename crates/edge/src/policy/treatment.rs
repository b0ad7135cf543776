//! What is to be done with a connection.

use std::sync::Arc;

use crate::FlowKey;
use crate::select::SelectorConfig;
use crate::track::{EcnMode, HalfOpen};

/// What is to be done with a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Treatment {
    /// The algorithm's name; empty for the plane's first.
    pub algorithm: Arc<str>,
    /// ECN is spoken towards the network for a guest that opens a connection without it (vCC figure 3).
    pub ecn: bool,
    /// Data that begins beyond the window that the guest was told is dropped.
    pub police: bool,
    /// Greatest shift of the window that a guest is told of: with 3 the window comes in steps of 8 bytes, so
    /// that whole segments fit and nothing is left for a small one; it reaches 512 KiB then. `None` leaves the
    /// peer's.
    pub max_scale: Option<u8>,
    /// How the guest is held to the algorithm.
    pub mode: Mode,
    /// How the peer's marks are echoed, where ECN is spoken for the guest.
    pub echo: Echo,
    /// The connection divides its windows with others by weight.
    pub share: Option<Share>,
    /// What changes the algorithm ([`Edge::select`](crate::Edge::select)); `algorithm` is what it begins with.
    pub selector: Option<Arc<SelectorConfig>>,
    /// The connection passes, unless one of the same guest to the same peers was found starving beside marked
    /// traffic.
    pub only_starved: bool,
}

/// How a box echoes marks of the peer's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Echo {
    /// Until the peer says that it has reduced its window (RFC 3168 §6.1.3), on connections that the guest opens.
    #[default]
    Latched,
    /// Packet by packet (RFC 8257 §3.2), for a peer with DCTCP, its own or that of another edge (vCC appendix A.7): the
    /// SYNs do not tell the two apart. The box also agrees for the guest to ECN that the peer offers; if the box is
    /// gone, marks on such a connection are not echoed any more. In [`Mode::Buffer`] marks are latched.
    EachMark,
}

/// How a guest is held to its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// By the receive window alone: the box holds no packet (vCC §2, "Throttle the receive window").
    #[default]
    Window,
    /// The box holds the guest's data, paces and repairs it (vCC §2, "Buffer packets"; Mystique §3.3): see
    /// [`buffer`](crate::buffer).
    Buffer,
}

impl Mode {
    /// The word in a policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Buffer => "buffer",
        }
    }
}

/// A connection's part in a group that divides the sum of its windows (vCC §4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Share {
    /// Name of the group; empty for the one that has no name.
    pub group: Arc<str>,
    /// Weight, from 1.
    pub weight: u16,
}

/// Chooses what is done with a connection; `None` leaves it alone. It is asked when a connection opens, and
/// must answer the same for one connection until that is open.
pub type Policy = Box<dyn Fn(&FlowKey) -> Option<Treatment> + Send>;

/// Why a connection is measured only, against the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exemption {
    /// Window and flags are signed (RFC 2385, RFC 5925).
    Signed,
    /// The window is all subflows' (RFC 8684 §3.3.4).
    Mptcp,
    /// The guest negotiated ECN or accurate ECN itself.
    NativeEcn,
    /// The box saw no SYNs, so that it does not know the window's scale.
    Midway,
    /// The datapath has no room for the flow.
    NoRoom,
}

impl Exemption {
    /// Why a connection that is opening may not be touched.
    #[must_use]
    pub fn of(half_open: &HalfOpen) -> Option<Self> {
        let mut syns = half_open
            .from_guest()
            .into_iter()
            .chain(half_open.from_peer());
        if syns.clone().any(|syn| syn.is_signed) {
            return Some(Self::Signed);
        }
        if syns.any(|syn| syn.mptcp) {
            return Some(Self::Mptcp);
        }
        let offers =
            half_open.is_from_guest() && half_open.from_guest().is_some_and(|syn| syn.offers_ecn());
        (offers || half_open.ecn() != EcnMode::Off).then_some(Self::NativeEcn)
    }
}
