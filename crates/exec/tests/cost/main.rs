//! The bound on what an invocation costs is never below what an invocation executes.

#![expect(clippy::panic, reason = "a test may fail by panicking")]

mod vm;

use fairwater_exec::cost::{self, longest_path, within};
use fairwater_exec::frame::{FAULT, FrameLayout, PENDING, STAGE_INSTALL, STAGE_SEQUENCE};
use fairwater_lang::{Program, compile};
use proptest::collection::vec;
use proptest::prelude::*;

fn program(source: &str) -> Program {
    compile("cost.ccp", source)
        .unwrap_or_else(|errors| panic!("{errors}\n{source}"))
        .program
}

/// The words of frames: small numbers, so that conditions hold now and then, and any others.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..3_u64, 0..100_000_u64, any::<u64>()]
}

fn frame(words: &[u64], size: usize) -> Vec<u8> {
    let bytes = words.iter().cycle().flat_map(|word| word.to_le_bytes());
    let mut frame: Vec<u8> = bytes.take(size).collect();
    frame[FAULT as usize..][..4].fill(0);
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_invocation_executes_more_ebpf_than_the_bound(
        source in fairwater_lang::arbitrary::source(),
        frames in vec(vec(word(), 1..40), 1..20),
    ) {
        let program = program(&source);
        let Ok(code) = cost::generate(&program) else {
            return Ok(());
        };
        let bound = longest_path(&code);
        prop_assert!(bound <= code.len());
        let size = FrameLayout::new(program.variables.len()).size();
        for words in frames {
            let mut frame = frame(&words, size);
            // A stage is applied in the first of two invocations.
            for _ in 0..2 {
                let executed = vm::run(&code, &mut frame);
                prop_assert!(executed <= bound, "{executed} of {bound}\n{source}");
            }
        }
    }
}

/// Of a program without a branch there is an invocation that executes all of the bound but for the end
/// of a path that faults.
#[test]
fn the_bound_is_met() {
    let program = program(
        "(def (Report (volatile acked 0)) (c 7))
        (when true
          (:= Report.acked (+ Report.acked c))
          (:= Cwnd (+ Report.acked 1))
          (:= Rate 1000)
          (report))",
    );
    let code = cost::generate(&program).unwrap();
    let size = FrameLayout::new(program.variables.len()).size();
    let mut memory = vec![0; size];
    // A stage of another install is pending, and both controls change.
    for (at, value) in [(PENDING, 2), (STAGE_INSTALL, 9), (STAGE_SEQUENCE, 2)] {
        memory[at as usize] = value;
    }
    let executed = vm::run(&code, &mut memory);
    let bound = longest_path(&code);
    assert!(
        executed <= bound && executed + 3 >= bound,
        "{executed} of {bound}"
    );
}

#[test]
fn alternatives_cost_the_greater_and_clauses_after_a_body_nothing() {
    let ebpf = |source: &str| cost::ebpf(&program(source)).unwrap();
    let libccp = |source: &str| cost::of(&program(source)).libccp.unwrap();
    let long = "(:= Rate (+ Rate 5))".repeat(20);
    let one = format!("(when (> Cwnd 5) {long})");
    let either = format!("(when (> Cwnd 5) {long}) (when (> Cwnd 9) {long})");
    let both = format!("(when (> Cwnd 5) (fallthrough) {long}) (when (> Cwnd 9) {long})");
    for count in [ebpf, libccp] as [fn(&str) -> usize; 2] {
        assert!(count(&either) < count(&one) + 10);
        assert!(count(&both) > count(&one) + 15);
    }
    // A condition and its flag are one instruction of libccp's.
    assert_eq!(libccp(&one), 21);
    assert_eq!(libccp(&either), 22);
    assert_eq!(libccp(&both), 43);
}

#[cfg(feature = "native")]
#[test]
fn machine_code_is_counted_on_its_longest_path() {
    let machine_code = |source: &str| cost::of(&program(source)).machine_code.unwrap();
    let body = |n: usize| "(:= Rate (* Rate Cwnd))".repeat(n);
    let straight = |n: usize| machine_code(&format!("(when true {})", body(n)));
    assert!(straight(40) >= straight(20) + 20);
    let (then, otherwise) = (body(40), body(20));
    let chosen = machine_code(&format!(
        "(when true (if (> Cwnd 5) (when true {then}) (when true {otherwise})))"
    ));
    assert!(chosen < straight(40) + 20, "{chosen} {}", straight(40));
    assert!(chosen > straight(20), "{chosen} {}", straight(20));
}

#[test]
fn what_exceeds_the_budget_is_named_with_its_costliest_clause_and_statement() {
    let source = "(def (Report (acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
        (when (> Report.acked 5)
          (:= Cwnd (max 10 (/ (* Cwnd Report.acked) (- Rate Report.acked))))
          (report))";
    let program = program(source);
    let cost = cost::ebpf(&program).unwrap();
    assert_eq!(within(&program, cost), Ok(()));
    let error = within(&program, cost - 1).unwrap_err();
    assert_eq!((error.cost, error.budget, error.event), (cost, cost - 1, 1));
    assert_eq!(error.clause.text, "when (> Report.acked 5)");
    assert!(error.clause.cost < cost, "{error}");
    let statement = error.statement.as_ref().unwrap();
    assert!(
        statement.text.starts_with("Cwnd: num := (max 10"),
        "{error}"
    );
    assert!(statement.cost > 0 && statement.cost <= error.clause.cost);
    let text = error.to_string();
    assert!(
        text.starts_with(&format!(
            "takes up to {cost} eBPF instructions for an ACK, and the budget is {}; `when",
            cost - 1
        )),
        "{text}"
    );
}
