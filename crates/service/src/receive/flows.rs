//! A peer's flows start, resume, are found after a restart of the plane, fault and close.

use std::net::{Ipv4Addr, SocketAddr};

use fairwater_exec::frame::Fault;
use fairwater_proto::{Dialect, RefusalReason};

use super::{Arrival, Refused};
use crate::deferred_commands::UnaskedHandOver;
use crate::peer::Peer;
use crate::policy::PolicyKey;
use crate::service::Shared;
use crate::slots::{Location, PeerFlow, PeerSlot};
use fairwater_plane::{Command, Event, FlowId, FlowInfo};

/// What is assumed of a flow that is known by its reports alone: Ethernet's MSS, and the initial
/// window of RFC 6928 §2.
const ASSUMED_MSS: u32 = 1460;
const ASSUMED_CWND: u64 = 10 * ASSUMED_MSS as u64;

impl Shared {
    pub(super) fn created(
        &mut self,
        peer: &mut Peer,
        arrival: Arrival,
        flow: FlowId,
        algorithm: &str,
        info: &FlowInfo,
    ) -> Result<(), Refused> {
        self.introduced(peer, arrival, flow)?;
        // libccp repeats CREATE when it is not sure that it was heard.
        if peer.peer_flow(flow).is_some() && arrival.dialect == Dialect::Own {
            return Err(Refused::flow(RefusalReason::OutOfOrder, flow));
        }
        self.start(peer, arrival, flow, algorithm, info)
    }

    pub(super) fn resumed(
        &mut self,
        peer: &mut Peer,
        arrival: Arrival,
        flow: FlowId,
        algorithm: &str,
        info: &FlowInfo,
    ) -> Result<(), Refused> {
        self.introduced(peer, arrival, flow)?;
        if peer.peer_flow(flow).is_none() {
            return self.start(peer, arrival, flow, algorithm, info);
        }
        let algorithm = self.algorithm_named(algorithm);
        if let Some(peer_flow) = peer.peer_flow(flow) {
            self.note_silence(peer_flow.flow, algorithm);
        }
        let Some(event) = resume(peer, flow.slot, algorithm, info) else {
            return Ok(());
        };
        self.deliver(peer, arrival.dialect, flow.slot, event);
        Ok(())
    }

    /// Starts a flow in the slot, and ends the slot's former flow.
    fn start(
        &mut self,
        peer: &mut Peer,
        arrival: Arrival,
        flow: FlowId,
        algorithm: &str,
        info: &FlowInfo,
    ) -> Result<(), Refused> {
        let full = Refused::flow(RefusalReason::Full, flow);
        if flow.slot >= self.config.max_flows || self.plane.algorithms().is_empty() {
            return Err(full);
        }
        let algorithm = self.algorithm_named(algorithm);
        let index = flow.slot as usize;
        if index >= peer.slots.len() {
            peer.slots.resize_with(index + 1, PeerSlot::default);
        }
        self.end_flow(peer, flow.slot);
        let location = Location::Peer {
            peer: peer.id,
            slot: flow.slot,
        };
        let Some(plane_flow) = self.slots.take(self.config.max_flows, location) else {
            return Err(full);
        };
        if let Some(slot_record) = peer.slots.get_mut(index) {
            let algorithm = u32::try_from(algorithm).unwrap_or(u32::MAX);
            slot_record.peer_flow = Some(PeerFlow {
                generation: flow.generation,
                flow: plane_flow,
                local: info.local,
                remote: info.remote,
                tag: info.tag,
                mss: info.mss,
                algorithm,
                program: self.catalogue.position(algorithm, 0),
                cwnd: info.cwnd,
                rate: info.rate,
                srtt_us: info.srtt_us,
            });
        }
        peer.flows += 1;
        self.statistics.flows_total += 1;
        // Where the encoding has no time, it is the plane's.
        let mut info = info.clone();
        if arrival.dialect == Dialect::Ccp {
            info.now_us = arrival.now_us;
        }
        let event = Event::Created {
            flow: plane_flow,
            algorithm,
            info: &info,
        };
        self.deliver(peer, arrival.dialect, flow.slot, event);
        self.follow_policy(peer, plane_flow, algorithm, &info);
        Ok(())
    }

    /// Hands a new flow over to the algorithm that the policy has for it, if that is another than
    /// it asked for. The peer then knows the flow's algorithm, and names it when the flow resumes.
    fn follow_policy(&mut self, peer: &Peer, flow: FlowId, asked: usize, info: &FlowInfo) {
        let Some(introduction) = &peer.introduction else {
            return;
        };
        let key = PolicyKey {
            datapath: &introduction.name,
            local: info.local,
            remote: info.remote,
            tag: info.tag,
            cgroup: None,
        };
        let assigned = self.assign(&introduction.capabilities, asked, &key);
        if assigned != asked {
            self.deferred.push(flow, &Command::hand_over(assigned));
        }
    }

    /// Index of the algorithm that a flow asks for: the first unless the plane has the name.
    fn algorithm_named(&mut self, name: &str) -> usize {
        let mut hosted = self.plane.algorithms().iter();
        let named = hosted.position(|algorithm| algorithm.name() == name);
        if named.is_none() && !name.is_empty() {
            self.statistics.unknown_algorithm += 1;
        }
        named.unwrap_or(0)
    }

