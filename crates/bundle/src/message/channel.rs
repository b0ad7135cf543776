//! One end of the exchange of messages: instances, numbers, and the peer's address.

use std::net::SocketAddr;

use super::code::{self, Header};
use super::{Message, ReplayWindow};
use crate::{BoxRole, BundleSecret, Refusal};

/// Former instances of the peer that are remembered.
const MAX_FORMER: usize = 64;

/// What one end of a channel needs to know.
#[derive(Debug, Clone)]
pub struct ChannelConfig {
    /// The bundle's number, the same at both boxes.
    pub bundle: u32,
    /// The secret that both boxes have.
    pub secret: BundleSecret,
    /// Random, not 0, and another at each start: tells the lives of this box apart.
    pub instance: u64,
}

/// One end of the exchange of messages of a bundle.
///
/// A message is accepted if it is authentic, of the peer's present instance, to this instance, and was not received
/// before. A new instance of the peer proves that it lives now by naming this instance, which no recording of a
/// former life of this box does; former instances do not come back.
#[derive(Debug)]
pub struct Channel {
    bundle: u32,
    instance: u64,
    send_key: [u8; 32],
    receive_key: [u8; 32],
    sent: u64,
    peer: Option<PeerInstance>,
    former: std::collections::VecDeque<u64>,
    /// The peer's address, from authenticated messages only once there was one.
    address: Option<SocketAddr>,
}

#[derive(Debug)]
struct PeerInstance {
    instance: u64,
    window: ReplayWindow,
}

/// A message that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) message: Message,
    /// The message's number in the peer's instance.
    pub(crate) number: u64,
    /// The peer has restarted, or was met for the first time.
    pub(crate) is_new_peer: bool,
}

impl Channel {
    /// The end at this box. `address` is where the peer is until an authenticated message tells.
    #[must_use]
    pub fn new(config: &ChannelConfig, role: BoxRole, address: Option<SocketAddr>) -> Self {
        Self {
            bundle: config.bundle,
            instance: config.instance.max(1),
            send_key: config.secret.message_key(role),
            receive_key: config.secret.message_key(role.other()),
            sent: 0,
            peer: None,
            former: std::collections::VecDeque::new(),
            address,
        }
    }

    /// Where messages to the peer go.
    #[must_use]
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Whether the peer's instance is known.
    #[must_use]
    pub const fn knows_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// Encodes the next message to the peer.
    #[must_use]
    pub fn seal(&mut self, message: &Message) -> Vec<u8> {
        let echo = self.peer.as_ref().map_or(0, |peer| peer.instance);
        self.seal_to(echo, message)
    }

    /// Encodes the next message to this instance of the peer, which need not know this one.
    #[must_use]
    pub fn seal_to(&mut self, echo: u64, message: &Message) -> Vec<u8> {
        self.sent += 1;
        let header = Header {
            bundle: self.bundle,
            instance: self.instance,
            echo,
            number: self.sent,
        };
        code::encode(&self.send_key, header, message)
    }

    /// Accepts a message.
    ///
    /// # Errors
    /// See [`Refusal`]. After [`Refusal::OtherInstance`], `stranger` has the instance that is to be told this one.
    pub(crate) fn open(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        stranger: &mut Option<u64>,
    ) -> Result<Accepted, Refusal> {
        if code::bundle_of(bytes)? != self.bundle {
            return Err(Refusal::Bundle);
        }
        let (header, message) = code::decode(&self.receive_key, bytes)?;
        if self.former.contains(&header.instance) {
            return Err(Refusal::FormerPeer);
        }
        if header.echo != self.instance {
            *stranger = Some(header.instance);
            return Err(Refusal::OtherInstance);
        }
        let known = self.peer.as_ref().map(|peer| peer.instance);
        let is_new_peer = known != Some(header.instance);
        if is_new_peer {
            if let Some(former) = known {
                self.former.push_back(former);
                if self.former.len() > MAX_FORMER {
                    self.former.pop_front();
                }
            }
            self.peer = None;
        }
        let peer = self.peer.get_or_insert_with(|| PeerInstance {
            instance: header.instance,
            window: ReplayWindow::default(),
        });
        peer.window.check(header.number)?;
        // An older message that comes late does not lead back to an address that the peer has left.
        if header.number > peer.window.greatest() {
            self.address = Some(from);
        }
        peer.window.accept(header.number);
        Ok(Accepted {
            message,
            number: header.number,
            is_new_peer,
        })
    }
}
