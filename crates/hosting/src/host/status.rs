//! What a host's plane does, at one time.

use fairwater_edge_tc::EdgeTc;
use fairwater_linux::LinuxTcp;
use serde::{Deserialize, Serialize};

use super::Host;

/// State of a host's plane, without its flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Version of the plane.
    pub version: String,
    /// The plane's process.
    pub pid: u32,
    /// Time since the start, s.
    pub uptime_s: u64,
    /// The algorithms, in the configuration's order.
    pub algorithms: Vec<AlgorithmRow>,
    /// The datapaths: Linux TCP, and each peer.
    pub datapaths: Vec<DatapathRow>,
    /// Flows that there are now.
    pub flows: u64,
    /// Flows that there have been.
    pub flows_total: u64,
    /// Reports since the start.
    pub reports_total: u64,
    /// Messages of peers that were refused.
    pub refused_total: u64,
    /// Times that a flow left its algorithm for a fallback.
    pub incidents_total: u64,
    /// Rules of the policy.
    pub policy_rules: usize,
    /// What the edge holds of guests' data, if a policy has asked for it.
    #[serde(default)]
    pub buffers: Option<BuffersRow>,
    /// What Careful Resume has done, if the configuration asks for it.
    #[serde(default)]
    pub careful_resume: Option<CarefulResumeRow>,
}

/// What Careful Resume has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarefulResumeRow {
    /// Paths that are remembered now.
    pub paths: u64,
    /// Observations that were saved.
    pub saved_total: u64,
    /// Paths that were forgotten at the end of their lifetime.
    pub expired_total: u64,
    /// Paths that made room for others.
    pub evicted_total: u64,
    /// Flows that began with what was remembered.
    pub started_total: u64,
    /// Flows that raised their window to a part of it.
    pub jumped_total: u64,
    /// Flows whose raised window was validated.
    pub validated_total: u64,
    /// Flows that met congestion, and retreated.
    pub retreated_total: u64,
}

/// What the edge holds of guests' data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuffersRow {
    /// Connections whose data is held.
    pub connections: u64,
    /// Memory that this takes, bytes.
    pub bytes: u64,
    /// Segments that the edge sent again.
    pub resent_total: u64,
    /// Retransmission timeouts of the edge.
    pub timeouts_total: u64,
    /// Duplicate ACKs that guests did not get to see.
    pub hidden_acks_total: u64,
    /// Connections that were to be buffered, and found no room.
    pub without_room_total: u64,
    /// Times that the edge was late, so that its connections pass from then on.
    pub stalls_total: u64,
}

/// An algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlgorithmRow {
    /// Its name.
    pub name: String,
    /// What it was asked for as: `cubic:report=10ms`.
    pub spec: String,
    /// The kernel's name of it, where it is on Linux TCP.
    pub kernel_name: Option<String>,
    /// Whether it has a process of its own, which counts for itself.
    pub own_process: bool,
    /// Flows that it has now.
    pub flows: u64,
    /// Flows that it has had.
    pub flows_total: u64,
    /// Reports that it got.
    pub reports_total: u64,
    /// Flows that it lost because it, or its program, failed.
    pub withdrawn_total: u64,
}

/// A datapath.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatapathRow {
    /// Its name.
    pub name: String,
    /// How it is driven: `direct`, or `link` for one in another process.
    pub adapter: String,
    /// Flows that it has now.
    pub flows: u64,
    /// Reports that came from it.
    pub reports_total: u64,
    /// Times that a flow went under its fallback because the plane was silent, where it counts them.
    pub fallbacks_total: Option<u64>,
    /// Reports that were lost on the way, where it counts them.
    pub lost_reports_total: Option<u64>,
    /// Flows that found no room and stay under its fallback, where it counts them.
    pub without_room_total: Option<u64>,
}

impl Host {
    /// What the plane does now.
    #[must_use]
    pub fn status(&self) -> HostStatus {
        let service = self.server.service();
        let statistics = service.statistics();
        HostStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs(),
            algorithms: self.algorithm_rows(),
            datapaths: self.datapath_rows(),
            flows: statistics.flows,
            flows_total: statistics.flows_total,
            reports_total: statistics.reports,
            refused_total: statistics.refused_total(),
            incidents_total: self.incidents.total() + service.incidents_omitted(),
            policy_rules: self.config.policy.rules.len(),
            buffers: self.buffers_row(),
            careful_resume: self.careful_resume_row(),
        }
    }

    fn careful_resume_row(&self) -> Option<CarefulResumeRow> {
        let status = self.server.service().plane().careful_resume()?;
        Some(CarefulResumeRow {
            paths: status.sets,
            saved_total: status.saved,
            expired_total: status.expired,
            evicted_total: status.evicted,
            started_total: status.started,
            jumped_total: status.jumped,
            validated_total: status.validated,
            retreated_total: status.retreated,
        })
    }

    fn algorithm_rows(&self) -> Vec<AlgorithmRow> {
        let hosted = self.server.service().plane().algorithms();
        let row = |(name, algorithm): &crate::NamedAlgorithm| {
            let here = hosted.iter().find(|hosted| hosted.name() == name);
            let counts = here.map(|hosted| hosted.statistics()).unwrap_or_default();
            AlgorithmRow {
                name: name.clone(),
                spec: algorithm.spec.clone(),
                kernel_name: self.kernel_name(name),
                own_process: here.is_none(),
                flows: counts.flows,
                flows_total: counts.started,
                reports_total: counts.reports,
                withdrawn_total: counts.withdrawn,
            }
        };
        self.config.algorithms.iter().map(row).collect()
    }

    fn datapath_rows(&self) -> Vec<DatapathRow> {
        let service = self.server.service();
        let direct = service.datapaths().map(|datapath| {
            let tcp = self.server.datapath::<LinuxTcp>(datapath.id);
            let edge = self.server.datapath::<EdgeTc>(datapath.id);
            DatapathRow {
                name: datapath.name.to_owned(),
                adapter: "direct".to_owned(),
                flows: datapath.flows.into(),
                reports_total: datapath.reports,
                fallbacks_total: tcp.map(LinuxTcp::fallbacks).or(edge.map(EdgeTc::fallbacks)),
                lost_reports_total: tcp
                    .map(LinuxTcp::lost_reports)
                    .or(edge.map(EdgeTc::lost_reports)),
                without_room_total: tcp
                    .map(LinuxTcp::without_slot)
                    .or(edge.map(EdgeTc::without_slot)),
            }
        });
        let peers = service.peers().map(|peer| DatapathRow {
            name: peer.name.to_owned(),
            adapter: "link".to_owned(),
            flows: peer.flows.into(),
            reports_total: peer.reports,
            fallbacks_total: None,
            lost_reports_total: None,
            without_room_total: None,
        });
        direct.chain(peers).collect()
    }
}
