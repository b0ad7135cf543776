//! What `fairwater why --json` wrote, through the algorithm again.

use fairwater_hosting::host::KeptIncident;
use fairwater_hosting::resolve_argument;
use fairwater_lab::input::{MAX_INPUT_BYTES, read_text};
use fairwater_recording::{IncidentReplay, incident};

use super::Args;
use crate::failure::Failure;
use crate::hosting;
use crate::output;

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let name = args.recording.display().to_string();
    let bad = |why: String| Failure::BadInput(format!("{name}: {why}"));
    if args.step || args.program.is_some() {
        return Err(bad(
            "it is a file, which may be what `fairwater why --json` wrote: that has reports, and no \
             invocations to step through or to give a program"
                .to_owned(),
        ));
    }
    let text =
        read_text(&args.recording, MAX_INPUT_BYTES).map_err(|error| bad(error.to_string()))?;
    let incidents: Vec<KeptIncident> = serde_json::from_str(&text).map_err(|error| {
        bad(format!(
            "it is not what `fairwater why --json` writes: {error}"
        ))
    })?;
    let mut replays = Vec::new();
    for kept in &incidents {
        let algorithm = kept
            .incident
            .reports
            .last()
            .map(|last| last.algorithm.clone());
        let Some(algorithm) = algorithm else {
            eprintln!("fairwater: incident {}: it has no reports", kept.id);
            continue;
        };
        let spec = args.algorithm.as_ref().unwrap_or(&algorithm);
        let plane = hosting::plane(&[(algorithm.clone(), resolve_argument(spec)?)])?;
        match incident(&kept.incident, plane) {
            Ok(replay) => replays.push((kept, replay)),
            Err(error) => eprintln!("fairwater: incident {}: {error}", kept.id),
        }
    }
    if replays.is_empty() && !incidents.is_empty() {
        return Err(bad("no incident of it can be replayed".to_owned()));
    }
    if args.json {
        let all: Vec<_> = replays.iter().map(|(_, replay)| replay).collect();
        return output::json(&all);
    }
    let texts = replays.iter().map(|(kept, replay)| shown(kept, replay));
    output::print(texts.collect::<String>())
}

fn shown(kept: &KeptIncident, replay: &IncidentReplay) -> String {
    let mut text = format!(
        "incident {}: {}. {} reports through a new flow of {}, whose state before them is not known:\n",
        kept.id,
        kept.incident.cause,
        replay.reports.len(),
        replay.algorithm
    );
    for report in &replay.reports {
        let commands = match report.commands.as_slice() {
            [] => "no command".to_owned(),
            commands => commands.join(", "),
        };
        text += &format!(
            "  {} µs  {}  Cwnd {}  → {commands}\n",
            report.time_us, report.program, report.cwnd_bytes
        );
    }
    text += &match &replay.withdrawn {
        Some(reason) => format!("  the algorithm failed again: {reason}\n"),
        None => "  the algorithm did not fail\n".to_owned(),
    };
    text
}
