//! The files that a scenario names: delivery traces and distributions of sizes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fairwater_experiment::SizeCdf;
use fairwater_net::DeliveryTrace;

use crate::diagnostic::Diagnostic;
use crate::tree::Node;

/// What a scenario refers to and does not have in itself.
pub trait Resolver {
    /// The text of a file, by the name that the scenario has for it.
    ///
    /// # Errors
    /// Why it cannot be read, as a clause.
    fn read(&self, name: &str) -> Result<String, String>;

    /// Whether there is such an algorithm of this project: `cubic:report=10ms`.
    ///
    /// # Errors
    /// Each thing that is wrong with it, as a sentence.
    fn check_algorithm(&self, text: &str) -> Result<(), Vec<String>>;
}

/// What was read of one file.
#[derive(Debug, Clone)]
enum Loaded<T> {
    Valid(Arc<T>),
    Invalid(Vec<String>),
}

/// Files read so far, each once.
#[derive(Debug, Default)]
pub(crate) struct Files {
    texts: Mutex<BTreeMap<String, String>>,
    traces: Mutex<BTreeMap<String, Loaded<DeliveryTrace>>>,
    sizes: Mutex<BTreeMap<String, Loaded<SizeCdf>>>,
}

impl Files {
    /// A delivery trace.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn trace(
        &self,
        name: &str,
        resolver: &dyn Resolver,
    ) -> Result<Arc<DeliveryTrace>, Vec<String>> {
        self.load(&self.traces, name, resolver, |text| {
            DeliveryTrace::parse(text)
                .map_err(|error| error.errors.iter().map(ToString::to_string).collect())
        })
    }

    /// A distribution of sizes.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn sizes(
        &self,
        name: &str,
        resolver: &dyn Resolver,
    ) -> Result<Arc<SizeCdf>, Vec<String>> {
        self.load(&self.sizes, name, resolver, size_cdf)
    }

    /// The texts of all files that were read, by name.
    pub(crate) fn texts(&self) -> BTreeMap<String, String> {
        self.texts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn load<T>(
        &self,
        kept: &Mutex<BTreeMap<String, Loaded<T>>>,
        name: &str,
        resolver: &dyn Resolver,
        parse: impl FnOnce(&str) -> Result<T, Vec<String>>,
    ) -> Result<Arc<T>, Vec<String>> {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.entry(name.to_owned()).or_insert_with(|| {
            let parsed = resolver
                .read(name)
                .map_err(|reason| vec![reason])
                .and_then(|text| {
                    let parsed = parse(&text);
                    let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
                    texts.insert(name.to_owned(), text);
                    parsed
                });
            match parsed {
                Ok(value) => Loaded::Valid(Arc::new(value)),
                Err(reasons) => Loaded::Invalid(reasons),
            }
        });
        match found {
            Loaded::Valid(value) => Ok(Arc::clone(value)),
            Loaded::Invalid(reasons) => Err(reasons.clone()),
        }
    }
}

/// That a file which is named there cannot be used.
pub(crate) fn problem(what: &str, node: &Node, name: &str, problems: &[String]) -> Diagnostic {
    let message = format!("the {what} `{name}` cannot be used");
    Diagnostic::new(node.span.clone(), message).help(problems.join("\n"))
}

/// Most errors of one file that are shown.
const MAX_PROBLEMS: usize = 5;

/// Parses a distribution: a line for each point, with a size in bytes and the probability, 0 to 1,
/// of at most that size. Both rise, and the last probability is 1; the first point may be `0 0`.
/// What stands behind `#` is not read.
fn size_cdf(text: &str) -> Result<SizeCdf, Vec<String>> {
    let mut problems = Vec::new();
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let numbers: Option<Vec<f64>> = line
            .split([' ', '\t', ','])
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().ok().filter(|n: &f64| n.is_finite()))
            .collect();
        let number = index + 1;
        let Some(&[bytes, probability]) = numbers.as_deref() else {
            problems.push(format!(
                "line {number}: expected a size in bytes and a probability from 0 to 1"
            ));
            continue;
        };
        if let Err(problem) = follows(points.last().copied(), (bytes, probability)) {
            problems.push(format!("line {number}: {problem}"));
        }
        points.push((bytes, probability));
    }
    finished(points, problems)
}

/// Checks a distribution that stands in the scenario itself.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn checked_sizes(points: Vec<(f64, f64)>) -> Result<SizeCdf, Vec<String>> {
    let mut problems = Vec::new();
    let mut before = None;
    for (index, point) in points.iter().enumerate() {
        if let Err(problem) = follows(before, *point) {
            problems.push(format!("point {}: {problem}", index + 1));
        }
        before = Some(*point);
    }
    finished(points, problems)
}

fn finished(points: Vec<(f64, f64)>, mut problems: Vec<String>) -> Result<SizeCdf, Vec<String>> {
    if problems.is_empty() {
        match points.last() {
            None => problems.push("the distribution is empty".to_owned()),
            Some((_, 1.0)) => return Ok(SizeCdf { points }),
            Some((_, last)) => problems.push(format!(
                "the distribution does not rise to 1: its last probability is {last}"
            )),
        }
    }
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    problems.truncate(MAX_PROBLEMS);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    Err(problems)
}

fn follows(before: Option<(f64, f64)>, (bytes, probability): (f64, f64)) -> Result<(), String> {
    // Files of distributions usually begin where nothing is smaller.
    if before.is_none() && (bytes, probability) == (0.0, 0.0) {
        return Ok(());
    }
    if !(1.0..=1e15).contains(&bytes) {
        return Err(format!("size {bytes} is out of range (1 byte to 1 PB)"));
    }
    if !(0.0..=1.0).contains(&probability) {
        return Err(format!(
            "probability {probability} is out of range (0 to 1)"
        ));
    }
    match before {
        Some((_, p)) if probability <= p => Err(format!(
            "the distribution does not rise: probability {probability} comes after {p}"
        )),
        Some((b, _)) if bytes < b => Err(format!(
            "the distribution does not rise: {bytes} bytes come after {b}"
        )),
        _ => Ok(()),
    }
}
