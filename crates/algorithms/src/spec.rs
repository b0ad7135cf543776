//! Algorithms and their parameters as text: `cubic:slow_start=plane,report=10ms`.

use std::fmt;
use std::ops::RangeInclusive;

use fairwater_plane::{AlgorithmError, nearest};

use crate::{Choice, HyStart, Period, SlowStart, by_spec};

/// What the command line says of one parameter of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in text.
    pub key: &'static str,
    /// What it may be, units included.
    pub range: &'static str,
    /// What it is when not set.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

impl Parameter {
    pub(crate) const SLOW_START: Self = Self {
        key: "slow_start",
        range: "`program-cwnd`, `program-rate` or `plane`",
        default: "program-cwnd",
        meaning: "who runs slow start",
    };
    pub(crate) const ECN: Self = Self {
        key: "ecn",
        range: "`true` or `false`",
        default: "true",
        meaning: "whether ECN marks count as congestion",
    };
    pub(crate) const REPORT: Self = Self {
        key: "report",
        range: "`rtt`, `ack` or a duration from 10us to 10s",
        default: "rtt",
        meaning: "how often flows report",
    };

    pub(crate) const PROBE_RTT: Self = Self {
        key: "probe_rtt",
        range: "`true` or `false`",
        default: "true",
        meaning: "whether the flow holds back now and then to measure the RTT",
    };

    pub(crate) const fn hystart(default: &'static str) -> Self {
        Self {
            key: "hystart",
            range: "`classic`, `plusplus` (or `true`, RFC 9406) or `off` (or `false`)",
            default,
            meaning: "what ends slow start before a loss does",
        }
    }
}

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

/// The `key=value` pairs of one algorithm, checked as they are taken.
pub(crate) struct Settings<'a> {
    parameters: &'static [Parameter],
    pairs: Vec<(&'a str, &'a str)>,
    faults: Vec<String>,
}

impl<'a> Settings<'a> {
    /// Splits `key=value,key=value`; an empty text has none. What is set to an algorithm with
    /// parameters of its own, `key=cubic:report=10ms,…`, goes to the end.
    pub(crate) fn parse(algorithm: &str, text: &'a str, parameters: &'static [Parameter]) -> Self {
        let mut settings = Self {
            parameters,
            pairs: Vec::new(),
            faults: Vec::new(),
        };
        for part in parts(text).map(str::trim).filter(|p| !p.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                settings
                    .faults
                    .push(format!("`{part}` is not of the form key=value"));
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            if !parameters.iter().any(|p| p.key == key) {
                let keys: Vec<_> = parameters.iter().map(|p| p.key).collect();
                let hint = did_you_mean(key, &keys, "it has");
                settings
                    .faults
                    .push(format!("{algorithm} has no parameter `{key}`{hint}"));
            } else if settings.pairs.iter().any(|(k, _)| *k == key) {
                settings.faults.push(format!("`{key}` is set twice"));
            } else {
                settings.pairs.push((key, value));
            }
        }
        settings
    }

