//! The keys of a bundle, all from one secret that both boxes have.

use std::fmt;

use crate::BoundaryKey;

/// The secret that both boxes of a bundle share, 32 random bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct BundleSecret(pub [u8; 32]);

impl BundleSecret {
    /// The key of the boundary hash.
    #[must_use]
    pub fn boundary_key(&self) -> BoundaryKey {
        let key = blake3::derive_key("fairwater bundle v1 boundary hash", &self.0);
        let mut half = [0; 16];
        half.copy_from_slice(&key[..16]);
        BoundaryKey::new(half)
    }

    /// The key of messages from this kind of box.
    pub(crate) fn message_key(&self, from: BoxRole) -> [u8; 32] {
        let context = match from {
            BoxRole::Sendbox => "fairwater bundle v1 messages of the sendbox",
            BoxRole::Receivebox => "fairwater bundle v1 messages of the receivebox",
        };
        blake3::derive_key(context, &self.0)
    }
}

impl fmt::Debug for BundleSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BundleSecret")
    }
}

/// One of the two boxes of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BoxRole {
    /// At the senders' site.
    Sendbox,
    /// At the receivers' site.
    Receivebox,
}

impl BoxRole {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Sendbox => Self::Receivebox,
            Self::Receivebox => Self::Sendbox,
        }
    }
}
