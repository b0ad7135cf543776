//! Entries and verdicts as text and as JSON.

use comfy_table::{Table, presets};
use fairwater_reproduce::atlas::number;
use fairwater_reproduce::{Entry, Judged, NotRun, Ours, Source, Verdict};
use serde::Serialize;

use super::runs::worlds;

/// An entry with its verdicts.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    entry: Listed,
    /// Whether its quick form was run.
    quick: bool,
    claims: Vec<Judged>,
}

/// An entry in a list.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    name: String,
    title: String,
    section: String,
    figure: Option<String>,
    world: &'static str,
    scenario: Option<String>,
    benchmark: Option<String>,
    /// Worlds in which it runs.
    runs_in: Vec<&'static str>,
    setup: Option<String>,
    note: Option<String>,
    not_run: Vec<NotRun>,
}

pub(super) fn listed(entry: &Entry) -> Listed {
    Listed {
        name: entry.name(),
        title: entry.title.clone(),
        section: entry.section.clone(),
        figure: entry.figure.clone(),
        world: entry.world.name(),
        scenario: entry.runs.iter().find_map(|run| match &run.source {
            Source::Scenario(file) => Some(file.clone()),
            Source::Benchmark(_) => None,
        }),
        benchmark: entry.runs.iter().find_map(|run| match &run.source {
            Source::Benchmark(name) => Some(name.clone()),
            Source::Scenario(_) => None,
        }),
        runs_in: entry.runs.iter().map(|run| run.world.name()).collect(),
        setup: entry.setup.clone(),
        note: entry.note.clone(),
        not_run: entry.not_run.clone(),
    }
}

pub(super) fn report(entry: &Entry, quick: bool, claims: Vec<Judged>) -> Report {
    Report {
        entry: listed(entry),
        quick,
        claims,
    }
}

/// A line for each entry.
pub(super) fn list(entries: &[Entry]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["result", "world", "where", "claims", "run by", "what"]);
    for entry in entries {
        let runs = match entry.runs.first() {
            Some(run) => run.source.name().to_owned(),
            None => "not run".to_owned(),
        };
        let worlds: Vec<_> = worlds(entry).iter().map(|world| world.name()).collect();
        table.add_row([
            entry.name(),
            worlds.join(", "),
            place(&entry.section, entry.figure.as_deref()),
            entry.claims.len().to_string(),
            runs,
            entry.title.clone(),
        ]);
    }
    let run = entries
        .iter()
        .filter(|entry| !entry.runs.is_empty())
        .count();
    format!(
        "{}\n\n{run} of {} are run\n",
        table.trim_fmt(),
        entries.len()
    )
}

/// `§7.3, Figure 14`.
fn place(section: &str, figure: Option<&str>) -> String {
    match figure {
        Some(figure) => format!("{section}, {figure}"),
        None => section.to_owned(),
    }
}

/// An entry with the verdict on each claim.
pub(super) fn text(report: &Report) -> String {
    let entry = &report.entry;
    let form = match report.quick {
        true => ", quick form",
        false => "",
    };
    let place = self::place(&entry.section, entry.figure.as_deref());
    let mut worlds: Vec<_> = report
        .claims
        .iter()
        .map(|claim| claim.world.name())
        .collect();
    worlds.dedup();
    let mut text = format!(
        "{}  {} ({place}) in {}{form}\n",
        entry.name,
        entry.title,
        worlds.join(" and ")
    );
    for claim in &report.claims {
        text += &claim_text(claim, entry);
    }
    if let Some(note) = &entry.note {
        text += &format!("  note: {note}\n");
    }
    for other in &entry.not_run {
        let command = match &other.command {
            Some(command) => format!("; by hand: {command}"),
            None => String::new(),
        };
        text += &format!(
            "  not run in {}: {}{command}\n",
            other.world.name(),
            other.reason
        );
    }
    text.push('\n');
    text
}

fn claim_text(claim: &Judged, entry: &Listed) -> String {
    let is_run = !entry.runs_in.is_empty();
    let world = match claim.world.name() {
        name if name == entry.world => String::new(),
        name => format!(" in {name}"),
    };
    let place = place(&claim.section, claim.figure.as_deref());
    let mut text = format!("  {}{world}: {} ({place})\n", claim.verdict, claim.text);
    text += &format!("    theirs: {}\n", claim.theirs);
    if let Some(ours) = &claim.ours {
        text += &format!("    ours:   {}\n", ours_text(ours));
    }
    if let (Some(measure), Some(check), Some(bound)) = (claim.measure, &claim.check, &claim.bound) {
        text += &format!("    check:  {measure} {check} ({bound})\n");
    }
    // Of an entry that is never run, the lines below say why.
    if let (Some(reason), true) = (&claim.reason, is_run || claim.verdict != Verdict::NotRun) {
        text += &format!("    reason: {reason}\n");
    }
    text
}

fn ours_text(ours: &Ours) -> String {
    let unit = |unit: &str| match unit {
        "" => String::new(),
        unit => format!(" {unit}"),
    };
    let (value, low, high) = (number(ours.value), number(ours.low), number(ours.high));
    let (of, seeds) = (unit(ours.unit), ours.seeds);
    let mut text = format!("{value}{of} ({low} to {high}; {seeds} seeds)");
    if !ours.means.is_empty() {
        let means: Vec<_> = ours.means.iter().map(|mean| number(*mean)).collect();
        text += &format!(", of {}{}", means.join(", "), unit(ours.measured_in));
    }
    text
}

/// How many claims have which verdict.
pub(super) fn summary(reports: &[Report]) -> String {
    let all = [
        Verdict::Holds,
        Verdict::DoesNotHold,
        Verdict::CannotBeTold,
        Verdict::NotRun,
    ];
    let claims = || reports.iter().flat_map(|report| &report.claims);
    let counts = all.map(|verdict| {
        let count = claims().filter(|claim| claim.verdict == verdict).count();
        format!("{count} {verdict}")
    });
    format!(
        "{} claims of {} results: {}\n",
        claims().count(),
        reports.len(),
        counts.join(", ")
    )
}
