//! The page of a result.

use std::fmt::Write;

use fairwater_results::report::{Data, escaped};

use super::plots::plots;
use super::{Part, class, number, prose};
use crate::entry::{Entry, Source, World};
use crate::verdict::{Judged, Ours};

/// `§7.3, Figure 14`.
pub(super) fn place(section: &str, figure: Option<&str>) -> String {
    match figure {
        Some(figure) => format!("{section}, {figure}"),
        None => section.to_owned(),
    }
}

/// The page of an entry, as HTML: a part for each world in which it runs or could run. `quick`: the runs
/// are of the quick form.
#[must_use]
pub fn page(entry: &Entry, parts: &[Part<'_>], quick: bool) -> String {
    let mut body = format!(
        "<nav><a href=\"../index.html\">All results</a></nav>\n<header>\n<h1>{}: {}</h1>\n\
         <p class=\"parameters\">{}</p>\n</header>\n",
        escaped(&entry.name()),
        escaped(&entry.title),
        escaped(&place(&entry.section, entry.figure.as_deref()))
    );
    let mut paragraph = |title: &str, text: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(body, "<p><strong>{title}</strong> {}</p>", prose(text));
    };
    if let Some(setup) = &entry.setup {
        paragraph("The paper’s set-up.", setup);
    }
    if let Some(note) = &entry.note {
        paragraph("Known reasons for differences.", note);
    }
    let mut plotted = Data {
        x: fairwater_results::report::X::time(1.0, 1),
        columns: 2,
        plots: Vec::new(),
    };
    let mut drawn = String::new();
    for part in parts {
        body += &format!(
            "<h2>{} <span>{}</span></h2>\n",
            heading(part.world),
            if quick { "quick form" } else { "" }
        );
        body += &claims(part.judged);
        body += &how(entry, part, quick);
        let found = plots(entry, part);
        if parts.len() > 1 && !found.boxes.is_empty() {
            drawn += &format!("<h2>{}</h2>\n", heading(part.world));
        }
        drawn += &found.boxes;
        plotted.plots.extend(found.plots);
    }
    for other in &entry.not_run {
        let command = other
            .command
            .as_ref()
            .map(|command| format!("<pre>{}</pre>\n", escaped(command)));
        body += &format!(
            "<p><strong>Not run in {}:</strong> {}</p>\n{}",
            other.world.name(),
            prose(&other.reason),
            command.unwrap_or_default()
        );
    }
    if !entry.questions.is_empty() {
        body += "<h2>Open questions</h2>\n<dl>\n";
        for question in &entry.questions {
            body += &format!(
                "<dt>{} ({})</dt><dd>{}</dd>\n",
                prose(&question.asks),
                escaped(&question.section),
                prose(&question.answer)
            );
        }
        body += "</dl>\n";
    }
    body += &drawn;
    let data = (!plotted.plots.is_empty()).then(|| plotted.json());
    shell(&entry.name(), "../", &body, data.as_deref())
}

/// A page around a body; `data` is what the script draws.
pub(super) fn shell(title: &str, root: &str, body: &str, data: Option<&str>) -> String {
    let (plots, scripts) = match data {
        Some(data) => (
            "<section id=\"plots\"></section>\n<footer><p>Drag in a plot to look closer; double-click to see \
             all again.</p></footer>\n",
            format!(
                "<script type=\"application/json\" id=\"data\">{data}</script>\n\
                 <script src=\"{root}assets/uplot.js\"></script>\n\
                 <script src=\"{root}assets/report.js\"></script>\n"
            ),
        ),
        None => ("", String::new()),
    };
    let sheets = ["uplot.css", "report.css", "atlas.css"]
        .map(|name| format!("<link rel=\"stylesheet\" href=\"{root}assets/{name}\">\n"))
        .concat();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>Fairwater: {}</title>\n{sheets}</head>\n\
         <body>\n<main>\n{body}{plots}</main>\n{scripts}</body>\n</html>\n",
        escaped(title)
    )
}

fn heading(world: World) -> &'static str {
    match world {
        World::Sim => "In the simulator",
        World::Linux => "Real TCP on emulated links",
        World::Bench => "A benchmark of one machine",
    }
}

