//! Peers come and go, packets in, packets out.

use std::collections::VecDeque;

use fairwater_proto::{Dialect, Refusal, RefusalReason, ToDatapath, Welcome, own};

use super::catalogue::Catalogue;
use super::deferred_commands::{DeferredCommands, UnaskedHandOver};
use super::direct::Direct;
use super::incident::Causes;
use super::notice::ServiceNotice;
use super::outgoing::Context;
use super::peer::{Peer, PeerId};
use super::policy::{Policy, PolicyKey};
use super::report_log::ReportLog;
use super::slots::{Location, PlaneSlots};
use super::statistics::ServiceStatistics;
use fairwater_plane::{Capabilities, Command, Controller, FlowId, MAX_FLOWS, Plane, Unmet};

/// Notices kept until they are drained; the oldest go first.
const MAX_NOTICES: usize = 1024;

/// That newcomers are refused is told at most this often, µs.
const REFUSED_PEER_NOTICE_US: u64 = 10_000_000;

/// How a service behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Distinguishes this plane from the planes before and after it at the same place: a random
    /// number.
    pub instance: u64,
    /// Each peer hears from the plane at least this often, µs.
    pub alive_us: u32,
    /// The most peers at once; newcomers are refused then.
    pub max_peers: u32,
    /// The most flows of all peers at once, and the bound on a peer's slots; at most
    /// [`MAX_FLOWS`].
    pub max_flows: u32,
    /// Bytes for the last reports of all flows, of which an [`Incident`](crate::Incident) tells
    /// those of its flow. 0 keeps none.
    pub report_log_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            instance: 1,
            alive_us: 50_000,
            max_peers: 1024,
            max_flows: 1 << 18,
            report_log_bytes: 0,
        }
    }
}

/// The service has as many peers as it may, each with flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{max_peers} datapaths are connected, which is the limit")]
pub struct ServiceFull {
    /// [`Config::max_peers`].
    pub max_peers: u32,
}

impl ServiceFull {
    /// What a newcomer is told, in our encoding: its Hello is refused as
    /// [`RefusalReason::Full`](fairwater_proto::RefusalReason::Full).
    #[must_use]
    pub fn packet(&self) -> Vec<u8> {
        let refusal = ToDatapath::Refused(Refusal {
            message: own::HELLO,
            reason: RefusalReason::Full,
            flow: None,
            program: 0,
        });
        let mut packet = Vec::new();
        // Our encoding has this message.
        let _ = Dialect::Own.encode_to_datapath(&refusal, &mut packet);
        packet
    }
}

/// Why a flow is not handed over to another algorithm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// There is no such flow.
    #[error("there is no such flow")]
    UnknownFlow,
    /// The plane does not have the algorithm.
    #[error("the plane does not have the algorithm")]
    UnknownAlgorithm,
    /// The flow's datapath cannot run the algorithm.
    #[error("the flow's datapath cannot run the algorithm: {}", join(.0))]
    Unmet(Vec<Unmet>),
}

/// Unmet requirements as one clause.
pub(super) fn join(unmet: &[Unmet]) -> String {
    let clauses: Vec<_> = unmet.iter().map(Unmet::to_string).collect();
    clauses.join(", ")
}

/// A peer's state, for status screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSnapshot<'a> {
    /// Its identity.
    pub id: PeerId,
    /// Its name; "?" before its Hello.
    pub name: &'a str,
    /// Its dialect, once known.
    pub dialect: Option<Dialect>,
    /// Flows that it has now.
    pub flows: u32,
    /// Reports that came from it.
    pub reports: u64,
}

/// A plane and its peers, sans I/O.
///
/// Whoever carries the packets calls [`Service::connect`] for each new peer and
/// [`Service::peer_gone`] when one is lost, gives packets to [`Service::on_packet`], calls
/// [`Service::tick`] at least twice in `alive_us`, and sends what [`Service::poll_transmit`]
/// hands out.
#[derive(Debug)]
pub struct Service {
    pub(super) peers: Vec<Option<Box<Peer>>>,
    pub(super) datapaths: Vec<Option<Direct>>,
    generation: u32,
    /// Peers that have something to send, each once.
    ready: VecDeque<PeerId>,
    pub(super) shared: Shared,
}

