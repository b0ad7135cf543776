//! The encodings as one: which one a peer speaks, the messages of a packet, and their bytes.

use alloc::vec::Vec;
use core::iter::FusedIterator;
use core::marker::PhantomData;

use crate::error::ErrorAt;
use crate::{DecodeError, EncodeError, FlowId, ToDatapath, ToPlane, ccp, own};

/// How a peer encodes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Our own: the module [`own`].
    Own,
    /// libccp's: the module [`ccp`].
    Ccp,
}

impl Dialect {
    /// The dialect of a packet, told by its first bytes: ours begins with `FW`, libccp's with a
    /// message type. `None` when it is neither.
    #[must_use]
    pub fn of(packet: &[u8]) -> Option<Self> {
        let first = packet.first_chunk::<2>()?;
        if *first == own::MAGIC {
            return Some(Self::Own);
        }
        (u16::from_le_bytes(*first) <= u16::from(ccp::READY)).then_some(Self::Ccp)
    }

    /// The messages that a datapath sent in one packet. After a message whose end cannot be told
    /// the iteration ends; other defects cost one message.
    #[must_use]
    pub const fn to_plane(self, packet: &[u8]) -> Messages<'_, ToPlane<'_>> {
        Messages::new(self, packet)
    }

    /// The messages that a plane sent in one packet, likewise.
    #[must_use]
    pub const fn to_datapath(self, packet: &[u8]) -> Messages<'_, ToDatapath<'_>> {
        Messages::new(self, packet)
    }

    /// Appends a message to a plane.
    ///
    /// # Errors
    /// Says why the dialect cannot say it; `packet` is then as it was.
    #[inline]
    pub fn encode_to_plane(
        self,
        message: &ToPlane<'_>,
        packet: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        match self {
            Self::Own => own::encode_to_plane(message, packet),
            Self::Ccp => ccp::encode_to_plane(message, packet),
        }
    }

    /// Appends a message to a datapath. In libccp's dialect a Command may become several
    /// messages, which libccp reads from a packet each: see [`Dialect::split`].
    ///
    /// # Errors
    /// Says why the dialect cannot say it; `packet` is then as it was.
    #[inline]
    pub fn encode_to_datapath(
        self,
        message: &ToDatapath<'_>,
        packet: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        match self {
            Self::Own => own::encode_to_datapath(message, packet),
            Self::Ccp => ccp::encode_to_datapath(message, packet),
        }
    }

    /// The bytes of each message of a packet, undecoded, as far as they can be told apart: to
    /// send them one by one to a peer that reads only the first message of a packet, as libccp
    /// does.
    pub fn split(self, packet: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut rest = packet;
        core::iter::from_fn(move || {
            let (message, after) = self.frame(rest).ok()?;
            rest = after;
            Some(message)
        })
    }

    /// What a peer that speaks this dialect knows of a flow's name: all of it in ours, some bits
    /// of the generation in libccp's. `None` when the slot cannot be named.
    #[must_use]
    pub fn name_on_wire(self, flow: FlowId) -> Option<FlowId> {
        match self {
            Self::Own => Some(flow),
            Self::Ccp => ccp::sid_of(flow).map(ccp::flow_of),
        }
    }

    /// The first message, and what follows it.
    #[inline]
    fn frame(self, packet: &[u8]) -> Result<(&[u8], &[u8]), ErrorAt> {
        match self {
            Self::Own => own::frame(packet),
            Self::Ccp => ccp::frame(packet),
        }
    }

    /// The type that a whole message gives itself.
    fn type_of(self, message: &[u8]) -> u8 {
        let at = match self {
            Self::Own => own::TYPE_AT,
            Self::Ccp => ccp::TYPE_AT,
        };
        message.get(at).copied().unwrap_or_default()
    }
}

/// The messages of one packet, decoded one by one; they borrow from it.
#[derive(Debug, Clone)]
pub struct Messages<'a, M> {
    dialect: Dialect,
    packet: &'a [u8],
    offset: usize,
    message: PhantomData<fn() -> M>,
}

impl<'a, M> Messages<'a, M> {
    const fn new(dialect: Dialect, packet: &'a [u8]) -> Self {
        Self {
            dialect,
            packet,
            offset: 0,
            message: PhantomData,
        }
    }
}

/// What a message is decoded to: its direction.
trait Decode<'a>: Sized {
    fn decode(dialect: Dialect, message: &'a [u8]) -> Result<Self, ErrorAt>;
}

impl<'a> Decode<'a> for ToPlane<'a> {
    #[inline(always)]
    fn decode(dialect: Dialect, message: &'a [u8]) -> Result<Self, ErrorAt> {
        match dialect {
            Dialect::Own => own::decode_to_plane(message),
            Dialect::Ccp => ccp::decode_to_plane(message),
        }
    }
}

impl<'a> Decode<'a> for ToDatapath<'a> {
    #[inline(always)]
    fn decode(dialect: Dialect, message: &'a [u8]) -> Result<Self, ErrorAt> {
        match dialect {
            Dialect::Own => own::decode_to_datapath(message),
            Dialect::Ccp => ccp::decode_to_datapath(message),
        }
    }
}

impl<'a, M: Decode<'a>> Iterator for Messages<'a, M> {
    type Item = Result<M, DecodeError>;

    // Inlined so that a message is made where it is used: moving one costs more than reading it.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.packet.get(self.offset..).filter(|r| !r.is_empty())?;
        let start = self.offset;
        match self.dialect.frame(rest) {
            Ok((message, _)) => {
                self.offset += message.len();
                match M::decode(self.dialect, message) {
                    Ok(message) => Some(Ok(message)),
                    Err(error) => Some(Err(malformed(self.dialect, start, message, error))),
                }
            }
            Err(error) => {
                self.offset = self.packet.len();
                Some(Err(malformed(self.dialect, start, rest, error)))
            }
        }
    }
}

impl<'a, M: Decode<'a>> FusedIterator for Messages<'a, M> {}

/// What is wrong with a message that begins at `start` of its packet.
#[cold]
fn malformed(dialect: Dialect, start: usize, message: &[u8], error: ErrorAt) -> DecodeError {
    DecodeError {
        offset: start + error.at,
        message: dialect.type_of(message),
        kind: error.kind,
    }
}