fn claims(judged: &[Judged]) -> String {
    let mut text =
        "<table class=\"claims\">\n<thead><tr><th>Verdict</th><th>Claim</th><th>Paper</th>\
                    <th>Here</th><th>Check</th></tr></thead>\n<tbody>\n"
            .to_owned();
    for claim in judged {
        let ours = match (&claim.ours, &claim.reason) {
            (Some(ours), _) => ours_text(ours, counted(claim.world)),
            (None, Some(reason)) => prose(reason),
            (None, None) => "–".to_owned(),
        };
        let check = match (claim.measure, &claim.check, &claim.bound) {
            (Some(measure), Some(check), Some(bound)) => format!(
                "<code>{measure}</code> {}<br><small>{}</small>",
                escaped(check),
                prose(bound)
            ),
            _ => "–".to_owned(),
        };
        text += &format!(
            "<tr id=\"{}-{}\"><td><span class=\"chip {}\">{}</span></td><td>{}<br><small>{}</small></td>\
             <td>{}</td><td>{ours}</td><td>{check}</td></tr>\n",
            claim.world.name(),
            escaped(&claim.id),
            class(claim.verdict),
            claim.verdict,
            prose(&claim.text),
            escaped(&place(&claim.section, claim.figure.as_deref())),
            prose(&claim.theirs),
        );
    }
    text + "</tbody>\n</table>\n"
}

/// What a verdict is drawn from.
fn counted(world: World) -> &'static str {
    match world {
        World::Sim | World::Linux => "seeds",
        World::Bench => "rounds",
    }
}

fn ours_text(ours: &Ours, counted: &str) -> String {
    let unit = |unit: &str| match unit {
        "" => String::new(),
        unit => format!(" {}", escaped(unit)),
    };
    let mut text = format!(
        "<strong>{}{}</strong><br>{} to {}; {} {counted}",
        number(ours.value),
        unit(ours.unit),
        number(ours.low),
        number(ours.high),
        ours.seeds
    );
    if !ours.means.is_empty() {
        let means: Vec<_> = ours.means.iter().map(|mean| number(*mean)).collect();
        text += &format!(
            "<br><small>of {}{}</small>",
            means.join(", "),
            unit(ours.measured_in)
        );
    }
    text
}

/// What ran, and on what.
fn how(entry: &Entry, part: &Part<'_>, quick: bool) -> String {
    let Some((run, form)) = part.run else {
        return String::new();
    };
    let quick = if quick { " --quick" } else { "" };
    let as_root = match run.world {
        World::Sim => "",
        World::Linux | World::Bench => "sudo ",
    };
    let command = format!(
        "{as_root}fairwater reproduce {} --world {}{quick}",
        entry.name(),
        run.world.name()
    );
    let what = match &run.source {
        Source::Scenario(file) => format!("Scenario <code>{}</code>", escaped(file)),
        Source::Benchmark(name) => format!("Benchmark <code>{}</code>", escaped(name)),
    };
    let settings: Vec<_> = form
        .settings
        .iter()
        .map(|setting| format!("<code>{}</code>", escaped(setting)))
        .collect();
    let settings = match settings.is_empty() {
        true => String::new(),
        false => format!(" with {}", settings.join(", ")),
    };
    let counted = match form.seeds == form.most_seeds {
        true => format!("{} {}", form.seeds, counted(run.world)),
        false => format!(
            "{} to {} {}",
            form.seeds,
            form.most_seeds,
            counted(run.world)
        ),
    };
    let disturbed = match part.measured.disturbed() {
        (0, all) => format!("None of {all} runs was disturbed."),
        (some, all) => {
            format!("The machine disturbed {some} of {all} runs, which do not count.")
        }
    };
    let machine = match (run.world, part.machine) {
        (World::Sim, _) => "Simulated: the same on each machine.".to_owned(),
        (_, Some(machine)) => format!(
            "Linux {}, {} cores of {}. {disturbed}",
            escaped(&machine.kernel),
            machine.cores,
            escaped(&machine.cpu)
        ),
        (_, None) => "Not run.".to_owned(),
    };
    format!(
        "<pre>{}</pre>\n<p class=\"how\">{what}{settings}; {counted}. {machine}</p>\n",
        escaped(&command)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn what_entries_say_is_text() {
        let judged = Judged {
            id: "one".to_owned(),
            world: World::Sim,
            text: "<script>".to_owned(),
            section: "§1".to_owned(),
            figure: None,
            theirs: "a & b".to_owned(),
            measure: None,
            check: None,
            bound: None,
            ours: None,
            verdict: Verdict::NotRun,
            reason: Some("\"none\"".to_owned()),
        };
        let html = claims(&[judged]);
        for expected in [
            "&lt;script&gt;",
            "a &amp; b",
            "&quot;none&quot;",
            "chip absent",
        ] {
            assert!(html.contains(expected), "{html}");
        }
    }
}
