//! A plane's metrics as OpenMetrics text, and the HTTP server that hands them out.

mod bundles;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::thread;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use tiny_http::{Header, Method, Response, Server};

use crate::bundle::BoxRows;
use crate::control::{Client, Request, Response as Answer, claim};
use crate::host::{BuffersRow, CarefulResumeRow, HostStatus, MetricsAddress};

/// What OpenMetrics text is served as.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter<u64, AtomicU64>>;

/// The metrics of a plane and its boxes as OpenMetrics text.
#[must_use]
pub fn text(status: &HostStatus, boxes: &BoxRows) -> String {
    let mut registry = Registry::with_prefix("fairwater");
    let flows = Family::<Labels, Gauge>::default();
    let (started, reports, withdrawn) = (
        Counters::default(),
        Counters::default(),
        Counters::default(),
    );
    for row in &status.algorithms {
        let labels = || vec![("algorithm", row.name.clone())];
        let count = |family: &Counters, value| family.get_or_create(&labels()).inc_by(value);
        flows
            .get_or_create(&labels())
            .set(i64::try_from(row.flows).unwrap_or(i64::MAX));
        count(&started, row.flows_total);
        count(&reports, row.reports_total);
        count(&withdrawn, row.withdrawn_total);
    }
    let datapath_flows = Family::<Labels, Gauge>::default();
    let (fallbacks, lost, without_room) = (
        Counters::default(),
        Counters::default(),
        Counters::default(),
    );
    for row in &status.datapaths {
        let labels = || {
            vec![
                ("datapath", row.name.clone()),
                ("adapter", row.adapter.clone()),
            ]
        };
        // Several peers may have one name.
        datapath_flows
            .get_or_create(&labels())
            .inc_by(i64::try_from(row.flows).unwrap_or(i64::MAX));
        let count = |family: &Counters, value: Option<u64>| {
            if let Some(value) = value {
                family.get_or_create(&labels()).inc_by(value);
            }
        };
        count(&fallbacks, row.fallbacks_total);
        count(&lost, row.lost_reports_total);
        count(&without_room, row.without_room_total);
    }
    registry.register("flows", "Flows of an algorithm", flows);
    registry.register(
        "flows_started",
        "Flows that an algorithm has controlled so far",
        started,
    );
    registry.register("reports", "Reports that an algorithm got", reports);
    let what = "Flows withdrawn because the algorithm or its program failed";
    registry.register("flows_withdrawn", what, withdrawn);
    registry.register("datapath_flows", "Flows of a datapath", datapath_flows);
    let what = "Times that a flow fell back because the plane was silent";
    registry.register("fallbacks", what, fallbacks);
    registry.register(
        "reports_lost",
        "Reports that were lost on the way to the plane",
        lost,
    );
    let what = "Flows that found no free slot and stay under the fallback";
    registry.register("flows_without_room", what, without_room);
    let incidents = ConstCounter::new(status.incidents_total);
    registry.register(
        "incidents",
        "Times that a flow left its algorithm",
        incidents,
    );
    let refused = ConstCounter::new(status.refused_total);
    registry.register(
        "messages_refused",
        "Messages of datapaths that were refused",
        refused,
    );
    if let Some(buffers) = &status.buffers {
        register_buffers(&mut registry, buffers);
    }
    if let Some(resume) = &status.careful_resume {
        register_careful_resume(&mut registry, resume);
    }
    bundles::register(&mut registry, boxes);
    let uptime = ConstGauge::new(i64::try_from(status.uptime_s).unwrap_or(i64::MAX));
    registry.register("uptime_seconds", "Time since the plane's start", uptime);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

/// The metrics of guests' data that the edge holds.
fn register_buffers(registry: &mut Registry, buffers: &BuffersRow) {
    let gauges = [
        (
            "edge_buffered_connections",
            "Connections of guests whose data the edge holds",
            buffers.connections,
        ),
        (
            "edge_buffer_bytes",
            "Memory for guests' data that the edge holds",
            buffers.bytes,
        ),
    ];
    for (name, what, value) in gauges {
        let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, what, gauge);
    }
    let counters = [
        (
            "edge_segments_resent",
            "Segments that the edge sent again for guests",
            buffers.resent_total,
        ),
        (
            "edge_timeouts",
            "Retransmission timeouts of the edge for guests",
            buffers.timeouts_total,
        ),
        (
            "edge_acks_hidden",
            "Duplicate ACKs that guests did not get to see",
            buffers.hidden_acks_total,
        ),
        (
            "edge_buffers_without_room",
            "Connections that were to be buffered and found no room",
            buffers.without_room_total,
        ),
        (
            "edge_buffer_stalls",
            "Times that the edge was late, so that its buffered connections pass from then on",
            buffers.stalls_total,
        ),
    ];
    for (name, what, value) in counters {
        registry.register(name, what, ConstCounter::new(value));
    }
}

