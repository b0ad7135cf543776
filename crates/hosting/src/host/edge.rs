//! The guests of this host: the edge at their ports, by its policy.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairwater_document::diagnostic::Diagnostics;
use fairwater_edge::EdgeStatistics;
use fairwater_edge::buffer::ReturnReason;
use fairwater_edge::policy::{EdgePolicy, ParsedPolicy, PortPattern};
use fairwater_edge_tc::{
    BufferedStatistics, DescribedConnection, EdgeError, EdgeOptions, EdgeTc, PortChange,
};
use fairwater_kernel::now_us;
use fairwater_lab::input::{MAX_INPUT_BYTES, read_text};
use fairwater_wire::ParseError;
use serde::{Deserialize, Serialize};

use super::status::BuffersRow;
use super::{Host, HostFailure, count};

/// The guests of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeConfig {
    /// Names of the ports of guests, as patterns.
    pub on: Vec<PortPattern>,
    /// The policy's file.
    pub policy_file: PathBuf,
    /// The policy, once it was read.
    pub policy: Arc<EdgePolicy>,
    /// How the box behaves.
    pub options: EdgeOptions,
}

/// Why the policy of an edge could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EdgePolicyError {
    /// The file could not be read.
    #[error("{0}: {1}")]
    Unreadable(String, String),
    /// The policy has mistakes.
    #[error("{0} has mistakes")]
    Mistakes(String, Diagnostics),
}

/// Reads a policy. `algorithms` are the names that it may use; `None` leaves them to the caller.
///
/// # Errors
/// The file cannot be read, or everything that is wrong with it.
pub fn read_edge_policy(
    file: &Path,
    algorithms: Option<&[&str]>,
) -> Result<ParsedPolicy, EdgePolicyError> {
    let name = file.display().to_string();
    let text = read_text(file, MAX_INPUT_BYTES)
        .map_err(|error| EdgePolicyError::Unreadable(name.clone(), error.to_string()))?;
    EdgePolicy::parse(&name, &text, algorithms)
        .map_err(|diagnostics| EdgePolicyError::Mistakes(name, diagnostics))
}

/// What the edge does, at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeStatus {
    /// The ports at which it is.
    pub ports: Vec<PortRow>,
    /// Its connections, by port.
    pub connections: Vec<ConnectionRow>,
    /// What it has counted, by name.
    pub counts: Vec<(String, u64)>,
}

/// A port of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRow {
    /// Name of the interface.
    pub name: String,
    /// Its number.
    pub interface: u32,
}

/// A connection of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionRow {
    /// Name of the guest's port.
    pub port: String,
    /// The guest's address and port.
    pub guest: SocketAddr,
    /// The other end's address and port.
    pub peer: SocketAddr,
    /// VLAN identifiers, the outer first.
    pub vlan: Vec<u16>,
    /// The algorithm that controls the guest, if one does.
    pub algorithm: Option<String>,
    /// Who controls it, in one word: `running`, `starting`, `released`, `passed`, `exempt`.
    pub state: String,
    /// Why, as a clause.
    pub why: String,
    /// The window that the guest is held to, bytes, if it is.
    pub limit_bytes: Option<u64>,
    /// Smoothed RTT between the box and the peer, µs, if it is known.
    pub srtt_us: Option<u64>,
    /// Bytes acknowledged, if they are counted.
    pub bytes_acked: Option<u64>,
    /// Time since the last packet, ms.
    pub idle_ms: u64,
    /// How the guest is held to the algorithm, if one controls it: `window` or `buffer`.
    #[serde(default)]
    pub mode: Option<String>,
    /// What is held of the guest's data, if it is.
    #[serde(default)]
    pub buffer: Option<BufferRow>,
}

/// What the edge holds of a connection, and what it did for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferRow {
    /// Bytes of the guest that the peer has not acknowledged.
    pub bytes: u64,
    /// Segments that the edge sent again.
    pub resent: u64,
    /// Retransmission timeouts of the edge.
    pub timeouts: u64,
    /// Duplicate ACKs that the guest did not get to see.
    pub hidden_acks: u64,
}

