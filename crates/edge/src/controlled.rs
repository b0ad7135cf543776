//! Flows of the datapath that the guests' connections are.

use std::time::Duration;

use fairwater_datapath::{Controls, Datapath, FlowState, PeerId};
use fairwater_lang::Signals;
use fairwater_net::Time;
use fairwater_proto::{FlowId, FlowInfo};
use fairwater_wire::Seq;

use crate::buffer::{Buffering, Buffers};
use crate::enforce::{EcnTranslation, Limit, MarkEcho, Window};
use crate::policy::{Echo, Exemption, Mode, Policies, Treatment};
use crate::select::Selector;
use crate::share::{Member, Portion, Remainders, whole_segments};
use crate::starved::{Detector, Tally};
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
    /// What limits the guest but for its group.
    own: Limit,
    /// The flow's part of its group's windows; `None` while nothing is divided.
    portion: Option<Portion>,
    remainders: Remainders,
    /// What the last part had beyond whole segments, bytes.
    rest: u64,
    /// When the guest sent data last.
    pub(crate) sent_at: Time,
    /// What the connection did since the box looked for flows that starve.
    pub(crate) tally: Tally,
    /// What chooses the algorithm, and what the connection did since it was asked.
    pub(crate) selector: Option<Box<(Selector, Tally)>>,
}

impl ControlledFlow {
    /// What the guest is limited by.
    #[must_use]
    pub const fn limit(&self) -> Limit {
        self.window.limit()
    }

    /// What limits the guest but for its group (vCC §4).
    #[must_use]
    pub const fn own_limit(&self) -> Limit {
        self.own
    }

    /// What is done with the connection.
    #[must_use]
    pub const fn treatment(&self) -> &Treatment {
        &self.treatment
    }

    /// What chooses the connection's algorithm, if that changes.
    #[must_use]
    pub fn selector(&self) -> Option<&Selector> {
        self.selector.as_deref().map(|(selector, _)| selector)
    }

    /// The flow's part of its group's windows from now on, found when its own was `member`'s; `None` leaves it its own.
    pub(crate) fn divide(&mut self, part: Option<u64>, member: &Member) {
        self.portion = part.map(|part| Portion {
            part: whole_segments(part, member.mss, &mut self.rest),
            window: member.window,
        });
        self.set_own(self.own);
    }

    fn set_own(&mut self, own: Limit) {
        self.own = own;
        if own == Limit::Released {
            self.portion = None;
        }
        self.window.set_limit(match (own, self.portion) {
            (Limit::Target(window), Some(portion)) => Limit::Target(portion.limit(window)),
            _ => own,
        });
    }

    /// Counts what the signals of an invocation tell, for those that look at intervals.
    pub(crate) fn count(&mut self, signals: &Signals) {
        let tally = Tally::of(signals);
        self.tally.add(&tally);
        if let Some((_, since)) = self.selector.as_deref_mut() {
            since.add(&tally);
        }
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
    pub(crate) policies: Policies,
    /// How long a flow waits for its program before it is released.
    pub(crate) grace: Duration,
    pub(crate) buffers: Buffers,
    pub(crate) statistics: EdgeStatistics,
    /// Flows that divide their windows with others.
    pub(crate) sharing: usize,
    /// Guests whose flows starve beside marked traffic.
    pub(crate) starved: Detector,
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
        let mut signals = flow.take_signals(now, controlled.window.told(), is_timeout);
        controlled.count(&signals);
        if let Some(portion) = controlled.portion {
            portion.as_own(&mut signals, &mut controlled.remainders);
        }
        if let Ok(Some(controls)) = self.datapath.invoke(controlled.flow, &signals) {
            controlled.controls = controls;
        }
        let una = flow.sender().una();
        let own = self.limit(now, controlled, una);
        controlled.set_own(own);
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

    /// What is done with a connection that is opening, or was met midway.
    pub(crate) fn treatment(
        &self,
        now: Time,
        key: &FlowKey,
        half_open: Option<&HalfOpen>,
    ) -> Option<Treatment> {
        let began = half_open.map_or(now, HalfOpen::began);
        let treatment = self.policies.treatment(key, began)?;
        // What was changed in the SYNs is gone on with.
        let is_bound = half_open.is_some_and(|half_open| half_open.translated.is_any());
        let is_meant = !treatment.only_starved || is_bound || self.starved.has_found(key);
        is_meant.then_some(treatment)
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
        let own = Limit::Target(info.cwnd);
        window.set_limit(own);
        self.sharing += usize::from(treatment.share.is_some());
        let ecn = half_open.has_agreed_to_translation();
        let selector = treatment.selector.as_ref();
        let selector = selector.map(|config| {
            let selector = Selector::new(std::sync::Arc::clone(config));
            Box::new((selector, Tally::default()))
        });
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
            own,
            portion: None,
            remainders: Remainders::default(),
            rest: 0,
            sent_at: now,
            tally: Tally::default(),
            selector,
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
        let Some(treatment) = self.treatment(now, key, half_open) else {
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
            self.sharing -= usize::from(controlled.treatment.share.is_some());
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
