//! PCC Vivace: Dong et al., NSDI '18.

use fairwater_algorithms::{Vivace, VivaceConfig};
use fairwater_exec::interp::{Input, Machine, Stage};
use fairwater_lang::{Scope, Signal, Signals};
use fairwater_plane::{AlgorithmError, Plane, PlaneError};

use crate::support::driver::Driver;
use crate::support::path::{MSS, Path, Sample, run};

/// The rates that were in force, with how long, in order: (packets/s, µs).
fn steps(samples: &[Sample]) -> Vec<(f64, u64)> {
    let mut steps: Vec<(f64, u64)> = Vec::new();
    let mut since = 0;
    for pair in samples.windows(2).filter(|pair| pair[0].rate > 0) {
        if pair[0].rate == pair[1].rate {
            continue;
        }
        let at = pair[1].now_us;
        steps.push((pair[0].rate as f64 / MSS as f64, at - since));
        since = at;
    }
    steps
}

/// §4: the rate doubles as long as the utility rises, and goes back when it does not.
#[test]
fn slow_start_doubles_until_it_costs_more_than_it_brings() {
    for (per_s, rtt_us) in [(5_000, 50_000), (2_000, 100_000), (20_000, 20_000)] {
        let samples = run(
            Path::new(per_s, rtt_us, 10_000),
            &mut Driver::new("vivace"),
            2.0,
        );
        let steps = steps(&samples);
        let top = steps.iter().position(|s| s.0 > per_s as f64).unwrap();
        assert!(top >= 2, "{steps:?}");
        for pair in steps[..=top].windows(2) {
            assert!((pair[1].0 / pair[0].0 - 2.0).abs() < 0.01, "{pair:?}");
        }
        assert!(steps[top].0 < 2.2 * per_s as f64, "{steps:?}");
        // Then it is probed about the rate before.
        let next = steps[top + 1].0 / steps[top - 1].0;
        assert!((next - 1.0).abs() < 0.06, "{next}");
    }
}

/// §4: pairs of rates, 1 ± ε times the rate, an RTT each.
#[test]
fn probes_come_in_pairs_of_an_rtt_each() {
    for (probe, spec) in [(0.05, "vivace"), (0.1, "vivace:probe=0.1")] {
        let samples = run(
            Path::new(5_000, 50_000, 10_000),
            &mut Driver::new(spec),
            20.0,
        );
        let steps = steps(&samples);
        let mut found = 0;
        for four in steps.windows(4).skip(8) {
            // a, then b for two intervals, then a again: the rate is between them.
            let [a, b, again, after] = [four[0], four[1], four[2], four[3]];
            let middle = (a.0 + b.0) / 2.0;
            let apart = (a.0 - b.0).abs() / (2.0 * middle);
            if a.0 == again.0 && (apart - probe).abs() < 1e-3 && after.0 != b.0 {
                found += 1;
                assert!((95_000..150_000).contains(&b.1), "{four:?}");
                assert!((48_000..100_000).contains(&again.1), "{four:?}");
            }
        }
        assert!(found > 10, "{found}: {steps:?}");
    }
}

/// A loss is known an RTT after the rate that caused it was in force: charged to another interval,
/// it would drive the rate the wrong way. Losses alone tell here, and only above the capacity.
#[test]
fn losses_are_charged_to_the_rate_that_caused_them() {
    for rtt_us in [20_000, 60_000, 150_000] {
        let path = Path::new(4_000, rtt_us, 4);
        let samples = run(path, &mut Driver::new("vivace:latency=0"), 60.0);
        let late = &samples[samples.partition_point(|s| s.now_us < 30_000_000)..];
        let delivered = late.last().unwrap().delivered - late[0].delivered;
        let used = delivered as f64 / (4_000.0 * 30.0);
        assert!(used > 0.85, "{rtt_us} µs: {used}");
        let lost: u64 = late.iter().map(|s| s.lost_now).sum();
        let lost = lost as f64 / (lost + delivered) as f64;
        assert!(lost < 0.06, "{rtt_us} µs: {lost}");
    }
}

#[test]
fn an_application_limited_flow_does_not_raise_its_rate() {
    let mut path = Path::new(40_000, 50_000, 10_000);
    path.application = |now_us| now_us / 1_000;
    let samples = run(path, &mut Driver::new("vivace"), 20.0);
    // What piled up while the rate was below 1,000 packets/s is sent faster, until it is gone.
    let most = |from_us: u64| {
        let late = samples.iter().filter(|s| s.now_us >= from_us);
        late.map(|s| s.rate / MSS).max().unwrap()
    };
    assert!(most(0) < 8_000, "{} packets/s for 1,000 written", most(0));
    assert!(most(10_000_000) <= most(5_000_000));
}