impl Host {
    /// Puts the edge at the ports of guests.
    pub(super) fn attach_edge(&mut self, config: &EdgeConfig) -> Result<(), HostFailure> {
        let hosted = self.server.service().plane().algorithms();
        let policy = Arc::clone(&config.policy);
        let edge = EdgeTc::attach(hosted, config.on.clone(), policy, config.options)?;
        let (id, _) = self.server.add(edge).map_err(HostFailure::Links)?;
        self.edge = Some(id);
        self.link_buffers();
        self.tell_port_changes();
        let ports = self.edge_datapath().map_or(0, |edge| edge.ports().count());
        if ports == 0 {
            let patterns = list(&config.on);
            self.tell(format!(
                "No port matches {patterns} yet: the edge is attached to ports as they come."
            ));
        }
        Ok(())
    }

    /// Links what holds guests' data to the plane, if a policy asks for it for the first time.
    fn link_buffers(&mut self) {
        let edge = self
            .edge
            .and_then(|id| self.server.datapath_mut::<EdgeTc>(id));
        if let Some(link) = edge.and_then(EdgeTc::take_link) {
            self.server.add_link(Box::new(link));
        }
    }

    fn edge_datapath(&self) -> Option<&EdgeTc> {
        self.server.datapath::<EdgeTc>(self.edge?)
    }

    /// Tells of ports that have come or gone.
    pub(super) fn tell_port_changes(&mut self) {
        let edge = self
            .edge
            .and_then(|id| self.server.datapath_mut::<EdgeTc>(id));
        let (changes, buffers) = edge
            .map(|edge| (edge.drain_port_changes(), edge.drain_buffer_notices()))
            .unwrap_or_default();
        self.notices.extend(buffers);
        for change in changes {
            self.tell(match change {
                PortChange::Attached { name, .. } => format!("The edge is at port {name}."),
                PortChange::Detached { name, .. } => format!("Port {name} is gone."),
                PortChange::Failed { name, source } => {
                    format!("The edge cannot be at port {name}: {source}.")
                }
            });
        }
    }

    /// Takes another policy of the edge. Returns what is different, one sentence each.
    pub(super) fn reload_edge(&mut self, to: &EdgeConfig) -> Result<Vec<String>, String> {
        let edge = self
            .edge
            .and_then(|id| self.server.datapath_mut::<EdgeTc>(id));
        let Some(edge) = edge else {
            return Ok(Vec::new());
        };
        let different = EdgePolicy::difference(edge.policy(), &to.policy);
        if !different.is_empty() {
            let policy = Arc::clone(&to.policy);
            edge.set_policy(policy).map_err(|error| error.to_string())?;
            self.link_buffers();
        }
        Ok(different)
    }

    /// What the edge does now; `None` without an edge.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub fn edge_status(&self) -> Option<Result<EdgeStatus, String>> {
        let edge = self.edge_datapath()?;
        Some(self.status_of(edge).map_err(|error| error.to_string()))
    }

    fn status_of(&self, edge: &EdgeTc) -> Result<EdgeStatus, EdgeError> {
        let now_ms = now_us() / 1_000;
        let name = |interface: u32| {
            let found = edge.ports().find(|(index, _)| *index == interface);
            found.map_or_else(|| format!("#{interface}"), |(_, name)| name.to_owned())
        };
        let row = |connection: DescribedConnection| ConnectionRow {
            port: name(connection.key.interface),
            guest: connection.key.guest,
            peer: connection.key.peer,
            vlan: connection.key.vlan.ids().to_vec(),
            algorithm: connection.algorithm.map(|name| name.to_string()),
            state: connection.state.name().to_owned(),
            why: connection.why,
            limit_bytes: connection.limit_bytes,
            srtt_us: connection.srtt_us,
            bytes_acked: connection.bytes_acked,
            idle_ms: now_ms.saturating_sub(connection.seen_ns / 1_000_000),
            mode: connection.mode.map(|mode| mode.name().to_owned()),
            buffer: connection.held.map(|held| BufferRow {
                bytes: held.bytes as u64,
                resent: held.retransmissions,
                timeouts: held.timeouts,
                hidden_acks: held.hidden,
            }),
        };
        let mut connections: Vec<_> = edge.connections()?.into_iter().map(row).collect();
        connections.sort_by(|a, b| (&a.port, a.guest, a.peer).cmp(&(&b.port, b.guest, b.peer)));
        let ports = edge.ports().map(|(interface, name)| PortRow {
            name: name.to_owned(),
            interface,
        });
        Ok(EdgeStatus {
            ports: ports.collect(),
            connections,
            counts: counts(&edge.statistics()?, edge.buffered_statistics()?.as_ref()),
        })
    }

    /// What is held of guests' data; `None` if no policy has asked for it, or the kernel does not tell.
    pub(super) fn buffers_row(&self) -> Option<BuffersRow> {
        let statistics = self.edge_datapath()?.buffered_statistics().ok()??;
        let buffers = &statistics.buffers;
        Some(BuffersRow {
            connections: statistics.held as u64,
            bytes: statistics.held_bytes as u64,
            resent_total: buffers.retransmissions,
            timeouts_total: buffers.timeouts,
            hidden_acks_total: buffers.hidden,
            without_room_total: statistics.without_room,
            stalls_total: statistics.stalls,
        })
    }

    /// The end of the edge, as a sentence.
    pub(super) fn edge_ends(&self) -> Option<String> {
        let edge = self.edge_datapath()?;
        let ports = count(edge.ports().count() as u64, "port");
        Some(format!(
            "Stopped: the edge is detached from {ports}; guests keep to their own congestion control."
        ))
    }
}

