//! Ethernet headers and VLAN tags.

use crate::ParseError;
use crate::bytes::u16_at;

/// Bytes of an Ethernet header without tags.
const HEADER: usize = 14;

/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// Most tags of a frame that is read: a service tag and a customer tag (IEEE 802.1Q, "QinQ").
pub const MAX_VLAN_TAGS: usize = 2;

/// Types of Ethernet payloads.
pub(crate) mod ether_type {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const IPV6: u16 = 0x86dd;
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const QINQ: u16 = 0x88a8;
    /// QinQ of devices older than 802.1ad.
    pub(crate) const OLD_QINQ: u16 = 0x9100;
}

/// The VLAN identifiers of a frame, the outer first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct VlanTags {
    ids: [u16; MAX_VLAN_TAGS],
    count: u8,
}

impl VlanTags {
    /// No tag.
    pub const NONE: Self = Self {
        ids: [0; MAX_VLAN_TAGS],
        count: 0,
    };

    /// One tag more, inside those there are; `None` if there are [`MAX_VLAN_TAGS`] already. Only the
    /// identifier counts, the last 12 bits.
    #[must_use]
    pub fn with(mut self, id: u16) -> Option<Self> {
        *self.ids.get_mut(usize::from(self.count))? = id & 0x0fff;
        self.count += 1;
        Some(self)
    }

    /// The identifiers, the outer first.
    #[must_use]
    pub fn ids(&self) -> &[u16] {
        self.ids.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

/// The tags, and type and offset of the payload.
pub(crate) fn parse(bytes: &[u8]) -> Result<(VlanTags, u16, usize), ParseError> {
    if bytes.len() < HEADER {
        return Err(ParseError::EthernetTruncated);
    }
    let mut tags = VlanTags::NONE;
    let mut at = HEADER;
    loop {
        let kind = u16_at(bytes, at - 2);
        if !matches!(
            kind,
            ether_type::VLAN | ether_type::QINQ | ether_type::OLD_QINQ
        ) {
            return Ok((tags, kind, at));
        }
        if bytes.len() < at + TAG {
            return Err(ParseError::VlanTruncated);
        }
        tags = tags.with(u16_at(bytes, at)).ok_or(ParseError::VlanDepth)?;
        at += TAG;
    }
}
