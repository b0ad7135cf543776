//! What programs do, invocation by invocation.

use fairwater_exec::frame::{Fault, MAX_RATE};
use fairwater_exec::interp::{Input, Machine, Outcome, Stage};
use fairwater_lang::{Program, Scope, Signal, Signals, compile};

const CWND: u64 = 14480;

fn program(source: &str) -> Program {
    compile("test.ccp", source)
        .unwrap_or_else(|errors| panic!("{}", errors.render(false)))
        .program
}

/// An ACK for 5 bytes at `now_us`.
fn ack(now_us: u64) -> Input<'static, 'static> {
    let mut signals = Signals::default();
    signals[Signal::BytesAcked] = 5;
    signals[Signal::Now] = now_us;
    Input {
        signals,
        cwnd: CWND,
        rate: 0,
        stage: None,
    }
}

fn with_signal(
    mut input: Input<'static, 'static>,
    signal: Signal,
    value: u64,
) -> Input<'static, 'static> {
    input.signals[signal] = value;
    input
}

fn staged<'a, 'p>(input: Input<'a, 'p>, stage: &'a Stage<'p>) -> Input<'a, 'p> {
    Input {
        stage: Some(stage),
        ..input
    }
}

/// The reports of as many ACKs, one each µs.
fn reports(source: &str, acks: u64) -> Vec<Option<Vec<u64>>> {
    let program = program(source);
    let mut machine = Machine::new(&program, 0);
    (0..acks)
        .map(|now| machine.invoke(&ack(now)).report)
        .collect()
}

#[test]
fn a_timer_set_to_infinity_does_not_wrap_around() {
    let got = reports(
        "(def (Report (micros 0)) (volatile set false))
         (when (! set) (:= Micros +infinity) (:= set true))
         (when true (:= Report.micros Micros) (report) (:= set true))",
        3,
    );
    assert_eq!(got, [None, Some(vec![(1 << 63) + 1]), None]);
}

#[test]
fn a_boolean_stored_in_a_number_is_0_or_1() {
    let program = program(
        "(def (Report (volatile timeout 0)))
         (when true (:= Report.timeout Flow.was_timeout) (report))",
    );
    let mut machine = Machine::new(&program, 0);
    for timeout in [1, 0, 1] {
        let input = with_signal(ack(0), Signal::WasTimeout, timeout);
        assert_eq!(machine.invoke(&input).report, Some(vec![timeout]));
    }
}