    /// Hands a flow over whose dialect has no message for it: from what its reports told.
    pub(crate) fn hand_over_unasked(
        &mut self,
        peer: &mut Peer,
        UnaskedHandOver {
            slot,
            flow,
            algorithm,
            ..
        }: UnaskedHandOver,
    ) {
        let record = peer.slots.get(slot as usize);
        let peer_flow = record.and_then(|record| record.peer_flow);
        let (Some(peer_flow), Some(dialect)) = (peer_flow, peer.dialect) else {
            return;
        };
        if peer_flow.flow != flow {
            return;
        }
        let info = FlowInfo {
            mss: peer_flow.mss.max(1),
            cwnd: peer_flow.cwnd,
            ssthresh: Some(peer_flow.cwnd),
            now_us: peer.last_packet_us,
            ..FlowInfo::default()
        };
        if let Some(event) = resume(peer, slot, algorithm as usize, &info) {
            self.deliver(peer, dialect, slot, event);
        }
    }

    /// A report of a flow that is not known. Of a libccp that never introduced itself to this
    /// plane it is one of a former plane's, which goes on under ours.
    pub(super) fn found(
        &mut self,
        peer: &mut Peer,
        arrival: Arrival,
        flow: FlowId,
    ) -> Result<(), Refused> {
        self.introduced(peer, arrival, flow)?;
        if !peer
            .introduction
            .as_ref()
            .is_some_and(|introduction| introduction.implied)
        {
            return Err(Refused::flow(RefusalReason::UnknownFlow, flow));
        }
        let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let info = FlowInfo {
            local: unknown,
            remote: unknown,
            mss: ASSUMED_MSS,
            cwnd: ASSUMED_CWND,
            srtt_us: 0,
            now_us: arrival.now_us,
            tag: 0,
            ..FlowInfo::default()
        };
        self.start(peer, arrival, flow, "", &info)?;
        self.statistics.found_again += 1;
        Ok(())
    }

    pub(super) fn mss_changed(
        &mut self,
        peer: &mut Peer,
        arrival: Arrival,
        flow: FlowId,
        mss: u32,
    ) -> Result<(), Refused> {
        let PeerFlow {
            flow: plane_flow, ..
        } = known(peer, flow)?;
        let record = peer.slots.get_mut(flow.slot as usize);
        if let Some(peer_flow) = record.and_then(|record| record.peer_flow.as_mut()) {
            peer_flow.mss = mss;
        }
        let event = Event::MssChanged {
            flow: plane_flow,
            mss,
        };
        self.deliver(peer, arrival.dialect, flow.slot, event);
        Ok(())
    }

    pub(super) fn faulted(
        &mut self,
        peer: &mut Peer,
        arrival: Arrival,
        flow: FlowId,
        fault: u32,
    ) -> Result<(), Refused> {
        let peer_flow = known(peer, flow)?;
        let event = Event::Faulted {
            flow: peer_flow.flow,
            reason: Fault::reason(fault.into()),
        };
        self.deliver(peer, arrival.dialect, flow.slot, event);
        Ok(())
    }

    pub(super) fn closed(&mut self, peer: &mut Peer, flow: FlowId) -> Result<(), Refused> {
        known(peer, flow)?;
        self.end_flow(peer, flow.slot);
        Ok(())
    }

    /// Ends the slot's flow, if it has one.
    fn end_flow(&mut self, peer: &mut Peer, slot: u32) {
        let Some(slot_record) = peer.slots.get_mut(slot as usize) else {
            return;
        };
        peer.outgoing.forget(slot_record);
        if let Some(peer_flow) = slot_record.peer_flow.take() {
            peer.flows -= 1;
            let event = Event::Closed {
                flow: peer_flow.flow,
            };
            self.deliver(peer, peer.dialect.unwrap_or(Dialect::Own), slot, event);
            self.slots.give_back(peer_flow.flow);
        }
    }

    pub(crate) fn end_flows(&mut self, peer: &mut Peer) {
        for slot in 0..u32::try_from(peer.slots.len()).unwrap_or(u32::MAX) {
            self.end_flow(peer, slot);
        }
    }
}

/// The flow in the slot goes on under an algorithm: what waits for it is dropped.
fn resume<'i>(
    peer: &mut Peer,
    slot: u32,
    algorithm: usize,
    info: &'i FlowInfo,
) -> Option<Event<'i>> {
    let slot_record = peer.slots.get_mut(slot as usize)?;
    peer.outgoing.forget(slot_record);
    let peer_flow = slot_record.peer_flow.as_mut()?;
    peer_flow.algorithm = u32::try_from(algorithm).unwrap_or(u32::MAX);
    peer_flow.mss = info.mss;
    if info.srtt_us > 0 {
        peer_flow.srtt_us = info.srtt_us;
    }
    Some(Event::Resumed {
        flow: peer_flow.flow,
        algorithm,
        info,
    })
}

fn known(peer: &Peer, flow: FlowId) -> Result<PeerFlow, Refused> {
    let unknown = match peer.introduction {
        Some(_) => RefusalReason::UnknownFlow,
        None => RefusalReason::UnknownPeer,
    };
    let peer_flow = peer.peer_flow(flow).copied();
    peer_flow.ok_or_else(|| Refused::flow(unknown, flow))
}
