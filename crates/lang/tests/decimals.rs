//! Decimal constants are exact: the compiled program is checked against rational arithmetic.

use fairwater_lang::{Comparison, Expr, Stmt, compile};
use proptest::prelude::*;

/// The value assigned by the only statement of `(when true (:= x VALUE))`.
fn assigned(variable: &str, value: &str) -> Expr {
    let source = format!("(def (n 0) (b false)) (when true (:= {variable} {value}))");
    let program = match compile("decimals.ccp", &source) {
        Ok(compiled) => compiled.program,
        Err(errors) => panic!("{errors}"),
    };
    match program.events[0].body.as_slice() {
        [Stmt::Assign(_, value)] => value.clone(),
        other => panic!("{other:?}"),
    }
}

/// A decimal's text, and it times a million.
fn decimal() -> impl Strategy<Value = (String, u128)> {
    let short = (0..2000_u128, 0..20_u128).prop_map(|(whole, part)| (whole, part * 50_000));
    let long = (0..2000_u128, 0..1_000_000_u128);
    prop_oneof![short, long]
        .prop_map(|(whole, part)| (format!("{whole}.{part:06}"), whole * 1_000_000 + part))
}

fn holds(op: Comparison, left: u128, right: u128) -> bool {
    match op {
        Comparison::Eq => left == right,
        Comparison::Ne => left != right,
        Comparison::Lt => left < right,
        Comparison::Le => left <= right,
        Comparison::Gt => left > right,
        Comparison::Ge => left >= right,
    }
}

const OPERATORS: [(&str, Comparison); 6] = [
    ("==", Comparison::Eq),
    ("!=", Comparison::Ne),
    ("<", Comparison::Lt),
    ("<=", Comparison::Le),
    (">", Comparison::Gt),
    (">=", Comparison::Ge),
];

proptest! {
    #[test]
    fn comparisons((text, millionths) in decimal(), at in 0..6_usize, mirrored: bool, near in 0..4_u64) {
        let (operator, op) = OPERATORS[at];
        let n = u64::try_from(millionths / 1_000_000).unwrap().saturating_sub(1) + near;
        let source = if mirrored { format!("({operator} {text} n)") } else { format!("({operator} n {text})") };
        let meant = if mirrored {
            holds(op, millionths, u128::from(n) * 1_000_000)
        } else {
            holds(op, u128::from(n) * 1_000_000, millionths)
        };
        let said = match assigned("b", &source) {
            Expr::Const(b, _) => b == 1,
            Expr::Compare(op, left, right) => match (*left, *right) {
                (Expr::Place(_), Expr::Const(c, _)) => holds(op, n.into(), c.into()),
                (Expr::Const(c, _), Expr::Place(_)) => holds(op, c.into(), n.into()),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(said, meant, "{} for n = {}", source, n);
    }

    #[test]
    fn scaling((text, millionths) in decimal(), form in 0..3_u8) {
        prop_assume!(millionths % 1_000_000 != 0);
        let (source, up, down) = match form {
            0 => (format!("(* {text} n)"), millionths, 1_000_000),
            1 => (format!("(* n {text})"), millionths, 1_000_000),
            _ => (format!("(/ n {text})"), 1_000_000, millionths),
        };
        match assigned("n", &source) {
            Expr::Scale { num, den, .. } => prop_assert_eq!(u128::from(num) * down, u128::from(den) * up),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn folding((a, x) in decimal(), (b, y) in decimal(), at in 0..5_usize) {
        let million = 1_000_000_u128;
        prop_assume!(x % million != 0 && y % million != 0);
        // As fractions over 10¹².
        let (operator, exact) = match at {
            0 => ("+", (x + y) * million),
            1 => ("-", x.saturating_sub(y) * million),
            2 => ("*", x * y),
            3 => ("min", x.min(y) * million),
            _ => ("max", x.max(y) * million),
        };
        let source = format!("(def (n 0)) (when true (:= n (* ({operator} {a} {b}) n)))");
        let Ok(compiled) = compile("decimals.ccp", &source) else {
            // Only a product has digits enough not to fit.
            prop_assert_eq!(operator, "*");
            return Ok(());
        };
        let (num, den) = match &compiled.program.events[0].body[0] {
            Stmt::Assign(_, Expr::Scale { num, den, .. }) => (u128::from(*num), u128::from(*den)),
            Stmt::Assign(_, Expr::Binary(_, left, _)) => match **left {
                Expr::Const(whole, _) => (whole.into(), 1),
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(num * million * million, den * exact);
    }
}
