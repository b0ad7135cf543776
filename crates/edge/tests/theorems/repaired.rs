//! The repaired claims: all sequences of events up to a length, and long random ones.

use proptest::prelude::*;

use crate::model::{Broken, EVENTS, Response, Rules, State, search};

/// Equations 16, 19 and 37, and what is left of equation 20.
const CLAIMS: [Broken; 4] = [
    Broken::Emulation,
    Broken::Window,
    Broken::Recover,
    Broken::RepairedThreshold,
];
/// Lemmas 1 to 4 and the theorems as printed.
const PRINTED_CLAIMS: [Broken; 4] = [
    Broken::Emulation,
    Broken::Window,
    Broken::Recover,
    Broken::Threshold,
];

fn hold(rules: &Rules, claims: &[Broken], depth: usize) {
    let found = search(rules, &EVENTS, claims, depth);
    if let Some(shortest) = found.shortest {
        panic!("{shortest}");
    }
    println!("{rules:?}: {depth} events, {} states", found.states);
}

#[test]
fn without_restarts_the_guest_follows_an_ecn_sender() {
    hold(&Rules::REPAIRED, &CLAIMS, 15);
}

#[test]
fn with_restarts_it_does_if_no_echo_raises_ssthresh() {
    hold(&Rules::RESTARTING, &PRINTED_CLAIMS, 14);
}

#[test]
fn the_guest_follows_a_dctcp_sender_whose_reductions_end_slow_start() {
    for (alpha, depth) in [(1, 10), (3, 10), (8, 12)] {
        hold(&Rules::repaired_dctcp(alpha), &PRINTED_CLAIMS, depth);
    }
}

/// Follows a random sequence; each number chooses among the events that there can be.
fn follow(rules: &Rules, claims: &[Broken], choices: &[(usize, u64)]) -> Result<(), TestCaseError> {
    let (mut state, mut rules) = (State::new(), *rules);
    let mut events = Vec::new();
    for (choice, alpha) in choices {
        if let Response::Dctcp(now) = &mut rules.response {
            *now = *alpha;
        }
        let possible = EVENTS
            .into_iter()
            .filter_map(|event| Some((event, state.after(event, &rules)?)));
        let possible: Vec<_> = possible.collect();
        let (event, (before, sent)) = possible[choice % possible.len()];
        events.push(event);
        for claim in claims {
            prop_assert!(before.holds(*claim), "{:?} after {:?}", claim, events);
        }
        state = sent;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn long_sequences_hold(
        // Acknowledgments more often than the rest, so that windows grow.
        choices in prop::collection::vec(
            (prop_oneof![6 => Just(0_usize), 1 => Just(1), 3 => 0_usize..10], 0_u64..=8),
            1..1_000,
        ),
    ) {
        follow(&Rules::REPAIRED, &CLAIMS, &choices)?;
        follow(&Rules::RESTARTING, &PRINTED_CLAIMS, &choices)?;
        let validates = Rules { validates: true, ..Rules::REPAIRED };
        follow(&validates, &[Broken::NearWindow, Broken::Recover], &choices)?;
        follow(&Rules::repaired_dctcp(1), &PRINTED_CLAIMS, &choices)?;
    }
}
