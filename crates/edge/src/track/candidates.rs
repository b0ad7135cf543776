//! Connections that are not open yet, as far as the box knows.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::time::Duration;

use fairwater_net::Time;

use super::HalfOpen;
use crate::{FlowKey, Segment};

/// A connection that waits for its third packet, or for a packet of the other direction.
#[derive(Debug)]
pub(super) enum Candidate {
    Opening(HalfOpen),
    /// The guest's packet, and the time.
    Midway(Segment, Time),
}

impl Candidate {
    /// When it came into the table.
    const fn began(&self) -> Time {
        match self {
            Self::Opening(half_open) => half_open.began(),
            Self::Midway(_, at) => *at,
        }
    }
}

/// The candidates of all ports. Each port has as many places as any other.
#[derive(Debug)]
pub(super) struct Candidates {
    by_key: HashMap<FlowKey, Candidate, Keyed>,
    per_interface: HashMap<u32, Ages>,
    max_per_interface: usize,
    evicted: u64,
}

/// The candidates of one port, the oldest first; some are gone already.
#[derive(Debug, Default)]
struct Ages {
    ages: VecDeque<(FlowKey, Time)>,
    /// Those that are there.
    count: usize,
}

impl Candidates {
    pub(super) fn new(max_per_interface: usize, keyed: Keyed) -> Self {
        Self {
            by_key: HashMap::with_hasher(keyed),
            per_interface: HashMap::new(),
            max_per_interface: max_per_interface.max(1),
            evicted: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(super) const fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(super) fn get(&self, key: &FlowKey) -> Option<&Candidate> {
        self.by_key.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &FlowKey) -> Option<&mut Candidate> {
        self.by_key.get_mut(key)
    }

    /// Adds a candidate, in place of one with that key; the port's oldest goes if there is no room.
    pub(super) fn add(&mut self, now: Time, key: &FlowKey, candidate: Candidate) {
        let of_interface = self.per_interface.entry(key.interface).or_default();
        if self.by_key.insert(*key, candidate).is_none() {
            of_interface.count += 1;
        }
        while of_interface.count > self.max_per_interface {
            let Some((oldest, at)) = of_interface.ages.pop_front() else {
                break;
            };
            if is_of(&self.by_key, &oldest, at) && self.by_key.remove(&oldest).is_some() {
                of_interface.count -= 1;
                self.evicted += 1;
            }
        }
        of_interface.ages.push_back((*key, now));
        // Those that are gone are forgotten before they are more than those that are there.
        if of_interface.ages.len() > 2 * self.max_per_interface + 16 {
            let by_key = &self.by_key;
            of_interface
                .ages
                .retain(|(key, at)| is_of(by_key, key, *at));
        }
    }

    pub(super) fn remove(&mut self, key: &FlowKey) -> Option<Candidate> {
        let candidate = self.by_key.remove(key)?;
        if let Some(of_interface) = self.per_interface.get_mut(&key.interface) {
            of_interface.count -= 1;
        }
        Some(candidate)
    }

    /// Forgets those that are too old.
    pub(super) fn expire(&mut self, now: Time, limit: Duration) {
        for of_interface in self.per_interface.values_mut() {
            while let Some((key, at)) = of_interface.ages.front().copied() {
                if now.since(at) < limit {
                    break;
                }
                of_interface.ages.pop_front();
                if is_of(&self.by_key, &key, at) && self.by_key.remove(&key).is_some() {
                    of_interface.count -= 1;
                }
            }
        }
        self.per_interface.retain(|_, ages| !ages.ages.is_empty());
    }
}

/// Whether the candidate of that key began then: a later one may have its key.
fn is_of(by_key: &HashMap<FlowKey, Candidate, Keyed>, key: &FlowKey, at: Time) -> bool {
    by_key
        .get(key)
        .is_some_and(|candidate| candidate.began() == at)
}

/// `SipHash` behind a secret number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keyed(pub(super) u64);

impl BuildHasher for Keyed {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}
