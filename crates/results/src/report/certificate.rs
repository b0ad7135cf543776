//! The report of a certification: a row for each check, and pictures of runs.

use std::borrow::Cow;
use std::fmt::Write;

use super::page::{COLOURS, Data, Line, Page, Plot, X, escaped, rounded, warning};
use super::run::column;
use crate::PointResult;

/// A check with its verdict, as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRow {
    /// What is looked at.
    pub section: String,
    /// The document and the section that ask for the check.
    pub cites: String,
    /// What is checked.
    pub check: String,
    /// What was measured.
    pub measured: String,
    /// The bound.
    pub bound: String,
    /// The verdict.
    pub verdict: &'static str,
    /// Whether the check passes, falls short, or neither.
    pub passes: Option<bool>,
    /// The scenario, as a link relative to the page.
    pub scenario: Option<String>,
}

/// A run that is shown in time.
#[derive(Debug, Clone, Copy)]
pub struct Picture<'a> {
    /// What the run is of.
    pub title: &'a str,
    /// The run, with samples.
    pub run: &'a PointResult,
}

/// What the page of a certification shows.
#[derive(Debug, Clone, Copy)]
pub struct CertificatePage<'a> {
    /// The title.
    pub title: &'a str,
    /// What was run.
    pub parameters: &'a str,
    /// The checks.
    pub checks: &'a [CheckRow],
    /// What must not happen, as sentences.
    pub findings: &'a [String],
    /// What else was found: a heading, a sentence, and a text as it is in a file.
    pub paths: &'a [(String, String, String)],
    /// Runs in time.
    pub pictures: &'a [Picture<'a>],
}

/// Steps of a line in time.
const STEPS: usize = 240;

/// The page, as the text of an HTML file that needs no other.
#[must_use]
pub fn certificate(page: &CertificatePage<'_>) -> String {
    let mut rows = String::new();
    for row in page.checks {
        let verdict = match row.passes {
            Some(false) => format!("<strong>{}</strong>", escaped(row.verdict)),
            _ => escaped(row.verdict),
        };
        let scenario = row.scenario.as_ref().map_or_else(String::new, |scenario| {
            let link = escaped(scenario);
            format!("<a href=\"{link}\">{link}</a>")
        });
        // Writing to a string does not fail.
        let _ = writeln!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{verdict}</td><td>{}</td><td>{}</td>\
             <td>{scenario}</td></tr>",
            escaped(&row.cites),
            escaped(&row.section),
            escaped(&row.check),
            escaped(&row.measured),
            escaped(&row.bound),
        );
    }
    let mut below: String = page.findings.iter().map(|text| warning(text)).collect();
    for (title, sentence, source) in page.paths {
        let _ = writeln!(
            below,
            "<h2>{}</h2>\n<p>{}</p>",
            escaped(title),
            escaped(sentence)
        );
        if !source.is_empty() {
            let _ = writeln!(below, "<pre>{}</pre>", escaped(source));
        }
    }
    Page {
        title: page.title.to_owned(),
        parameters: page.parameters.to_owned(),
        head: vec![
            column("Asked by", ""),
            column("Section", ""),
            column("Check", ""),
            column("Verdict", ""),
            column("Measured", "mean, 95 % interval over seeds"),
            column("Bound", ""),
            column("Scenario", ""),
        ],
        rows,
        below,
        notes: "RFC 9743 sets no thresholds: bounds are this project’s, unless a row says otherwise. \
                Pictures show the first run of a section; the first eight flows.",
        data: Data {
            x: X::time(1.0, 2),
            columns: 2,
            plots: page.pictures.iter().flat_map(plots).collect(),
        },
    }
    .html()
}

/// Throughput and queueing delay of a run.
fn plots(picture: &Picture<'_>) -> [Plot; 2] {
    let run = picture.run;
    let flows = || run.flows.iter().take(COLOURS).enumerate();
    let ends = flows().filter_map(|(_, flow)| Some(flow.samples.last()?.at_s));
    let end_s = ends.fold(run.measured_s, f64::max).max(1e-3);
    let step_s = end_s / STEPS as f64;
    let slot = |at_s: f64| ((at_s / step_s - 1e-6).max(0.0) as usize).min(STEPS - 1);
    let line = |label: &str, run: usize, dashed, samples: Vec<(f64, Option<f64>)>| {
        let mut values = vec![None; STEPS];
        for (at_s, value) in samples {
            values[slot(at_s)] = value.map(rounded);
        }
        Line {
            label: label.to_owned(),
            run,
            dashed,
            values,
        }
    };
    let throughput = flows().map(|(index, flow)| {
        let samples = flow
            .samples
            .iter()
            .map(|s| (s.at_s, Some(s.throughput_bps / 1e6)));
        line(&flow.name, index, false, samples.collect())
    });
    let queueing = run
        .used_edges()
        .take(COLOURS)
        .enumerate()
        .map(|(index, edge)| {
            let samples = edge.samples.iter();
            let delays = samples.map(|s| (s.at_s, s.queueing_us.map(|us| us / 1e3)));
            line(&edge.name, index, true, delays.collect())
        });
    let plot = |what: &'static str, unit: &'static str, lines| Plot {
        title: Cow::Owned(picture.title.to_owned()),
        note: Cow::Borrowed(what),
        unit: Cow::Borrowed(unit),
        lines,
        x: Some(X::time(end_s, STEPS)),
    };
    [
        plot("throughput of each flow", "Mbit/s", throughput.collect()),
        plot("queueing delay", "ms", queueing.collect()),
    ]
}
