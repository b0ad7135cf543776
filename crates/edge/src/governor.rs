//! Flows of the datapath that the guests' connections are.

use std::time::Duration;

use fairwater_datapath::{Controls, Datapath, FlowState, PeerId};
use fairwater_net::Time;
use fairwater_proto::{FlowId, FlowInfo};
use fairwater_wire::Seq;

use crate::enforce::{EcnTranslation, Limit, Window};
use crate::policy::{Exemption, Policy, Treatment};
use crate::track::{EcnMode, Flow, HalfOpen, Owner};
use crate::{EdgeStatistics, FlowKey};

/// A connection that an algorithm governs.
#[derive(Debug)]
pub struct Governed {
    pub(crate) flow: FlowId,
    pub(crate) treatment: Treatment,
    pub(crate) window: Window,
    /// `None` if ECN is not translated.
    pub(crate) ecn: Option<EcnTranslation>,
    scale: Option<u8>,
    /// When the connection was open.
    opened: Time,
    /// The initial window, and what was acknowledged since.
    initial: u64,
    first: Seq,
    /// What the datapath said last.
    controls: Controls,
}

impl Governed {
    /// What the guest is limited by.
    #[must_use]
    pub const fn limit(&self) -> Limit {
        self.window.limit()
    }

    /// The shift that the guest was told, if it is another than the peer's.
    pub(crate) const fn window_scale(&self) -> Option<u8> {
        self.scale
    }

    /// The connection as the datapath knows it.
    #[must_use]
    pub const fn flow(&self) -> FlowId {
        self.flow
    }

    /// Whether ECN is spoken for the guest.
    #[must_use]
    pub const fn translates_ecn(&self) -> bool {
        self.ecn.is_some()
    }
}

/// What the box keeps of a connection.
#[derive(Debug, Default)]
pub enum Fate {
    /// The policy leaves it alone.
    #[default]
    Passed,
    /// It is measured only.
    Exempt(Exemption),
    /// An algorithm governs it.
    Governed(Box<Governed>),
}

/// The datapath, and what decides on connections.
pub(crate) struct Governor {
    pub(crate) datapath: Datapath,
    pub(crate) peer: PeerId,
    pub(crate) policy: Policy,
    /// How long a flow waits for its program before it is released.
    pub(crate) grace: Duration,
    pub(crate) statistics: EdgeStatistics,
}

impl Governor {
    /// Runs the flow's program on the signals of a packet, and limits the guest by what comes of it.
    pub(crate) fn invoke(
        &mut self,
        now: Time,
        flow: &mut Flow,
        governed: &mut Governed,
        is_timeout: bool,
    ) {
        let signals = flow.take_signals(now, governed.window.told(), is_timeout);
        if let Ok(Some(controls)) = self.datapath.invoke(governed.flow, &signals) {
            governed.controls = controls;
        }
        let una = flow.sender().una();
        governed.window.set_limit(self.limit(now, governed, una));
    }

    fn limit(&self, now: Time, governed: &Governed, una: Seq) -> Limit {
        if governed.controls != Controls::RELEASED {
            return Limit::Target(governed.controls.cwnd);
        }
        let state = self.datapath.flow(governed.flow).map(|flow| flow.state);
        if state == Some(FlowState::Waiting) && now.since(governed.opened) < self.grace {
            // RFC 5681 §3.1: slow start, until the plane has chosen a program.
            let acked = u64::from(una.bytes_since(governed.first));
            return Limit::Target(governed.initial.saturating_add(acked));
        }
        Limit::Released
    }

    fn govern(
        &mut self,
        now: Time,
        key: &FlowKey,
        flow: &Flow,
        half_open: &HalfOpen,
        treatment: Treatment,
    ) -> Fate {
        if let Some(exemption) = Exemption::of(half_open) {
            return Fate::Exempt(exemption);
        }
        let mss = u64::from(flow.sender().mss());
        let info = FlowInfo {
            local: key.guest,
            remote: key.peer,
            mss: flow.sender().mss(),
            cwnd: initial_window(mss),
            now_us: now.as_nanos() / 1_000,
            ..FlowInfo::default()
        };
        let Ok(id) = self.datapath.start(self.peer, &treatment.algorithm, &info) else {
            return Fate::Exempt(Exemption::NoRoom);
        };
        let una = flow.sender().una();
        let guest_scale = half_open.translated.scale.unwrap_or(flow.peer_scale());
        // The answer to the guest's SYN was rewritten; a passive guest has been told of nothing yet.
        let syn_window = flow.peer_edge().bytes_since(una);
        let told = una.plus(syn_window.min(u32::try_from(info.cwnd).unwrap_or(u32::MAX)));
        let scales = (flow.peer_scale(), guest_scale);
        let mut window = Window::new(flow.sender().mss(), scales, told, una);
        window.set_limit(Limit::Target(info.cwnd));
        let ecn = half_open.has_agreed_to_translation();
        Fate::Governed(Box::new(Governed {
            flow: id,
            treatment,
            window,
            ecn: ecn.then(EcnTranslation::default),
            scale: half_open.translated.scale,
            opened: now,
            initial: info.cwnd,
            first: una,
            controls: Controls {
                cwnd: info.cwnd,
                rate: 0,
            },
        }))
    }
}

impl Owner<Fate> for Governor {
    fn edge(&self, flow: &Flow, fate: &Fate) -> Seq {
        match fate {
            Fate::Governed(governed) => governed.window.told(),
            Fate::Passed | Fate::Exempt(_) => flow.peer_edge(),
        }
    }

    fn ecn(&self, _: &FlowKey, half_open: &HalfOpen) -> EcnMode {
        if half_open.has_agreed_to_translation() {
            EcnMode::Classic
        } else {
            half_open.ecn()
        }
    }

    fn opened(
        &mut self,
        now: Time,
        key: &FlowKey,
        flow: &Flow,
        half_open: Option<&HalfOpen>,
        fate: &mut Fate,
    ) {
        let Some(treatment) = (self.policy)(key) else {
            return;
        };
        *fate = match half_open {
            None => Fate::Exempt(Exemption::Midway),
            Some(half_open) => self.govern(now, key, flow, half_open, treatment),
        };
        match fate {
            Fate::Governed(_) => self.statistics.governed += 1,
            Fate::Exempt(_) => self.statistics.exempt += 1,
            Fate::Passed => {}
        }
    }

    fn ended(&mut self, _: &FlowKey, fate: Fate) {
        if let Fate::Governed(governed) = fate {
            let closed = self.datapath.close(governed.flow);
            debug_assert!(closed.is_ok(), "{closed:?}");
        }
    }
}

impl std::fmt::Debug for Governor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Governor")
            .field("datapath", &self.datapath)
            .field("grace", &self.grace)
            .field("statistics", &self.statistics)
            .finish_non_exhaustive()
    }
}

/// The initial window (RFC 6928 §2), bytes.
pub(crate) fn initial_window(mss: u64) -> u64 {
    (10 * mss).min((2 * mss).max(14_600))
}
