//! Which points of a scenario's grid the claims of an entry need.

use std::collections::BTreeSet;
use std::ops::Range;

use fairwater_document::diagnostic::{Diagnostic, Sink};
use fairwater_document::fields::listed;
use fairwater_results::class_names;
use fairwater_scenario::{Point, Scenario};

use crate::entry::{Check, Claim, Comparison, Subject};
use crate::measure::Needs;

/// The points that claims need. A point is counted without its seeds: in a scenario with `n` seeds, its
/// runs are those from `n` times the point on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Of each claim; `None` of one that is not judged by these runs.
    claims: Vec<Option<Points>>,
}

/// The points of one claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Points {
    /// Of the subject.
    pub(crate) subject: usize,
    /// Of what it is compared with.
    pub(crate) against: Option<usize>,
    /// Of each part of an order.
    pub(crate) ordered: Vec<usize>,
}

impl Points {
    /// The subject and what it is compared with, or the parts of an order.
    pub(crate) fn in_order(&self) -> Vec<usize> {
        match self.ordered.is_empty() {
            true => [self.subject].into_iter().chain(self.against).collect(),
            false => self.ordered.clone(),
        }
    }
}

impl Plan {
    /// Finds the points of the claims, `None` of those that are judged elsewhere; what does not exist goes to the sink.
    pub(crate) fn new<'a>(
        claims: impl IntoIterator<Item = Option<&'a Claim>>,
        scenario: &Scenario,
        sink: &Sink,
    ) -> Self {
        let seeds = scenario.seeds().len();
        let points: Vec<Point> = (0..scenario.len())
            .step_by(seeds)
            .map(|index| scenario.point(index))
            .collect();
        let of = |claim: Option<&Claim>| {
            let comparison = claim?.comparison.as_ref()?;
            Some(points_of(comparison, &points, sink))
        };
        Self {
            claims: claims.into_iter().map(of).collect(),
        }
    }

    /// The points, each once, rising.
    #[must_use]
    pub fn points(&self) -> Vec<usize> {
        let all: BTreeSet<_> = self
            .claims
            .iter()
            .flatten()
            .flat_map(Points::in_order)
            .collect();
        all.into_iter().collect()
    }

    pub(crate) fn claim(&self, index: usize) -> Option<&Points> {
        self.claims.get(index)?.as_ref()
    }
}

fn points_of(comparison: &Comparison, points: &[Point], sink: &Sink) -> Points {
    let find = |subject: &Subject| {
        let found = find(subject, points, sink)?;
        check(comparison, subject, &points[found], sink);
        Some(found)
    };
    match &comparison.check {
        Check::Orders(parts) => Points {
            ordered: parts.iter().filter_map(find).collect(),
            ..Points::default()
        },
        _ => Points {
            subject: find(&comparison.subject).unwrap_or(0),
            against: comparison.against.as_ref().and_then(find),
            ordered: Vec::new(),
        },
    }
}

/// Whether a variable's value is meant: it is so called, or begins so, if it is a table.
fn is_meant(value: &str, wanted: &str) -> bool {
    let rest = value.strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
}

/// The one point that a subject names.
fn find(subject: &Subject, points: &[Point], sink: &Sink) -> Option<usize> {
    let refuse = |message: String, help: Option<String>| {
        let diagnostic = Diagnostic::new(subject.place("where"), message);
        sink.push(match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        });
        None
    };
    let variables = &points.first()?.variables;
    let mut left: Vec<usize> = (0..points.len()).collect();
    for (name, wanted) in &subject.points {
        let Some(at) = variables.iter().position(|(variable, _)| variable == name) else {
            let names: Vec<_> = variables.iter().map(|(name, _)| name.as_str()).collect();
            let help = (!names.is_empty()).then(|| format!("it has {}", listed(&names)));
            return refuse(format!("the scenario has no variable `{name}`"), help);
        };
        let value = |index: usize| points[index].variables[at].1.as_str();
        let exact = (0..points.len()).any(|index| value(index) == wanted);
        let fits = |index: &usize| match exact {
            true => value(*index) == wanted,
            false => is_meant(value(*index), wanted),
        };
        if !(0..points.len()).any(|index| fits(&index)) {
            let mut values: Vec<_> = (0..points.len()).map(value).collect();
            values.dedup();
            values.sort_unstable();
            values.dedup();
            let help = format!("it has {}", listed(&values));
            return refuse(
                format!("`{name}` never has the value `{wanted}`"),
                Some(help),
            );
        }
        left.retain(fits);
    }
    match left[..] {
        [one] => Some(one),
        [] => refuse(
            "no point of the scenario has all these values".to_owned(),
            None,
        ),
        _ => {
            let differs = |at: &usize| {
                let value = |index: &usize| &points[*index].variables[*at].1;
                left.iter().any(|index| value(index) != value(&left[0]))
            };
            let open = (0..variables.len()).filter(differs);
            let names: Vec<_> = open.map(|at| variables[at].0.as_str()).collect();
            let message = format!("{} points of the scenario are meant", left.len());
            refuse(
                message,
                Some(format!("`where` must also say which {}", listed(&names))),
            )
        }
    }
}

/// Checks that what the claim looks at is at the point.
fn check(comparison: &Comparison, subject: &Subject, point: &Point, sink: &Sink) {
    let refuse = |span: Range<usize>, message: String, help: String| {
        sink.push(Diagnostic::new(span, message).help(help));
    };
    let experiment = &point.experiment;
    let measure = comparison.measure;
    if let Some(wanted) = &subject.flows {
        let names: Vec<_> = point
            .groups
            .iter()
            .map(|group| group.name.as_str())
            .collect();
        if !names.contains(&wanted.as_str()) {
            let message = format!("the scenario has no flows `{wanted}`");
            refuse(
                subject.place("flows"),
                message,
                format!("it has {}", listed(&names)),
            );
        }
    }
    if let Some(wanted) = &subject.link {
        let sendboxes = experiment.bundles.iter();
        let sendboxes = sendboxes.map(|bundle| format!("sendbox of {}", bundle.name));
        let links = experiment.edges.iter().map(|edge| edge.name.clone());
        let names: Vec<_> = links.chain(sendboxes).collect();
        if !names.contains(wanted) {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let message = format!("the scenario has no link `{wanted}`");
            refuse(
                subject.place("link"),
                message,
                format!("it has {}", listed(&names)),
            );
        }
    }
    if let Some(wanted) = &subject.class {
        let names = class_names(&experiment.measure.size_classes);
        if !names.contains(wanted) || measure.needs != Needs::Requests {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let message = format!("`{}` has no size class `{wanted}`", measure.name);
            refuse(
                subject.place("class"),
                message,
                format!("the scenario has {}", listed(&names)),
            );
        }
    }
    let lacks = match measure.needs {
        Needs::Samples if experiment.measure.interval.is_none() => Some("`measure.interval`"),
        Needs::Completions if !experiment.measure.requests => Some("`measure.requests`"),
        _ => None,
    };
    if let Some(lacks) = lacks {
        let message = format!("`{}` needs {lacks} of the scenario", measure.name);
        refuse(
            comparison.span.clone(),
            message,
            "`set` may add it".to_owned(),
        );
    }
}