#[test]
fn a_fold_sums_what_is_acknowledged() {
    let got = reports(
        "(def (Report (volatile acked 0)))
         (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
         (when (== Report.acked 100) (report))",
        20,
    );
    assert_eq!(got[19], Some(vec![100]));
    assert!(got[..19].iter().all(Option::is_none));
}

#[test]
fn a_report_resets_the_volatile_variables_alone() {
    let got = reports(
        "(def (Report (volatile since 0) (ever 0)) (volatile n 0))
         (when true
           (:= n (+ n 1))
           (:= Report.since (+ Report.since 1))
           (:= Report.ever (+ Report.ever 1))
           (fallthrough))
         (when (== n 10) (report))",
        20,
    );
    assert_eq!(got[9], Some(vec![10, 10]));
    assert_eq!(got[19], Some(vec![10, 20]));
}

#[test]
fn an_event_that_holds_is_the_last_unless_it_falls_through() {
    let source = |end: &str| {
        format!(
            "(def (Report (x 0)))
             (when false (:= Report.x (+ Report.x 100)))
             (when true (:= Report.x (+ Report.x 1)) (report) {end})
             (when true (:= Report.x (+ Report.x 2)))
             (when true (:= Report.x (+ Report.x 4)))"
        )
    };
    assert_eq!(reports(&source(""), 1), [Some(vec![1])]);
    // It stays in force, though the third event does not ask for it again.
    assert_eq!(reports(&source("(fallthrough)"), 1), [Some(vec![7])]);
}

#[test]
fn a_program_reads_the_controls_that_it_has_set() {
    let program = program(
        "(def (Report (was 0) (is 0)))
         (when true
           (:= Report.was Cwnd) (:= Cwnd 5) (:= Report.is Cwnd) (:= Rate (* Cwnd 2)) (report))",
    );
    let outcome = Machine::new(&program, 0).invoke(&ack(0));
    let report = Some(vec![CWND, 5]);
    assert_eq!(
        outcome,
        Outcome {
            cwnd: 5,
            rate: 10,
            report,
            fault: None
        }
    );
}

#[test]
fn the_timer_counts_from_what_it_was_set_to() {
    let program = program(
        "(def (Report (t 0)))
         (when (>= Micros 3000) (:= Report.t Micros) (reset) (report))
         (when (== Ack.now 6000) (:= Micros 2500))",
    );
    let mut machine = Machine::new(&program, 100);
    let mut at = |now| machine.invoke(&ack(now)).report;
    assert_eq!(at(3000), None);
    assert_eq!(at(3150), Some(vec![3050]));
    assert_eq!(at(6000), None);
    assert_eq!(at(6499), None);
    assert_eq!(at(6501), Some(vec![3001]));
}

#[test]
fn the_plane_updates_control_variables_and_no_others() {
    let program = program(
        "(def (Report (r 1)) (c 2) (b false))
         (when b (:= Report.r (+ Report.r c)) (report))",
    );
    let variable = |scope, name| program.variable(scope, name).unwrap();
    let stage = Stage {
        updates: vec![
            (variable(Scope::Report, "r"), 1000),
            (variable(Scope::Control, "c"), 40),
            (variable(Scope::Control, "b"), 7),
            (fairwater_lang::VarId(500), 9),
        ],
        cwnd: Some(2896),
        rate: Some(12),
        ..Stage::default()
    };
    let mut machine = Machine::new(&program, 0);
    assert_eq!(machine.invoke(&ack(0)).report, None);
    let outcome = machine.invoke(&staged(ack(1), &stage));
    let report = Some(vec![41]);
    assert_eq!(
        outcome,
        Outcome {
            cwnd: 2896,
            rate: 12,
            report,
            fault: None
        }
    );
    assert_eq!(machine.variables()[2], 1, "a boolean is 0 or 1");
}

#[test]
fn a_switch_starts_the_other_program_afresh() {
    let first = program("(def (Report (n 0))) (when true (:= Report.n (+ Report.n 1)) (report))");
    let second =
        program("(def (Report (n 50)) (c 3)) (when true (:= Report.n (+ Micros c)) (report))");
    let mut machine = Machine::new(&first, 0);
    assert_eq!(machine.invoke(&ack(1)).report, Some(vec![1]));
    let stage = Stage {
        switch: Some(&second),
        updates: vec![(second.variable(Scope::Control, "c").unwrap(), 8)],
        ..Stage::default()
    };
    assert_eq!(
        machine.invoke(&staged(ack(700), &stage)).report,
        Some(vec![8])
    );
    assert_eq!(machine.invoke(&ack(702)).report, Some(vec![10]));
    let stage = Stage {
        switch: Some(&first),
        ..Stage::default()
    };
    assert_eq!(
        machine.invoke(&staged(ack(703), &stage)).report,
        Some(vec![1])
    );
}

#[test]
fn an_unbelievable_control_stops_the_program_and_is_not_applied() {
    let lost = |input| with_signal(input, Signal::LostPkts, 1);
    for (control, fault) in [
        ("(:= Cwnd 0)", Fault::CwndZero),
        ("(:= Rate +infinity)", Fault::RateAbsurd),
        ("(:= Rate (+ 1099511627776 1))", Fault::RateAbsurd),
        ("(:= Rate +infinity) (:= Cwnd (- 5 9))", Fault::CwndZero),
    ] {
        let source =
            format!("(def (Report (x 0))) (when (> Ack.lost_pkts_sample 0) {control} (report))");
        let program = program(&source);
        let mut machine = Machine::new(&program, 0);
        let stopped = Outcome {
            cwnd: CWND,
            rate: 0,
            report: None,
            fault: Some(fault),
        };
        assert_eq!(machine.invoke(&ack(0)).fault, None);
        assert_eq!(machine.invoke(&lost(ack(1))), stopped, "{control}");
        assert_eq!(machine.invoke(&ack(2)), stopped, "it stays stopped");
    }
}

#[test]
fn controls_may_be_unbelievable_in_passing() {
    let program = program(
        "(def (Report (x 0))) (when true (:= Cwnd 0) (:= Rate +infinity) (:= Cwnd 9) (:= Rate 1099511627776))",
    );
    let outcome = Machine::new(&program, 0).invoke(&ack(0));
    assert_eq!(
        (outcome.cwnd, outcome.rate, outcome.fault),
        (9, MAX_RATE, None)
    );
}

#[test]
fn a_window_of_0_from_the_plane_is_the_same_mistake() {
    let program = program("(def (Report (x 0))) (when true (report))");
    let stage = Stage {
        cwnd: Some(0),
        ..Stage::default()
    };
    let outcome = Machine::new(&program, 0).invoke(&staged(ack(0), &stage));
    assert_eq!(outcome.fault, Some(Fault::CwndZero));
    assert_eq!(outcome.cwnd, CWND);
}
