//! What is remembered of paths: one set of parameters each, for a limited time, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{CarefulResumeConfig, CarefulResumeStatus, Shared};
use crate::FlowInfo;

/// The remote endpoint of RFC 9959 §2.2: the sending interface by its address, and the destination's
/// prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    local: IpAddr,
    remote: IpAddr,
}

/// What an observation of a path left (RFC 9959 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Set {
    /// `saved_cwnd`: bytes that the path delivered in a least RTT.
    pub(crate) cwnd: u64,
    /// `saved_rtt`: the least RTT, µs.
    pub(crate) rtt_us: u64,
}

#[derive(Debug)]
struct Entry {
    set: Set,
    saved_us: u64,
    /// Its place in the order of observations.
    order: u64,
    /// The flow that uses it, if one does.
    user: Option<u64>,
}

/// The sets of all paths.
#[derive(Debug)]
pub(crate) struct Memory {
    config: CarefulResumeConfig,
    entries: HashMap<Endpoint, Entry>,
    /// The oldest observation first.
    order: BTreeMap<u64, Endpoint>,
    observations: u64,
    users: u64,
    /// The plane's time, µs: datapaths have clocks of their own.
    now_us: u64,
    /// Whether the flow that starts now is in a datapath that can resume.
    pub(crate) may_resume: bool,
    pub(crate) status: CarefulResumeStatus,
}

/// The use of a path's set by one flow; another flow of the path gets none meanwhile (RFC 9959 §3.2).
#[derive(Debug)]
pub(crate) struct Claim {
    shared: Shared,
    endpoint: Endpoint,
    user: u64,
}

impl Memory {
    pub(crate) fn new(config: CarefulResumeConfig) -> Self {
        Self {
            config,
            entries: HashMap::new(),
            order: BTreeMap::new(),
            observations: 0,
            users: 0,
            now_us: 0,
            may_resume: true,
            status: CarefulResumeStatus::default(),
        }
    }

    pub(crate) fn status(&self) -> CarefulResumeStatus {
        CarefulResumeStatus {
            sets: self.entries.len() as u64,
            ..self.status
        }
    }

    pub(crate) const fn config(&self) -> &CarefulResumeConfig {
        &self.config
    }

    /// The plane's time goes on; sets whose lifetime is over are forgotten.
    pub(crate) fn set_time(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
        let lifetime_us = u64::try_from(self.config.lifetime.as_micros()).unwrap_or(u64::MAX);
        while let Some((_, endpoint)) = self.order.first_key_value() {
            let endpoint = *endpoint;
            let is_over = |entry: &Entry| entry.saved_us.saturating_add(lifetime_us) <= self.now_us;
            if !self.entries.get(&endpoint).is_none_or(is_over) {
                return;
            }
            self.forget(&endpoint);
            self.status.expired += 1;
        }
    }

    /// The path of a flow, if the flow has one: a flow without addresses has none, nor a bundle, which
    /// has no local one.
    pub(crate) fn endpoint(&self, info: &FlowInfo) -> Option<Endpoint> {
        let (local, remote) = (info.local.ip(), info.remote.ip());
        if local.is_unspecified() || remote.is_unspecified() {
            return None;
        }
        let remote = match remote.to_canonical() {
            IpAddr::V4(address) => {
                let mask = u32::MAX << (32 - u32::from(self.config.ipv4_prefix.clamp(1, 32)));
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(self.config.ipv6_prefix.clamp(1, 128)));
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Some(Endpoint {
            local: local.to_canonical(),
            remote,
        })
    }

    /// Gives a path's set to a flow, unless another has it; the caller makes the [`Claim`].
    pub(crate) fn claim(&mut self, endpoint: &Endpoint) -> Option<(Set, u64)> {
        let entry = self.entries.get_mut(endpoint)?;
        if entry.user.is_some() {
            return None;
        }
        self.users += 1;
        entry.user = Some(self.users);
        Some((entry.set, self.users))
    }

    /// Saves what a flow observed, in place of what is there; `converged` if the flow has observed for
    /// long enough to lower it.
    pub(crate) fn save(&mut self, endpoint: Endpoint, set: Set, converged: bool) {
        let mut user = None;
        if let Some(former) = self.entries.get(&endpoint) {
            user = former.user;
            // A flow with little to send says little about the path (RFC 9959 §4.1).
            if set.cwnd < former.set.cwnd && !converged {
                return;
            }
        } else if self.entries.len() >= self.config.max_paths.max(1)
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = *oldest;
            self.forget(&oldest);
            self.status.evicted += 1;
        }
        self.forget(&endpoint);
        self.observations += 1;
        self.order.insert(self.observations, endpoint);
        let entry = Entry {
            set,
            saved_us: self.now_us,
            order: self.observations,
            // The flow that resumes goes on to have the path.
            user,
        };
        self.entries.insert(endpoint, entry);
        self.status.saved += 1;
    }

    fn forget(&mut self, endpoint: &Endpoint) {
        if let Some(entry) = self.entries.remove(endpoint) {
            self.order.remove(&entry.order);
        }
    }

    /// Whether the flow still has the path's set.
    fn is_user(&self, endpoint: &Endpoint, user: u64) -> bool {
        let entry = self.entries.get(endpoint);
        entry.is_some_and(|entry| entry.user == Some(user))
    }
}

impl Claim {
    pub(crate) const fn new(shared: Shared, endpoint: Endpoint, user: u64) -> Self {
        Self {
            shared,
            endpoint,
            user,
        }
    }

    /// The set was wrong: deletes it (RFC 9959 §3.5), unless it was replaced meanwhile.
    pub(crate) fn delete(&self) {
        let mut memory = self.shared.lock();
        if memory.is_user(&self.endpoint, self.user) {
            memory.forget(&self.endpoint);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut memory = self.shared.lock();
        if memory.is_user(&self.endpoint, self.user)
            && let Some(entry) = memory.entries.get_mut(&self.endpoint)
        {
            entry.user = None;
        }
    }
}
