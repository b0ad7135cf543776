//! Fields of configurations: which quantity each takes, and how that is written.

use std::fmt;
use std::time::Duration;

use super::discipline::{QueueContext, QueueSpec, QueueSpecError};
use super::{Limit, MAX_WEIGHT, QueueConfig};
use crate::Probability;
use crate::decimal::Decimal;
use crate::quantity::{self, QuantityError};

/// A field of a configuration and the type of quantity that it takes.
pub(super) enum Field<'a> {
    Duration(&'a mut Duration),
    Period(&'a mut Duration),
    OptionalPeriod(&'a mut Option<Duration>),
    Bytes(&'a mut u64),
    PacketBytes(&'a mut u32),
    Packets(&'a mut u32),
    /// A count, at most the second value.
    Count(&'a mut u32, u32),
    Probability(&'a mut Probability),
    Boolean(&'a mut bool),
    Factor(&'a mut f64),
    Threshold(&'a mut Limit),
    Choice(&'a mut dyn Choice),
    Classes(&'a mut Vec<QueueConfig>),
    Weights(&'a mut Vec<u32>),
}

/// Named sets of values for a configuration.
pub(super) trait Choice {
    /// The names, for messages.
    fn expected(&self) -> &'static str;

    /// Takes the set of this name; `false` if there is none.
    fn choose(&mut self, name: &str) -> bool;
}

/// What a list of classes looks like in text.
const CLASSES: &str = "disciplines, the first served first, such as `droptail+fq_codel`";

/// What a list of weights looks like in text.
const WEIGHTS: &str = "whole numbers from 1 to 65535, one for each class, such as `3+1`";

impl Field<'_> {
    /// Sets the field from text.
    pub(super) fn set(self, text: &str, context: &QueueContext) -> Result<(), QuantityError> {
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        match self {
            Field::Duration(field) => *field = quantity::duration(text)?,
            Field::Period(field) => *field = quantity::period(text)?,
            Field::OptionalPeriod(field) => *field = Some(quantity::period(text)?),
            Field::Bytes(field) => *field = quantity::positive_bytes(text)?,
            Field::PacketBytes(field) => *field = narrow(quantity::positive_bytes(text)?),
            Field::Packets(field) => *field = narrow(quantity::packets(text)?),
            Field::Count(field, most) => match quantity::count(text)? {
                count if count <= u64::from(most) => *field = narrow(count),
                count => {
                    return Err(QuantityError {
                        message: format!("{count} is more than {most}"),
                        expected: quantity::COUNT,
                    });
                }
            },
            Field::Probability(field) => *field = quantity::probability(text)?,
            Field::Boolean(field) => *field = quantity::boolean(text)?,
            Field::Factor(field) => *field = quantity::factor(text)?,
            Field::Threshold(field) => {
                *field = quantity::buffer(text)?.limit(context.rate, context.rtt);
            }
            Field::Choice(choice) => {
                if !choice.choose(text.trim()) {
                    return Err(QuantityError {
                        message: format!("there is no `{text}`"),
                        expected: choice.expected(),
                    });
                }
            }
            Field::Weights(weights) => {
                let weight = |text: &str| match quantity::count(text) {
                    Ok(count) if count <= u64::from(MAX_WEIGHT) => Ok(narrow(count)),
                    _ => Err(QuantityError {
                        message: format!("`{text}` is not a weight"),
                        expected: WEIGHTS,
                    }),
                };
                *weights = text.split('+').map(weight).collect::<Result<_, _>>()?;
            }
            Field::Classes(classes) => {
                let class = |name: &str| {
                    let refused = |error: QueueSpecError| QuantityError {
                        message: error.to_string(),
                        expected: CLASSES,
                    };
                    let spec: QueueSpec = name.parse().map_err(refused)?;
                    spec.config(context).map_err(refused)
                };
                *classes = text.split('+').map(class).collect::<Result<_, _>>()?;
            }
        }
        Ok(())
    }

    /// What is accepted.
    pub(super) fn expected(&self) -> &'static str {
        match self {
            Field::Duration(_) | Field::Period(_) | Field::OptionalPeriod(_) => quantity::TIME,
            Field::Bytes(_) | Field::PacketBytes(_) => quantity::BYTES,
            Field::Packets(_) => quantity::PACKETS,
            Field::Count(..) => quantity::COUNT,
            Field::Probability(_) => quantity::PROBABILITY,
            Field::Boolean(_) => quantity::BOOLEAN,
            Field::Factor(_) => quantity::FACTOR,
            Field::Threshold(_) => quantity::BUFFER,
            Field::Choice(choice) => choice.expected(),
            Field::Classes(_) => CLASSES,
            Field::Weights(_) => WEIGHTS,
        }
    }
}

/// The value, as [`Field::set`] reads it; nothing for a value that has no text.
impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Duration(time) | Field::Period(time) => quantity::write_duration(f, **time),
            Field::OptionalPeriod(Some(time)) => quantity::write_duration(f, *time),
            Field::OptionalPeriod(None) => f.write_str("never"),
            Field::Bytes(bytes) => write!(f, "{bytes}B"),
            Field::PacketBytes(bytes) => write!(f, "{bytes}B"),
            Field::Packets(packets) => write!(f, "{packets}pkt"),
            Field::Count(count, _) => write!(f, "{count}"),
            Field::Probability(share) => write!(f, "{}%", Decimal(share.ppb().into(), 7)),
            Field::Boolean(value) => write!(f, "{value}"),
            Field::Factor(factor) => write!(f, "{factor}"),
            Field::Threshold(_) | Field::Choice(_) | Field::Classes(_) | Field::Weights(_) => {
                Ok(())
            }
        }
    }
}
