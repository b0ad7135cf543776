//! `fairwater why`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fairwater_hosting::control::{Request, Response};
use fairwater_hosting::host::{KeptIncident, MOST_INCIDENTS};

use crate::control::ControlArgs;
use crate::failure::Failure;
use crate::output;
use crate::units::age;

const EXAMPLES: &str = "\
Examples:
  sudo fairwater why
  sudo fairwater why 17
  sudo fairwater why 10.0.0.2:5201 --json > incident.json

Name a flow by its number (`fairwater top`), by its remote or local address and port, or by the
address or the port alone. The JSON has the flow's last reports, its program and the plane's version,
as a bug report needs them.";

/// Show why flows fell back, and their last reports
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The flow [default: every flow that fell back]
    flow: Option<String>,
    #[command(flatten)]
    control: ControlArgs,
    /// Print one JSON document, with the last reports
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut client = args.control.connect()?;
    let Response::Incidents(mut incidents) = client.ask(&Request::Incidents)? else {
        return Err(client.unexpected().into());
    };
    if let Some(flow) = &args.flow {
        incidents.retain(|incident| is_meant(incident, flow));
        if incidents.is_empty() && !args.json {
            return Err(Failure::BadInput(format!(
                "flow {flow} is not among the last {MOST_INCIDENTS} that fell back"
            )));
        }
    }
    if args.json {
        return output::json(&incidents);
    }
    if incidents.is_empty() {
        return output::print("No flow has fallen back.\n");
    }
    let now = SystemTime::now();
    let texts = incidents
        .iter()
        .map(|incident| text(incident, now, args.flow.is_some()));
    output::print(texts.collect::<String>())
}

/// Whether a text names the flow of an incident.
fn is_meant(incident: &KeptIncident, text: &str) -> bool {
    if text.parse() == Ok(incident.incident.number) {
        return true;
    }
    let Some(flow) = &incident.incident.flow else {
        return false;
    };
    [flow.measures.remote, flow.measures.local]
        .iter()
        .any(|address| {
            text == address.to_string()
                || text == address.ip().to_string()
                || text.parse() == Ok(address.port())
        })
}

/// How many reports a text shows.
const SHOWN: usize = 5;

fn text(kept: &KeptIncident, now: SystemTime, with_reports: bool) -> String {
    let incident = &kept.incident;
    let at = UNIX_EPOCH + Duration::from_micros(kept.unix_us);
    let ago = age(now.duration_since(at).unwrap_or_default());
    let flow = match &incident.flow {
        Some(flow) => format!(
            "flow {} of {}, {} to {} ({})",
            incident.number,
            flow.algorithm,
            flow.measures.local,
            flow.measures.remote,
            flow.datapath
        ),
        None => format!("flow {}, which has ended", incident.number),
    };
    let mut text = format!("{ago} ago: {flow}: {}.\n", incident.cause);
    if with_reports {
        let skipped = incident.reports.len().saturating_sub(SHOWN);
        for report in &incident.reports[skipped..] {
            let fields: Vec<_> = report
                .fields
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect();
            text += &format!(
                "  {} µs  {}/{}  cwnd {} B  rate {} B/s  {}\n",
                report.time_us,
                report.algorithm,
                report.program,
                report.cwnd_bytes,
                report.rate_bytes_per_s,
                fields.join(" ")
            );
        }
    }
    text
}
