//! The guests of this host: the edge at their ports, by its policy.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairwater_document::diagnostic::Diagnostics;
use fairwater_edge::EdgeStatistics;
use fairwater_edge::policy::{EdgePolicy, ParsedPolicy, PortPattern};
use fairwater_edge_tc::{DescribedConnection, EdgeError, EdgeOptions, EdgeTc, PortChange};
use fairwater_kernel::now_us;
use fairwater_lab::input::{MAX_INPUT_BYTES, read_text};
use fairwater_wire::ParseError;
use serde::{Deserialize, Serialize};

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
}

impl Host {
    /// Puts the edge at the ports of guests.
    pub(super) fn attach_edge(&mut self, config: &EdgeConfig) -> Result<(), HostFailure> {
        let hosted = self.server.service().plane().algorithms();
        let policy = Arc::clone(&config.policy);
        let edge = EdgeTc::attach(hosted, config.on.clone(), policy, config.options)?;
        let (id, _) = self.server.add(edge).map_err(HostFailure::Links)?;
        self.edge = Some(id);
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

    fn edge_datapath(&self) -> Option<&EdgeTc> {
        self.server.datapath::<EdgeTc>(self.edge?)
    }

    /// Tells of ports that have come or gone.
    pub(super) fn tell_port_changes(&mut self) {
        let edge = self
            .edge
            .and_then(|id| self.server.datapath_mut::<EdgeTc>(id));
        let changes = edge.map(EdgeTc::drain_port_changes).unwrap_or_default();
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
            counts: counts(&edge.statistics()?),
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

/// What the edge has counted, by name.
fn counts(statistics: &EdgeStatistics) -> Vec<(String, u64)> {
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
    .chain(unreadable)
    .collect()
}

/// `vnet*` or `tap0`.
fn list(patterns: &[PortPattern]) -> impl fmt::Display + use<> {
    let quoted = patterns
        .iter()
        .map(|pattern| format!("`{}`", pattern.as_str()));
    quoted.collect::<Vec<_>>().join(" or ")
}
