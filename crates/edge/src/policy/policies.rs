//! The policy, and those before it that opening connections are still under.

use std::time::Duration;

use fairwater_net::Time;

use super::{Policy, Treatment};
use crate::FlowKey;

/// The policy, and those before it for connections that began under them: what a box has changed in the SYNs
/// of a connection, it must go on with.
pub(crate) struct Policies {
    current: Policy,
    /// Those that were replaced, and when; the latest last.
    replaced: Vec<(Time, Policy)>,
}

impl Policies {
    pub(crate) const fn new(policy: Policy) -> Self {
        Self {
            current: policy,
            replaced: Vec::new(),
        }
    }

    pub(crate) fn replace(&mut self, now: Time, policy: Policy) {
        let old = std::mem::replace(&mut self.current, policy);
        self.replaced.push((now, old));
    }

    /// What is done with a connection whose first SYN passed at that time.
    pub(crate) fn treatment(&self, key: &FlowKey, began: Time) -> Option<Treatment> {
        let replaced = self.replaced.iter().find(|(until, _)| began <= *until);
        let policy = replaced.map_or(&self.current, |(_, policy)| policy);
        policy(key)
    }

    /// Forgets policies that no connection can have begun under that is still opening.
    pub(crate) fn expire(&mut self, now: Time, half_open: Duration) {
        self.replaced
            .retain(|(until, _)| now.since(*until) < half_open);
    }
}