/// What all peers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) plane: Plane,
    pub(super) catalogue: Catalogue,
    pub(super) slots: PlaneSlots,
    pub(super) deferred: DeferredCommands,
    /// Hand-overs of flows whose dialect has no message for it.
    pub(super) unasked_hand_overs: VecDeque<UnaskedHandOver>,
    pub(super) statistics: ServiceStatistics,
    pub(super) notices: VecDeque<ServiceNotice>,
    /// The last reports of all flows.
    pub(super) log: ReportLog,
    /// Causes of incidents that are not told yet.
    pub(super) causes: Causes,
    pub(super) policy: Policy,
    /// When the operator was last told that a newcomer was refused.
    refused_peer_notice_us: Option<u64>,
    /// The fields of the report at hand.
    pub(super) fields: Vec<u64>,
}

impl Service {
    /// Serves the algorithms that the plane has now.
    #[must_use]
    pub fn new(plane: Plane, config: Config) -> Self {
        let config = Config {
            max_flows: config.max_flows.min(MAX_FLOWS),
            ..config
        };
        Self {
            peers: Vec::new(),
            datapaths: Vec::new(),
            generation: 0,
            ready: VecDeque::new(),
            shared: Shared {
                catalogue: Catalogue::new(plane.algorithms(), config.instance),
                log: ReportLog::with_bytes(config.report_log_bytes),
                causes: Causes::default(),
                policy: Policy::default(),
                config,
                plane,
                slots: PlaneSlots::default(),
                deferred: DeferredCommands::default(),
                unasked_hand_overs: VecDeque::new(),
                statistics: ServiceStatistics::default(),
                notices: VecDeque::new(),
                refused_peer_notice_us: None,
                fields: vec![0; fairwater_lang::bounds::MAX_VARIABLES + super::catalogue::APPENDED],
            },
        }
    }

    /// The plane, for its algorithms and their counts.
    #[must_use]
    pub fn plane(&self) -> &Plane {
        &self.shared.plane
    }

    /// What was counted.
    #[must_use]
    pub fn statistics(&self) -> ServiceStatistics {
        ServiceStatistics {
            peers: self.peers().count() as u64,
            flows: self.shared.slots.in_use(),
            ..self.shared.statistics
        }
    }

