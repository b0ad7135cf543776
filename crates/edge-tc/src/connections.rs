//! The connections of guests for status screens: who controls each, and why.

use std::sync::Arc;

use fairwater_edge::buffer::Held;
use fairwater_edge::enforce::Limit;
use fairwater_edge::policy::{Action, EdgePolicy};
use fairwater_edge::{Exemption, FlowKey, Mode};
use fairwater_kernel::{FlowState, Frame};

use crate::buffered::BufferedConnection;
use crate::kernel_side::KernelSide;
use crate::{Connection, Controlled, EdgeError, Fate};

/// Who controls a guest's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Its algorithm waits for its program; slow start from the initial window.
    Starting,
    /// Its algorithm's program runs.
    Running,
    /// The guest's own congestion control: the plane is gone or silent, or the program failed.
    Released,
    /// The guest's own: the policy leaves it alone.
    Passed,
    /// The guest's own, against the policy: see [`Exemption`].
    Exempt,
}

impl ConnectionState {
    /// One word for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Released => "released",
            Self::Passed => "passed",
            Self::Exempt => "exempt",
        }
    }
}

/// A guest's connection, as it is described to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConnection {
    /// The connection.
    pub key: FlowKey,
    /// Who controls it.
    pub state: ConnectionState,
    /// The algorithm that controls the guest, or would.
    pub algorithm: Option<Arc<str>>,
    /// Why, as a clause.
    pub why: String,
    /// The window that the guest is held to, bytes.
    pub limit_bytes: Option<u64>,
    /// Smoothed RTT between the port and the peer, µs.
    pub srtt_us: Option<u64>,
    /// Bytes acknowledged.
    pub bytes_acked: Option<u64>,
    /// When a packet of it passed last, ns of the monotonic clock.
    pub seen_ns: u64,
    /// How the guest is held to the algorithm, if one controls it.
    pub mode: Option<Mode>,
    /// What is held of the guest's data; `None` of a connection whose data is not held now.
    pub held: Option<Held>,
}

/// What descriptions need to know.
pub(crate) struct Describer<'a> {
    pub(crate) side: &'a KernelSide,
    pub(crate) policy: &'a EdgePolicy,
    /// Name of a port, by the number of the interface.
    pub(crate) port: &'a dyn Fn(u32) -> &'a str,
    /// Name of an algorithm, by its index in frames.
    pub(crate) algorithm: &'a dyn Fn(usize) -> Option<Arc<str>>,
}

impl Describer<'_> {
    pub(crate) fn describe(
        &self,
        key: FlowKey,
        connection: &Connection,
    ) -> Result<DescribedConnection, EdgeError> {
        let mut described = DescribedConnection {
            key,
            state: ConnectionState::Passed,
            algorithm: None,
            why: self.rule(&key),
            limit_bytes: None,
            srtt_us: None,
            bytes_acked: None,
            seen_ns: connection.seen_ns,
            mode: None,
            held: None,
        };
        match connection.fate {
            Fate::Passed => {}
            Fate::Exempt(exemption) => {
                described.state = ConnectionState::Exempt;
                described.why = exempt(exemption).to_owned();
            }
            Fate::Controlled(slot) => {
                let controlled = self.side.programs.controlled(slot)?;
                let frame = self.side.memory().frames.get(slot);
                // The slot may have another flow meanwhile.
                let of_key = controlled.filter(|(of, _)| *of == key);
                if let (Some((_, controlled)), Some(frame)) = (of_key, frame) {
                    self.control(&mut described, &controlled, frame);
                }
            }
        }
        Ok(described)
    }

    /// A connection whose packets go through the process.
    pub(crate) fn describe_buffered(&self, it: BufferedConnection) -> DescribedConnection {
        let is_controlled = it.algorithm.is_some();
        let why = match (it.exemption, it.state) {
            (Some(exemption), _) => exempt(exemption).to_owned(),
            (None, ConnectionState::Released) => {
                "the plane was silent, or its program failed".to_owned()
            }
            _ => self.rule(&it.key),
        };
        DescribedConnection {
            key: it.key,
            state: it.state,
            algorithm: it.algorithm,
            why,
            limit_bytes: match it.limit {
                Limit::Target(bytes) if is_controlled => Some(bytes),
                _ => None,
            },
            srtt_us: Some(it.held.map_or(it.srtt_us, |held| held.srtt_us)).filter(|us| *us > 0),
            bytes_acked: it.held.map(|held| held.acked),
            seen_ns: it.seen_ns,
            mode: is_controlled.then_some(if it.held.is_some() {
                Mode::Buffer
            } else {
                Mode::Window
            }),
            held: it.held,
        }
    }

    fn control(
        &self,
        described: &mut DescribedConnection,
        controlled: &Controlled,
        frame: Frame<'_>,
    ) {
        described.algorithm = (self.algorithm)(frame.algorithm());
        described.mode = Some(Mode::Window);
        let is_late = controlled.limit == Limit::Released;
        let (state, released) = match frame.state() {
            Some(FlowState::Running) => (ConnectionState::Running, None),
            Some(FlowState::Starting) if is_late => (
                ConnectionState::Released,
                Some("no program came for it in time"),
            ),
            Some(FlowState::Starting) => (ConnectionState::Starting, None),
            Some(FlowState::Faulted) => (ConnectionState::Released, Some("its program failed")),
            Some(FlowState::Fallback) | None => {
                (ConnectionState::Released, Some("the plane was silent"))
            }
        };
        described.state = state;
        if let Some(released) = released {
            released.clone_into(&mut described.why);
        }
        if controlled.translates_ecn {
            described.why += ", ECN spoken for the guest";
        }
        if let Limit::Target(bytes) = controlled.limit {
            described.limit_bytes = Some(bytes);
        }
        described.srtt_us = Some(controlled.srtt_us).filter(|us| *us > 0);
        described.bytes_acked = Some(frame.bytes_acked());
    }

    /// The rule of the policy in force that is for the connection.
    fn rule(&self, key: &FlowKey) -> String {
        let sets = self.policy.port_sets_of((self.port)(key.interface));
        let found = self.policy.rule_of(key, sets);
        match found.and_then(|index| Some((index, self.policy.rules().get(index)?))) {
            Some((index, rule)) => {
                let verb = match rule.action {
                    Action::Pass => " passes it",
                    Action::Control(_) => "",
                };
                format!("rule {} (line {}){verb}", index + 1, rule.line)
            }
            None => "no rule is for it".to_owned(),
        }
    }
}

/// Why a connection is measured only, as a clause.
const fn exempt(exemption: Exemption) -> &'static str {
    match exemption {
        Exemption::Signed => "its segments are signed (TCP-MD5, TCP-AO)",
        Exemption::Mptcp => "its window is that of a multipath connection",
        Exemption::NativeEcn => "the guest speaks ECN itself",
        Exemption::Midway => "it was open before the edge came",
        Exemption::NoRoom => "no room for more controlled flows (max_flows)",
        _ => "it may not be touched",
    }
}
