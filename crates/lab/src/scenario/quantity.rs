//! Quantities as a scenario states them: always with their units, held exactly.

use std::time::Duration;

use fairwater_net::{Probability, Rate};

use super::fields::Wrong;
use super::tree::{Node, Value};

const TIME: &str = "a time such as `20ms`, in `ns`, `us`, `ms`, `s` or `min`";
const RATE: &str = "a rate such as `48mbit`, in `bit`, `kbit`, `mbit` or `gbit` (per second)";
const SIZE: &str = "a size such as `100kB`, in `B`, `kB`, `MB` or `GB`, or in segments: `10pkt`";
const BUFFER: &str = "a buffer such as `160pkt`, `100kB` or `1bdp`";
const SHARE: &str = "a percentage from `0%` to `100%`, such as `0.01%`";

/// Units and the power of ten of the smallest one that each is.
type Units = &'static [(&'static str, usize)];

const TIMES: Units = &[("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
const RATES: Units = &[("bit", 0), ("kbit", 3), ("mbit", 6), ("gbit", 9)];
const SIZES: Units = &[("B", 0), ("kB", 3), ("MB", 6), ("GB", 9)];

/// The greatest size, 1 PB: sums of sizes must fit as well.
const MAX_BYTES: u64 = 1_000_000_000_000_000;

/// A size in bytes, or in segments of whatever their size is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Bytes(u64),
    Segments(u64),
}

impl Size {
    /// Bytes, with segments of `mss`.
    pub(super) fn bytes(self, mss: u32) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Segments(segments) => segments.saturating_mul(mss.into()),
        }
    }
}

pub(super) fn duration(node: &Node) -> Result<Duration, Wrong> {
    let (number, unit) = split(node, TIME)?;
    if unit == "min" {
        let minutes: Option<u64> = number.parse().ok().filter(|n| *n < 1_000_000);
        return minutes
            .map(|minutes| Duration::from_secs(minutes * 60))
            .ok_or_else(|| refused(node, TIME));
    }
    let ns = in_units(node, number, unit, TIMES, TIME)?;
    Ok(Duration::from_nanos(ns))
}

/// A time above zero.
pub(super) fn period(node: &Node) -> Result<Duration, Wrong> {
    let duration = duration(node)?;
    if duration.is_zero() {
        return Err(Wrong {
            message: "it must be more than zero".to_owned(),
            allowed: TIME.to_owned(),
        });
    }
    Ok(duration)
}

pub(super) fn rate(node: &Node) -> Result<Rate, Wrong> {
    let (number, unit) = split(node, RATE)?;
    let bps = in_units(node, number, unit, RATES, RATE)?;
    Rate::from_bps(bps)
        .filter(|rate| rate.bps() <= 10_000_000_000_000)
        .ok_or_else(|| refused(node, RATE))
}

pub(super) fn size(node: &Node) -> Result<Size, Wrong> {
    let (number, unit) = split(node, SIZE)?;
    if unit == "pkt" {
        let segments = number.parse().ok();
        let segments = segments.filter(|n| (1..=MAX_BYTES / 65_536).contains(n));
        return segments
            .map(Size::Segments)
            .ok_or_else(|| refused(node, SIZE));
    }
    match in_units(node, number, unit, SIZES, SIZE)? {
        0 => Err(refused(node, SIZE)),
        bytes if bytes > MAX_BYTES => Err(refused(node, SIZE)),
        bytes => Ok(Size::Bytes(bytes)),
    }
}

/// A number of packets above zero: `10pkt`.
pub(super) fn packets(node: &Node) -> Result<u64, Wrong> {
    const ALLOWED: &str = "a number of packets such as `10pkt`";
    match split(node, ALLOWED)? {
        (number, "pkt") => {
            let packets = number.parse().ok();
            let packets = packets.filter(|packets| *packets > 0);
            packets.ok_or_else(|| refused(node, ALLOWED))
        }
        _ => Err(refused(node, ALLOWED)),
    }
}

/// A size in bytes alone: `1448B`.
pub(super) fn bytes(node: &Node) -> Result<u64, Wrong> {
    const ALLOWED: &str = "a size such as `100kB`, in `B`, `kB`, `MB` or `GB`";
    let (number, unit) = split(node, ALLOWED)?;
    let bytes = in_units(node, number, unit, SIZES, ALLOWED)?;
    (bytes <= MAX_BYTES)
        .then_some(bytes)
        .ok_or_else(|| refused(node, ALLOWED))
}

/// The same, above zero.
pub(super) fn some_bytes(node: &Node) -> Result<u64, Wrong> {
    match bytes(node)? {
        0 => Err(Wrong {
            message: "it must be more than zero".to_owned(),
            allowed: "a size such as `1500B`".to_owned(),
        }),
        bytes => Ok(bytes),
    }
}

