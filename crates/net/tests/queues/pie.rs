//! PIE by RFC 8033.

use std::time::Duration;

use fairwater_net::{DropReason, PieConfig, QueueConfig, Time};

use super::support::{Bench, Probe, markable, of_flow};

/// What a queue did that is served a packet a millisecond.
struct Run {
    bench: Bench,
    /// When each packet that was served left, and how long it had waited.
    served: Vec<(Time, Duration)>,
}

impl Run {
    fn new(config: PieConfig) -> Self {
        Run {
            bench: Bench::new(QueueConfig::Pie(config)),
            served: Vec::new(),
        }
    }

    /// Packets arrive every `gap_us` from `from_ms` until `to_ms`, whatever becomes of them.
    fn offer(&mut self, packet: Probe, gap_us: u64, from_ms: u64, to_ms: u64) {
        let mut arrival = from_ms * 1000;
        for ms in from_ms..to_ms {
            while arrival < (ms + 1) * 1000 {
                self.bench.put(Time::from_micros(arrival), packet);
                arrival += gap_us;
            }
            let now = Time::from_millis(ms + 1);
            if let Some(held) = self.bench.take(now) {
                self.served.push((now, now.since(held.enqueued)));
            }
        }
    }

    fn mean_wait_ms(&self, from_ms: u64) -> f64 {
        let waits: Vec<f64> = self
            .served
            .iter()
            .filter(|(at, _)| *at >= Time::from_millis(from_ms))
            .map(|(_, wait)| wait.as_secs_f64() * 1e3)
            .collect();
        waits.iter().sum::<f64>() / waits.len() as f64
    }
}

#[test]
fn a_burst_passes_for_as_long_as_allowed() {
    // Twice the rate: after 150 ms, 150 packets wait for 150 ms, and nothing was dropped.
    let mut run = Run::new(PieConfig::default());
    run.offer(of_flow(0, 1500), 500, 0, 150);
    assert!(run.bench.dropped().is_empty());
    assert!(run.bench.queue.len() >= 145);
    // It does not go on for ever.
    run.offer(of_flow(0, 1500), 500, 150, 1_000);
    assert!(run.bench.dropped().len() > 20);
    let first = run.bench.dropped()[0].at;
    assert!(
        first >= Time::from_millis(150) && first < Time::from_millis(400),
        "{first:?}"
    );
}

#[test]
fn the_delay_is_brought_to_its_target() {
    for target_ms in [15, 30] {
        let target = Duration::from_millis(target_ms);
        let mut run = Run::new(PieConfig {
            target,
            ..PieConfig::default()
        });
        // A quarter too much, from a sender that does not care.
        run.offer(of_flow(0, 1500), 800, 0, 120_000);
        let wait = run.mean_wait_ms(60_000);
        assert!(
            (wait / target_ms as f64 - 1.0).abs() < 0.2,
            "{wait} ms of {target_ms}"
        );
        let late = run
            .bench
            .dropped()
            .iter()
            .filter(|d| d.at >= Time::from_millis(60_000));
        let share = late.count() as f64 / (60_000.0 * 1.25);
        assert!((share - 0.2).abs() < 0.01, "a fifth has to go: {share}");
        assert!(
            run.bench
                .dropped()
                .iter()
                .all(|d| d.reason == DropReason::Aqm)
        );
    }
}

#[test]
fn a_load_that_fits_is_left_alone() {
    let mut run = Run::new(PieConfig::default());
    run.offer(of_flow(0, 1500), 1_050, 0, 60_000);
    assert!(run.bench.dropped().is_empty());
}

#[test]
fn the_burst_allowance_comes_back_after_quiet() {
    let mut run = Run::new(PieConfig::default());
    run.offer(of_flow(0, 1500), 500, 0, 2_000);
    // Nothing for a while: the queue empties and the probability goes to zero.
    run.offer(of_flow(0, 1500), 10_000, 2_000, 30_000);
    let before = run.bench.dropped().len();
    run.offer(of_flow(0, 1500), 500, 30_000, 30_150);
    assert_eq!(run.bench.dropped().len(), before);
}

#[test]
fn updates_that_nobody_saw_were_made() {
    // The same after silence as after asking all the time.
    let run = |ask: bool| {
        let mut run = Run::new(PieConfig::default());
        run.offer(of_flow(0, 1500), 500, 0, 1_000);
        while run.bench.take(Time::from_millis(1_000)).is_some() {}
        if ask {
            for ms in 1_000..9_000 {
                assert!(run.bench.take(Time::from_millis(ms)).is_none());
            }
        }
        run.offer(of_flow(0, 1500), 500, 9_000, 12_000);
        let drops = run.bench.dropped().iter().map(|drop| drop.at);
        drops.collect::<Vec<_>>()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn marks_up_to_a_tenth_and_drops_beyond() {
    let ecn = PieConfig {
        ecn: true,
        ..PieConfig::default()
    };
    // 3 % too much, marks that nobody heeds: the probability rises through 10 %, and then only
    // drops bring the load down.
    let mut run = Run::new(ecn);
    run.offer(markable(1500), 970, 0, 60_000);
    assert!(run.bench.sink.marked > 0);
    let first = run.bench.dropped().first().expect("it goes beyond").at;
    assert!(first > Time::from_millis(500));
    // What cannot be marked is dropped from the start.
    let mut deaf = Run::new(ecn);
    deaf.offer(of_flow(0, 1500), 970, 0, 60_000);
    assert_eq!(deaf.bench.sink.marked, 0);
    assert!(deaf.bench.dropped()[0].at <= first);
}

#[test]
fn drops_are_spread() {
    let mut run = Run::new(PieConfig::default());
    run.offer(of_flow(0, 1500), 950, 0, 120_000);
    let late: Vec<Time> = run
        .bench
        .dropped()
        .iter()
        .map(|drop| drop.at)
        .filter(|at| *at > Time::from_millis(60_000))
        .collect();
    // 5 % have to go: at p near that, 0.85 / p packets pass between two at least, and 8.5 / p at
    // most (RFC 8033 §5.4). p is a little above, for the least gap is in it too.
    for pair in late.windows(2) {
        let packets = pair[1].since(pair[0]).as_nanos() / 950_000;
        assert!(
            (3..=200).contains(&packets),
            "{packets} packets between drops"
        );
    }
    assert!(late.len() > 1_000);
}
