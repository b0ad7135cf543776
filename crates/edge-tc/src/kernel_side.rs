//! The programs with the flows' programs in them, and the memory that the plane shares with them.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use fairwater_edge::Mode;
use fairwater_edge::policy::{Action, EdgePolicy, Match};
use fairwater_kernel::{
    Frames, KernelError, Memory, PAGE_BYTES, PlanePage, ProgramSet, Shared, now_us,
};
use fairwater_plane::HostedAlgorithm;
use libbpf_rs::{MapCore, MapHandle};

use crate::rules::{Control, Prefix, Rule, RuleVlan};
use crate::{EdgeError, EdgeOptions, Options, Programs};

/// The kernel side of the box.
#[derive(Debug)]
pub(crate) struct KernelSide {
    pub(crate) programs: Programs,
    memory: Memory,
}

impl KernelSide {
    /// Loads everything; attaches nothing.
    pub(crate) fn load(
        served: &[(usize, &HostedAlgorithm)],
        policy: &EdgePolicy,
        options: EdgeOptions,
    ) -> Result<Self, EdgeError> {
        let set = ProgramSet::new(served)?;
        let layout = set.layout();
        let table = policy.defaults().table;
        let entries = |most: usize| u32::try_from(most).unwrap_or(u32::MAX);
        let programs = Programs::load(&Options {
            max_flows: options.max_flows,
            max_connections: entries(table.max_flows),
            max_candidates: entries(table.max_half_open),
            ring_bytes: options.ring_bytes,
            silent_after: options.silent_after,
            grace: policy.defaults().grace,
            ..Options::new(layout)
        })?;
        let map = |handle: &MapHandle, len| {
            Shared::writable(handle.as_fd(), len).map_err(KernelError::io("map the flows' memory"))
        };
        let size = layout.size();
        let max_flows = usize::try_from(options.max_flows).unwrap_or(usize::MAX);
        let frames = Frames::new(map(&programs.frames, size * max_flows)?, size);
        let page = PlanePage::new(map(&programs.page, PAGE_BYTES)?);
        for (index, (_, hosted)) in served.iter().enumerate() {
            page.set_algorithm(index, hosted.name());
        }
        set.install(layout, &programs.programs, |index| programs.target(index))?;
        page.heartbeat_us().store(now_us(), Release);
        let info = programs.frames.info();
        let info = info.map_err(KernelError::bpf("find the frames' map"))?;
        page.frames_id().store(info.info.id, Relaxed);
        Ok(Self {
            memory: Memory {
                layout,
                frames,
                page,
                programs: set.table().clone(),
            },
            programs,
        })
    }

    /// What the plane shares with it.
    pub(crate) const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The programs for packets from the guest, and to the guest.
    pub(crate) fn entries(&self) -> [BorrowedFd<'_>; 2] {
        [
            self.programs.from_guest.as_fd(),
            self.programs.to_guest.as_fd(),
        ]
    }

    /// Forgets which sets an interface was in.
    pub(crate) fn forget_port(&self, interface: u32) -> Result<(), EdgeError> {
        let forgotten = self.programs.ports.delete(&interface.to_ne_bytes());
        Ok(forgotten.map_err(KernelError::bpf("forget a port"))?)
    }

    /// Puts a policy's rules in force. `algorithm` gives the index in frames of an algorithm by its name.
    pub(crate) fn set_policy(
        &self,
        policy: &EdgePolicy,
        algorithm: impl Fn(&str) -> Option<u16>,
    ) -> Result<(), EdgeError> {
        let rules = policy.matches().iter();
        let rules: Result<Vec<_>, _> = rules
            .map(|entry| rule_of(entry, policy, &algorithm))
            .collect();
        Ok(self.programs.set_rules(&rules?)?)
    }
}

/// An entry of the policy's table as the kernel's.
fn rule_of(
    entry: &Match,
    policy: &EdgePolicy,
    algorithm: impl Fn(&str) -> Option<u16>,
) -> Result<Rule, EdgeError> {
    let prefix = |prefix: &Option<ipnet::IpNet>| {
        prefix.map(|prefix| Prefix {
            address: prefix.addr(),
            length: prefix.prefix_len(),
        })
    };
    let rule = policy.rules().get(entry.rule);
    let mut buffer = false;
    let action = match rule.map(|rule| &rule.action) {
        Some(Action::Control(treatment)) => {
            buffer = treatment.mode == Mode::Buffer;
            let name = &treatment.algorithm;
            let index = match algorithm(name) {
                Some(index) => Some(index),
                // Without room for another buffer such a connection passes.
                None if buffer => None,
                None => return Err(EdgeError::NotServed(Arc::clone(name))),
            };
            index.map(|index| Control {
                algorithm: index,
                ecn: treatment.ecn,
                police: treatment.police,
                max_scale: treatment.max_scale,
            })
        }
        _ => None,
    };
    Ok(Rule {
        port_sets: entry.port_sets,
        vlan: entry.vlan.map_or(RuleVlan::Any, RuleVlan::Tagged),
        guest: prefix(&entry.guest),
        peer: prefix(&entry.peer),
        guest_ports: entry.guest_ports.clone(),
        peer_ports: entry.peer_ports.clone(),
        action,
        buffer,
    })
}
