//! Quantities in text: a number and its unit, held exactly.
//!
//! Links, queue disciplines and scenarios share these functions, so that a unit is spelt the same
//! way everywhere.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::decimal::scaled;
use crate::{Buffer, Probability, Rate};

/// What a time looks like.
pub const TIME: &str = "a time such as `20ms`, in `ns`, `us`, `ms`, `s` or `min`";
/// What a rate looks like.
pub const RATE: &str = "a rate such as `48mbit`, in `bit`, `kbit`, `mbit` or `gbit` (per second)";
/// What a size in bytes looks like.
pub const BYTES: &str = "a size such as `100kB`, in `B`, `kB`, `MB` or `GB`";
/// What a number of packets looks like.
pub const PACKETS: &str = "a number of packets such as `10pkt`";
/// What a buffer looks like.
pub const BUFFER: &str = "a buffer such as `160pkt`, `100kB`, `1bdp`, `250ms` or `10MB,250ms`";
/// What a probability looks like.
pub const PROBABILITY: &str = "a percentage from `0%` to `100%`, such as `0.01%`";
/// What a boolean looks like.
pub const BOOLEAN: &str = "`true` or `false`";
/// What a count looks like.
pub const COUNT: &str = "a whole number from 1, such as `50`";
/// What a factor looks like.
pub const FACTOR: &str = "a number above 0, such as `0.8`";

/// Largest size accepted, 1 PB, so that sums of sizes fit into 64 bits.
pub const MAX_BYTES: u64 = 1_000_000_000_000_000;

/// Shortest and longest buffer in time.
const MIN_TIME: Duration = Duration::from_micros(1);
const MAX_TIME: Duration = Duration::from_secs(100);

/// Units, each with the power of ten of the smallest unit that it stands for.
type Units = &'static [(&'static str, usize)];

const TIMES: Units = &[("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
const RATES: Units = &[("bit", 0), ("kbit", 3), ("mbit", 6), ("gbit", 9)];
const SIZES: Units = &[("B", 0), ("kB", 3), ("MB", 6), ("GB", 9)];

/// Why a text is not the quantity that was expected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}: expected {expected}")]
pub struct QuantityError {
    /// What is wrong with the text.
    pub message: String,
    /// What is accepted in its place.
    pub expected: &'static str,
}

impl QuantityError {
    fn malformed(text: &str, expected: &'static str) -> Self {
        QuantityError {
            message: format!("`{text}` is malformed or out of range"),
            expected,
        }
    }

    fn zero(expected: &'static str) -> Self {
        QuantityError {
            message: "it must be more than zero".to_owned(),
            expected,
        }
    }
}

/// A time, possibly zero.
///
/// # Errors
/// [`QuantityError`] if the text is not a time.
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    let (number, unit) = split(text, TIME)?;
    if unit == "min" {
        let minutes: Option<u64> = number.parse().ok().filter(|n| *n < 1_000_000);
        return minutes
            .map(|minutes| Duration::from_secs(minutes * 60))
            .ok_or_else(|| QuantityError::malformed(text, TIME));
    }
    in_units(text, number, unit, TIMES, TIME).map(Duration::from_nanos)
}

/// A time above zero.
///
/// # Errors
/// [`QuantityError`] if the text is not a time, or is zero.
pub fn period(text: &str) -> Result<Duration, QuantityError> {
    match duration(text)? {
        Duration::ZERO => Err(QuantityError::zero(TIME)),
        period => Ok(period),
    }
}

/// A rate, at most 10 Tbit/s.
///
/// # Errors
/// [`QuantityError`] if the text is not a rate.
pub fn rate(text: &str) -> Result<Rate, QuantityError> {
    let (number, unit) = split(text, RATE)?;
    let bps = in_units(text, number, unit, RATES, RATE)?;
    Rate::from_bps(bps)
        .filter(|rate| rate.bps() <= 10_000_000_000_000)
        .ok_or_else(|| QuantityError::malformed(text, RATE))
}

/// A size in bytes, possibly zero, at most [`MAX_BYTES`].
///
/// # Errors
/// [`QuantityError`] if the text is not a size.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = split(text, BYTES)?;
    let bytes = in_units(text, number, unit, SIZES, BYTES)?;
    (bytes <= MAX_BYTES)
        .then_some(bytes)
        .ok_or_else(|| QuantityError::malformed(text, BYTES))
}

/// A size in bytes above zero.
///
/// # Errors
/// [`QuantityError`] if the text is not a size, or is zero.
pub fn positive_bytes(text: &str) -> Result<u64, QuantityError> {
    match bytes(text)? {
        0 => Err(QuantityError::zero(BYTES)),
        bytes => Ok(bytes),
    }
}

