//! Arithmetic against definitions in wider integers.

use fairwater_exec::arith::{binary, compare, ewma, scale};
use fairwater_lang::{Binary, Comparison};
use proptest::prelude::*;

const MAX: u64 = u64::MAX;

/// Numbers of every magnitude, edges included.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0..64_u32, any::<u64>()).prop_map(|(bits, n)| n >> bits),
        (0..64_u32, -2..3_i64).prop_map(|(bits, off)| (1_u64 << bits).wrapping_add_signed(off)),
        Just(0),
        Just(MAX),
    ]
}

fn saturated(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(MAX)
}

#[test]
fn operators_at_their_edges() {
    for (op, left, right, expected) in [
        (Binary::Add, MAX, 1, MAX),
        (Binary::Add, 1 << 63, 1 << 63, MAX),
        (Binary::Sub, 0, 1, 0),
        (Binary::Sub, 5, 5, 0),
        (Binary::Mul, 1 << 32, 1 << 32, MAX),
        (Binary::Mul, MAX, 0, 0),
        (Binary::Mul, (1 << 32) - 1, (1 << 32) + 1, MAX),
        (Binary::Div, 7, 2, 3),
        (Binary::Div, MAX, 0, 0),
        (Binary::Min, MAX, 3, 3),
        (Binary::Max, 0, 3, 3),
        // 0 follows 2³² - 1.
        (Binary::WrappedMax, 0, u64::from(u32::MAX), 0),
        (Binary::WrappedMax, u64::from(u32::MAX), 0, 0),
        (Binary::WrappedMax, 5, 3, 5),
        (Binary::WrappedMax, (9 << 32) + 3, 5, 5),
        // Half the circle apart, neither is later: by the sign, right.
        (Binary::WrappedMax, 1 << 31, 0, 0),
    ] {
        assert_eq!(binary(op, left, right), expected, "{op:?} {left} {right}");
    }
}

#[test]
fn scaling_at_its_edges() {
    assert_eq!(scale(3, 5, 4), 3);
    assert_eq!(scale(MAX, 5, 4), MAX);
    assert_eq!(scale(MAX, 3, 4), 0xbfff_ffff_ffff_ffff);
    assert_eq!(scale(MAX, u32::MAX, u32::MAX), MAX);
    assert_eq!(scale(MAX, 1, u32::MAX), (1 << 32) + 1);
    assert_eq!(scale(7, 1, 0), 0);
}

#[test]
fn averages_at_their_edges() {
    assert_eq!(ewma(9, 0, 700), 700);
    assert_eq!(ewma(9, 100, 200), 110);
    assert_eq!(ewma(0, 100, 200), 200);
    assert_eq!(ewma(10, 100, 200), 100);
    assert_eq!(ewma(12, 100, 200), 100);
    assert_eq!(ewma(5, MAX, MAX), MAX);
    assert_eq!(ewma(MAX, MAX, 1), MAX);
}

proptest! {
    #[test]
    fn sums_products_and_differences_are_exact_or_saturate(a in number(), b in number()) {
        let (wide_a, wide_b) = (u128::from(a), u128::from(b));
        prop_assert_eq!(binary(Binary::Add, a, b), saturated(wide_a + wide_b));
        prop_assert_eq!(binary(Binary::Mul, a, b), saturated(wide_a * wide_b));
        prop_assert_eq!(binary(Binary::Sub, a, b), saturated(wide_a.saturating_sub(wide_b)));
    }

    #[test]
    fn a_quotient_is_the_largest_that_fits(a in number(), b in number()) {
        let quotient = u128::from(binary(Binary::Div, a, b));
        if b == 0 {
            prop_assert_eq!(quotient, 0);
        } else {
            prop_assert!(quotient * u128::from(b) <= u128::from(a));
            prop_assert!((quotient + 1) * u128::from(b) > u128::from(a));
        }
    }

    #[test]
    fn a_scaled_value_is_the_largest_below_the_exact_one(
        value in number(),
        num in any::<u32>(),
        den in 1..=u32::MAX,
    ) {
        let scaled = scale(value, num, den);
        let exact = u128::from(value) * u128::from(num);
        prop_assert!(u128::from(scaled) * u128::from(den) <= exact);
        prop_assert!(scaled == MAX || (u128::from(scaled) + 1) * u128::from(den) > exact);
    }

    #[test]
    fn extremes_are_one_of_both(a in number(), b in number()) {
        let (least, most) = (binary(Binary::Min, a, b), binary(Binary::Max, a, b));
        prop_assert!(least <= a && least <= b && (least == a || least == b));
        prop_assert!(most >= a && most >= b && (most == a || most == b));
    }

    #[test]
    fn the_later_sequence_number_moves_with_the_circle(
        at in any::<u32>(),
        ahead in 1..1_u32 << 31,
    ) {
        let earlier = u64::from(at);
        let later = u64::from(at.wrapping_add(ahead));
        prop_assert_eq!(binary(Binary::WrappedMax, earlier, later), later);
        prop_assert_eq!(binary(Binary::WrappedMax, later, earlier), later);
    }

    #[test]
    fn an_average_is_exact_and_lies_between_old_and_new(
        weight in number(),
        old in number().prop_filter("0 is no average", |old| *old > 0),
        new in number(),
    ) {
        let average = ewma(weight, old, new);
        let weight = u128::from(weight.min(10));
        let tenths = weight * u128::from(old) + (10 - weight) * u128::from(new);
        prop_assert_eq!(u128::from(average), tenths / 10);
        prop_assert!(average >= old.min(new) && average <= old.max(new));
    }

    #[test]
    fn comparisons_are_those_of_numbers(a in number(), b in number()) {
        let holds = [
            (Comparison::Eq, a == b),
            (Comparison::Ne, a != b),
            (Comparison::Lt, a < b),
            (Comparison::Le, a <= b),
            (Comparison::Gt, a > b),
            (Comparison::Ge, a >= b),
        ];
        for (op, expected) in holds {
            prop_assert_eq!(compare(op, a, b), expected, "{:?}", op);
        }
    }
}
