//! Programs and values at the edges of the language.

use super::Agree;
use fairwater_exec::interp::{Input, Stage};
use fairwater_lang::{Program, Scope, Signal, Signals, compile};

pub(crate) const EDGES: [u64; 16] = [
    0,
    1,
    2,
    9,
    10,
    1448,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 60) - 1,
    1 << 60,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

pub(crate) fn program(source: &str) -> Program {
    compile("edges.ccp", source)
        .unwrap_or_else(|errors| panic!("{}", errors.render(false)))
        .program
}

fn signals(pairs: &[(Signal, u64)]) -> Signals {
    pairs.iter().copied().collect()
}

/// Agrees on a program that reads its operands from two signals, for every pair of edge values.
fn agree_on_all_pairs(agree: Agree, source: &str) {
    let program = program(source);
    let start = Stage {
        switch: Some(&program),
        ..Stage::default()
    };
    let stream: Vec<_> = EDGES
        .iter()
        .flat_map(|&a| EDGES.iter().map(move |&b| (a, b)))
        .map(|(a, b)| Input {
            signals: signals(&[(Signal::BytesAcked, a), (Signal::BytesPending, b)]),
            cwnd: 14480,
            rate: 0,
            stage: Some(&start),
        })
        .collect();
    if let Err(difference) = agree(&[&program], &stream) {
        panic!("{source}\n{difference}");
    }
}

pub(crate) fn every_operator_agrees_on_every_pair_of_edge_values(agree: Agree) {
    let (a, b) = ("Ack.bytes_acked", "Flow.bytes_pending");
    for form in [
        "(+ a b)",
        "(- a b)",
        "(* a b)",
        "(/ a b)",
        "(min a b)",
        "(max a b)",
        "(wrapped_max a b)",
        "(* 1.25 a)",
        "(* 0.75 a)",
        "(* 2147483647.5 a)",
        "(* 0.0000000004 a)",
        "(* 0.3333333 a)",
        "(/ a 1.25)",
        "(/ a 0.25)",
        "(* 0.5 (+ a b))",
        "(if (< a b) a b)",
        "(if (>= a b) (+ a 1) (- b 1))",
        "(if (== (min a b) a) 1 2)",
        "(+ (* a b) (* b a))",
        "(- (+ a b) (- b a))",
        "(* (- a b) (+ b a))",
        "(/ (* a b) (- a 1))",
        "(min (+ a 1) (max (- b 1) (* a 2)))",
        "(wrapped_max (+ a b) (- b a))",
    ] {
        let form = form
            .replace(" a", &format!(" {a}"))
            .replace(" b", &format!(" {b}"));
        agree_on_all_pairs(
            agree,
            &format!("(def (Report (x 0))) (when true (:= Report.x {form}) (report))"),
        );
    }
    for compared in ["==", "!=", "<", "<=", ">", ">="] {
        agree_on_all_pairs(
            agree,
            &format!(
                "(def (Report (x false) (y 0)))
             (when true (:= Report.x ({compared} {a} {b})) (fallthrough))
             (when ({compared} (+ {a} 1) {b}) (:= Report.y 1) (fallthrough))
             (when (! ({compared} {a} {b})) (:= Report.y (+ Report.y 2)) (report))"
            ),
        );
    }
}

pub(crate) fn every_operator_agrees_on_constants_at_the_edges(agree: Agree) {
    for constant in EDGES {
        let forms = ["+", "-", "*", "/", "min", "max", "wrapped_max"].map(|op| {
            format!(
                "(:= Report.x (+ Report.x ({op} Ack.bytes_acked {constant})))
                 (:= Report.y (max Report.y ({op} {constant} Flow.bytes_pending)))"
            )
        });
        agree_on_all_pairs(
            agree,
            &format!(
                "(def (Report (x {constant}) (y 0) (z 0)))
             (when (>= Ack.bytes_acked {constant}) {} (report) (fallthrough))
             (when (== {constant} Flow.bytes_pending) (:= Report.z {constant}) (report))",
                forms.join("\n")
            ),
        );
    }
}

