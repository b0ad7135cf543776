//! The datapath: its flows, its peers, and what an owner does with them.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fairwater_lang::MAX_RATE;
use fairwater_proto::{Dialect, FlowId, FlowInfo, ccp, own};
use thiserror::Error;

use crate::config::MAX_FLOWS;
use crate::enforced::{Enforced, OnlyControl};
use crate::flow::{Arrival, NO_PEER};
use crate::observe::Observation;
use crate::peer::{Liveness, Peer, Peers, Probe};
use crate::slab::Flows;
use crate::stage::Pool;
use crate::{Config, Controls, DatapathStatistics, FlowState, FlowStatus, PeerId};

/// There is no such flow: it was closed, or never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[error("flow {}.{} does not exist", .0.slot, .0.generation)]
pub struct UnknownFlow(pub FlowId);

/// Why a flow was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no such peer: it was removed.
    #[error("the peer does not exist")]
    UnknownPeer,
    /// [`Config::max_flows`] flows are open.
    #[error("the datapath has {0} flows, the most that it keeps")]
    Full(u32),
    /// The peer's dialect has no way to say the algorithm's name: it has a NUL, or more bytes
    /// than [`own::MAX_NAME`] or [`ccp::MAX_NAME`].
    #[error("the algorithm's name is too long, or has a NUL inside")]
    Name,
    /// The maximum segment size or the congestion window is 0.
    #[error("the maximum segment size and the congestion window must be at least 1")]
    Info,
}

/// Controls that cannot be in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ControlsError {
    /// There is no such flow.
    #[error(transparent)]
    UnknownFlow(#[from] UnknownFlow),
    /// cwnd is 0, or the rate above [`MAX_RATE`].
    #[error("cwnd must be at least 1 and the rate at most {MAX_RATE} bytes/s")]
    OutOfRange,
}

/// A segment size that a flow cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum MssError {
    /// There is no such flow.
    #[error(transparent)]
    UnknownFlow(#[from] UnknownFlow),
    /// The maximum segment size is 0.
    #[error("the maximum segment size must be at least 1")]
    Zero,
}

/// The flow runtime of one transport, sans I/O.
///
/// Flows and messages go in with the time; controls and packets come out. See the crate for how
/// the calls fit together. All times are of one clock of the caller's, µs, that never goes back.
#[derive(Debug)]
pub struct Datapath {
    pub(crate) config: Config,
    pub(crate) flows: Flows,
    /// By peer: when an invocation has to look after the peer, µs. Beside the flows it is all
    /// that an invocation reads.
    pub(crate) wake: Vec<u64>,
    pub(crate) peers: Peers,
    pub(crate) stages: Pool,
    pub(crate) statistics: DatapathStatistics,
    /// The latest time that is known, µs.
    pub(crate) now_us: u64,
    /// The peer whose turn it is to send.
    pub(crate) turn: usize,
    /// Whether there may be anything to send, so that asking at each ACK costs nothing.
    pub(crate) unsent: bool,
    algorithms: BTreeSet<Arc<str>>,
    pub(crate) observation: Option<Box<Observation>>,
}