/// How much a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Buffer {
    Packets(u64),
    Bytes(u64),
    /// Thousandths of the bandwidth-delay product.
    MilliBdp(u64),
}

pub(super) fn buffer(node: &Node) -> Result<Buffer, Wrong> {
    let (number, unit) = split(node, BUFFER)?;
    let buffer = match unit {
        "pkt" => number.parse().ok().map(Buffer::Packets),
        "bdp" => scaled(number, 3).map(Buffer::MilliBdp),
        _ => Some(Buffer::Bytes(in_units(node, number, unit, SIZES, BUFFER)?)),
    };
    buffer
        .filter(|buffer| match buffer {
            Buffer::Packets(n) | Buffer::MilliBdp(n) => (1..=10_000_000).contains(n),
            Buffer::Bytes(n) => (1500..=100_000_000_000).contains(n),
        })
        .ok_or_else(|| refused(node, BUFFER))
}

/// A percentage.
pub(super) fn probability(node: &Node) -> Result<Probability, Wrong> {
    let (number, unit) = split(node, SHARE)?;
    (unit == "%")
        .then(|| scaled(number, 7))
        .flatten()
        .and_then(|ppb| Probability::from_ppb(u32::try_from(ppb).ok()?))
        .ok_or_else(|| refused(node, SHARE))
}

pub(super) fn text(node: &Node) -> Result<String, Wrong> {
    match &node.value {
        Value::Text(text) if !text.is_empty() => Ok(text.clone()),
        _ => Err(Wrong::kind(node, "a text")),
    }
}

pub(super) fn boolean(node: &Node) -> Result<bool, Wrong> {
    match node.value {
        Value::Boolean(value) => Ok(value),
        _ => Err(Wrong::kind(node, "`true` or `false`")),
    }
}

/// A whole number from 0.
pub(super) fn integer(node: &Node) -> Result<u64, Wrong> {
    match node.value {
        Value::Integer(number) if number >= 0 => Ok(number.unsigned_abs()),
        _ => Err(Wrong {
            message: "it is no whole number from 0".to_owned(),
            allowed: "a whole number".to_owned(),
        }),
    }
}

/// A whole number from 1.
pub(super) fn count(node: &Node) -> Result<u64, Wrong> {
    match integer(node) {
        Ok(0) | Err(_) => Err(Wrong {
            message: "it is no whole number from 1".to_owned(),
            allowed: "a count such as `50`".to_owned(),
        }),
        found => found,
    }
}

/// A number above 0, whole or not.
pub(super) fn positive(node: &Node) -> Result<f64, Wrong> {
    let number = match node.value {
        Value::Integer(number) => number as f64,
        Value::Float(number) => number,
        _ => f64::NAN,
    };
    if number > 0.0 {
        Ok(number)
    } else {
        Err(Wrong {
            message: "it is no number above 0".to_owned(),
            allowed: "a number such as `0.8`".to_owned(),
        })
    }
}

/// A quantity's number and its unit.
fn split<'n>(node: &'n Node, allowed: &str) -> Result<(&'n str, &'n str), Wrong> {
    let Value::Text(text) = &node.value else {
        if let Value::Integer(_) | Value::Float(_) = node.value {
            return Err(no_unit(&node.plain().unwrap_or_default(), allowed));
        }
        return Err(Wrong::kind(node, allowed));
    };
    let text = text.trim();
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = unit.trim();
    if number.is_empty() {
        return Err(refused(node, allowed));
    }
    if unit.is_empty() {
        return Err(no_unit(number, allowed));
    }
    Ok((number, unit))
}

fn no_unit(number: &str, allowed: &str) -> Wrong {
    Wrong {
        message: format!("{number} has no unit"),
        allowed: allowed.to_owned(),
    }
}

fn refused(node: &Node, allowed: &str) -> Wrong {
    let found = node.plain().unwrap_or_default();
    Wrong {
        message: format!("`{found}` is none of what can be had"),
        allowed: allowed.to_owned(),
    }
}

fn in_units(
    node: &Node,
    number: &str,
    unit: &str,
    units: Units,
    allowed: &str,
) -> Result<u64, Wrong> {
    let Some((_, scale)) = units.iter().find(|(known, _)| *known == unit) else {
        return Err(Wrong {
            message: format!("`{unit}` is no unit that is known here"),
            allowed: allowed.to_owned(),
        });
    };
    scaled(number, *scale).ok_or_else(|| refused(node, allowed))
}

/// Digits with an optional fraction, times 10^`scale`; `None` when it is no such number, is not
/// whole then, or does not fit.
fn scaled(text: &str, scale: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > scale {
        return None;
    }
    format!("{whole}{fraction:0<scale$}").parse().ok()
}
