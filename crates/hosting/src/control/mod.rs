//! How a plane is asked and told: a Unix stream socket that carries JSON documents, one a line.
//!
//! Whoever can reach the socket may ask for the status and the flows. Everything else needs rights:
//! root, the plane's own user, and members of the groups that the configuration names. Who a peer is
//! comes from the kernel (`SO_PEERCRED`).

mod answer;
mod client;
mod listener;

use std::time::Duration;

use fairwater_service::FlowStatus;
use fairwater_service::switching::{Plan, Progress, Verdict};
use serde::{Deserialize, Serialize};

use crate::bundle::BoxRows;
use crate::host::{EdgeStatus, HostStatus, KeptIncident};

pub use answer::Control;
pub use client::{Client, ClientError};
pub(crate) use listener::claim;
pub use listener::{Asked, ControlListener};

/// What a plane is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Request {
    /// What it does.
    Status,
    /// Its flows.
    Flows,
    /// What is kept of flows that left their algorithm. Needs rights.
    Incidents,
    /// To read its configuration again. Needs rights.
    Reload,
    /// To change the algorithm of running flows. Needs rights. Answered by [`Response::Progress`]
    /// about once a second, and by [`Response::Verdict`]. The switch is taken back when the asker
    /// leaves.
    Switch(Plan),
    /// The metrics, as OpenMetrics text.
    Metrics,
    /// What the edge does, with its connections.
    Edge,
    /// What a sendbox or a receivebox does, with its bundles.
    Bundles,
}

impl Request {
    /// Whether only the privileged may ask.
    #[must_use]
    pub const fn needs_rights(&self) -> bool {
        match self {
            Self::Status | Self::Flows | Self::Metrics | Self::Edge | Self::Bundles => false,
            Self::Incidents | Self::Reload | Self::Switch(_) => true,
        }
    }
}

/// What a plane answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Response {
    /// To [`Request::Status`].
    Status(HostStatus),
    /// To [`Request::Flows`].
    Flows(Vec<FlowStatus>),
    /// To [`Request::Incidents`], the oldest first.
    Incidents(Vec<KeptIncident>),
    /// To [`Request::Reload`]: what is different, one sentence each.
    Reloaded(Vec<String>),
    /// To [`Request::Switch`], while it goes on.
    Progress(Progress),
    /// To [`Request::Switch`], in the end.
    Verdict(Verdict),
    /// To [`Request::Metrics`].
    Metrics(String),
    /// To [`Request::Edge`].
    Edge(EdgeStatus),
    /// To [`Request::Bundles`].
    Boxes(BoxRows),
    /// The asker may not ask that.
    Refused(String),
    /// It could not be done; the text may have several lines.
    Failed(String),
}

/// The longest request, bytes.
const MAX_REQUEST: u64 = 1 << 16;

/// How long a peer may take to send a whole request, or to read an answer.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);
