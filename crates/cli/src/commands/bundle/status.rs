//! `fairwater bundle status`.

use std::path::PathBuf;
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use fairwater_hosting::bundle::{BundleRow, ReceiveboxStatus, SendboxRow};
use fairwater_hosting::control::{Client, Request, Response};
use fairwater_hosting::host::runtime_directory;

use crate::control::{receive_socket, send_socket};
use crate::failure::Failure;
use crate::output;
use crate::units::{age, bytes, micros};

const EXAMPLES: &str = "\
Examples:
  fairwater bundle status
  fairwater bundle status --why
  fairwater bundle status --json | jq '.[].bundles[] | {name, mode, rate_bps}'";

/// Show the bundles of this machine's boxes: modes, rates, queues at both ends of the path
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Control socket of the box [default: those of `fairwater up`, `bundle send` and `bundle receive`]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Show every change of a mode with its reason, and what the numbers are
    #[arg(long)]
    why: bool,
    /// Print one JSON document: a list of boxes
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut clients = Vec::new();
    match &args.socket {
        Some(socket) => clients.push(Client::connect(socket)?),
        None => {
            let of_plane = runtime_directory().map(|folder| folder.join("control"));
            let sockets = [of_plane, send_socket(), receive_socket()];
            let sockets = sockets.into_iter().flatten();
            clients.extend(sockets.filter_map(|socket| Client::connect(&socket).ok()));
        }
    }
    let mut found = Vec::new();
    let mut text = String::new();
    let mut failed = None;
    for mut client in clients {
        let boxes = match client.ask(&Request::Bundles)? {
            Response::Boxes(boxes) => boxes,
            // A plane without boxes is none of those that are meant.
            Response::Failed(why) => {
                failed = Some(why);
                continue;
            }
            _ => return Err(client.unexpected().into()),
        };
        if let Some(row) = &boxes.sendbox {
            text += &sendbox_text(row, args.why);
            found.push(serde_json::to_value(row));
        }
        if let Some(row) = &boxes.receivebox {
            text += &receivebox_text(row);
            found.push(serde_json::to_value(row));
        }
    }
    if found.is_empty() {
        let none = || {
            "no box of a bundle runs here; `fairwater bundle send` or `receive` starts one, and \
             --socket names the control socket of another"
                .to_owned()
        };
        return Err(Failure::Other(failed.unwrap_or_else(none)));
    }
    if args.json {
        let found: Result<Vec<_>, _> = found.into_iter().collect();
        let found = found.map_err(|error| Failure::Other(error.to_string()))?;
        return output::json(&found);
    }
    output::print(text)
}

fn none() -> String {
    "–".to_owned()
}

fn rate(bps: Option<u64>) -> String {
    bps.map_or_else(none, |bps| format!("{:.1}M", bps as f64 / 1e6))
}

fn time(us: Option<u64>) -> String {
    us.map_or_else(none, micros)
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(none, |share| format!("{:.0} %", share * 100.0))
}

const HEADER: [&str; 11] = [
    "bundle",
    "mode",
    "algorithm",
    "queue",
    "rate",
    "arrives",
    "RTT",
    "queued here",
    "in the network",
    "matched",
    "covered",
];

fn cells(row: &BundleRow) -> [String; 11] {
    [
        row.name.clone(),
        row.mode.clone(),
        row.algorithm.clone(),
        row.scheduler.clone(),
        rate(row.rate_bps),
        rate(row.receive_rate_bps),
        time(row.rtt_us),
        row.queue_us.map_or_else(|| bytes(row.queue_bytes), micros),
        time(row.network_queue_us),
        share(row.match_ratio),
        share(Some(row.coverage)),
    ]
}

pub(super) fn sendbox_text(status: &SendboxRow, why: bool) -> String {
    let mut text = format!(
        "Sendbox at {}, by {}.\n",
        status.ports.join(", "),
        status.data_plane
    );
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADER);
    for index in 4..HEADER.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in &status.bundles {
        table.add_row(cells(row));
    }
    text += &format!("\n{table}\n\n");
    for row in &status.bundles {
        let changes = status.changes.iter().filter(|it| it.bundle == row.number);
        let changes: Vec<_> = changes.collect();
        let shown = if why {
            &changes[..]
        } else {
            changes.last().map_or(&[][..], std::slice::from_ref)
        };
        for change in shown {
            let ago = age(Duration::from_millis(change.ago_ms));
            text += &format!("{ago} ago: {}\n", change.sentence);
        }
        if why {
            text += &details(row);
        }
    }
    text + &counts(&[
        ("packets that queues dropped", status.dropped),
        (
            "packets that passed by the box, as it was late",
            status.passed,
        ),
        ("times that the box was late", status.stalls),
        ("jumps of the clock", status.clock_jumps),
    ]) + &refused(&status.refused)
}

/// What the numbers of a bundle are.
fn details(row: &BundleRow) -> String {
    let receivebox = row
        .receivebox
        .map_or_else(none, |address| address.to_string());
    format!(
        "{}: receivebox {receivebox}; {} packets and {} sent; least RTT {}; a boundary each {} packets, {} of them \
         answered, {} answers without one; out of order {}\n",
        row.name,
        row.sent_packets,
        bytes(row.sent_bytes),
        time(row.min_rtt_us),
        row.epoch_packets,
        row.matched,
        row.surplus,
        row.out_of_order
            .map_or_else(none, |share| format!("{:.1} %", share * 100.0)),
    )
}

fn counts(counts: &[(&str, u64)]) -> String {
    let seen = counts.iter().filter(|(_, count)| *count > 0);
    seen.map(|(name, count)| format!("{name}: {count}\n"))
        .collect()
}

fn refused(refused: &[(String, u64)]) -> String {
    let line = |(reason, count): &(String, u64)| format!("refused, since {reason}: {count}\n");
    refused.iter().map(line).collect()
}

fn receivebox_text(status: &ReceiveboxStatus) -> String {
    let mut text = format!(
        "Receivebox at {}, answering at {}.\n",
        status.ports.join(", "),
        status.listen
    );
    let mut table = Table::new();
    let header = [
        "bundle",
        "sendbox",
        "received",
        "packets",
        "CE",
        "boundary each",
    ];
    table.load_style(NOTHING).set_header(header);
    for index in 2..header.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in &status.bundles {
        table.add_row([
            row.name.clone(),
            row.sendbox
                .map_or_else(|| "not heard of".to_owned(), |at| at.to_string()),
            bytes(row.bytes),
            row.packets.to_string(),
            row.ce_packets.to_string(),
            row.epoch_packets.to_string(),
        ]);
    }
    text += &format!("\n{table}\n\n");
    text + &counts(&[
        ("answers sent", status.answered),
        (
            "boundary packets without an answer, as too many waited",
            status.lost,
        ),
    ]) + &refused(&status.refused)
}
