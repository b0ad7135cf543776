//! Parameters of algorithms. Each is stated once, as a [`ParameterSpec`] of its configuration: name,
//! field, help; the field's type has the range and the unit, and the configuration's default is the
//! parameter's. Text is read, configurations are checked and documentation is written by it.

use std::fmt::Display;
use std::ops::RangeInclusive;

use fairwater_plane::{Algorithm, AlgorithmError, Programs};

use crate::spec::{duration_us, scaled};
use crate::{Choice, Period, by_spec};

/// One parameter of an algorithm, for documentation and messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name in text.
    pub key: &'static str,
    /// Accepted values, units included.
    pub range: String,
    /// Value when the parameter is not set.
    pub default: String,
    /// What the parameter does.
    pub meaning: &'static str,
    /// Some values that are accepted: the ends of a range, each word.
    pub accepted: Vec<String>,
    /// Some values that are refused, beyond the ends of a range.
    pub refused: Vec<String>,
}

/// The parameters of one algorithm.
pub(crate) trait Configuration: Default + Clone + Send + Sync + 'static {
    /// Name of the algorithm.
    const NAME: &'static str;
    /// What the algorithm is, in one line.
    const SUMMARY: &'static str;
    /// All parameters.
    const PARAMETERS: &'static [ParameterSpec<Self>];

    /// Compiles the programs of the algorithm.
    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError>;

    /// Adapts parameters that were not given to those that were.
    fn settle(&mut self, _given: &dyn Fn(&str) -> bool) {}

    /// Values that do not go together.
    fn conflict(&self) -> Option<Conflict> {
        None
    }

    /// Refuses values that text could not have given.
    fn check(&self) -> Result<(), AlgorithmError> {
        let mut copy = self.clone();
        for setting in Self::PARAMETERS {
            let field = (setting.field)(&mut copy);
            if let Some(value) = field.out_of_range() {
                let range = field.range();
                return Err(AlgorithmError::out_of_range(setting.key, value, range));
            }
        }
        match self.conflict() {
            Some(Conflict { key, value, range }) => {
                Err(AlgorithmError::out_of_range(key, value, range))
            }
            None => Ok(()),
        }
    }
}

/// A value that another parameter rules out.
pub(crate) struct Conflict {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    /// What the value must be.
    pub(crate) range: String,
}

impl Conflict {
    /// `low` must not be greater than `high`.
    pub(crate) fn of_order(low: (&'static str, f64), high: (&'static str, f64)) -> Option<Self> {
        (low.1 > high.1).then(|| Self {
            key: low.0,
            value: low.1.to_string(),
            range: format!("at most {}, which is {}", high.0, high.1),
        })
    }
}

/// One parameter of the configuration `C`.
pub(crate) struct ParameterSpec<C> {
    pub(crate) key: &'static str,
    meaning: &'static str,
    /// The default in words, where the configuration's is not a value.
    default: Option<&'static str>,
    pub(crate) field: fn(&mut C) -> ParameterField<'_>,
}

impl<C> ParameterSpec<C> {
    pub(crate) const fn new(
        key: &'static str,
        meaning: &'static str,
        field: fn(&mut C) -> ParameterField<'_>,
    ) -> Self {
        Self {
            key,
            meaning,
            default: None,
            field,
        }
    }

    /// With this default, in words.
    pub(crate) const fn by_default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    pub(crate) const fn slow_start(field: fn(&mut C) -> ParameterField<'_>) -> Self {
        Self::new("slow_start", "where slow start runs (CCP §4.4)", field)
    }

    pub(crate) const fn hystart(field: fn(&mut C) -> ParameterField<'_>) -> Self {
        Self::new(
            "hystart",
            "what ends the first slow start before a loss: late ACKs and long ACK trains (`classic`), \
             or late ACKs with a slower phase (`plusplus`, RFC 9406)",
            field,
        )
    }

    pub(crate) const fn ecn(field: fn(&mut C) -> ParameterField<'_>) -> Self {
        Self::new("ecn", "whether ECN marks count as congestion", field)
    }

    pub(crate) const fn report(field: fn(&mut C) -> ParameterField<'_>) -> Self {
        Self::new("report", "how often flows report", field)
    }
}

impl<C: Configuration> ParameterSpec<C> {
    pub(crate) fn describe(&self) -> Parameter {
        let mut usual = C::default();
        let field = (self.field)(&mut usual);
        let (accepted, refused) = field.examples();
        let default = match self.default {
            Some(words) => words.to_owned(),
            None => field.text().unwrap_or_default(),
        };
        Parameter {
            key: self.key,
            range: field.range(),
            default,
            meaning: self.meaning,
            accepted,
            refused,
        }
    }
}

