//! Entries and verdicts as text and as JSON.

use comfy_table::{Table, presets};
use fairwater_reproduce::{Entry, Judged, NotRun, Ours, Verdict};
use serde::Serialize;

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
        scenario: entry.run.as_ref().map(|run| run.scenario.clone()),
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
        let runs = match &entry.run {
            Some(run) => run.scenario.clone(),
            None => "not run".to_owned(),
        };
        table.add_row([
            entry.name(),
            entry.world.name().to_owned(),
            place(&entry.section, entry.figure.as_deref()),
            entry.claims.len().to_string(),
            runs,
            entry.title.clone(),
        ]);
    }
    let run = entries.iter().filter(|entry| entry.run.is_some()).count();
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
    let mut text = format!(
        "{}  {} ({place}) in {}{form}\n",
        entry.name, entry.title, entry.world
    );
    for claim in &report.claims {
        text += &claim_text(claim);
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

fn claim_text(claim: &Judged) -> String {
    let place = place(&claim.section, claim.figure.as_deref());
    let mut text = format!("  {}: {} ({place})\n", claim.verdict, claim.text);
    text += &format!("    theirs: {}\n", claim.theirs);
    if let Some(ours) = &claim.ours {
        text += &format!("    ours:   {}\n", ours_text(ours));
    }
    if let (Some(measure), Some(check), Some(bound)) = (claim.measure, &claim.check, &claim.bound) {
        text += &format!("    check:  {measure} {check} ({bound})\n");
    }
    // Of a claim that is not run, the entry says why.
    if let (Some(reason), true) = (&claim.reason, claim.verdict != Verdict::NotRun) {
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

/// A number with four digits that say something.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 3.0 - value.abs().log10().floor();
    let digits = digits.clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
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

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_four_digits() {
        let of = [0.0, 1.0, 103.84, 0.012_345, 12_345.6, -2.5].map(number);
        assert_eq!(of, ["0", "1", "103.8", "0.01235", "12346", "-2.5"]);
    }
}
