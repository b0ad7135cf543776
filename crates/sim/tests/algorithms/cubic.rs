//! CUBIC: RFC 9438.

use fairwater_sim::Native;

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, observed, series};

const MSS: u32 = 1448;

/// RFC 9438 §4.6: the window after a loss is 0.7 of the window before it.
#[test]
fn a_loss_takes_three_tenths_of_the_window() {
    for (mbit, rtt_ms) in [(50, 80), (100, 40), (30, 120)] {
        let network = Dumbbell::new(mbit, rtt_ms, 40.0).plane("cubic");
        let outcome = observed(&network.config(1), &["cubic"]);
        let mut falls = series::falls(&series::cwnd(&outcome.flows[0], MSS), 0.9);
        falls.retain(|fall| fall.at_s > 5.0);
        assert!(!falls.is_empty(), "no loss on {mbit} Mbit/s");
        for fall in falls {
            let share = fall.to / fall.from;
            assert!((0.67..0.73).contains(&share), "{mbit} Mbit/s: {fall:?}");
        }
    }
}

#[test]
fn the_figure_of_the_curve() {
    let network = Dumbbell::new(50, 80, 40.0);
    let plane = observed(&network.clone().plane("cubic").config(1), &["cubic"]);
    let native = observed(&network.native(Native::Cubic).config(1), &["cubic"]);
    Figure::new(
        "cubic",
        "CUBIC alone: 50 Mbit/s, 80 ms, a buffer of one BDP",
    )
    .panel(
        Panel::new("cwnd", "segments")
            .line("cubic", series::cwnd(&plane.flows[0], MSS))
            .line("inside the sender", series::cwnd(&native.flows[0], MSS)),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("cubic", series::queueing(&plane.edges[BOTTLENECK]))
            .level("a full buffer", 80.0),
    )
    .check();
}
