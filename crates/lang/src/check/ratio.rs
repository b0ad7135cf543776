//! Decimal constants as exact fractions.
//!
//! Datapaths have no floating point (CCP §5.2), so `1.25` is the fraction 5/4: constants fold
//! exactly, and a program only ever scales by a reduced fraction of two 32-bit numbers.

use std::cmp::Ordering;

use crate::program::{Binary, Comparison};

/// A constant known at compile time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Constant {
    Whole(u64),
    Fraction(Ratio),
}

/// A reduced fraction that is no whole number: `den ≥ 2`, `num ≥ 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio {
    pub(super) num: u32,
    pub(super) den: u32,
}

/// The reduced fraction exceeds [`MAX_RATIO`](crate::bounds::MAX_RATIO), or the whole number 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutOfBounds;

impl Ratio {
    /// The whole part.
    pub(super) fn floor(self) -> u64 {
        u64::from(self.num / self.den)
    }
}

impl Constant {
    /// The value of `digits.digits`.
    pub(super) fn parse(text: &str) -> Result<Self, OutOfBounds> {
        let (whole, part) = text.split_once('.').ok_or(OutOfBounds)?;
        let part = part.trim_end_matches('0');
        let digits = u32::try_from(part.len()).map_err(|_| OutOfBounds)?;
        let den = 10_u128.checked_pow(digits).ok_or(OutOfBounds)?;
        let whole: u128 = whole.parse().map_err(|_| OutOfBounds)?;
        let part: u128 = if part.is_empty() {
            0
        } else {
            part.parse().map_err(|_| OutOfBounds)?
        };
        let num = whole
            .checked_mul(den)
            .and_then(|w| w.checked_add(part))
            .ok_or(OutOfBounds)?;
        Self::reduce(num, den)
    }

    /// `num / den` in lowest terms; `den ≥ 1`.
    fn reduce(num: u128, den: u128) -> Result<Self, OutOfBounds> {
        let divisor = gcd(num, den);
        let (num, den) = (num / divisor, den / divisor);
        if den == 1 {
            return u64::try_from(num).map(Self::Whole).map_err(|_| OutOfBounds);
        }
        match (u32::try_from(num), u32::try_from(den)) {
            (Ok(num), Ok(den)) => Ok(Self::Fraction(Ratio { num, den })),
            _ => Err(OutOfBounds),
        }
    }

    fn parts(self) -> (u128, u128) {
        match self {
            Self::Whole(n) => (n.into(), 1),
            Self::Fraction(Ratio { num, den }) => (num.into(), den.into()),
        }
    }

    /// The exact result of an operation of which at least one side is a fraction; `None` if the
    /// operation has no meaning on fractions.
    pub(super) fn fold(op: Binary, left: Self, right: Self) -> Option<Result<Self, OutOfBounds>> {
        let ((a, b), (c, d)) = (left.parts(), right.parts());
        let result = match op {
            Binary::Add => Self::reduce(a * d + c * b, b * d),
            Binary::Sub => Self::reduce((a * d).saturating_sub(c * b), b * d),
            Binary::Mul => Self::reduce(a * c, b * d),
            Binary::Div if c == 0 => Ok(Self::Whole(0)),
            Binary::Div => Self::reduce(a * d, b * c),
            Binary::Min => Ok(if left.order(right).is_le() {
                left
            } else {
                right
            }),
            Binary::Max => Ok(if left.order(right).is_ge() {
                left
            } else {
                right
            }),
            Binary::WrappedMax => return None,
        };
        Some(result)
    }

    /// Whether the comparison holds.
    pub(super) fn compare(op: Comparison, left: Self, right: Self) -> bool {
        let order = left.order(right);
        match op {
            Comparison::Eq => order.is_eq(),
            Comparison::Ne => order.is_ne(),
            Comparison::Lt => order.is_lt(),
            Comparison::Le => order.is_le(),
            Comparison::Gt => order.is_gt(),
            Comparison::Ge => order.is_ge(),
        }
    }

    fn order(self, other: Self) -> Ordering {
        let ((a, b), (c, d)) = (self.parts(), other.parts());
        (a * d).cmp(&(c * b))
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// Result of a comparison of a whole number with a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecimalComparison {
    /// A whole number is never equal to a fraction.
    Always(bool),
    /// The same comparison with a whole number.
    Whole(Comparison, u64),
}

/// `x op ratio` for a whole number `x`, exactly.
pub(super) fn compare_with_ratio(op: Comparison, ratio: Ratio) -> DecimalComparison {
    match op {
        Comparison::Eq => DecimalComparison::Always(false),
        Comparison::Ne => DecimalComparison::Always(true),
        Comparison::Gt | Comparison::Ge => DecimalComparison::Whole(Comparison::Gt, ratio.floor()),
        Comparison::Lt | Comparison::Le => DecimalComparison::Whole(Comparison::Le, ratio.floor()),
    }
}
