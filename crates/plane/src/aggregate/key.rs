//! What flows are aggregated by.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::FlowInfo;

/// Flows of one algorithm with the same key are controlled together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// All flows.
    All,
    /// Those to this host.
    Host(IpAddr),
    /// Those to hosts whose addresses begin alike.
    Prefix {
        /// The first address that begins so.
        network: IpAddr,
        /// Bits that count.
        length: u8,
    },
    /// Those from this address, and so through its interface.
    Interface(IpAddr),
    /// One connection: TCP's 5-tuple, the protocol being the datapath's.
    Connection {
        /// The local address and port.
        local: SocketAddr,
        /// The remote address and port.
        remote: SocketAddr,
    },
    /// Those with this tag ([`FlowInfo::tag`]).
    Tag(u32),
    /// Whatever else an author tells flows apart by.
    Named(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Host(address) => write!(f, "to {address}"),
            Self::Prefix { network, length } => write!(f, "to {network}/{length}"),
            Self::Interface(address) => write!(f, "from {address}"),
            Self::Connection { local, remote } => write!(f, "{local} to {remote}"),
            Self::Tag(tag) => write!(f, "tag {tag}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// How keys are made of what every datapath says of its flows.
///
/// A flow of which a datapath does not say what is asked for (its address is unspecified, its tag
/// 0) has no key: nothing tells that it belongs to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// All flows together.
    All,
    /// The remote address.
    Host,
    /// The first bits of the remote address.
    Prefix {
        /// Of IPv4 addresses, at most 32.
        v4: u8,
        /// Of IPv6 addresses, at most 128.
        v6: u8,
    },
    /// The local address.
    Interface,
    /// Both addresses and ports.
    Connection,
    /// The tag.
    Tag,
}

impl By {
    /// The flow's key, if it has one.
    #[must_use]
    pub fn key(self, info: &FlowInfo) -> Option<Key> {
        let known = |address: SocketAddr| {
            let ip = address.ip().to_canonical();
            (!ip.is_unspecified()).then_some(ip)
        };
        Some(match self {
            Self::All => Key::All,
            Self::Host => Key::Host(known(info.remote)?),
            Self::Prefix { v4, v6 } => {
                let address = known(info.remote)?;
                let length = match address {
                    IpAddr::V4(_) => v4.min(32),
                    IpAddr::V6(_) => v6.min(128),
                };
                Key::Prefix {
                    network: network(address, length),
                    length,
                }
            }
            Self::Interface => Key::Interface(known(info.local)?),
            Self::Connection => {
                known(info.remote)?;
                Key::Connection {
                    local: info.local,
                    remote: info.remote,
                }
            }
            Self::Tag if info.tag == 0 => return None,
            Self::Tag => Key::Tag(info.tag),
        })
    }
}

/// The address with all but its first `length` bits zero.
fn network(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}
