//! Programs as large as the language lets them be.

use super::Agree;
use super::edges::{EDGES, program};
use fairwater_exec::interp::{Input, Stage};
use fairwater_lang::bounds::{MAX_DEPTH, MAX_NODES, MAX_VARIABLES};
use fairwater_lang::{Signal, Type, VarId};

/// Agrees on the program, which takes nearly all that a bound allows, with every control
/// variable updated now and then.
fn agree_at_bound(agree: Agree, source: &str) {
    let program = program(source);
    let variables = program.variables.len() as u16;
    let start = Stage {
        switch: Some(&program),
        ..Stage::default()
    };
    let update = Stage {
        updates: (0..variables)
            .map(|i| (VarId(i), EDGES[usize::from(i) % EDGES.len()]))
            .collect(),
        ..Stage::default()
    };
    let stream: Vec<_> = (0..200_u64)
        .map(|i| Input {
            signals: Signal::ALL
                .into_iter()
                .map(|signal| {
                    let value = match i % 3 {
                        _ if signal.ty() == Type::Bool => i % 2,
                        0 => EDGES[(signal as usize + i as usize) % EDGES.len()],
                        _ => 1000 * i + signal as u64,
                    };
                    (signal, value)
                })
                .collect(),
            cwnd: 14480,
            rate: 1_000_000,
            stage: match i % 50 {
                20 => Some(&start),
                30 => Some(&update),
                _ => None,
            },
        })
        .collect();
    if let Err(difference) = agree(&[&program], &stream) {
        let shown: String = difference.chars().take(4000).collect();
        panic!("{shown}");
    }
}

/// An expression of 2ⁿ leaves, all joined by operators that saturate or choose.
fn balanced(levels: u32, seed: usize) -> String {
    const OPERATORS: [&str; 7] = ["+", "-", "*", "min", "max", "wrapped_max", "+"];
    const LEAVES: [&str; 8] = [
        "Cwnd",
        "3",
        "Ack.bytes_acked",
        "18446744073709551615",
        "Micros",
        "5",
        "Report.x",
        "Flow.rtt_sample_us",
    ];
    if levels == 0 {
        return LEAVES[seed % LEAVES.len()].into();
    }
    let (left, right) = (2 * seed + 1, 3 * seed + 2);
    let left = balanced(levels - 1, left);
    let right = balanced(levels - 1, right);
    match seed % 9 {
        7 => format!("(if (< {left} 7) 1 {right})"),
        8 => format!("(* 1.25 (+ {left} {right}))"),
        op => format!("({} {left} {right})", OPERATORS[op]),
    }
}

pub(crate) fn as_many_variables_as_there_may_be(agree: Agree) {
    let half = MAX_VARIABLES / 2;
    let reports: String = (0..half).map(|i| format!("(volatile r{i} {i})")).collect();
    let controls: String = (0..half)
        .map(|i| format!("(c{i} {})", u64::MAX - i as u64))
        .collect();
    let copies: String = (0..half)
        .map(|i| format!("(:= Report.r{i} (+ Report.r{i} c{}))", half - 1 - i))
        .collect();
    agree_at_bound(
        agree,
        &format!("(def (Report {reports}) {controls}) (when true {copies} (report))"),
    );
}

pub(crate) fn one_expression_of_as_many_nodes_as_there_may_be(agree: Agree) {
    for seed in 0..9 {
        let value = balanced(MAX_NODES.ilog2() - 2, seed);
        agree_at_bound(
            agree,
            &format!("(def (Report (x 0))) (when true (:= Report.x {value}) (report))"),
        );
    }
}

pub(crate) fn sums_of_choices_between_constants(agree: Agree) {
    // Were the kernel's verifier to follow values, it would meet each of 2ᵏ sums.
    let choices: String = (0..MAX_DEPTH - 16)
        .map(|i| {
            format!(
                " (if (> Ack.bytes_acked {i}) {} (min Cwnd {i}))",
                1_u64 << (i % 64)
            )
        })
        .collect();
    let sums = format!("(:= Report.x (* 3 (+{choices})))").repeat(MAX_NODES / 128 / 9);
    agree_at_bound(
        agree,
        &format!("(def (Report (x 0))) (when true {sums} (report))"),
    );
}

pub(crate) fn expressions_as_deep_as_they_may_be(agree: Agree) {
    for form in [
        "(+ Cwnd ",
        "(- 9 ",
        "(* 0.75 ",
        "(ewma 3 ",
        "(if (> Rate 3) 7 ",
    ] {
        let levels = MAX_DEPTH - 8;
        let value = format!("{}Micros{}", form.repeat(levels), ")".repeat(levels));
        agree_at_bound(
            agree,
            &format!("(def (Report (x 0))) (when true (:= Report.x {value}) (report))"),
        );
    }
}

pub(crate) fn branches_as_deep_and_as_many_as_there_may_be(agree: Agree) {
    let levels = MAX_DEPTH - 8;
    let deep: String = (0..levels)
        .map(|i| format!("(:= Cwnd {i}) (when (> Ack.bytes_acked (+ Cwnd {i})) "))
        .collect();
    let close = ")".repeat(levels);
    agree_at_bound(
        agree,
        &format!("(def (Report (x 0))) (when true {deep} (report) {close})"),
    );

    let flat: String = (0..MAX_NODES / 12)
        .map(|i| format!("(if (== Cwnd {i}) (:= Cwnd {}) (:= Rate {i}))", i * 7 % 300))
        .collect();
    agree_at_bound(
        agree,
        &format!("(def (Report (x 0))) (when true {flat} (:= Cwnd (max Cwnd 1)) (report))"),
    );

    let events: String = (0..MAX_NODES / 10)
        .map(|i| {
            let end = ["", "(fallthrough)", "(report)"][i % 3];
            format!("(when (&& Flow.was_timeout (!= Cwnd {i})) (:= Report.x {i}) {end})")
        })
        .collect();
    agree_at_bound(agree, &format!("(def (Report (x 0))) {events}"));
}

pub(crate) fn bodies_longer_than_a_short_jump(agree: Agree) {
    let scaled = "(:= Report.x (* 3.14159 (* 1.7 (* 0.3 (* 2.25 (* 1.1 Report.x))))))";
    let body = scaled.repeat(MAX_NODES / 8);
    agree_at_bound(
        agree,
        &format!(
            "(def (Report (x 12345)))
         (when (> Ack.bytes_acked 1000) {body} (report))
         (when true (:= Report.x 7) (report))"
        ),
    );
}
