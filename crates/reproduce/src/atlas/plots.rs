//! What a page draws of the runs: the figure that the paper has of such a measure.
//!
//! Distributions are drawn as cumulative distributions, windows and throughputs of samples as time lines
//! of the first seed, everything else as box plots over seeds.

use std::collections::BTreeSet;

use fairwater_results::report::{COLOURS, Line, Plot, X, rounded};
use fairwater_results::{FlowSample, PointResult};

use super::boxes::{Row, boxes};
use super::{Measured, Part};
use crate::distribution::{mean, quantile};
use crate::entry::{Check, Comparison, Entry, Subject};
use crate::measure::{Measure, Read, View};

/// Points of a distribution's curve, and most of a time line's: of more samples, means are drawn.
const STEPS: usize = 200;
/// The share of a distribution that is drawn: few outliers would press all else together.
const SHOWN: f64 = 0.995;
const MOST_SAMPLES: usize = 400;

/// Plots of a part of a page.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plots {
    /// Box plots, as HTML.
    pub(super) boxes: String,
    /// What the script draws.
    pub(super) plots: Vec<Plot>,
}

/// What a time line shows of a sample.
type ValueOf = fn(&FlowSample) -> f64;

/// Something that a measure is drawn of: its name, where it is, and the point of the grid.
struct Drawn<'a> {
    label: String,
    /// The same without flows and times.
    place: String,
    subject: &'a Subject,
    point: usize,
}

/// All plots of a part: one or two for each measure that its claims look at.
pub(super) fn plots(entry: &Entry, part: &Part<'_>) -> Plots {
    let mut found = Plots {
        boxes: String::new(),
        plots: Vec::new(),
    };
    let Some((run, form)) = part.run else {
        return found;
    };
    let judged = entry.claims.iter().enumerate();
    let judged: Vec<(usize, &Comparison)> = judged
        .filter(|(_, claim)| run.judges(claim))
        .filter_map(|(index, claim)| Some((index, claim.comparison.as_ref()?)))
        .collect();
    let mut measures: Vec<&Measure> = Vec::new();
    for (_, comparison) in &judged {
        if !measures.contains(&comparison.measure) {
            measures.push(comparison.measure);
        }
    }
    let mut in_time = BTreeSet::new();
    for measure in measures {
        let of_measure = judged.iter().filter(|(_, c)| c.measure == measure);
        let mut drawn: Vec<Drawn<'_>> = Vec::new();
        for (index, comparison) in of_measure {
            let points = form.plan.claim(*index);
            let subjects = subjects(comparison);
            let places = points.map_or_else(|| vec![0; subjects.len()], |points| points.in_order());
            for (subject, point) in subjects.into_iter().zip(places) {
                if !drawn
                    .iter()
                    .any(|d| is_same(d.subject, subject) && d.point == point)
                {
                    drawn.push(Drawn {
                        label: String::new(),
                        place: String::new(),
                        subject,
                        point,
                    });
                }
            }
        }
        name(&mut drawn);
        draw(measure, &drawn, part.measured, &mut in_time, &mut found);
    }
    found
}

/// What a claim looks at, in the order of its points.
fn subjects(comparison: &Comparison) -> Vec<&Subject> {
    match &comparison.check {
        Check::Orders(parts) => parts.iter().collect(),
        _ => [&comparison.subject]
            .into_iter()
            .chain(&comparison.against)
            .collect(),
    }
}

/// Whether two look at the same: places in the file do not count.
fn is_same(a: &Subject, b: &Subject) -> bool {
    let of = |s: &Subject| {
        (
            s.points.clone(),
            s.flows.clone(),
            s.link.clone(),
            s.class.clone(),
            (s.from_us, s.to_us),
        )
    };
    of(a) == of(b)
}

