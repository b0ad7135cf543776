//! Algorithms and their parameters as text: `cubic:slow_start=plane,report=10ms`.

use std::fmt;
use std::ops::RangeInclusive;

use fairwater_plane::nearest;

use crate::parameter::{Configuration, Conflict, Refused};

/// What is wrong with an algorithm's text: every fault, one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    faults: Vec<String>,
}

impl SpecError {
    pub(crate) fn one(fault: String) -> Self {
        Self {
            faults: vec![fault],
        }
    }

    /// Each fault, as one sentence.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.faults
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("\n"))
    }
}

/// Reads `key=value,key=value` into a configuration. Parameters of an algorithm that is itself a
/// value, `key=cubic:report=10ms,…`, go to the end.
pub(crate) fn read<C: Configuration>(text: &str) -> Result<C, SpecError> {
    let (pairs, mut faults) = pairs::<C>(text);
    let mut config = C::default();
    for setting in C::PARAMETERS {
        let key = setting.key;
        let Some((_, value)) = pairs.iter().find(|(k, _)| *k == key) else {
            continue;
        };
        let range = (setting.field)(&mut config).range();
        match (setting.field)(&mut config).set(value) {
            Ok(()) => {}
            Err(Refused::Range) => {
                faults.push(format!("`{key}={value}`: {key} must be {range}"));
            }
            Err(Refused::Faults(each)) => {
                faults.extend(each.iter().map(|fault| format!("`{key}`: {fault}")));
            }
        }
    }
    config.settle(&|key| pairs.iter().any(|(k, _)| *k == key));
    if faults.is_empty()
        && let Some(Conflict { key, value, range }) = config.conflict()
    {
        faults.push(format!("`{key}={value}`: {key} must be {range}"));
    }
    if faults.is_empty() {
        Ok(config)
    } else {
        Err(SpecError { faults })
    }
}

/// The pairs whose keys are known, each once, and what is wrong with the others.
fn pairs<C: Configuration>(text: &str) -> (Vec<(&str, &str)>, Vec<String>) {
    let (mut pairs, mut faults) = (Vec::new(), Vec::new());
    for part in parts(text).map(str::trim).filter(|p| !p.is_empty()) {
        let Some((key, value)) = part.split_once('=') else {
            faults.push(format!("`{part}` is not of the form key=value"));
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if !C::PARAMETERS.iter().any(|s| s.key == key) {
            let keys: Vec<_> = C::PARAMETERS.iter().map(|s| s.key).collect();
            let hint = did_you_mean(key, &keys, "it has");
            faults.push(format!("{} has no parameter `{key}`{hint}", C::NAME));
        } else if pairs.iter().any(|(k, _)| *k == key) {
            faults.push(format!("`{key}` is set twice"));
        } else {
            pairs.push((key, value));
        }
    }
    (pairs, faults)
}

/// What commas separate, up to the first part with a colon in it, which takes the rest.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let comma = text.find(',').filter(|at| !text[..*at].contains(':'));
        rest = comma.map(|at| &text[at + 1..]);
        Some(comma.map_or(text, |at| &text[..at]))
    })
}

/// A duration within the range, µs.
pub(crate) fn duration_us(text: &str, range: &RangeInclusive<u64>) -> Option<u64> {
    const UNITS: [(&str, f64); 3] = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    scaled(text, &UNITS)
        .filter(|us| (*range.start() as f64..=*range.end() as f64).contains(us))
        .map(|us| us.round() as u64)
}

/// A number with one of these units behind it; no other number has a meaning.
pub(crate) fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain
        .then(|| number.parse::<f64>().ok())?
        .map(|n| n * factor)
}

/// `; did you mean …?`, else what there is, for the end of a message.
pub(crate) fn did_you_mean(wrong: &str, known: &[&str], there_is: &str) -> String {
    match nearest(wrong, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; {there_is} {}", known.join(", ")),
    }
}