#[test]
fn a_timeout_leaves_one_segment_and_half_of_the_rate() {
    let mut path = Path::new(4_000, 40_000, 1_000);
    path.lose = Box::new(|_, now| (5_000_000..5_600_000).contains(&now));
    let samples = run(path, &mut Driver::new("vivace"), 30.0);
    let timeout = samples.iter().position(|s| s.timeout).unwrap();
    assert_eq!(samples[timeout].cwnd, 1);
    let before = samples[timeout - 1].rate as f64;
    let at = samples
        .iter()
        .find(|s| s.now_us > samples[timeout].now_us + 400_000);
    let after = at.unwrap().rate as f64;
    assert!(after < 0.6 * before, "{before} to {after}");
    // And it climbs back.
    let last = samples.last().unwrap();
    assert!(last.rate > 3_400 * MSS, "{}", last.rate);
}

/// cwnd is out of the rate's way, and no more than that.
#[test]
fn cwnd_is_twice_what_the_rate_needs() {
    let samples = run(
        Path::new(5_000, 50_000, 10_000),
        &mut Driver::new("vivace"),
        10.0,
    );
    for s in samples.iter().filter(|s| s.now_us > 1_000_000) {
        let needed = s.rate as f64 * s.rtt_us as f64 / 1e6 / MSS as f64;
        let times = s.cwnd as f64 / needed.max(5.0);
        assert!((1.9..=2.01).contains(&times), "{s:?}");
    }
}

#[test]
fn what_is_out_of_range_is_refused() {
    let usual = VivaceConfig::default();
    for config in [
        VivaceConfig {
            latency: -1.0,
            ..usual
        },
        VivaceConfig {
            loss: f64::NAN,
            ..usual
        },
        VivaceConfig {
            probe: 0.0,
            ..usual
        },
        VivaceConfig {
            filter: 1.0,
            ..usual
        },
    ] {
        let mut plane = Plane::new();
        let error = plane
            .add(|programs| Vivace::new(programs, config))
            .unwrap_err();
        assert!(
            matches!(
                error,
                PlaneError::Algorithm(AlgorithmError::OutOfRange { .. })
            ),
            "{config:?}"
        );
    }
}

/// An ACK with a long RTT sample is for what was sent in an interval before, and tells nothing of
/// the one that is measured.
#[test]
fn an_intervals_samples_are_of_what_was_sent_in_it() {
    const LENGTH_US: u64 = 40_000;
    let mut plane = Plane::new();
    plane
        .add(|programs| Vivace::new(programs, VivaceConfig::default()))
        .unwrap();
    let program = plane.algorithms()[0].programs()[0].program();
    let variable = |name| program.variable(Scope::Control, name).unwrap();
    let plan = Stage {
        switch: None,
        cwnd: None,
        rate: None,
        updates: [
            ("fresh", 1),
            ("number", 1),
            ("length_us", LENGTH_US),
            ("count", 4),
        ]
        .map(|(name, value)| (variable(name), value))
        .to_vec(),
    };
    let mut machine = Machine::new(program, 0);
    let (mut measured, mut reports) = (0, 0);
    let mut expected = [0; 6];
    for ack in 0..400_u64 {
        let now = 1_000_000 + 700 * ack;
        let rtt = 30_000 + 11 * ack + if ack % 3 == 0 { 25_000 } else { 0 };
        let mut signals = Signals::default();
        signals[Signal::Now] = now;
        signals[Signal::RttSampleUs] = rtt;
        let outcome = machine.invoke(&Input {
            signals,
            cwnd: 10 * MSS,
            rate: 0,
            stage: (ack == 0).then_some(&plan),
        });
        let sent = (700 * ack).checked_sub(rtt);
        let interval = sent.map(|sent| sent / LENGTH_US);
        if interval.is_some_and(|interval| interval > measured) && measured < 4 {
            let fields = outcome.report.unwrap();
            let names = ["acks", "sum_x", "sum_y", "sum_xx", "sum_xy", "sum_yy"];
            let found = names.map(|name| {
                let field = program.variable(Scope::Report, name).unwrap();
                fields[usize::from(field.0)]
            });
            assert_eq!(found, expected, "interval {measured}");
            assert!(expected[0] > 10, "{expected:?}");
            (measured, expected, reports) = (interval.unwrap(), [0; 6], reports + 1);
        } else if interval == Some(measured) {
            let (x, y) = (sent.unwrap() - measured * LENGTH_US, rtt);
            for (sum, value) in expected.iter_mut().zip([1, x, y, x * x, x * y, y * y]) {
                *sum += value;
            }
        }
    }
    assert_eq!(reports, 4);
}
