//! The time between the bottleneck and the other end.

use std::time::Duration;

use crate::probability::Draws;
use crate::{LinkConfig, Probability, Time};

/// A delay on top of the link's, evenly from nothing to `max` for each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter {
    /// The most.
    pub max: Duration,
    /// Whether a packet may overtake another by it. If not, it waits for the one before.
    pub reorders: bool,
}

/// Some packets are held back, and others overtake them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reordering {
    /// A packet is held back.
    pub probability: Probability,
    /// For so long.
    pub extra: Duration,
}

/// Says when each packet comes out.
#[derive(Debug)]
pub(crate) struct Delay {
    base: Duration,
    jitter: Option<Jitter>,
    reordering: Option<Reordering>,
    draws: Draws,
    /// What no packet may come out before when jitter keeps the order.
    latest: Time,
}

impl Delay {
    pub(crate) fn new(config: &LinkConfig) -> Self {
        Delay {
            base: config.delay,
            jitter: config.jitter,
            reordering: config.reordering,
            draws: Draws::new(config.seed, 1),
            latest: Time::ZERO,
        }
    }

    /// When the next packet comes out, which left the bottleneck at `departed`.
    #[inline]
    pub(crate) fn due(&mut self, departed: Time) -> Time {
        let mut due = departed + self.base;
        if let Some(jitter) = self.jitter {
            let max_ns = u64::try_from(jitter.max.as_nanos()).unwrap_or(u64::MAX);
            due = due + Duration::from_nanos(self.draws.up_to(max_ns));
            if !jitter.reorders {
                due = due.max(self.latest);
                self.latest = due;
            }
        }
        match self.reordering {
            Some(held) if self.draws.happens(held.probability) => due + held.extra,
            _ => due,
        }
    }

    /// The last packet leaves the bottleneck at another time and is due at `due`: those after it
    /// may come out from then on.
    pub(crate) fn move_last(&mut self, due: Time) {
        self.latest = due;
    }

    /// No packet that leaves the bottleneck at `departed` comes out before this.
    #[inline]
    pub(crate) fn earliest(&self, departed: Time) -> Time {
        departed + self.base
    }

    /// Whether packets may come out in another order than they left the bottleneck.
    #[inline]
    pub(crate) fn reorders(&self) -> bool {
        self.reordering.is_some() || self.jitter.is_some_and(|jitter| jitter.reorders)
    }
}