impl Datapath {
    /// A datapath without flows and peers. `config.max_flows` above [`MAX_FLOWS`] counts as that.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        config.max_flows = config.max_flows.min(MAX_FLOWS);
        Self {
            config,
            flows: Flows::default(),
            wake: Vec::new(),
            peers: Peers::default(),
            stages: Pool::default(),
            statistics: DatapathStatistics::default(),
            now_us: 0,
            turn: 0,
            unsent: false,
            algorithms: BTreeSet::new(),
            observation: None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Takes in a plane that speaks `dialect`. A Hello (libccp: READY) is the first that
    /// [`Datapath::poll_transmit`] has for it.
    pub fn add_peer(&mut self, dialect: Dialect, now_us: u64) -> PeerId {
        self.now_us = self.now_us.max(now_us);
        let peer = self.peers.add(Peer::new(
            dialect,
            self.config.queue_bytes,
            self.config.silence_us,
            now_us,
        ));
        let index = peer.index as usize;
        self.wake.resize(self.wake.len().max(index + 1), u64::MAX);
        self.wake[index] = u64::MAX;
        self.unsent = true;
        peer
    }

    /// Forgets a plane: its programs, and what was to be sent to it. Its flows go on under the
    /// fallback for good. Takes time in the number of flows.
    pub fn remove_peer(&mut self, peer: PeerId) {
        if self.peers.remove(peer).is_none() {
            return;
        }
        self.statistics.programs = self.count_programs();
        for slot in 0..self.flows.hot.len() {
            if self.flows.hot[slot].peer != peer.index {
                continue;
            }
            if self.flows.cold[slot].is_open && self.flows.cold[slot].state.may_switch() {
                self.flows.drop_program(slot, FlowState::Orphaned);
            }
            self.flows.hot[slot].peer = NO_PEER;
            self.flows.cold[slot].announcements = crate::flow::PendingAnnouncements::default();
            self.flows.cold[slot].links = crate::flow::Links::default();
        }
    }

    /// The link to the peer was lost and made again: what was on its way is gone, and whoever is
    /// at its other end may be another plane. It is greeted again, and all of its flows, which go
    /// on under the fallback, are announced to it. Takes time in the number of flows.
    pub fn reset_peer(&mut self, peer: PeerId, now_us: u64) {
        let Some(index) = self.peers.index(peer) else {
            return;
        };
        self.unsent = true;
        self.now_us = self.now_us.max(now_us);
        self.forget_plane(index);
        self.greet(index, now_us);
    }

    /// The plane turned out to speak another dialect than it was greeted in: all flows, which go on
    /// under the fallback, are announced to it in that dialect. It is not greeted again. Takes time
    /// in the number of flows.
    pub fn set_dialect(&mut self, peer: PeerId, dialect: Dialect) {
        let Some(index) = self.peers.index(peer) else {
            return;
        };
        if self.dialect(peer) == Some(dialect) {
            return;
        }
        self.unsent = true;
        self.forget_plane(index);
        let silence_us = self.config.silence_us;
        if let Some(peer) = self.peers.at_mut(index) {
            peer.dialect = dialect;
            peer.silence_us = silence_us;
            peer.liveness = Liveness::Greeted;
            peer.hello = false;
            peer.hellos = 0;
        }
    }

    /// The dialect in which the peer is spoken to.
    #[must_use]
    pub fn dialect(&self, peer: PeerId) -> Option<Dialect> {
        let index = self.peers.index(peer)?;
        Some(self.peers.at(index)?.dialect)
    }

    /// Forgets what a peer installed and what was to be sent to it; its flows are announced again.
    fn forget_plane(&mut self, index: usize) {
        if let Some(peer) = self.peers.at_mut(index) {
            peer.outgoing.clear();
            peer.programs.clear();
            peer.instance = None;
            peer.is_full = false;
            peer.probe = Probe::None;
        }
        self.statistics.programs = self.count_programs();
        self.forget(index);
    }

    /// Whether the peer said that it takes no more datapaths, and has not taken this one since.
    #[must_use]
    pub fn is_refused_by(&self, peer: PeerId) -> bool {
        let index = self.peers.index(peer);
        let peer = index.and_then(|index| self.peers.at(index));
        peer.is_some_and(|peer| peer.is_full)
    }

    /// Starts a flow that asks the peer for an algorithm by name; empty for the peer's first. It
    /// goes on under the fallback until the peer has chosen a program. `info.cwnd` is what the
    /// transport enforces, with no rate.
    ///
    /// # Errors
    /// See [`StartError`]; the datapath is then as before, and the transport controls the flow.
    pub fn start(
        &mut self,
        peer: PeerId,
        algorithm: &str,
        info: &FlowInfo,
    ) -> Result<FlowId, StartError> {
        let index = self.peers.index(peer).ok_or(StartError::UnknownPeer)?;
        let dialect = self.peers.at(index).map(|peer| peer.dialect);
        let longest = match dialect.ok_or(StartError::UnknownPeer)? {
            Dialect::Own => own::MAX_NAME,
            Dialect::Ccp => ccp::MAX_NAME,
        };
        if algorithm.len() > longest || algorithm.contains('\0') {
            return Err(StartError::Name);
        }
        if info.mss == 0 || info.cwnd == 0 {
            return Err(StartError::Info);
        }
        let name = self.intern(algorithm);
        let slot = self
            .flows
            .open(&self.config, peer.index, name, info)
            .ok_or(StartError::Full(self.config.max_flows))?;
        self.now_us = self.now_us.max(info.now_us);
        if self.only_control().is_some() {
            self.flows.cold[slot].enforced = Some(Box::new(Enforced::new(info.cwnd)));
        }
        self.assign(slot, peer.index);
        self.announce(slot, Arrival::Created);
        self.observe_start(slot);
        Ok(self.flows.name(slot))
    }

    /// Gives the slot to a peer; pending announcements for another peer are lost.
    fn assign(&mut self, slot: usize, peer: u32) {
        let former = core::mem::replace(&mut self.flows.hot[slot].peer, peer);
        if former == peer {
            return;
        }
        if let Some(former) = self.peers.at_mut(former as usize) {
            former.announcements.remove(&mut self.flows.cold, slot);
        }
        let announcements = core::mem::take(&mut self.flows.cold[slot].announcements);
        self.statistics.closes_lost += u64::from(announcements.closed.is_some());
    }

    /// Ends a flow.
    ///
    /// # Errors
    /// There is no such flow.
    pub fn close(&mut self, flow: FlowId) -> Result<(), UnknownFlow> {
        let slot = self.flows.slot(flow).ok_or(UnknownFlow(flow))?;
        self.observe_end(flow, slot);
        self.flows.drop_program(slot, FlowState::Orphaned);
        let announcements = &mut self.flows.cold[slot].announcements;
        if announcements.known {
            announcements.closed = Some(flow.generation);
        }
        announcements.known = false;
        announcements.arrival = None;
        announcements.fault = false;
        announcements.mss = false;
        self.list_announcement(slot);
        self.flows.close(slot);
        Ok(())
    }

    /// Tells what the transport enforces, when anything but [`Datapath::invoke`] has changed it:
    /// a restart after idle, for instance. Programs see it at the next invocation. Of a transport
    /// with one control alone ([`Config::abilities`]), the other is not taken in.
    ///
    /// # Errors
    /// There is no such flow, or the controls are out of range.
    pub fn set_controls(&mut self, flow: FlowId, controls: Controls) -> Result<(), ControlsError> {
        let slot = self.flows.slot(flow).ok_or(UnknownFlow(flow))?;
        if controls.cwnd == 0 || controls.rate > MAX_RATE {
            return Err(ControlsError::OutOfRange);
        }
        let only = self.only_control();
        let registers = &mut self.flows.hot[slot].registers;
        if only != Some(OnlyControl::Rate) {
            registers.cwnd = controls.cwnd;
        }
        if only != Some(OnlyControl::Window) {
            registers.rate = controls.rate;
        }
        if let Some(enforced) = &mut self.flows.cold[slot].enforced {
            enforced.controls = controls;
        }
        Ok(())
    }

    /// Tells that the flow's segments are of `mss` bytes of payload from now on: the path's MTU was
    /// found to be another (RFC 4821, RFC 8899). The window in bytes stays as it was. The fallback
    /// counts in the new segments at once, the algorithm when it has heard of them, and libccp's agents
    /// never do, whose dialect cannot say it.
    ///
    /// # Errors
    /// There is no such flow, or `mss` is 0.
    pub fn set_mss(&mut self, flow: FlowId, mss: u32) -> Result<(), MssError> {
        let slot = self.flows.slot(flow).ok_or(UnknownFlow(flow))?;
        if mss == 0 {
            return Err(MssError::Zero);
        }
        let peer = self.peers.at(self.flows.hot[slot].peer as usize);
        let cold = &mut self.flows.cold[slot];
        if mss == core::mem::replace(&mut cold.info.mss, mss) {
            return Ok(());
        }
        if peer.is_some_and(|peer| peer.dialect == Dialect::Own) && cold.announcements.known {
            cold.announcements.mss = true;
            self.list_announcement(slot);
        }
        Ok(())
    }

    /// Whether the transport is to restart the flow from a smaller window after an idle period
    /// (RFC 5681 §4.1): as the algorithm of its program says, and under the fallback always.
    #[must_use]
    pub fn restarts_after_idle(&self, flow: FlowId) -> bool {
        let program = self
            .flows
            .slot(flow)
            .and_then(|slot| self.flows.hot[slot].program.as_deref());
        program.is_none_or(|program| program.idle_restart)
    }

    /// What is known of a flow.
    #[must_use]
    pub fn flow(&self, flow: FlowId) -> Option<FlowStatus<'_>> {
        let slot = self.flows.slot(flow)?;
        let (hot, cold) = (&self.flows.hot[slot], &self.flows.cold[slot]);
        Some(FlowStatus {
            flow,
            peer: self.peers.id(hot.peer as usize),
            algorithm: &cold.algorithm,
            state: cold.state,
            program: (cold.state == FlowState::Running).then_some(cold.number),
            variables: &hot.variables,
            controls: if cold.is_released() {
                Controls::RELEASED
            } else {
                self.in_force(slot)
            },
            is_staged: cold.stage.is_some(),
            is_announced: cold.announcements.known,
            info: &cold.info,
        })
    }