/// A number of packets above zero.
///
/// # Errors
/// [`QuantityError`] if the text is not a number of packets.
pub fn packets(text: &str) -> Result<u64, QuantityError> {
    let number = split(text, PACKETS)?;
    let packets = match number {
        (number, "pkt") => number.parse().ok(),
        _ => None,
    };
    packets
        .filter(|packets| *packets > 0)
        .ok_or_else(|| QuantityError::malformed(text, PACKETS))
}

/// A buffer: at least one packet or 1500 bytes, at most 10 million packets, 100 GB, 10,000 BDP or
/// 100 s. A time may have a bound in bytes before it: `10MB,250ms`.
///
/// # Errors
/// [`QuantityError`] if the text is not a buffer.
pub fn buffer(text: &str) -> Result<Buffer, QuantityError> {
    if let Some((most, time)) = text.split_once(',') {
        return match (buffer(most)?, buffer(time)?) {
            (Buffer::Bytes(bytes), Buffer::Time { time, .. }) => Ok(Buffer::Time { time, bytes }),
            _ => Err(QuantityError::malformed(text, BUFFER)),
        };
    }
    let (number, unit) = split(text, BUFFER)?;
    let buffer = match unit {
        "ns" | "us" | "ms" | "s" => {
            let ns = in_units(text, number, unit, TIMES, BUFFER)?;
            let time = Duration::from_nanos(ns);
            let bytes = u64::MAX;
            Some(Buffer::Time { time, bytes })
        }
        "pkt" => number.parse().ok().map(Buffer::Packets),
        "bdp" => scaled(number, 3).map(Buffer::MilliBdp),
        _ => Some(Buffer::Bytes(in_units(text, number, unit, SIZES, BUFFER)?)),
    };
    buffer
        .filter(|buffer| match buffer {
            Buffer::Packets(n) | Buffer::MilliBdp(n) => (1..=10_000_000).contains(n),
            Buffer::Bytes(n) => (1500..=100_000_000_000).contains(n),
            Buffer::Time { time, .. } => (MIN_TIME..=MAX_TIME).contains(time),
        })
        .ok_or_else(|| QuantityError::malformed(text, BUFFER))
}

/// A percentage.
///
/// # Errors
/// [`QuantityError`] if the text is not a percentage from 0 to 100.
pub fn probability(text: &str) -> Result<Probability, QuantityError> {
    let (number, unit) = split(text, PROBABILITY)?;
    (unit == "%")
        .then(|| scaled(number, 7))
        .flatten()
        .and_then(|ppb| Probability::from_ppb(u32::try_from(ppb).ok()?))
        .ok_or_else(|| QuantityError::malformed(text, PROBABILITY))
}

/// `true` or `false`.
///
/// # Errors
/// [`QuantityError`] if the text is neither.
pub fn boolean(text: &str) -> Result<bool, QuantityError> {
    text.trim()
        .parse()
        .map_err(|_| QuantityError::malformed(text, BOOLEAN))
}

/// A whole number from 1.
///
/// # Errors
/// [`QuantityError`] if the text is not a whole number from 1.
pub fn count(text: &str) -> Result<u64, QuantityError> {
    text.trim()
        .parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| QuantityError::malformed(text, COUNT))
}

/// A finite number above zero, without a unit.
///
/// # Errors
/// [`QuantityError`] if the text is not a finite number above zero.
pub fn factor(text: &str) -> Result<f64, QuantityError> {
    text.trim()
        .parse()
        .ok()
        .filter(|factor: &f64| *factor > 0.0 && factor.is_finite())
        .ok_or_else(|| QuantityError::malformed(text, FACTOR))
}

/// A time in the greatest unit that states it in whole numbers.
pub(crate) fn write_duration(f: &mut fmt::Formatter<'_>, time: Duration) -> fmt::Result {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    match ns {
        _ if ns.is_multiple_of(1_000_000) => write!(f, "{}ms", ns / 1_000_000),
        _ if ns.is_multiple_of(1_000) => write!(f, "{}us", ns / 1_000),
        _ => write!(f, "{ns}ns"),
    }
}

/// Splits a text into its number and its unit.
fn split<'t>(text: &'t str, expected: &'static str) -> Result<(&'t str, &'t str), QuantityError> {
    let text = text.trim();
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = unit.trim();
    if number.is_empty() {
        return Err(QuantityError::malformed(text, expected));
    }
    if unit.is_empty() {
        return Err(QuantityError {
            message: format!("`{number}` has no unit"),
            expected,
        });
    }
    Ok((number, unit))
}

fn in_units(
    text: &str,
    number: &str,
    unit: &str,
    units: Units,
    expected: &'static str,
) -> Result<u64, QuantityError> {
    let Some((_, scale)) = units.iter().find(|(known, _)| *known == unit) else {
        return Err(QuantityError {
            message: format!("`{unit}` is not a known unit"),
            expected,
        });
    };
    scaled(number, *scale).ok_or_else(|| QuantityError::malformed(text, expected))
}