pub(crate) fn the_average_agrees_for_every_kind_of_weight(agree: Agree) {
    for weight in [
        "0",
        "1",
        "8",
        "10",
        "11",
        "5000000000",
        "+infinity",
        "Ack.packets_acked",
    ] {
        agree_on_all_pairs(
            agree,
            &format!(
                "(def (Report (x 0) (y 0)))
             (when true
               (:= Report.x Ack.bytes_acked)
               (:= Report.x (ewma {weight} Flow.bytes_pending))
               (:= Report.y (+ 1 (ewma {weight} (* Ack.bytes_acked Report.x))))
               (report))"
            ),
        );
    }
}

pub(crate) fn a_timer_agrees_whatever_it_is_set_to(agree: Agree) {
    let constants = EDGES.map(|edge| edge.to_string());
    let values = ["Ack.bytes_acked", "(+ Ack.bytes_acked 1)", "+infinity"];
    for value in constants.iter().map(String::as_str).chain(values) {
        agree_on_all_pairs(
            agree,
            &format!(
                "(def (Report (before 0) (after 0)))
                 (when true
                   (:= Report.before Micros)
                   (:= Micros {value})
                   (:= Report.after Micros)
                   (report))"
            ),
        );
    }
}

pub(crate) fn a_boolean_stored_in_a_number_agrees(agree: Agree) {
    agree_on_all_pairs(
        agree,
        "(def (Report (volatile timeout 0) (late 0) (kept 7)) (seen 0) (sure 0))
         (when true
           (:= Report.timeout (> Ack.bytes_acked Flow.bytes_pending))
           (:= Report.late (if (> Ack.bytes_acked 10) (== Flow.bytes_pending 0) false))
           (:= Report.kept (if (> Ack.bytes_acked 9) (> Flow.bytes_pending 9)))
           (:= seen (|| Flow.was_timeout (> seen 0)))
           (:= sure true)
           (:= Cwnd (+ Cwnd (+ seen sure)))
           (report))",
    );
}

pub(crate) fn controls_beyond_belief_stop_the_program(agree: Agree) {
    for cwnd in [
        "Ack.bytes_acked",
        "(max 1 Ack.bytes_acked)",
        "(* Ack.bytes_acked (max 2 Flow.bytes_pending))",
        "(+ Ack.bytes_acked (min 1 Flow.bytes_pending))",
        "(max 11584 (/ (* Ack.bytes_acked Flow.bytes_pending) 500000))",
        "(min 11584 (/ Ack.bytes_acked 2))",
        "(if (> Ack.bytes_acked 0) (min 3 Ack.bytes_acked) 7)",
    ] {
        for condition in ["true", "(> Flow.bytes_pending 0)"] {
            agree_on_all_pairs(
                agree,
                &format!(
                    "(def (Report (x 0)))
                     (when {condition} (:= Cwnd {cwnd}) (:= Rate Flow.bytes_pending) (report))"
                ),
            );
        }
    }
}

pub(crate) fn a_stage_sets_only_what_it_may(agree: Agree) {
    let first = program(
        "(def (Report (volatile r 7)) (c 1) (volatile v 2) (b false))
         (when b (:= Report.r c) (report) (fallthrough))
         (when (> Micros 5) (:= Cwnd (+ Cwnd v)) (reset))",
    );
    let second = program("(def (c 9)) (when (== Cwnd c) (:= Rate (* Cwnd c)) (report))");
    let all = |value: u64| Stage {
        updates: (0..70).map(|i| (fairwater_lang::VarId(i), value)).collect(),
        ..Stage::default()
    };
    let stages = [
        Stage {
            switch: Some(&first),
            ..Stage::default()
        },
        all(1),
        Stage {
            cwnd: Some(9),
            ..all(2)
        },
        Stage {
            switch: Some(&second),
            cwnd: Some(9),
            rate: Some(1),
            ..Stage::default()
        },
        Stage {
            rate: Some(0),
            ..all(5)
        },
        Stage {
            switch: Some(&first),
            ..all(u64::MAX)
        },
        Stage {
            switch: Some(&first),
            ..Stage::default()
        },
        Stage {
            cwnd: Some(0),
            ..Stage::default()
        },
    ];
    let stream: Vec<_> = (0..40)
        .map(|i| Input {
            signals: signals(&[(Signal::Now, 3 * i as u64)]),
            cwnd: 10,
            rate: 3,
            stage: if i % 5 == 0 { stages.get(i / 5) } else { None },
        })
        .collect();
    if let Err(difference) = agree(&[&first, &second], &stream) {
        panic!("{difference}");
    }
    assert!(first.variable(Scope::Control, "b").is_some());
}
