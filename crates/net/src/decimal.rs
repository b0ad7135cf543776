//! Decimal numbers held exactly, as integers scaled by a power of ten.

use std::fmt;

/// Parses digits with an optional fraction into the value times 10^`scale`. `None` when the text
/// is no such number, has more than `scale` digits after the point, or does not fit.
pub(crate) fn scaled(text: &str, scale: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let well_formed =
        !whole.is_empty() && digits(whole) && digits(fraction) && !text.ends_with('.');
    if !well_formed || fraction.len() > scale {
        return None;
    }
    format!("{whole}{fraction:0<scale$}").parse().ok()
}

/// Writes an integer scaled by 10^`.1` so that [`scaled`] reads it back.
pub(crate) struct Decimal(pub(super) u64, pub(super) u32);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10u64.pow(self.1);
        let (whole, fraction) = (self.0 / unit, self.0 % unit);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let fraction = format!("{fraction:0width$}", width = self.1 as usize);
        write!(f, "{whole}.{}", fraction.trim_end_matches('0'))
    }
}