/// What the edge has counted, by name: at the ports, and of connections that are buffered.
fn counts(ports: &EdgeStatistics, buffered: Option<&BufferedStatistics>) -> Vec<(String, u64)> {
    let of_buffers = buffered.map(|buffered| buffered.edge).unwrap_or_default();
    let statistics = EdgeStatistics {
        unreadable: std::array::from_fn(|at| ports.unreadable[at] + of_buffers.unreadable[at]),
        ignored: ports.ignored + of_buffers.ignored,
        resets_ignored: ports.resets_ignored + of_buffers.resets_ignored,
        full: ports.full + of_buffers.full,
        policed: ports.policed + of_buffers.policed,
        controlled: ports.controlled + of_buffers.controlled,
        exempt: ports.exempt + of_buffers.exempt,
    };
    let unreadable = ParseError::ALL.into_iter().zip(statistics.unreadable);
    let unreadable = unreadable.map(|(error, count)| (format!("unreadable: {error}"), count));
    [
        ("controlled connections", statistics.controlled),
        ("exempt connections", statistics.exempt),
        ("connections without room", statistics.full),
        ("packets policed", statistics.policed),
        (
            "packets that did not fit their connection",
            statistics.ignored,
        ),
        ("resets that did not fit", statistics.resets_ignored),
    ]
    .into_iter()
    .map(|(name, count)| (name.to_owned(), count))
    .chain(buffered.into_iter().flat_map(buffer_counts))
    .chain(unreadable)
    .collect()
}

/// What buffering has counted, by name.
fn buffer_counts(statistics: &BufferedStatistics) -> Vec<(String, u64)> {
    let buffers = &statistics.buffers;
    let returned = |reason: ReturnReason| buffers.returned[reason.index()];
    [
        ("buffered connections", statistics.held as u64),
        ("bytes of memory for buffers", statistics.held_bytes as u64),
        ("connections buffered so far", buffers.begun),
        ("segments sent again for guests", buffers.retransmissions),
        ("timeouts of the edge for guests", buffers.timeouts),
        ("duplicate ACKs hidden from guests", buffers.hidden),
        (
            "connections without room for a buffer",
            statistics.without_room,
        ),
        (
            "buffers given up for want of memory",
            returned(ReturnReason::Memory),
        ),
        (
            "buffers given up as nothing arrived",
            returned(ReturnReason::Stalled),
        ),
        (
            "buffers given up without a plane",
            returned(ReturnReason::Released),
        ),
        ("packets beyond a guest's buffer", buffers.full),
        (
            "packets on the way to the buffers, or lost there",
            statistics.lost(),
        ),
        ("packets not written by the buffers", statistics.unwritten),
        ("times that the buffers were late", statistics.stalls),
    ]
    .into_iter()
    .map(|(name, count)| (name.to_owned(), count))
    .collect()
}

/// `vnet*` or `tap0`.
fn list(patterns: &[PortPattern]) -> impl fmt::Display + use<> {
    let quoted = patterns
        .iter()
        .map(|pattern| format!("`{}`", pattern.as_str()));
    quoted.collect::<Vec<_>>().join(" or ")
}
