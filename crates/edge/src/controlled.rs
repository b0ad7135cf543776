//! Flows of the datapath that the guests' connections are.

use std::time::Duration;

use fairwater_datapath::{Controls, Datapath, FlowState, PeerId};
use fairwater_net::Time;
use fairwater_proto::{FlowId, FlowInfo};
use fairwater_wire::Seq;

use crate::buffer::{Buffering, Buffers};
use crate::enforce::{EcnTranslation, Limit, MarkEcho, Window};
use crate::policy::{Echo, Exemption, Mode, Policy, Treatment};
use crate::track::{EcnMode, Flow, HalfOpen, Owner};
use crate::{EdgeStatistics, FlowKey};

/// A connection that an algorithm controls.
#[derive(Debug)]
pub struct ControlledFlow {
    pub(crate) flow: FlowId,
    pub(crate) treatment: Treatment,
    pub(crate) window: Window,
    /// `None` if ECN is not translated.
    pub(crate) ecn: Option<EcnTranslation>,
    pub(crate) buffering: Buffering,
    /// `None` if marks are latched.
    pub(crate) echo: Option<MarkEcho>,
    scale: Option<u8>,
    /// When the connection was open.
    opened: Time,
    /// The initial window, and what was acknowledged since.
    initial: u64,
    first: Seq,
    /// What the datapath said last.
    pub(crate) controls: Controls,
}

impl ControlledFlow {
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

    /// Whether the box holds the guest's data now.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self.buffering, Buffering::Held(_))
    }

    /// Whether marks of the peer's data are to be echoed now.
    pub(crate) fn echoes_marks(&self) -> bool {
        self.ecn.is_some_and(|ecn| ecn.is_echoing())
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
    /// An algorithm controls it.
    Controlled(Box<ControlledFlow>),
}

/// The datapath, and what decides on connections.
pub(crate) struct ControlledFlows {
    pub(crate) datapath: Datapath,
    pub(crate) peer: PeerId,
    pub(crate) policy: Policy,
    /// How long a flow waits for its program before it is released.
    pub(crate) grace: Duration,
    pub(crate) buffers: Buffers,
    pub(crate) statistics: EdgeStatistics,
}

impl ControlledFlows {
    /// Runs the flow's program on the signals of a packet, and limits the guest by what comes of it.
    pub(crate) fn invoke(
        &mut self,
        now: Time,
        flow: &mut Flow,
        controlled: &mut ControlledFlow,
        is_timeout: bool,
    ) {
        let signals = flow.take_signals(now, controlled.window.told(), is_timeout);
        if let Ok(Some(controls)) = self.datapath.invoke(controlled.flow, &signals) {
            controlled.controls = controls;
        }
        let una = flow.sender().una();
        controlled
            .window
            .set_limit(self.limit(now, controlled, una));
    }

    pub(crate) fn limit(&self, now: Time, controlled: &ControlledFlow, una: Seq) -> Limit {
        if controlled.controls != Controls::RELEASED {
            return Limit::Target(controlled.controls.cwnd);
        }
        let state = self.datapath.flow(controlled.flow).map(|flow| flow.state);
        if state == Some(FlowState::Waiting) && now.since(controlled.opened) < self.grace {
            // RFC 5681 §3.1: slow start, until the plane has chosen a program.
            let acked = u64::from(una.bytes_since(controlled.first));
            return Limit::Target(controlled.initial.saturating_add(acked));
        }
        Limit::Released
    }

    fn control(
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
        let echoes = ecn && (treatment.mode, treatment.echo) == (Mode::Window, Echo::EachMark);
        Fate::Controlled(Box::new(ControlledFlow {
            flow: id,
            treatment,
            window,
            ecn: ecn.then(EcnTranslation::default),
            buffering: Buffering::default(),
            echo: echoes.then(|| MarkEcho::new(flow.guest_ack())),
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

impl Owner<Fate> for ControlledFlows {
    fn edge(&self, flow: &Flow, fate: &Fate) -> Seq {
        match fate {
            Fate::Controlled(controlled) => controlled.window.told(),
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
            Some(half_open) => self.control(now, key, flow, half_open, treatment),
        };
        match fate {
            Fate::Controlled(_) => self.statistics.controlled += 1,
            Fate::Exempt(_) => self.statistics.exempt += 1,
            Fate::Passed => {}
        }
    }

    fn ended(&mut self, _: &FlowKey, fate: Fate) {
        if let Fate::Controlled(mut controlled) = fate {
            if let Buffering::Held(buffered) = &mut controlled.buffering {
                self.buffers.forget(buffered);
            }
            let closed = self.datapath.close(controlled.flow);
            debug_assert!(closed.is_ok(), "{closed:?}");
        }
    }
}

impl std::fmt::Debug for ControlledFlows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlledFlows")
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
