//! Constants that the one who compiles supplies.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use fairwater_lang::{ConstantValue, Program, compile, compile_with};

const SOURCE: &str = "(const (factor 0.5) (period_us 0) (fast false))
(def (when fast (steps 0)))
(when Flow.was_timeout (:= Cwnd (* factor Cwnd)))
(when fast (:= steps (+ steps 1)) (:= Cwnd (+ Cwnd steps)))
(when (> Micros (if (> period_us 0) period_us Flow.rtt_sample_us)) (report) (reset))";

fn with(constants: &[(&str, ConstantValue)]) -> Program {
    compile_with("p.ccp", SOURCE, constants).unwrap().program
}

fn plain(source: &str) -> Program {
    compile("p.ccp", source).unwrap().program
}

/// A program with constants is the program that is written without them.
#[test]
fn a_variant_is_what_would_be_written_by_hand() {
    assert_eq!(
        with(&[]),
        plain(
            "(when Flow.was_timeout (:= Cwnd (* 0.5 Cwnd)))
            (when (> Micros Flow.rtt_sample_us) (report) (reset))"
        )
    );
    let given = [
        ("factor", 0.7.into()),
        ("period_us", 500.into()),
        ("fast", true.into()),
    ];
    assert_eq!(
        with(&given),
        plain(
            "(def (steps 0))
            (when Flow.was_timeout (:= Cwnd (* 0.7 Cwnd)))
            (when true (:= steps (+ steps 1)) (:= Cwnd (+ Cwnd steps)))
            (when (> Micros 500) (report) (reset))"
        )
    );
}

#[test]
fn a_whole_number_may_stand_for_a_decimal() {
    assert_eq!(
        with(&[("factor", 2.into())]),
        with(&[("factor", 2.0.into())])
    );
}

#[test]
fn an_unknown_name_or_another_type_is_refused() {
    for (given, expected) in [
        (("factr", 1.into()), "did you mean `factor`?"),
        (
            ("fast", 1.into()),
            "`fast` is a boolean, and was given a number",
        ),
        (
            ("factor", true.into()),
            "`factor` is a number, and was given a boolean",
        ),
    ] {
        let errors = compile_with("p.ccp", SOURCE, &[given])
            .unwrap_err()
            .to_string();
        assert!(errors.contains(expected), "{errors}");
    }
}

/// What a value cannot be is said where the constant is used.
#[test]
fn a_value_out_of_bounds_is_explained_where_it_is_used() {
    for value in [f64::NAN, -1.0, 1e300, 0.123_456_7] {
        let result = compile_with("p.ccp", SOURCE, &[("factor", value.into())]);
        assert_eq!(result.is_ok(), value == 0.123_456_7, "{value}");
    }
}

#[test]
fn an_unused_constant_is_warned_of() {
    let compiled = compile("p.ccp", "(const (x 1)) (when true (report))").unwrap();
    assert!(compiled.warnings.to_string().contains("`x` is never used"));
}
