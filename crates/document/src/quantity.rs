//! Quantities as a document states them: always with their units, held exactly.

use std::time::Duration;

use fairwater_net::quantity::{self, QuantityError};
use fairwater_net::{Buffer, Probability, Rate};

use crate::fields::InvalidValue;
use crate::tree::{Node, Value};

const SIZE: &str = "a size such as `100kB`, in `B`, `kB`, `MB` or `GB`, or in segments: `10pkt`";

/// A size in bytes, or in segments of whatever their size is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Segments.
    Segments(u64),
}

impl Size {
    /// Bytes, with segments of `mss`.
    #[must_use]
    pub fn bytes(self, mss: u32) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Segments(segments) => segments.saturating_mul(mss.into()),
        }
    }
}

/// Reads a quantity that is stated as text.
fn stated<T>(
    node: &Node,
    expected: &str,
    read: fn(&str) -> Result<T, QuantityError>,
) -> Result<T, InvalidValue> {
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        // A number without its unit.
        Value::Integer(_) | Value::Float(_) => node.plain().unwrap_or_default(),
        _ => return Err(InvalidValue::kind(node, expected)),
    };
    read(&text).map_err(|error| InvalidValue {
        message: error.message,
        allowed: error.expected.to_owned(),
    })
}

/// A time: `20ms`.
///
/// # Errors
/// What is wrong with it.
pub fn duration(node: &Node) -> Result<Duration, InvalidValue> {
    stated(node, quantity::TIME, quantity::duration)
}

/// A time above zero.
///
/// # Errors
/// What is wrong with it.
pub fn period(node: &Node) -> Result<Duration, InvalidValue> {
    stated(node, quantity::TIME, quantity::period)
}

/// A rate: `24mbit`.
///
/// # Errors
/// What is wrong with it.
pub fn rate(node: &Node) -> Result<Rate, InvalidValue> {
    stated(node, quantity::RATE, quantity::rate)
}

/// A [`Size`] above zero.
///
/// # Errors
/// What is wrong with it.
pub fn size(node: &Node) -> Result<Size, InvalidValue> {
    let read = match &node.value {
        Value::Text(text) if text.trim().ends_with("pkt") => packets(node).map(Size::Segments),
        _ => some_bytes(node).map(Size::Bytes),
    };
    // Segments are at most as many bytes as sizes can have.
    match read {
        Ok(Size::Segments(segments)) if segments > quantity::MAX_BYTES / 65_536 => {
            Err(InvalidValue {
                message: format!("`{}` is out of range", node.plain().unwrap_or_default()),
                allowed: SIZE.to_owned(),
            })
        }
        other => other.map_err(|invalid| InvalidValue {
            allowed: SIZE.to_owned(),
            ..invalid
        }),
    }
}

/// A number of packets above zero: `10pkt`.
///
/// # Errors
/// What is wrong with it.
pub fn packets(node: &Node) -> Result<u64, InvalidValue> {
    stated(node, quantity::PACKETS, quantity::packets)
}

/// A size in bytes alone: `1448B`.
///
/// # Errors
/// What is wrong with it.
pub fn bytes(node: &Node) -> Result<u64, InvalidValue> {
    stated(node, quantity::BYTES, quantity::bytes)
}

/// The same, above zero.
///
/// # Errors
/// What is wrong with it.
pub fn some_bytes(node: &Node) -> Result<u64, InvalidValue> {
    stated(node, quantity::BYTES, quantity::positive_bytes)
}

/// How much a queue holds.
///
/// # Errors
/// What is wrong with it.
pub fn buffer(node: &Node) -> Result<Buffer, InvalidValue> {
    stated(node, quantity::BUFFER, quantity::buffer)
}

/// A percentage.
///
/// # Errors
/// What is wrong with it.
pub fn probability(node: &Node) -> Result<Probability, InvalidValue> {
    stated(node, quantity::PROBABILITY, quantity::probability)
}

/// A text that is not empty.
///
/// # Errors
/// What is wrong with it.
pub fn text(node: &Node) -> Result<String, InvalidValue> {
    match &node.value {
        Value::Text(text) if !text.is_empty() => Ok(text.clone()),
        _ => Err(InvalidValue::kind(node, "a text")),
    }
}

/// A truth value.
///
/// # Errors
/// What is wrong with it.
pub fn boolean(node: &Node) -> Result<bool, InvalidValue> {
    match node.value {
        Value::Boolean(value) => Ok(value),
        _ => Err(InvalidValue::kind(node, "`true` or `false`")),
    }
}

/// A whole number from 0.
///
/// # Errors
/// What is wrong with it.
pub fn integer(node: &Node) -> Result<u64, InvalidValue> {
    match node.value {
        Value::Integer(number) if number >= 0 => Ok(number.unsigned_abs()),
        _ => Err(InvalidValue {
            message: "it is not a whole number from 0".to_owned(),
            allowed: "a whole number".to_owned(),
        }),
    }
}

/// A whole number from 1.
///
/// # Errors
/// What is wrong with it.
pub fn count(node: &Node) -> Result<u64, InvalidValue> {
    match integer(node) {
        Ok(0) | Err(_) => Err(InvalidValue {
            message: "it is not a whole number from 1".to_owned(),
            allowed: "a count such as `50`".to_owned(),
        }),
        found => found,
    }
}

/// A number above 0, whole or not.
///
/// # Errors
/// What is wrong with it.
pub fn positive(node: &Node) -> Result<f64, InvalidValue> {
    let number = match node.value {
        Value::Integer(number) => number as f64,
        Value::Float(number) => number,
        _ => f64::NAN,
    };
    if number > 0.0 {
        Ok(number)
    } else {
        Err(InvalidValue {
            message: "it is not a number above 0".to_owned(),
            allowed: "a number such as `0.8`".to_owned(),
        })
    }
}
