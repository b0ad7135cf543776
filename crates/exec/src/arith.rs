//! Arithmetic of the language: every operation is total and never traps.

use fairwater_lang::{Binary, Comparison};

/// The value of a binary operation (see [`Binary`] for each one's edges).
#[must_use]
pub const fn binary(op: Binary, left: u64, right: u64) -> u64 {
    match op {
        Binary::Add => left.saturating_add(right),
        Binary::Sub => left.saturating_sub(right),
        Binary::Mul => left.saturating_mul(right),
        Binary::Div => match left.checked_div(right) {
            Some(quotient) => quotient,
            None => 0,
        },
        Binary::Min => {
            if left < right {
                left
            } else {
                right
            }
        }
        Binary::Max => {
            if left > right {
                left
            } else {
                right
            }
        }
        Binary::WrappedMax => {
            // The sign of the difference modulo 2³² tells which is later (RFC 9293 §3.4).
            if (left.wrapping_sub(right) as u32).cast_signed() >= 0 {
                left
            } else {
                right
            }
        }
    }
}

/// Whether a comparison holds.
#[must_use]
pub const fn compare(op: Comparison, left: u64, right: u64) -> bool {
    match op {
        Comparison::Eq => left == right,
        Comparison::Ne => left != right,
        Comparison::Lt => left < right,
        Comparison::Le => left <= right,
        Comparison::Gt => left > right,
        Comparison::Ge => left >= right,
    }
}

/// `floor(value × num / den)`, saturating at `u64::MAX`; 0 when `den` is 0.
#[must_use]
pub const fn scale(value: u64, num: u32, den: u32) -> u64 {
    match (value as u128 * num as u128).checked_div(den as u128) {
        None => 0,
        Some(scaled) if scaled > u64::MAX as u128 => u64::MAX,
        Some(scaled) => scaled as u64,
    }
}

/// `floor((weight·old + (10 − weight)·new) / 10)`, exact, or `new` when `old` is 0: libccp's EWMA,
/// weights in tenths. A weight above 10 counts as 10.
#[must_use]
pub const fn ewma(weight: u64, old: u64, new: u64) -> u64 {
    if old == 0 {
        return new;
    }
    let weight = if weight < 10 { weight as u128 } else { 10 };
    ((weight * old as u128 + (10 - weight) * new as u128) / 10) as u64
}

/// What an assignment of `value` to `Micros` makes the timer read, µs: at most 2⁶³, so that it
/// does not wrap around in 292,000 years.
#[must_use]
pub const fn timer(value: u64) -> u64 {
    if value < MAX_TIMER { value } else { MAX_TIMER }
}

/// The most that the timer can be set to, µs.
pub const MAX_TIMER: u64 = 1 << 63;
