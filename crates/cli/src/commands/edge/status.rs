//! `fairwater edge status`.

use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use fairwater_hosting::control::{Request, Response};
use fairwater_hosting::host::{ConnectionRow, EdgeStatus};

use crate::control::ControlArgs;
use crate::failure::Failure;
use crate::output;
use crate::units::{age, bytes, count, micros};

const EXAMPLES: &str = "\
Examples:
  fairwater edge status
  fairwater edge status --all
  fairwater edge status --json | jq '.connections[] | select(.state == \"running\")'";

/// Show the connections of guests: who controls each, and why
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Show connections that pass, too
    #[arg(long)]
    all: bool,
    /// Print one JSON document, with all connections
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut client = args.control.connect_to_edge()?;
    match client.ask(&Request::Edge)? {
        Response::Edge(status) if args.json => output::json(&status),
        Response::Edge(status) => output::print(text(&status, args.all)),
        Response::Failed(why) => Err(Failure::Other(why)),
        _ => Err(client.unexpected().into()),
    }
}

fn text(status: &EdgeStatus, all: bool) -> String {
    let ports: Vec<_> = status.ports.iter().map(|port| port.name.as_str()).collect();
    let mut text = match ports.as_slice() {
        [] => "The edge is at no port yet.\n".to_owned(),
        [port] => format!("The edge is at port {port}.\n"),
        ports => format!(
            "The edge is at {} ports: {}.\n",
            ports.len(),
            ports.join(", ")
        ),
    };
    let is_shown = |row: &&ConnectionRow| all || row.state != "passed";
    let shown: Vec<_> = status.connections.iter().filter(is_shown).collect();
    let mut table = Table::new();
    let is_buffered = shown.iter().any(|row| row.buffer.is_some());
    let of_buffers = if is_buffered { &OF_BUFFERS[..] } else { &[] };
    let header = [&FIRST[..], of_buffers, &["idle", "why"]].concat();
    let numbers = 5..header.len() - 1;
    table.load_style(NOTHING).set_header(header);
    for index in numbers {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in &shown {
        table.add_row(cells(row, is_buffered));
    }
    if !shown.is_empty() {
        text += &format!("\n{table}\n");
    }
    let passed = status.connections.len() - shown.len();
    if passed > 0 {
        let verb = if passed == 1 { "passes" } else { "pass" };
        let passed = count(passed, "connection");
        text += &format!("\n{passed} {verb} untouched: --all shows them.\n");
    } else if shown.is_empty() {
        text += "\nThere is no connection.\n";
    }
    let counts: Vec<_> = status
        .counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    if !counts.is_empty() {
        text += "\n";
        for (name, count) in counts {
            text += &format!("{name}: {count}\n");
        }
    }
    text
}

/// The first columns.
const FIRST: [&str; 8] = [
    "port",
    "guest",
    "peer",
    "algorithm",
    "state",
    "limit",
    "RTT",
    "acked",
];

/// Columns of connections whose data is held, if there are any.
const OF_BUFFERS: [&str; 3] = ["buffered", "resent", "hidden"];

fn cells(row: &ConnectionRow, is_buffered: bool) -> Vec<String> {
    let none = || "–".to_owned();
    let size = |size: Option<u64>| size.map_or_else(none, bytes);
    let vlan: String = row.vlan.iter().map(|id| format!(" vlan {id}")).collect();
    let mut cells = vec![
        format!("{}{vlan}", row.port),
        row.guest.to_string(),
        row.peer.to_string(),
        row.algorithm.clone().unwrap_or_else(none),
        row.state.clone(),
        size(row.limit_bytes),
        row.srtt_us.map_or_else(none, micros),
        size(row.bytes_acked),
    ];
    if is_buffered {
        let number = |number: Option<u64>| number.map_or_else(none, |number| number.to_string());
        let buffer = row.buffer.as_ref();
        cells.push(size(buffer.map(|buffer| buffer.bytes)));
        cells.push(number(buffer.map(|buffer| buffer.resent)));
        cells.push(number(buffer.map(|buffer| buffer.hidden_acks)));
    }
    cells.push(age(Duration::from_millis(row.idle_ms)));
    cells.push(row.why.clone());
    cells
}