    /// The flows, by slot.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> + '_ {
        (0..self.flows.hot.len())
            .filter(|slot| self.flows.cold[*slot].is_open)
            .map(|slot| self.flows.name(slot))
    }

    /// The only control that the transport holds, if it does not hold both.
    pub(crate) const fn only_control(&self) -> Option<OnlyControl> {
        OnlyControl::of(self.config.abilities)
    }

    /// Window and rate in force.
    pub(crate) fn in_force(&self, slot: usize) -> Controls {
        let registers = &self.flows.hot[slot].registers;
        let set = Controls {
            cwnd: registers.cwnd,
            rate: registers.rate,
        };
        let cold = &self.flows.cold[slot];
        let enforced = cold.enforced.as_ref().filter(|_| !cold.is_released());
        enforced.map_or(set, |enforced| enforced.controls)
    }

    /// Counts.
    #[must_use]
    pub fn statistics(&self) -> DatapathStatistics {
        DatapathStatistics {
            flows: self.flows.len(),
            ..self.statistics
        }
    }

    pub(crate) fn count_programs(&self) -> u32 {
        let programs: usize = self.peers.iter().map(|peer| peer.programs.len()).sum();
        u32::try_from(programs).unwrap_or(u32::MAX)
    }

    /// One copy of each algorithm's name; those of no flow are forgotten now and then.
    pub(crate) fn intern(&mut self, name: &str) -> Arc<str> {
        const MANY: usize = 64;
        if let Some(known) = self.algorithms.get(name) {
            return Arc::clone(known);
        }
        if self.algorithms.len() >= MANY {
            self.algorithms.retain(|name| Arc::strong_count(name) > 1);
        }
        let name: Arc<str> = name.into();
        self.algorithms.insert(Arc::clone(&name));
        name
    }
}
