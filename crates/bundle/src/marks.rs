//! Marks: what a sendbox keeps of each boundary packet until its feedback comes (Bundler §4.5, figure 4).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fairwater_net::Time;

use crate::{Boundary, IdentityFields};

/// Of packets with one hash, at most one mark in this time is kept to tell that they are ambiguous: a flow of equal
/// packets must not drive out the marks of others.
const AMBIGUOUS_INTERVAL: Duration = Duration::from_millis(100);

/// Most marks that are kept; the oldest goes first.
const MAX_MARKS: usize = 8_192;

/// A boundary packet that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Its hash.
    pub boundary: Boundary,
    /// Which fields were hashed.
    pub fields: IdentityFields,
    /// When it left the sendbox.
    pub sent_at: Time,
    /// Bytes of IP packets sent in the bundle up to it, itself included.
    pub bytes: u64,
    /// Packets likewise.
    pub packets: u64,
    /// Whether no packet waited behind it.
    pub is_app_limited: bool,
}

/// What became of a feedback's boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// It is that of this mark, the `order`-th that was made.
    Matched {
        /// The mark.
        mark: Mark,
        /// The mark's place among all marks of the bundle, from 0.
        order: u64,
    },
    /// It was matched before: the network duplicated the packet.
    Duplicate,
    /// Two packets with this hash were outstanding at a time: which one was received is unknown (Karn).
    Ambiguous,
    /// No mark has it: the receivebox has a smaller N, or the mark has expired.
    Surplus,
}

/// What [`Marks::insert`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inserted {
    /// The mark waits for its feedback; else its hash is ambiguous.
    pub is_outstanding: bool,
    /// A mark that went unmatched to make room.
    pub unmatched: Option<Mark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Outstanding,
    Matched,
    Ambiguous,
}

/// The marks of a bundle.
#[derive(Debug, Default)]
pub struct Marks {
    /// In the order of sending.
    entries: VecDeque<(Mark, State)>,
    /// Marks that were removed from the front: the order of the first entry.
    removed: u64,
    /// The order of the latest mark of each hash.
    by_boundary: BTreeMap<Boundary, u64>,
}

impl Marks {
    /// Adds the mark of a packet that was sent.
    pub fn insert(&mut self, mark: Mark) -> Inserted {
        let former = self.by_boundary.get(&mark.boundary).copied();
        let former = former.and_then(|order| self.entry_mut(order));
        let state = match former {
            Some((other, State::Ambiguous))
                if mark.sent_at.since(other.sent_at) < AMBIGUOUS_INTERVAL =>
            {
                return Inserted::default();
            }
            Some((_, state @ (State::Outstanding | State::Ambiguous))) => {
                *state = State::Ambiguous;
                State::Ambiguous
            }
            _ => State::Outstanding,
        };
        let order = self.removed + self.entries.len() as u64;
        self.by_boundary.insert(mark.boundary, order);
        self.entries.push_back((mark, state));
        let is_full = self.entries.len() > MAX_MARKS;
        Inserted {
            is_outstanding: state == State::Outstanding,
            unmatched: is_full.then(|| self.remove_first()).flatten(),
        }
    }

    /// Finds the mark of a feedback.
    pub fn take(&mut self, boundary: Boundary) -> Matching {
        let Some(order) = self.by_boundary.get(&boundary).copied() else {
            return Matching::Surplus;
        };
        match self.entry_mut(order) {
            Some((mark, state @ State::Outstanding)) => {
                *state = State::Matched;
                Matching::Matched { mark: *mark, order }
            }
            Some((_, State::Matched)) => Matching::Duplicate,
            Some((_, State::Ambiguous)) => Matching::Ambiguous,
            None => Matching::Surplus,
        }
    }

    /// Removes the next mark that is older than `age`. `Some(None)` if it had been matched or is ambiguous.
    pub fn expire(&mut self, now: Time, age: Duration) -> Option<Option<Mark>> {
        let (first, _) = self.entries.front()?;
        (now.since(first.sent_at) > age).then(|| self.remove_first())
    }

    /// Forgets all marks: their times mean nothing any more.
    pub fn clear(&mut self) {
        self.removed += self.entries.len() as u64;
        self.entries.clear();
        self.by_boundary.clear();
    }

    /// Removes the first mark; returns it if it was outstanding.
    fn remove_first(&mut self) -> Option<Mark> {
        let (mark, state) = self.entries.pop_front()?;
        if self.by_boundary.get(&mark.boundary) == Some(&self.removed) {
            self.by_boundary.remove(&mark.boundary);
        }
        self.removed += 1;
        (state == State::Outstanding).then_some(mark)
    }

    fn entry_mut(&mut self, order: u64) -> Option<&mut (Mark, State)> {
        let index = usize::try_from(order.checked_sub(self.removed)?).ok()?;
        self.entries.get_mut(index)
    }
}