/// A field of a configuration, and what it takes.
pub(crate) enum ParameterField<'c> {
    Boolean(&'c mut bool),
    /// A whole number, called so: `a number of segments`.
    Number(&'c mut u64, RangeInclusive<u64>, &'static str),
    OptionalNumber(&'c mut Option<u64>, RangeInclusive<u64>, &'static str),
    /// Leading bits of an address, at most so many. Without a field the number has no effect.
    Bits(Option<&'c mut u8>, u8),
    Decimal(&'c mut f64, RangeInclusive<f64>, &'static str),
    Micros(&'c mut u64, RangeInclusive<u64>),
    Seconds(&'c mut f64, RangeInclusive<f64>),
    /// Bytes/s; a rate in bits per second as text.
    OptionalRate(&'c mut Option<u64>, RangeInclusive<u64>),
    Word(&'c mut dyn Words),
    Period(&'c mut Period),
    /// Another algorithm with its parameters, but not the one of this name.
    Algorithm(&'c mut Choice, &'static str),
}

/// A choice between words.
pub(crate) trait Words {
    fn words(&self) -> Vec<&'static str>;
    /// The word of the present value.
    fn word(&self) -> Option<&'static str>;
    /// Takes the value of a word; `false` if there is no such word.
    fn choose(&mut self, word: &str) -> bool;
}

/// A type whose values have names in text.
pub(crate) trait Named: Copy + PartialEq + 'static {
    const NAMES: &'static [(&'static str, Self)];
    /// Other names, which documentation leaves out.
    const ALIASES: &'static [(&'static str, Self)] = &[];
}

impl<T: Named> Words for T {
    fn words(&self) -> Vec<&'static str> {
        Self::NAMES.iter().map(|(word, _)| *word).collect()
    }

    fn word(&self) -> Option<&'static str> {
        let named = Self::NAMES.iter().find(|(_, value)| value == self);
        named.map(|(word, _)| *word)
    }

    fn choose(&mut self, word: &str) -> bool {
        let mut all = Self::NAMES.iter().chain(Self::ALIASES);
        let found = all.find(|(name, _)| *name == word);
        if let Some((_, value)) = found {
            *self = *value;
        }
        found.is_some()
    }
}

/// Why a text is no value of a parameter.
pub(crate) enum Refused {
    /// It is not in the range.
    Range,
    /// It has faults of its own.
    Faults(Vec<String>),
}

const RATES: [(&str, f64); 4] = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];