/// Names each by what it does not share with all others.
fn name(drawn: &mut [Drawn<'_>]) {
    let parts = |subject: &Subject| -> Vec<(String, String)> {
        let points = subject.points.iter();
        let mut parts: Vec<_> = points.map(|(k, v)| (k.clone(), v.clone())).collect();
        let s = |us: Option<u64>, end: &str| {
            us.map_or(end.to_owned(), |us| format!("{} s", us as f64 / 1e6))
        };
        for (key, value) in [
            ("flows", &subject.flows),
            ("link", &subject.link),
            ("class", &subject.class),
        ] {
            parts.push((key.to_owned(), value.clone().unwrap_or_default()));
        }
        let times = format!(
            "{} to {}",
            s(subject.from_us, "0 s"),
            s(subject.to_us, "end")
        );
        parts.push(("time".to_owned(), times));
        parts
    };
    let all: Vec<_> = drawn.iter().map(|d| parts(d.subject)).collect();
    for (drawn, own) in drawn.iter_mut().zip(&all) {
        let differs = |(key, value): &&(String, String)| {
            let same =
                |other: &Vec<(String, String)>| other.iter().any(|(k, v)| k == key && v == value);
            !all.iter().all(same) && !value.is_empty()
        };
        let values = own.iter().filter(differs);
        let named =
            values.map(
                |(key, value)| match value.starts_with(|c: char| c.is_ascii_digit()) {
                    true if key != "time" => format!("{key} {value}"),
                    _ => shortened(value),
                },
            );
        drawn.label = named.collect::<Vec<_>>().join(", ");
        let is_place = |(key, _): &&(String, String)| drawn.subject.points.contains_key(key);
        let places = own.iter().filter(differs).filter(is_place);
        let places: Vec<_> = places.map(|(_, value)| shortened(value)).collect();
        drawn.place = places.join(", ");
        if drawn.label.is_empty() {
            drawn.label = drawn.subject.flows.clone().unwrap_or("all".to_owned());
        }
    }
}

/// Characters of a variable's value in a name.
const VALUE_CHARACTERS: usize = 28;

/// The beginning of a value.
fn shortened(value: &str) -> String {
    match value.chars().count() > VALUE_CHARACTERS {
        true => value
            .chars()
            .take(VALUE_CHARACTERS - 1)
            .chain(['…'])
            .collect(),
        false => value.to_owned(),
    }
}

fn draw(
    measure: &Measure,
    drawn: &[Drawn<'_>],
    measured: &Measured,
    in_time: &mut BTreeSet<&'static str>,
    found: &mut Plots,
) {
    let runs = |drawn: &Drawn<'_>| -> &[PointResult] {
        match measured {
            Measured::Points(runs) => runs.get(&drawn.point).map_or(&[][..], Vec::as_slice),
            Measured::Rounds(_) | Measured::Nothing => &[],
        }
    };
    let rows: Vec<Row> = match (measure.read, measured) {
        (Read::Number(read), _) => {
            let row = |drawn: &Drawn<'_>| {
                let calm = runs(drawn).iter().filter(|run| !run.disturbed);
                let subject = drawn.subject;
                let values = calm.filter_map(|run| read(&View { run, subject }));
                let values = values.filter(|value| value.is_finite()).collect();
                (drawn.label.clone(), values)
            };
            drawn.iter().map(row).collect()
        }
        (Read::Series, Measured::Rounds(rounds)) => {
            let calm: Vec<usize> = rounds.calm_rounds().collect();
            let row = |drawn: &Drawn<'_>| {
                let values = rounds.find(measure.name, &drawn.subject.points);
                let calm = calm.iter().filter_map(|round| values?.get(*round).copied());
                (drawn.label.clone(), calm.collect())
            };
            drawn.iter().map(row).collect()
        }
        (Read::Distribution(read), _) => {
            let pooled = |drawn: &Drawn<'_>| {
                let calm = runs(drawn).iter().filter(|run| !run.disturbed);
                let subject = drawn.subject;
                let all = calm.flat_map(|run| read(&View { run, subject }));
                (drawn.label.clone(), all.collect())
            };
            let lines: Vec<Row> = drawn.iter().map(pooled).collect();
            found.plots.extend(distribution(measure, &lines));
            Vec::new()
        }
        _ => Vec::new(),
    };
    let note = match measured {
        Measured::Rounds(_) => "of each round, with quartiles",
        Measured::Points(_) | Measured::Nothing => "of each seed, with quartiles",
    };
    found.boxes += &boxes(measure.meaning, note, measure.unit, &rows);
    let shown: Option<(&'static str, &'static str, ValueOf)> = match measure.name {
        "windows" | "window_mean" | "window_p10" | "window_p50" | "window_p90" | "window_max"
        | "fall_leaves" | "double_falls" => {
            Some(("Window", "kB", |sample| sample.cwnd_bytes as f64 / 1e3))
        }
        "sampled_throughput" | "total_throughput" | "dip_period" => {
            Some(("Throughput", "Mbit/s", |sample| sample.throughput_bps / 1e6))
        }
        _ => None,
    };
    if let Some((title, unit, of)) = shown
        && in_time.insert(title)
    {
        let first: Vec<_> = drawn
            .iter()
            .map(|drawn| (drawn, runs(drawn).first()))
            .collect();
        found.plots.extend(time_lines(title, unit, of, &first));
    }
}