    /// The peers.
    pub fn peers(&self) -> impl Iterator<Item = PeerSnapshot<'_>> {
        self.peers.iter().flatten().map(|peer| PeerSnapshot {
            id: peer.id,
            name: peer.name(),
            dialect: peer.dialect,
            flows: peer.flows,
            reports: peer.reports,
        })
    }

    /// Takes the notices since the last call, oldest first.
    pub fn drain_notices(&mut self) -> impl Iterator<Item = ServiceNotice> + '_ {
        self.shared.collect_notices();
        self.shared.notices.drain(..)
    }

    /// Whether a newcomer finds no free slot.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.peers.len() >= self.shared.config.max_peers as usize
            && self.peers.iter().all(Option::is_some)
    }

    /// A new peer, which has not spoken yet. When there are too many, the one without flows that
    /// was silent the longest gives way.
    ///
    /// # Errors
    /// Each has flows: the newcomer is to be told [`ServiceFull::packet`].
    pub fn connect(&mut self, now_us: u64) -> Result<PeerId, ServiceFull> {
        let Some(index) = self.free_index() else {
            let max_peers = self.shared.config.max_peers;
            self.shared.statistics.peers_refused += 1;
            self.shared.notice_refused_peer(
                now_us,
                ServiceNotice::Full {
                    max_peers,
                    refused: self.shared.statistics.peers_refused,
                },
            );
            return Err(ServiceFull { max_peers });
        };
        self.generation = self.generation.wrapping_add(1);
        let id = PeerId {
            // Below `max_peers`.
            index: u32::try_from(index).unwrap_or(u32::MAX),
            generation: self.generation,
        };
        let programs = self.shared.catalogue.len();
        if let Some(slot) = self.peers.get_mut(index) {
            *slot = Some(Box::new(Peer::new(id, programs, now_us)));
        }
        Ok(id)
    }

    fn free_index(&mut self) -> Option<usize> {
        if let Some(index) = self.peers.iter().position(Option::is_none) {
            return Some(index);
        }
        if self.peers.len() < self.shared.config.max_peers as usize {
            self.peers.push(None);
            return Some(self.peers.len() - 1);
        }
        let idle = self.peers.iter().flatten().filter(|p| p.flows == 0);
        let oldest = idle.min_by_key(|p| p.last_packet_us)?.id;
        self.peer_gone(oldest);
        Some(oldest.index())
    }

    /// A newcomer could not be set up, for want of file descriptors, for instance.
    pub fn cannot_admit(&mut self, error: &std::io::Error, now_us: u64) {
        self.shared.statistics.peers_refused += 1;
        let reason = error.to_string();
        self.shared
            .notice_refused_peer(now_us, ServiceNotice::CannotAdmit { reason });
    }

    /// How long nothing has come from the peer, µs.
    #[must_use]
    pub fn silence_us(&self, id: PeerId, now_us: u64) -> u64 {
        let peer = self.peers.get(id.index()).and_then(Option::as_ref);
        let peer = peer.filter(|peer| peer.id == id);
        peer.map_or(0, |peer| now_us.saturating_sub(peer.last_packet_us))
    }

    /// Whether there is such a peer: it may have given link to another.
    #[must_use]
    pub fn is_connected(&self, id: PeerId) -> bool {
        let peer = self.peers.get(id.index()).and_then(Option::as_ref);
        peer.is_some_and(|peer| peer.id == id)
    }

    /// Removes a peer that is gone, and ends its flows.
    pub fn peer_gone(&mut self, id: PeerId) {
        if !self.is_connected(id) {
            return;
        }
        if let Some(mut peer) = self.peers.get_mut(id.index()).and_then(Option::take) {
            if peer.introduction.is_some() {
                let left = ServiceNotice::Disconnected {
                    peer: peer.name().to_owned(),
                    flows: peer.flows,
                };
                self.shared.notice(left);
            }
            self.shared.end_flows(&mut peer);
            self.carry_out_deferred();
        }
    }

    /// A packet of a peer's: any number of messages, good or bad.
    pub fn on_packet(&mut self, id: PeerId, packet: &[u8], now_us: u64) {
        let Self {
            peers,
            shared,
            ready,
            ..
        } = self;
        let peer = peers.get_mut(id.index()).and_then(Option::as_mut);
        let Some(peer) = peer.filter(|peer| peer.id == id) else {
            return shared.statistics.refuse(RefusalReason::UnknownPeer);
        };
        shared.packet(peer, packet, now_us);
        queue(ready, peer);
        self.carry_out_deferred();
    }

    /// Carries out the commands for flows of other datapaths than the one at hand, and hand-overs.
    ///
    /// Hand-overs that a hand-over leads to wait for the next event or tick: an algorithm that hands
    /// on whatever it is given holds nobody up.
    #[inline]
    pub(super) fn carry_out_deferred(&mut self) {
        self.carry_out_commands();
        for _ in 0..self.shared.unasked_hand_overs.len() {
            let Some(due) = self.shared.unasked_hand_overs.pop_front() else {
                return;
            };
            let peer = self
                .peers
                .get_mut(due.peer.index())
                .and_then(Option::as_mut);
            if let Some(peer) = peer.filter(|peer| peer.id == due.peer) {
                self.shared.hand_over_unasked(peer, due);
                queue(&mut self.ready, peer);
            }
            self.carry_out_commands();
        }
    }

    #[inline]
    fn carry_out_commands(&mut self) {
        while let Some((flow, command)) = self.shared.deferred.pop() {
            match self.shared.slots.location(flow) {
                Some(Location::Peer { peer: id, slot }) => {
                    let peer = self.peers.get_mut(id.index()).and_then(Option::as_mut);
                    if let Some(peer) = peer.filter(|peer| peer.id == id) {
                        self.shared.deferred_command(peer, slot, flow, &command);
                        queue(&mut self.ready, peer);
                    }
                }
                Some(Location::Direct { datapath, flow }) => {
                    let direct = self.datapaths.get_mut(datapath.0 as usize);
                    if let Some(Some(direct)) = direct {
                        direct.queue(flow, command);
                    }
                }
                None => {}
            }
        }
    }

    /// Which algorithm flows get that ask for another.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// Changes the policy, for flows that start from now on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.shared.policy = policy;
    }

    /// The flows of all datapaths, by the plane's names.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> {
        self.shared.slots.flows()
    }

    /// The plane's name of a flow that a peer names so; `None` if the peer has told of none.
    pub fn flow_of_peer(&self, peer: PeerId, flow: FlowId) -> Option<FlowId> {
        let peer = self.peers.get(peer.index())?.as_ref()?;
        peer.peer_flow(flow).map(|known| known.flow)
    }

    /// Hands a flow over to the algorithm of this index. Its datapath answers with the flow's
    /// present state, from which that algorithm goes on; the present program runs until then. A
    /// datapath that cannot do so for this one flow (ECN is negotiated with the SYN) says so in a
    /// [`ServiceNotice::HandOverRefused`].
    ///
    /// # Errors
    /// There is no such flow or algorithm, or the flow's datapath cannot run the algorithm.
    pub fn hand_over(&mut self, flow: FlowId, algorithm: usize) -> Result<(), HandOverError> {
        let known = self.shared.slots.location(flow);
        let location = known.ok_or(HandOverError::UnknownFlow)?;
        let hosted = self.shared.plane.algorithms().get(algorithm);
        let requirements = hosted
            .ok_or(HandOverError::UnknownAlgorithm)?
            .requirements();
        let capabilities = match location {
            Location::Peer { peer, .. } => self
                .peers
                .get(peer.index())
                .and_then(Option::as_ref)
                .and_then(|peer| peer.introduction.as_ref())
                .map(|introduction| introduction.capabilities),
            Location::Direct { datapath, .. } => self.capabilities(datapath),
        };
        let unmet = requirements.unmet(&capabilities.ok_or(HandOverError::UnknownFlow)?);
        if !unmet.is_empty() {
            return Err(HandOverError::Unmet(unmet));
        }
        self.shared
            .deferred
            .push(flow, &Command::hand_over(algorithm));
        self.carry_out_deferred();
        Ok(())
    }

    /// Time passes: a sign of life becomes due for each peer that has not had one for `alive_us`.
    pub fn tick(&mut self, now_us: u64) {
        let Self {
            peers,
            shared,
            ready,
            ..
        } = self;
        shared.plane.set_time(now_us);
        let alive_us = u64::from(shared.config.alive_us);
        for peer in peers.iter_mut().flatten() {
            let due = now_us.saturating_sub(peer.welcomed_us) >= alive_us;
            if due && peer.introduction.is_some() && peer.dialect == Some(Dialect::Own) {
                peer.welcomed_us = now_us;
                peer.outgoing.welcome = true;
                queue(ready, peer);
            }
        }
        self.carry_out_deferred();
    }

    /// The next packet to be sent, of whole messages of one peer; peers take turns. It counts as
    /// sent, unless [`Service::retry`] follows.
    pub fn poll_transmit(&mut self) -> Option<(PeerId, &[u8])> {
        let index = loop {
            let id = self.ready.pop_front()?;
            let Some(peer) = self
                .peers
                .get_mut(id.index())
                .and_then(Option::as_mut)
                .filter(|peer| peer.id == id)
            else {
                continue;
            };
            peer.outgoing.queued = false;
            let Some(dialect) = peer.dialect else {
                continue;
            };
            if peer.outgoing.blocked {
                continue;
            }
            let shared = &mut self.shared;
            let mut context = Context {
                catalogue: &shared.catalogue,
                algorithms: shared.plane.algorithms(),
                welcome: Welcome {
                    instance: shared.config.instance,
                    alive_us: shared.config.alive_us,
                },
                statistics: &mut shared.statistics,
            };
            let due = peer.outgoing.next(dialect, &mut peer.slots, &mut context);
            queue(&mut self.ready, peer);
            if due {
                break id.index();
            }
        };
        let peer = self.peers.get(index)?.as_ref()?;
        Some((peer.id, peer.outgoing.packet()))
    }

    /// The packet that was just handed out for this peer could not be sent: it is kept, and the
    /// peer's commands are merged until [`Service::writable`].
    pub fn retry(&mut self, id: PeerId) {
        let peer = self.peers.get_mut(id.index()).and_then(Option::as_mut);
        if let Some(peer) = peer.filter(|peer| peer.id == id) {
            peer.outgoing.retry();
        }
    }

    /// The peer's link may have room again.
    pub fn writable(&mut self, id: PeerId) {
        let peer = self.peers.get_mut(id.index()).and_then(Option::as_mut);
        if let Some(peer) = peer.filter(|peer| peer.id == id) {
            peer.outgoing.blocked = false;
            queue(&mut self.ready, peer);
        }
    }
}

