//! What is known of the flows of all datapaths, for status screens, metrics and experiments.

use std::net::SocketAddr;

use fairwater_plane::{Controller, FlowId};
use serde::{Deserialize, Serialize};

use crate::peer::Peer;
use crate::service::{Service, Shared};
use crate::slots::{Location, PeerFlow};

/// What a datapath knows of a flow now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowMeasures {
    /// The local address and port; unspecified where the flow has none.
    pub local: SocketAddr,
    /// The remote address and port; unspecified likewise.
    pub remote: SocketAddr,
    /// What the sender's host or application tells its flows apart by, `SO_MARK` on Linux; 0 is
    /// none.
    pub tag: u32,
    /// The cgroup of the flow's socket, `/system.slice/ssh.service`, where the datapath knows it.
    pub cgroup: Option<String>,
    /// The congestion window, bytes.
    pub cwnd_bytes: u64,
    /// The pacing rate, bytes/s; 0 is none.
    pub rate_bytes_per_s: u64,
    /// Smoothed RTT, µs; 0 when none was measured.
    pub srtt_us: u64,
    /// Whether the datapath's fallback controls the flow.
    pub fallback: bool,
    /// What the datapath counts, if it does.
    pub counts: Option<FlowCounts>,
}

/// What a datapath counts of a flow, from the flow's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// The latest RTT sample, µs; 0 before the first.
    pub rtt_us: u64,
}

/// A flow, whichever datapath it is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// The flow's number: the plane's slot.
    pub number: u32,
    /// Distinguishes the flow from those that had the number before.
    pub generation: u32,
    /// Name of its datapath.
    pub datapath: String,
    /// Name of its algorithm.
    pub algorithm: String,
    /// Name of the program that it was last switched to.
    pub program: String,
    /// Whether its algorithm controls it, and not a fallback.
    pub controlled: bool,
    /// Key of its aggregate, if it is in one.
    pub aggregate: Option<String>,
    /// What its datapath knows of it.
    #[serde(flatten)]
    pub measures: FlowMeasures,
}

impl FlowStatus {
    /// The flow's name in the plane.
    #[must_use]
    pub const fn id(&self) -> FlowId {
        FlowId {
            slot: self.number,
            generation: self.generation,
        }
    }
}

impl Service {
    /// What is known of a flow; `measure` answers for direct datapaths, by the datapath's index and
    /// the datapath's own name of the flow.
    pub(crate) fn flow_status(
        &self,
        flow: FlowId,
        measure: &mut dyn FnMut(super::DatapathId, FlowId) -> Option<FlowMeasures>,
    ) -> Option<FlowStatus> {
        let (datapath, measures) = match self.shared.slots.location(flow)? {
            Location::Peer { peer, slot } => {
                let peer = self.peers.get(peer.index())?.as_ref()?;
                let record = peer.slots.get(slot as usize)?.peer_flow.as_ref()?;
                (peer.name(), peer_measures(peer, record))
            }
            Location::Direct { datapath, flow } => {
                let name = self.datapaths.get(datapath.0 as usize)?.as_ref()?.name();
                (name, measure(datapath, flow)?)
            }
        };
        Some(self.shared.status(flow, datapath, measures))
    }
}

impl Shared {
    fn status(&self, flow: FlowId, datapath: &str, measures: FlowMeasures) -> FlowStatus {
        let snapshot = self.plane.flow(flow);
        let hosted = snapshot.and_then(|snapshot| self.plane.algorithms().get(snapshot.algorithm));
        let program = snapshot.and_then(|snapshot| {
            let program = hosted?.programs().get(snapshot.program as usize)?;
            Some(program.name().to_owned())
        });
        let withdrawn = snapshot.is_none_or(|snapshot| snapshot.controller == Controller::Fallback);
        FlowStatus {
            number: flow.slot,
            generation: flow.generation,
            datapath: datapath.to_owned(),
            algorithm: hosted.map_or_else(String::new, |hosted| hosted.name().to_owned()),
            program: program.unwrap_or_default(),
            controlled: !withdrawn && !measures.fallback,
            aggregate: snapshot
                .and_then(|snapshot| snapshot.aggregate)
                .map(|aggregate| aggregate.key.to_string()),
            measures,
        }
    }
}

/// What the reports of a peer's flow told.
fn peer_measures(_peer: &Peer, flow: &PeerFlow) -> FlowMeasures {
    FlowMeasures {
        local: flow.local,
        remote: flow.remote,
        tag: flow.tag,
        cgroup: None,
        cwnd_bytes: flow.cwnd,
        rate_bytes_per_s: flow.rate,
        srtt_us: flow.srtt_us,
        fallback: false,
        counts: None,
    }
}
