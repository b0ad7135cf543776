//! Why a message is refused.

use thiserror::Error;

/// Why a message is refused. What is refused changes nothing but a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Shorter or longer than a message of its kind.
    #[error("the message has the wrong length")]
    Length,
    /// Not a message of this protocol.
    #[error("the message does not begin with `FB`")]
    Magic,
    /// Another version of the protocol.
    #[error("the message has an unknown version")]
    Version,
    /// A kind that does not exist.
    #[error("the message has an unknown kind")]
    Kind,
    /// No bundle has this number.
    #[error("the message is for an unknown bundle")]
    Bundle,
    /// Its MAC is not that of the bundle's key.
    #[error("the message is not authentic")]
    Authentication,
    /// A reserved byte is not 0, or a value is out of its range.
    #[error("a field of the message is out of its range")]
    Field,
    /// A message that was received before.
    #[error("the message was received before")]
    Replayed,
    /// A message older than the replay window.
    #[error("the message is older than the replay window")]
    TooOld,
    /// A message of an instance of the peer that another instance has followed.
    #[error("the message is of a former instance of the peer")]
    FormerPeer,
    /// A message to another instance of this box.
    #[error("the message is for another instance of this box")]
    OtherInstance,
    /// The counters go backwards within one instance.
    #[error("the counters in the message went backwards")]
    Counters,
}

impl Refusal {
    /// Every reason, by index.
    pub const ALL: [Self; 12] = [
        Self::Length,
        Self::Magic,
        Self::Version,
        Self::Kind,
        Self::Bundle,
        Self::Authentication,
        Self::Field,
        Self::Replayed,
        Self::TooOld,
        Self::FormerPeer,
        Self::OtherInstance,
        Self::Counters,
    ];

    /// The reason's place in [`Refusal::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Refused messages, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefusalCounts([u64; Refusal::ALL.len()]);

impl RefusalCounts {
    /// Messages refused for this reason.
    #[must_use]
    pub const fn of(&self, reason: Refusal) -> u64 {
        self.0[reason.index()]
    }

    /// Messages refused.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) const fn count(&mut self, reason: Refusal) {
        self.0[reason.index()] += 1;
    }
}