/// Cumulative distributions.
fn distribution(measure: &Measure, lines: &[Row]) -> Option<Plot> {
    let values = || lines.iter().flat_map(|(_, values)| values).copied();
    let least = values().reduce(f64::min)?;
    let most = lines
        .iter()
        .filter_map(|(_, values)| quantile(values.clone(), SHOWN))
        .reduce(f64::max)?;
    let width = (most - least).max(1e-6);
    let at = |step: usize| least + width * step as f64 / (STEPS - 1) as f64;
    let steps: Vec<f64> = (0..STEPS).map(at).collect();
    let line = |(run, (label, values)): (usize, &Row)| {
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let below = |x: &f64| {
            let count = sorted.partition_point(|value| value <= x);
            rounded(100.0 * count as f64 / sorted.len().max(1) as f64)
        };
        Line {
            label: label.clone(),
            run,
            dashed: run >= COLOURS,
            values: steps.iter().map(|x| Some(below(x))).collect(),
        }
    };
    Some(Plot {
        title: measure.meaning.into(),
        note: "cumulative, of all seeds, without the greatest 0.5 %".into(),
        unit: "%".into(),
        lines: lines.iter().enumerate().map(line).collect(),
        x: Some(X::linear(
            measure.name,
            measure.unit,
            steps.iter().copied().map(rounded).collect(),
        )),
    })
}

/// Time lines of the first seed: of each flow that is looked at, of the first `COLOURS` of them.
fn time_lines(
    title: &'static str,
    unit: &'static str,
    of: ValueOf,
    drawn: &[(&Drawn<'_>, Option<&PointResult>)],
) -> Option<Plot> {
    let mut flows: Vec<(String, &[FlowSample])> = Vec::new();
    let mut seen = BTreeSet::new();
    for (drawn, run) in drawn {
        let Some(run) = run else { continue };
        for (index, flow) in run.flows.iter().enumerate() {
            let group = run.groups.get(flow.group).map_or("", |group| &group.name);
            let is_meant = drawn
                .subject
                .flows
                .as_deref()
                .is_none_or(|name| name == group);
            if is_meant && !flow.samples.is_empty() && seen.insert((drawn.point, index)) {
                let label = match (run.flows.len(), drawn.place.as_str()) {
                    (1, "") | (2.., "") => flow.name.clone(),
                    (1, place) => place.to_owned(),
                    (_, place) => format!("{place}: {}", flow.name),
                };
                flows.push((label, &flow.samples));
            }
        }
    }
    flows.truncate(COLOURS);
    let longest = flows
        .iter()
        .map(|(_, samples)| samples)
        .max_by_key(|s| s.len())?;
    let stride = longest.len().div_ceil(MOST_SAMPLES).max(1);
    let times: Vec<f64> = longest
        .chunks(stride)
        .map(|chunk| rounded(chunk[0].at_s))
        .collect();
    let end = longest.last().map_or(0.0, |sample| sample.at_s + 1e-3);
    let line = |(run, (label, samples)): (usize, &(String, &[FlowSample]))| {
        let at = |(index, time): (usize, &f64)| {
            let first = samples.partition_point(|sample| sample.at_s < time - 5e-4);
            let until = times.get(index + 1).copied().unwrap_or(end);
            let last = samples.partition_point(|sample| sample.at_s < until - 5e-4);
            // A flow that is not there at the time has no samples.
            mean(samples.get(first..last)?.iter().map(of)).map(rounded)
        };
        Line {
            label: label.clone(),
            run,
            dashed: false,
            values: times.iter().enumerate().map(at).collect(),
        }
    };
    Some(Plot {
        title: title.into(),
        note: "in time, of the first seed".into(),
        unit: unit.into(),
        lines: flows.iter().enumerate().map(line).collect(),
        x: Some(X::linear("time", "s", times.clone())),
    })
}
