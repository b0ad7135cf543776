//! Flows of iperf3.

use std::io::{self, BufRead, BufReader};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::child::{Exited, NamespacedChild};
use super::{Finished, FlowSpec};
use crate::error::TestbedError;

/// One flow: a server for one test, and the client that sends.
#[derive(Debug)]
pub(crate) struct Iperf3 {
    client: NamespacedChild,
    server: NamespacedChild,
    client_exited: Option<Exited>,
    server_exited: Option<Exited>,
}

impl Iperf3 {
    pub(super) fn start(
        sender: BorrowedFd<'_>,
        receiver: BorrowedFd<'_>,
        address: IpAddr,
        flow: &FlowSpec<'_>,
    ) -> Result<Self, TestbedError> {
        let port = flow.server_port().to_string();
        let mut server = Command::new("iperf3");
        server.args(["--server", "--one-off", "--forceflush", "--port", &port]);
        let mut server =
            NamespacedChild::spawn(&mut server, receiver).map_err(|e| flow.failed(e))?;
        wait_until_listening(&mut server).map_err(|e| flow.failed(e))?;

        let mut client = Command::new("iperf3");
        client
            .args(["--json", "--interval", "0", "--port", &port])
            .args(["--client", &address.to_string()])
            .args(["--cport", &flow.source_port().to_string()])
            .args(["--congestion", flow.congestion_control])
            .args(["--time", &whole_seconds(flow.duration).to_string()]);
        let client = NamespacedChild::spawn(&mut client, sender).map_err(|e| flow.failed(e))?;
        Ok(Iperf3 {
            client,
            server,
            client_exited: None,
            server_exited: None,
        })
    }

    pub(super) fn finished(&mut self) -> Result<Option<Finished>, String> {
        let text = |error: io::Error| error.to_string();
        if self.client_exited.is_none() {
            self.client_exited = self.client.exited().map_err(text)?;
            if let Some(client) = &self.client_exited {
                retransmissions(client)?;
            }
        }
        if self.server_exited.is_none() {
            self.server_exited = self.server.exited().map_err(text)?;
        }
        match (&self.client_exited, &self.server_exited) {
            (Some(client), Some(server)) => Ok(Some(Finished {
                cpu: client.cpu + server.cpu,
                retransmissions: Some(retransmissions(client)?),
            })),
            _ => Ok(None),
        }
    }
}

/// iperf3 takes whole seconds; the lab measures over the time it was asked for.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Reads what the server says until it says that it listens.
fn wait_until_listening(server: &mut NamespacedChild) -> io::Result<()> {
    let mut said = String::new();
    if let Some(stdout) = server.stdout() {
        // Byte by byte, so that nothing the server says later is lost in a buffer.
        let mut lines = BufReader::with_capacity(1, stdout);
        while lines.read_line(&mut said)? > 0 {
            if said.contains("Server listening") {
                return Ok(());
            }
        }
    }
    let mut complaint = match server.exited() {
        Ok(Some(exited)) => exited.stderr,
        _ => String::new(),
    };
    complaint.truncate(complaint.trim_end().len());
    Err(io::Error::other(format!(
        "the iperf3 server did not start: {complaint}"
    )))
}

/// What is used of iperf3's JSON.
#[derive(Deserialize)]
struct Output {
    error: Option<String>,
    end: Option<End>,
}

#[derive(Deserialize)]
struct End {
    sum_sent: Option<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    retransmits: Option<u64>,
}

/// Segments the client retransmitted, or why it failed.
fn retransmissions(client: &Exited) -> Result<u64, String> {
    let output: Output = serde_json::from_str(&client.stdout).map_err(|error| {
        format!(
            "iperf3 ended with {} and no JSON ({error}): {}",
            client.status,
            client.stderr.trim()
        )
    })?;
    if let Some(error) = output.error {
        return Err(format!("iperf3 says: {error}"));
    }
    output
        .end
        .and_then(|end| end.sum_sent)
        .and_then(|sum| sum.retransmits)
        .ok_or_else(|| "iperf3 did not say how many segments it retransmitted".to_owned())
}