/// The metrics of Careful Resume.
fn register_careful_resume(registry: &mut Registry, resume: &CarefulResumeRow) {
    let paths = ConstGauge::new(i64::try_from(resume.paths).unwrap_or(i64::MAX));
    let what = "Paths whose capacity is remembered";
    registry.register("careful_resume_paths", what, paths);
    let counters = [
        (
            "careful_resume_saved",
            "Observations of paths that were saved",
            resume.saved_total,
        ),
        (
            "careful_resume_expired",
            "Paths that were forgotten at the end of their lifetime",
            resume.expired_total,
        ),
        (
            "careful_resume_evicted",
            "Paths that made room for others",
            resume.evicted_total,
        ),
        (
            "careful_resume_started",
            "Flows that began with what was remembered of their path",
            resume.started_total,
        ),
        (
            "careful_resume_jumped",
            "Flows that raised their window to a part of what was remembered",
            resume.jumped_total,
        ),
        (
            "careful_resume_validated",
            "Flows whose raised window was validated without congestion",
            resume.validated_total,
        ),
        (
            "careful_resume_retreated",
            "Flows that met congestion with their raised window",
            resume.retreated_total,
        ),
    ];
    for (name, what, value) in counters {
        registry.register(name, what, ConstCounter::new(value));
    }
}

/// Hands out the metrics of the plane at a control socket. The thread goes on until the process
/// ends.
#[derive(Debug)]
pub struct MetricsServer {
    /// A Unix socket, which is removed when this is dropped.
    path: Option<PathBuf>,
}

impl MetricsServer {
    /// Binds the address.
    ///
    /// # Errors
    /// It cannot be bound; the message names it.
    pub fn bind(address: &MetricsAddress, control: PathBuf) -> io::Result<Self> {
        let named = |error: Box<dyn std::error::Error + Send + Sync>| {
            io::Error::other(format!("{address}: {error}"))
        };
        let (server, path) = match address {
            MetricsAddress::Tcp(address) => (Server::http(address).map_err(named)?, None),
            MetricsAddress::Unix(path) => {
                claim(path).map_err(|error| named(error.into()))?;
                (Server::http_unix(path).map_err(named)?, Some(path.clone()))
            }
        };
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                for request in server.incoming_requests() {
                    let found = matches!(request.method(), Method::Get | Method::Head)
                        && matches!(request.url(), "/" | "/metrics");
                    let (status, body) = match found {
                        true => scrape(&control),
                        false => (404, "The metrics are at /metrics.\n".to_owned()),
                    };
                    let mut response = Response::from_string(body).with_status_code(status);
                    if status == 200
                        && let Ok(header) = Header::from_bytes("Content-Type", CONTENT_TYPE)
                    {
                        response = response.with_header(header);
                    }
                    // A reader that leaves is no concern of ours.
                    let _ = request.respond(response);
                }
            })?;
        Ok(Self { path })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn scrape(control: &std::path::Path) -> (u16, String) {
    let asked = Client::connect(control).and_then(|mut client| client.ask(&Request::Metrics));
    match asked {
        Ok(Answer::Metrics(text)) => (200, text),
        Ok(_) => (500, "The plane gave an unexpected answer.\n".to_owned()),
        Err(error) => (503, format!("{error}\n")),
    }
}