    pub(crate) fn finish(self) -> Result<(), SpecError> {
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(SpecError {
                faults: self.faults,
            })
        }
    }

    /// Notes what is wrong with values that are right each by itself.
    pub(crate) fn refuse(&mut self, fault: String) {
        self.faults.push(fault);
    }

    pub(crate) fn boolean(&mut self, key: &str) -> Option<bool> {
        self.take(key, |v| match v {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        })
    }

    pub(crate) fn number(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.take(key, |v| v.parse().ok().filter(|n| range.contains(n)))
    }

    /// Another algorithm, with parameters of its own, but not `itself`.
    pub(crate) fn algorithm(&mut self, key: &str, itself: &str) -> Option<Choice> {
        let (_, value) = *self.pairs.iter().find(|(k, _)| *k == key)?;
        // Before it is parsed, so that text cannot nest without end.
        if value.split(':').next().map(str::trim) == Some(itself) {
            self.faults.push(format!("`{key}`: not {itself} again"));
            return None;
        }
        match by_spec(value) {
            Ok(choice) => Some(choice),
            Err(error) => {
                let faults = error.faults().iter();
                self.faults.extend(faults.map(|f| format!("`{key}`: {f}")));
                None
            }
        }
    }

    /// A number with or without a fraction: `0.0625`.
    pub(crate) fn decimal(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        const PLAIN: [(&str, f64); 1] = [("", 1.0)];
        self.take(key, |v| scaled(v, &PLAIN).filter(|n| range.contains(n)))
    }

    /// A duration as text, `10us`, `5ms` or `1.5s`, in µs.
    pub(crate) fn duration_us(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.take(key, |v| duration_us(v, &range))
    }

    /// One of these words.
    pub(crate) fn one_of<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        self.take(key, |v| {
            choices.iter().find(|(word, _)| *word == v).map(|(_, t)| *t)
        })
    }

    /// A rate in bits per second as text, in bytes/s.
    pub(crate) fn rate(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        const UNITS: [(&str, f64); 4] = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
        self.take(key, |v| {
            let bytes = scaled(v, &UNITS)? / 8.0;
            Some(bytes as u64).filter(|n| range.contains(n))
        })
    }

    pub(crate) fn slow_start(&mut self) -> Option<SlowStart> {
        self.take("slow_start", |v| match v {
            "plane" => Some(SlowStart::Plane),
            "program-cwnd" => Some(SlowStart::ProgramCwnd),
            "program-rate" => Some(SlowStart::ProgramRate),
            _ => None,
        })
    }

    pub(crate) fn hystart(&mut self) -> Option<HyStart> {
        self.take("hystart", |v| match v {
            "classic" => Some(HyStart::Classic),
            "plusplus" | "true" => Some(HyStart::PlusPlus),
            "off" | "false" => Some(HyStart::Off),
            _ => None,
        })
    }

    pub(crate) fn period(&mut self) -> Option<Period> {
        self.take("report", |v| match v {
            "ack" => Some(Period::Ack),
            "rtt" => Some(Period::Rtt),
            _ => duration_us(v, &Period::MICROS).map(Period::Micros),
        })
    }

    fn take<T>(&mut self, key: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let (_, value) = *self.pairs.iter().find(|(k, _)| *k == key)?;
        let parsed = parse(value);
        if parsed.is_none() {
            let range = range_of(self.parameters, key);
            self.faults
                .push(format!("`{key}={value}`: {key} must be {range}"));
        }
        parsed
    }
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
fn duration_us(text: &str, range: &RangeInclusive<u64>) -> Option<u64> {
    const UNITS: [(&str, f64); 3] = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    scaled(text, &UNITS)
        .filter(|us| (*range.start() as f64..=*range.end() as f64).contains(us))
        .map(|us| us.round() as u64)
}

/// A number with one of these units behind it; no other number has a meaning.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain
        .then(|| number.parse::<f64>().ok())?
        .map(|n| n * factor)
}

/// The parameter's range, in words.
fn range_of(parameters: &[Parameter], key: &str) -> &'static str {
    let found = parameters.iter().find(|p| p.key == key);
    found.map_or("", |p| p.range)
}

/// Refuses a value of a configuration that text could not have given; `unit` is the value's, with a
/// space before it.
pub(crate) fn within<T: PartialOrd + fmt::Display>(
    parameters: &[Parameter],
    key: &'static str,
    range: &RangeInclusive<T>,
    value: T,
    unit: &str,
) -> Result<(), AlgorithmError> {
    if range.contains(&value) {
        return Ok(());
    }
    let value = format!("{value}{unit}");
    Err(AlgorithmError::out_of_range(
        key,
        value,
        range_of(parameters, key),
    ))
}

/// `; did you mean …?`, else what there is, for the end of a message.
pub(crate) fn did_you_mean(wrong: &str, known: &[&str], there_is: &str) -> String {
    match nearest(wrong, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; {there_is} {}", known.join(", ")),
    }
}