impl ParameterField<'_> {
    /// Accepted values, in words.
    pub(crate) fn range(&self) -> String {
        let between = |noun: &str, least: &dyn Display, most: &dyn Display| {
            format!("{noun} from {least} to {most}")
        };
        let micros = |range: &RangeInclusive<u64>| {
            let (least, most) = (duration(*range.start()), duration(*range.end()));
            between("a duration", &least, &most)
        };
        match self {
            Self::Boolean(_) => "`true` or `false`".to_owned(),
            Self::Number(_, range, noun) | Self::OptionalNumber(_, range, noun) => {
                between(noun, range.start(), range.end())
            }
            Self::Bits(_, most) => between("a number of bits", &0, most),
            Self::Decimal(_, range, noun) => between(noun, range.start(), range.end()),
            Self::Micros(_, range) => micros(range),
            Self::Seconds(_, range) => micros(&in_micros(range)),
            Self::OptionalRate(_, range) => {
                let (least, most) = (rate(*range.start()), rate(*range.end()));
                between("a rate", &least, &most) + ", such as `24mbit`"
            }
            Self::Word(words) => listed(&words.words()),
            Self::Period(_) => format!("`rtt`, `ack` or {}", micros(&Period::MICROS)),
            Self::Algorithm(..) => "another algorithm, last if it has parameters".to_owned(),
        }
    }

    /// The present value, as text gives it; `None` for none.
    fn text(&self) -> Option<String> {
        match self {
            Self::Boolean(value) => Some(value.to_string()),
            Self::Number(value, ..) => Some(value.to_string()),
            Self::OptionalNumber(value, ..) => value.map(|n| n.to_string()),
            Self::Bits(value, _) => value.as_ref().map(|n| n.to_string()),
            Self::Decimal(value, ..) => Some(value.to_string()),
            Self::Micros(value, _) => Some(duration(**value)),
            Self::Seconds(value, _) => Some(duration((**value * 1e6).round() as u64)),
            Self::OptionalRate(value, _) => value.map(rate),
            Self::Word(value) => value.word().map(str::to_owned),
            Self::Period(Period::Rtt) => Some("rtt".to_owned()),
            Self::Period(Period::Ack) => Some("ack".to_owned()),
            Self::Period(Period::Micros(us)) => Some(duration(*us)),
            Self::Algorithm(choice, _) => Some(choice.name().to_owned()),
        }
    }

    /// The present value with its unit, if it is out of the range.
    fn out_of_range(&self) -> Option<String> {
        let outside = match self {
            Self::Number(value, range, _) => !range.contains(*value),
            Self::OptionalNumber(Some(value), range, _) => !range.contains(value),
            Self::Bits(Some(value), most) => **value > *most,
            Self::Decimal(value, range, _) => !range.contains(*value),
            Self::Micros(value, range) => !range.contains(*value),
            Self::Seconds(value, range) => !range.contains(*value),
            Self::OptionalRate(Some(value), range) => !range.contains(value),
            Self::Period(Period::Micros(us)) => !Period::MICROS.contains(us),
            _ => false,
        };
        if !outside {
            return None;
        }
        match self {
            Self::OptionalRate(Some(value), _) => Some(format!("{value} bytes/s")),
            Self::Seconds(value, _) => Some(format!("{value} s")),
            _ => self.text(),
        }
    }

    /// Sets the field from text.
    pub(crate) fn set(self, text: &str) -> Result<(), Refused> {
        const PLAIN: [(&str, f64); 1] = [("", 1.0)];
        match self {
            Self::Boolean(field) => put(
                field,
                match text {
                    "true" | "yes" | "on" => Some(true),
                    "false" | "no" | "off" => Some(false),
                    _ => None,
                },
            ),
            Self::Number(field, range, _) => put(field, number(text, &range)),
            Self::OptionalNumber(field, range, _) => put(field, number(text, &range).map(Some)),
            Self::Bits(field, most) => {
                let bits = text.parse().ok().filter(|bits| *bits <= most);
                put(field.unwrap_or(&mut 0), bits)
            }
            Self::Decimal(field, range, _) => {
                put(field, scaled(text, &PLAIN).filter(|n| range.contains(n)))
            }
            Self::Micros(field, range) => put(field, duration_us(text, &range)),
            Self::Seconds(field, range) => {
                let us = duration_us(text, &in_micros(&range));
                put(field, us.map(|us| us as f64 / 1e6))
            }
            Self::OptionalRate(field, range) => {
                let bytes = scaled(text, &RATES).map(|bits| (bits / 8.0) as u64);
                put(field, bytes.filter(|n| range.contains(n)).map(Some))
            }
            Self::Word(field) => field.choose(text).then_some(()).ok_or(Refused::Range),
            Self::Period(field) => put(
                field,
                match text {
                    "ack" => Some(Period::Ack),
                    "rtt" => Some(Period::Rtt),
                    _ => duration_us(text, &Period::MICROS).map(Period::Micros),
                },
            ),
            Self::Algorithm(field, itself) => {
                // Before it is parsed, so that text cannot nest without end.
                if text.split(':').next().map(str::trim) == Some(itself) {
                    return Err(Refused::Faults(vec![format!("not {itself} again")]));
                }
                *field = by_spec(text).map_err(|error| Refused::Faults(error.faults().to_vec()))?;
                Ok(())
            }
        }
    }

    /// Values that are accepted, and values that are refused.
    fn examples(&self) -> (Vec<String>, Vec<String>) {
        let beyond = |least: f64, most: f64, unit: &str| {
            let ends = vec![format!("{least}{unit}"), format!("{most}{unit}")];
            let mut out = vec![format!("{}{unit}", 2.0 * most)];
            if least > 0.0 {
                out.push(format!("{}{unit}", least / 2.0));
            }
            (ends, out)
        };
        let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let micros =
            |range: &RangeInclusive<u64>| beyond(*range.start() as f64, *range.end() as f64, "us");
        match self {
            Self::Boolean(_) => (owned(&["true", "false"]), owned(&["maybe"])),
            Self::Number(_, range, _) | Self::OptionalNumber(_, range, _) => {
                beyond(*range.start() as f64, *range.end() as f64, "")
            }
            Self::Bits(_, most) => beyond(0.0, f64::from(*most), ""),
            Self::Decimal(_, range, _) => beyond(*range.start(), *range.end(), ""),
            Self::Micros(_, range) => micros(range),
            Self::Seconds(_, range) => micros(&in_micros(range)),
            Self::OptionalRate(_, range) => beyond(
                *range.start() as f64 * 8.0,
                *range.end() as f64 * 8.0,
                "bit",
            ),
            Self::Word(words) => (owned(&words.words()), owned(&["maybe"])),
            Self::Period(_) => {
                let (mut ends, out) = micros(&Period::MICROS);
                ends.extend(owned(&["rtt", "ack"]));
                (ends, out)
            }
            Self::Algorithm(..) => (owned(&["reno:report=10ms"]), owned(&["maybe"])),
        }
    }
}

fn put<T>(field: &mut T, value: Option<T>) -> Result<(), Refused> {
    *field = value.ok_or(Refused::Range)?;
    Ok(())
}

fn number(text: &str, range: &RangeInclusive<u64>) -> Option<u64> {
    text.parse().ok().filter(|n| range.contains(n))
}

fn in_micros(seconds: &RangeInclusive<f64>) -> RangeInclusive<u64> {
    let micros = |s: f64| (s * 1e6).round() as u64;
    micros(*seconds.start())..=micros(*seconds.end())
}

/// A duration in the largest unit in which it is whole.
fn duration(us: u64) -> String {
    match us {
        _ if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        _ if us.is_multiple_of(1_000) => format!("{}ms", us / 1_000),
        _ => format!("{us}us"),
    }
}

/// Bytes/s as bits per second, in the largest unit that is not above, rounded down.
fn rate(bytes: u64) -> String {
    let bits = bytes as f64 * 8.0;
    let unit = RATES.iter().find(|(_, factor)| bits >= *factor);
    let (unit, factor) = unit.unwrap_or(&("bit", 1.0));
    format!("{}{unit}", (bits / factor).floor())
}

fn listed(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
