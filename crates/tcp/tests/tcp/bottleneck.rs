//! A bulk flow over a bottleneck with a drop-tail queue: what the congestion controls are known
//! to reach there.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_sim::Native;
use fairwater_tcp::TcpConfig;

use crate::wire::Wire;

/// 40 ms, 160 segments in flight at the bottleneck's rate; the queue in segments. The share of
/// the rate that is used after slow start, and the wire.
fn run(native: Native, config: &TcpConfig, queue: u32) -> (f64, Wire) {
    let mut wire = Wire::new(config, native);
    wire.delay = Duration::from_millis(20);
    wire.serialisation = Duration::from_micros(250);
    wire.buffer = queue;
    wire.sender.write(1 << 40);
    wire.run_until(Time::from_millis(10_000));
    let from = wire.receiver.delivered();
    wire.run_until(Time::from_millis(35_000));
    let carried = (wire.receiver.delivered() - from) as f64 / 1448.0;
    (carried / (25.0 / 250e-6), wire)
}

#[test]
fn a_bulk_flow_fills_the_bottleneck_and_sends_no_more_than_was_lost_again() {
    for (native, queue, least) in [
        // Reno's window halves, so a queue of one BDP just keeps the link busy.
        (Native::Reno, 80, 0.90),
        (Native::Reno, 160, 0.99),
        (Native::Reno, 320, 0.99),
        (Native::Cubic, 80, 0.95),
        (Native::Cubic, 160, 0.99),
        (Native::Cubic, 320, 0.99),
    ] {
        for prr in [true, false] {
            let config = TcpConfig {
                prr,
                ..TcpConfig::default()
            };
            let (share, wire) = run(native, &config, queue);
            let counters = wire.sender.counters();
            assert!(share >= least, "{native:?}, queue {queue}: {share}");
            assert_eq!(counters.timeouts, 0, "{native:?}, queue {queue}");
            assert!(wire.overflowed > 0);
            assert!(
                counters.retransmissions <= wire.overflowed + counters.probes,
                "{native:?}, queue {queue}: {counters:?}, {} lost",
                wire.overflowed
            );
        }
    }
}

/// Without SACK a round trip repairs one loss (RFC 6582), so many at once take long; HyStart
/// leaves slow start before there are many.
#[test]
fn cubic_fills_the_bottleneck_without_sack() {
    let config = TcpConfig {
        sack: false,
        ..TcpConfig::default()
    };
    let (share, wire) = run(Native::Cubic, &config, 320);
    assert!(share >= 0.95, "{share} {:?}", wire.sender.counters());
}
