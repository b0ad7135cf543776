//! `fairwater status`.

use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use fairwater_hosting::control::{Request, Response};
use fairwater_hosting::host::HostStatus;

use crate::control::ControlArgs;
use crate::failure::Failure;
use crate::output;
use crate::units::age;

const EXAMPLES: &str = "\
Examples:
  fairwater status
  fairwater status --json | jq '.algorithms[] | {name, flows}'

`fairwater top` shows the flows.";

/// Show the algorithms, datapaths and flows of this host's plane
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut client = args.control.connect()?;
    match client.ask(&Request::Status)? {
        Response::Status(status) if args.json => output::json(&status),
        Response::Status(status) => output::print(text(&status)),
        _ => Err(client.unexpected().into()),
    }
}

fn text(status: &HostStatus) -> String {
    let up = age(Duration::from_secs(status.uptime_s));
    let mut text = format!(
        "Fairwater {} runs for {up} (process {}).\n\n",
        status.version, status.pid
    );
    let mut algorithms = table(&[
        "algorithm",
        "flows",
        "in all",
        "reports",
        "failed",
        "in the kernel",
    ]);
    for row in &status.algorithms {
        let count = |value: u64| match row.own_process {
            true => "own process".to_owned(),
            false => value.to_string(),
        };
        algorithms.add_row([
            row.name.clone(),
            count(row.flows),
            count(row.flows_total),
            count(row.reports_total),
            count(row.withdrawn_total),
            row.kernel_name.clone().unwrap_or_else(|| "–".to_owned()),
        ]);
    }
    let mut datapaths = table(&["datapath", "flows", "reports", "silences", "lost reports"]);
    for row in &status.datapaths {
        let some = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), |v| v.to_string());
        datapaths.add_row([
            row.name.clone(),
            row.flows.to_string(),
            row.reports_total.to_string(),
            some(row.fallbacks_total),
            some(row.lost_reports_total),
        ]);
    }
    text += &format!("{algorithms}\n\n");
    if status.datapaths.is_empty() {
        text += "No datapath is connected.\n";
    } else {
        text += &format!("{datapaths}\n");
    }
    if let Some(resume) = &status.careful_resume {
        text += &format!(
            "\nCareful Resume: {} paths remembered; {} flows began with one, {} jumped, {} validated, {} retreated.\n",
            resume.paths,
            resume.started_total,
            resume.jumped_total,
            resume.validated_total,
            resume.retreated_total
        );
    }
    if status.incidents_total > 0 {
        text += &format!(
            "\n{} times a flow left its algorithm for a fallback: `fairwater why` tells why.\n",
            status.incidents_total
        );
    }
    text
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
