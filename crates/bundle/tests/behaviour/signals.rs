//! The signals of a bundle, as its program sees them.

use std::time::Duration;

use fairwater_bundle::{Mode, datapath_config};
use fairwater_datapath::Signal;
use fairwater_net::{LossConfig, Probability};
use fairwater_proto::{Fallback, SignalQuality};

use crate::network::{Network, Source, link, mbit};

/// Reports at each invocation, under a rate that stands still.
const REPORTING: &str = "(def (Report
      (acked 0) (packets 0) (lost 0) (misordered 0) (timeouts 0) (ce 0)
      (flight 0) (pending 0) (incoming 0) (outgoing 0) (rtt 0) (limited 0)))
    (when true
      (:= Report.acked (+ Report.acked Ack.bytes_acked))
      (:= Report.packets (+ Report.packets Ack.packets_acked))
      (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
      (:= Report.misordered (+ Report.misordered Ack.bytes_misordered))
      (:= Report.ce (+ Report.ce Ack.ecn_packets))
      (:= Report.flight Flow.bytes_in_flight)
      (:= Report.pending Flow.bytes_pending)
      (:= Report.incoming Flow.rate_incoming)
      (:= Report.outgoing Flow.rate_outgoing)
      (:= Report.rtt Flow.rtt_sample_us)
      (:= Report.limited 0)
      (:= Rate 3000000) (:= Cwnd 1000000000)
      (fallthrough))
    (when Flow.was_timeout (:= Report.timeouts (+ Report.timeouts 1)) (fallthrough))
    (when Flow.app_limited (:= Report.limited 1) (fallthrough))
    (when true (report))";

#[test]
fn a_program_sees_the_path() {
    let mut path = link(48, 40, 2);
    path.loss = LossConfig::Random(Probability::percent(1));
    path.seed = 3;
    let mut network = Network::new(REPORTING, &path, Source::Paced(mbit(24)));
    network.run(Duration::from_secs(2));
    assert_eq!(
        network.status().mode,
        Mode::Control,
        "{:?}",
        network.changes
    );
    let info = network.plane.started[0].clone();
    let bdp = mbit(24) as f64 * 0.040;
    assert!((info.cwnd as f64 / bdp - 1.0).abs() < 0.1, "{info:?}");
    assert_eq!(info.ssthresh, Some(info.cwnd));

    let before = (
        network.plane.reports.len(),
        network.delivered_bytes,
        network.forward[0].counters(),
    );
    // More comes than leaves.
    network.source = Source::Paced(mbit(26));
    let began = network.now;
    network.run(Duration::from_secs(8));
    let seconds = network.now.since(began).as_secs_f64();
    let (first, last) = (
        &network.plane.reports[before.0],
        network.plane.reports.last().unwrap(),
    );
    let rose = |index: usize| (last[index] - first[index]) as f64;
    let delivered = (network.delivered_bytes - before.1) as f64;
    assert!(
        (rose(0) / delivered - 1.0).abs() < 0.02,
        "{} {delivered}",
        rose(0)
    );
    assert!((rose(1) * 1_500.0 / delivered - 1.0).abs() < 0.02);
    // Each feedback, and each 10 ms.
    let reports = (network.plane.reports.len() - before.0) as f64 / seconds;
    assert!(reports > 200.0, "{reports}");
    let lost = (network.forward[0].counters().dropped_lost - before.2.dropped_lost) as f64;
    assert!(
        rose(2) <= lost * 1.1 && rose(2) > lost * 0.5,
        "{} {lost}",
        rose(2)
    );
    assert_eq!((rose(3), rose(4), rose(5)), (0.0, 0.0, 0.0));
    let near = |index: usize, expected: f64| {
        assert!(
            (last[index] as f64 / expected - 1.0).abs() < 0.15,
            "{index}: {last:?}"
        );
    };
    near(6, 3e6 * 0.040);
    assert!(last[7].abs_diff(network.status().queued_bytes) < 50_000);
    assert!(last[7] > 100_000);
    near(8, 3e6);
    near(9, 3e6);
    near(10, 40_250.0);
    assert_eq!(last[11], 0);
}

#[test]
fn a_bundle_without_a_queue_is_application_limited() {
    let mut network = Network::new(REPORTING, &link(48, 40, 2), Source::Paced(mbit(10)));
    network.run(Duration::from_secs(3));
    assert_eq!(network.plane.reports.last().unwrap()[11], 1);
}

#[test]
fn planes_are_told_what_a_bundle_is() {
    let capabilities = datapath_config().capabilities();
    assert_eq!(capabilities.fallback, Fallback::Release);
    assert!(capabilities.abilities.rate && capabilities.abilities.window);
    let quality = |signal| capabilities.signals.of(signal);
    assert_eq!(quality(Signal::Undo), SignalQuality::Absent);
    assert_eq!(quality(Signal::RttSampleUs), SignalQuality::Exact);
    assert_eq!(quality(Signal::LostPkts), SignalQuality::Inferred);
    assert_eq!(quality(Signal::BytesMisordered), SignalQuality::Degraded);
}
