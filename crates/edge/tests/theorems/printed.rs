//! The theorems as printed, and the shortest sequences of events that break them: each repair but one is made, and
//! the search finds what that one is needed for.

use crate::model::{Broken, EVENTS, Event, Rules, replay, search};

const ACK: Event = Event::Ack { ece: false };
const ACK_ECE: Event = Event::Ack { ece: true };
const ALL: Event = Event::AckAll { ece: false };
const ALL_ECE: Event = Event::AckAll { ece: true };
const DUPLICATE: Event = Event::Duplicate { ece: false };
const DUPLICATE_ECE: Event = Event::Duplicate { ece: true };

/// The shortest sequence of these events that breaks a claim.
fn shortest(rules: &Rules, events: &[Event], claim: Broken) -> Vec<Event> {
    let found = search(rules, events, &[claim], 30).shortest.unwrap();
    println!("{found}");
    // The search leaves out what was acknowledged long ago; the sequence itself is to break the claim too.
    let again = replay(rules, &found.events, &[claim]).unwrap();
    assert_eq!(again.events, found.events);
    found.events
}

#[test]
fn equation_7_raises_a_small_window() {
    for claim in [Broken::Emulation, Broken::Window] {
        let events = shortest(&Rules::PRINTED, &EVENTS, claim);
        assert_eq!(events, [ACK_ECE]);
    }
    // The same while the application limits the sender: fs 2, W from 4 to 5.
    let events = [Event::Stop, ACK, DUPLICATE_ECE];
    let found = replay(&Rules::PRINTED, &events, &[Broken::Window]).unwrap();
    println!("{found}");
    assert_eq!(found.events, events);
    assert_eq!(
        (found.state.vcc.cwnd, found.state.guest.cwnd),
        (5_000, 4_000)
    );
}

#[test]
fn an_echo_raises_ssthresh_after_a_timeout() {
    let rules = Rules {
        restarts: true,
        counts_all: true,
        ..Rules::REPAIRED
    };
    let events = shortest(&rules, &EVENTS, Broken::Threshold);
    assert_eq!(events, [ACK, Event::Timeout, ALL, ACK_ECE]);
    // Four segments are out at the timeout; W grows to 9.
    let events = [vec![ACK, Event::Timeout], vec![ALL; 5], vec![ALL_ECE]].concat();
    let found = replay(&rules, &events, &[Broken::Threshold]).unwrap();
    println!("{found}");
    assert_eq!(found.events, events);
    let thresholds = (found.state.vcc.ssthresh, found.state.guest.ssthresh);
    assert_eq!(thresholds, (4_500, 2_000));
}

#[test]
fn a_restart_after_an_idle_time_overtakes_the_guest() {
    let rules = Rules {
        restarts: true,
        ..Rules::REPAIRED
    };
    let events = [
        ACK,
        ALL,
        ALL_ECE,
        Event::Timeout,
        Event::Stop,
        Event::GoAfterIdle,
    ];
    let found = shortest(&rules, &events, Broken::Window);
    let end = [Event::Stop, ALL_ECE, Event::GoAfterIdle, ACK];
    assert!(found.len() == 28 && found.ends_with(&end), "{found:?}");
    // With cumulative ACKs counted in full it takes less time.
    let rules = Rules {
        counts_all: true,
        ..rules
    };
    let events = [
        vec![ACK, Event::Timeout],
        vec![ALL; 5],
        vec![Event::Stop, ALL_ECE, Event::GoAfterIdle, ACK],
    ];
    let events = events.concat();
    let found = replay(&rules, &events, &[Broken::Window]).unwrap();
    println!("{found}");
    assert_eq!(found.events, events);
    assert_eq!(
        (found.state.vcc.cwnd, found.state.guest.cwnd),
        (4_000, 3_333)
    );
}

#[test]
fn an_echo_in_recovery_leaves_a_larger_window() {
    let rules = Rules {
        in_recovery: true,
        ..Rules::REPAIRED
    };
    let events = shortest(&rules, &EVENTS, Broken::Window);
    assert_eq!(events, [ACK, DUPLICATE, DUPLICATE, DUPLICATE, ACK_ECE, ALL]);
}

#[test]
fn an_echo_after_recovery_is_answered_by_more_than_the_window() {
    let rules = Rules {
        halves_flight: true,
        ..Rules::REPAIRED
    };
    let events = shortest(&rules, &EVENTS, Broken::Window);
    let recovery = [ACK, DUPLICATE, DUPLICATE, DUPLICATE];
    assert!(
        events.len() == 10 && events.starts_with(&recovery),
        "{events:?}"
    );
}

#[test]
fn a_cumulative_ack_in_slow_start_overtakes_the_guest() {
    // The case that lemma 1 takes for sound: the layer in slow start, the guest not.
    for rules in [
        Rules {
            counts_all: true,
            ..Rules::REPAIRED
        },
        Rules {
            counts_all: true,
            ..Rules::repaired_dctcp(2)
        },
    ] {
        for claim in [Broken::Emulation, Broken::Window] {
            let events = shortest(&rules, &EVENTS, claim);
            assert_eq!(events, [ACK, Event::Timeout, ACK_ECE, ALL]);
        }
    }
}

#[test]
fn dctcp_overtakes_the_guest_in_slow_start() {
    let rules = Rules {
        counts_all: false,
        ..Rules::dctcp(2)
    };
    for claim in [Broken::Emulation, Broken::Window] {
        let events = shortest(&rules, &EVENTS, claim);
        assert_eq!(events, [Event::Timeout, ACK, DUPLICATE_ECE, ACK]);
    }
}

#[test]
fn a_guest_that_grows_only_when_it_is_limited_falls_behind_by_less_than_a_segment() {
    let rules = Rules {
        validates: true,
        ..Rules::REPAIRED
    };
    assert_eq!(shortest(&rules, &EVENTS, Broken::Emulation).len(), 7);
    assert_eq!(shortest(&rules, &EVENTS, Broken::Segments).len(), 11);
    let found = search(&rules, &EVENTS, &[Broken::NearWindow], 14);
    assert_eq!(found.shortest, None);
    println!("{} states", found.states);
}