/// Puts the peer among those that have something to send, if it has and is not there.
#[inline]
fn queue(ready: &mut VecDeque<PeerId>, peer: &mut Peer) {
    let outgoing = &mut peer.outgoing;
    if !outgoing.queued && !outgoing.blocked && outgoing.is_due() {
        outgoing.queued = true;
        ready.push_back(peer.id);
    }
}

impl Shared {
    /// Index of the algorithm that the policy has for a flow, or else of the one that it asked
    /// for: so too where the datapath cannot run the former.
    pub(super) fn assign(
        &self,
        capabilities: &Capabilities,
        asked: usize,
        key: &PolicyKey<'_>,
    ) -> usize {
        let hosted = self.plane.algorithms();
        let chosen = self.policy.choose(key).and_then(|name| {
            hosted.iter().position(|hosted| {
                hosted.name() == name && hosted.requirements().unmet(capabilities).is_empty()
            })
        });
        chosen.unwrap_or(asked)
    }

    /// A flow resumes: under the algorithm that it has, it comes from the datapath's fallback.
    pub(super) fn note_silence(&mut self, flow: FlowId, algorithm: usize) {
        let snapshot = self.plane.flow(flow);
        let comes_back = snapshot.is_some_and(|snapshot| {
            snapshot.algorithm == algorithm && snapshot.controller == Controller::Algorithm
        });
        if comes_back {
            self.causes.push(flow, || {
                "the plane was silent, and the datapath's fallback controlled the flow meanwhile"
                    .to_owned()
            });
        }
    }

    pub(super) fn notice(&mut self, notice: ServiceNotice) {
        if self.notices.len() == MAX_NOTICES {
            self.notices.pop_front();
            self.statistics.notices_lost += 1;
        }
        self.notices.push_back(notice);
    }

    /// Newcomers that cannot be served may be many: one notice in a while is enough.
    fn notice_refused_peer(&mut self, now_us: u64, notice: ServiceNotice) {
        let last_us = self.refused_peer_notice_us;
        if last_us.is_none_or(|last_us| now_us.saturating_sub(last_us) >= REFUSED_PEER_NOTICE_US) {
            self.refused_peer_notice_us = Some(now_us);
            self.notice(notice);
        }
    }

    pub(super) fn collect_notices(&mut self) {
        let Self {
            plane,
            notices,
            causes,
            ..
        } = self;
        for notice in plane.drain_notices() {
            causes.push(notice.flow, || notice.reason.to_string());
            notices.push_back(ServiceNotice::Flow(notice));
        }
    }
}
