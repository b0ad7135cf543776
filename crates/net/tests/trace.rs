//! Delivery traces: what is taken, what is refused and how it is said.

use std::time::Duration;

use fairwater_net::{DeliveryTrace, Time, TraceLineError};
use proptest::prelude::*;

#[test]
fn repeats_at_its_last_time() {
    let trace = DeliveryTrace::parse("0\n5\n5\n10\n").expect("well-formed");
    assert_eq!(trace.period(), Duration::from_millis(10));
    let times: Vec<u64> = (0..9)
        .map(|i| trace.time_of(i).as_nanos() / 1_000_000)
        .collect();
    assert_eq!(times, [0, 5, 5, 10, 10, 15, 15, 20, 20]);
    // 4 packets of 12,000 bits each 10 ms.
    assert_eq!(trace.mean_rate().bps(), 4_800_000);
}

#[test]
fn names_each_line_that_is_wrong() {
    let error = DeliveryTrace::parse("1\nfive\n7\n3\n-2\n1.5\n\n9\n").expect_err("malformed");
    assert_eq!(
        error.to_string(),
        "line 2: expected a time in whole milliseconds\n\
         line 4: 3 ms is before the 7 ms of the line before it\n\
         line 5: expected a time in whole milliseconds\n\
         line 6: expected a time in whole milliseconds\n\
         line 7: expected a time in whole milliseconds"
    );
}

#[test]
fn refuses_what_would_never_end_or_never_start() {
    for (text, expected) in [
        ("", TraceLineError::Empty),
        ("\n \n", TraceLineError::Empty),
        ("0\n0\n0\n", TraceLineError::NoPeriod),
    ] {
        let error = DeliveryTrace::parse(text).expect_err("refused");
        assert_eq!(error.errors, [expected]);
    }
}

proptest! {
    #[test]
    fn any_text_gives_a_trace_or_an_error(text in "[0-9 .\\-a-z\n]{0,80}") {
        if let Err(error) = DeliveryTrace::parse(&text) {
            prop_assert!(!error.errors.is_empty());
        }
    }

    #[test]
    fn the_count_before_a_time_is_that_of_the_listed_times(
        mut times in prop::collection::vec(0..50u64, 1..20),
        at_us in 0..500_000u64,
    ) {
        times.sort_unstable();
        prop_assume!(times.last() > Some(&0));
        let text: Vec<String> = times.iter().map(u64::to_string).collect();
        let trace = DeliveryTrace::parse(&text.join("\n")).expect("well-formed");
        let at = Time::from_micros(at_us);
        let listed = (0..100_000).take_while(|&i| trace.time_of(i) < at).count() as u64;
        prop_assert_eq!(trace.first_at_or_after(at), listed);
        prop_assert_eq!(trace.bytes_between(Time::ZERO, at), listed * 1500);
    }
}
