//! The controller for noq.
//!
//! Per ACK frame noq calls `on_ack` for each packet, `on_end_acks`, updates its RTT estimate, then
//! `on_packet_lost` for each lost packet and `on_congestion_event`. The estimate in `on_ack` is the
//! one before the frame, so the RTT is sampled from the packets here. MTU probes have `on_packet_sent`
//! but no `on_sent`, and a lost one is not told at all.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use fairwater_datapath::Signal;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::flight::Flight;
use crate::path_flow::{FlowConfig, PathFlow};
use crate::{Factory, Handle};

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(NoqController::new(self.flow_config().clone(), current_mtu))
    }
}

/// The congestion control of one path of a noq connection.
#[derive(Debug)]
pub struct NoqController {
    flow: PathFlow,
    flight: Flight,
    initial_window: u64,
    /// The largest packet that the ACK frame at hand acknowledges.
    largest_acked: Option<u64>,
    /// What was in flight after the last ACK frame, bytes, less what was lost since.
    in_flight: u64,
    app_limited: bool,
}

impl NoqController {
    fn new(config: FlowConfig, mtu: u16) -> Self {
        Self::of(PathFlow::new(config, mtu))
    }

    fn of(flow: PathFlow) -> Self {
        Self {
            initial_window: flow.window(),
            flow,
            flight: Flight::default(),
            largest_acked: None,
            in_flight: 0,
            app_limited: false,
        }
    }

    /// Live measures of the path.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.flow.handle()
    }

    /// Live measures of the path whose controller noq gave out (`Connection::congestion_state`);
    /// `None` for a controller that is not Fairwater's.
    #[must_use]
    pub fn handle_of(controller: Box<dyn Controller>) -> Option<Handle> {
        let controller = controller.into_any().downcast::<Self>().ok()?;
        Some(controller.handle())
    }

    /// [`Controller::on_ack`], without the estimate that it does not need.
    #[inline]
    fn acknowledge(&mut self, sent: Instant, bytes: u64, pn: u64) {
        let sent_ns = self.flow.time_ns(sent);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(acked) = self.flight.acknowledge(sent_ns, pn, bytes) {
            self.flow
                .acked(&acked.stamp, 1, acked.bytes, acked.in_order);
            self.largest_acked = self.largest_acked.max(Some(pn));
        }
    }

    fn invoke(&mut self, now_ns: u64, persistent: bool) {
        self.flow
            .set_state(self.in_flight, self.flight.entries(), self.app_limited);
        self.flow.invoke(now_ns, persistent);
    }
}

impl Controller for NoqController {
    #[inline]
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        let now_ns = self.flow.time_ns(now);
        let idle = self.flight.is_empty();
        let stamp = self.flow.rates.on_send(now_ns, bytes.into(), idle);
        self.flight.push(stamp, pn, bytes.into());
    }

    #[inline]
    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        self.acknowledge(sent, bytes, pn);
    }

    #[inline]
    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        let Some(largest) = self.largest_acked.take() else {
            // Packets of a former path, or without anything to acknowledge.
            return;
        };
        let now_ns = self.flow.time_ns(now);
        self.flight.reconcile(in_flight, self.flow.mss());
        let largest_is_new = largest_packet_num_acked.is_none_or(|newest| newest == largest);
        self.flow.end_of_acks(now_ns, largest_is_new);
        self.in_flight = in_flight;
        self.app_limited = app_limited;
        if app_limited {
            self.flow.rates.on_app_limited(in_flight);
        }
        self.invoke(now_ns, false);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, _now: Instant) {
        if self.flight.lose(pn, lost_bytes.into()) {
            self.in_flight = self.in_flight.saturating_sub(lost_bytes.into());
            self.flow.signals[Signal::LostPkts] += 1;
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        if is_ecn {
            // noq tells that marks came, not how many.
            self.flow.signals[Signal::EcnPackets] += 1;
            self.flow.signals[Signal::EcnBytes] += u64::from(self.flow.mss());
        } else if self.flow.signals[Signal::LostPkts] == 0 {
            // Packets of a former path.
            return;
        }
        let now_ns = self.flow.time_ns(now);
        self.invoke(now_ns, is_persistent_congestion);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.flow.set_mtu(new_mtu);
    }

    #[inline]
    fn window(&self) -> u64 {
        self.flow.window()
    }

    #[inline]
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.flow.window();
        metrics.pacing_rate = self.flow.pacing_rate();
        metrics.bandwidth_estimate = self.flow.delivery_rate().map(|rate| rate.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self::of(self.flow.successor()))
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {

    use std::time::Instant;

    use super::*;
    use crate::conformance::{assert_last, ms, probed};

    /// A connection whose handshake is over: two ACKs have come, 50 ms apart, and the plane has seen
    /// one report.
    fn connected() -> (
        NoqController,
        Instant,
        crate::conformance::Seen,
        Arc<Factory>,
    ) {
        let (options, start, seen) = probed();
        let factory = options.noq("probe").unwrap();
        let flow = PathFlow::new(factory.flow_config().clone(), 1200);
        let mut noq = NoqController::of(flow);
        // The server's Initial and Handshake packets.
        noq.on_packet_sent(start, 1200, 0);
        noq.on_packet_sent(start, 900, 0);
        let first = start + ms(50);
        noq.acknowledge(start, 1200, 0);
        noq.on_end_acks(first, 900, false, Some(0));
        assert_eq!(factory.status().flows, 0, "an Initial may be spoofed");
        // The keys of the handshake are discarded, with its packet. Data: a packet a millisecond.
        for pn in 0..20 {
            noq.on_packet_sent(first + ms(pn), 1200, pn);
        }
        let now = start + ms(100);
        noq.acknowledge(first, 1200, 0);
        noq.on_end_acks(now, 19 * 1200, false, Some(0));
        assert_eq!(factory.status().flows, 1);
        (noq, start, seen, factory)
    }

    #[test]
    fn each_signal_is_what_happened() {
        let (mut noq, start, seen, _factory) = connected();
        let sent = |pn: u64| start + ms(50 + pn);
        assert_last(
            &seen,
            1,
            &[
                (Signal::Now, 100_000),
                (Signal::BytesAcked, 1200),
                (Signal::PacketsAcked, 1),
                (Signal::BytesMisordered, 0),
                (Signal::PacketsMisordered, 0),
                (Signal::BytesInFlight, 22_800),
                (Signal::PacketsInFlight, 19),
                // Something waits: how much, noq does not tell.
                (Signal::BytesPending, 1200),
                (Signal::RttSampleUs, 50_000),
                (Signal::WasTimeout, 0),
                (Signal::AppLimited, 0),
                // 1,200 bytes since the ACK before, 50 ms ago.
                (Signal::RateIncoming, 24_000),
                (Signal::LostPkts, 0),
                (Signal::EcnPackets, 0),
                (Signal::EcnBytes, 0),
            ],
        );
        // Packet 2 is missing: 1 is in order, 3 is not.
        noq.acknowledge(sent(1), 1200, 1);
        noq.acknowledge(sent(3), 1200, 3);
        noq.on_end_acks(start + ms(103), 17 * 1200, false, Some(3));
        assert_last(
            &seen,
            2,
            &[
                (Signal::BytesAcked, 1200),
                (Signal::PacketsAcked, 1),
                (Signal::BytesMisordered, 1200),
                (Signal::PacketsMisordered, 1),
                (Signal::PacketsInFlight, 17),
                (Signal::RttSampleUs, 50_000),
                // 3 was sent at 53 ms, when 1,200 bytes were delivered, the last at 50 ms: 3,600
                // bytes in 53 ms; sent since the Initial, 53 ms.
                (Signal::RateIncoming, 67_924),
                (Signal::RateOutgoing, 67_924),
            ],
        );
        // An ACK that comes late acknowledges 2 alone: no RTT sample (RFC 9002 §5.1), and with it
        // the data is in order again.
        noq.acknowledge(sent(2), 1200, 2);
        noq.on_end_acks(start + ms(120), 16 * 1200, false, Some(3));
        assert_last(
            &seen,
            3,
            &[(Signal::BytesAcked, 1200), (Signal::RttSampleUs, 50_000)],
        );
        // 8 is acknowledged, and 4 and 5 are lost: two invocations.
        noq.acknowledge(sent(8), 1200, 8);
        noq.on_end_acks(start + ms(121), 15 * 1200, false, Some(8));
        noq.on_packet_lost(1200, 4, start + ms(121));
        noq.on_packet_lost(1200, 5, start + ms(121));
        noq.on_congestion_event(start + ms(121), sent(5), false, false, 2400, 5);
        assert_last(
            &seen,
            5,
            &[
                (Signal::LostPkts, 2),
                (Signal::BytesAcked, 0),
                (Signal::BytesInFlight, 13 * 1200),
                (Signal::PacketsInFlight, 13),
                (Signal::RttSampleUs, 63_000),
            ],
        );
        // Marks: at least one.
        noq.acknowledge(sent(9), 1200, 9);
        noq.on_end_acks(start + ms(122), 12 * 1200, false, Some(9));
        noq.on_congestion_event(start + ms(122), sent(9), false, true, 0, 9);
        assert_last(
            &seen,
            7,
            &[(Signal::EcnPackets, 1), (Signal::EcnBytes, 1200)],
        );
        // Persistent congestion stands for a timeout.
        noq.on_packet_lost(1200, 6, start + ms(400));
        noq.on_congestion_event(start + ms(400), sent(6), true, false, 1200, 6);
        assert_last(
            &seen,
            8,
            &[
                (Signal::WasTimeout, 1),
                (Signal::LostPkts, 1),
                (Signal::PacketsInFlight, 11),
            ],
        );
        // The application has no more: nothing waits, and what is sent then is app-limited.
        noq.acknowledge(sent(10), 1200, 10);
        noq.on_end_acks(start + ms(410), 10 * 1200, true, Some(10));
        assert_last(
            &seen,
            9,
            &[(Signal::BytesPending, 0), (Signal::WasTimeout, 0)],
        );
        noq.on_packet_sent(start + ms(411), 1200, 20);
        noq.acknowledge(start + ms(411), 1200, 20);
        noq.on_end_acks(start + ms(450), 10 * 1200, true, Some(20));
        assert_last(&seen, 10, &[(Signal::AppLimited, 1)]);
    }

    #[test]
    fn what_was_never_sent_is_not_counted() {
        let (mut noq, start, seen, _factory) = connected();
        noq.acknowledge(start + ms(60), 1200, 5000);
        noq.acknowledge(start + ms(9_999), 1200, 5);
        noq.on_end_acks(start + ms(103), 19 * 1200, false, Some(0));
        noq.on_packet_lost(1200, 7000, start + ms(103));
        noq.on_congestion_event(start + ms(103), start, false, false, 1200, 7000);
        assert_last(&seen, 1, &[]);
        // A packet of the handshake has the number of one of the data: each is found.
        noq.acknowledge(start + ms(51), 1200, 1);
        noq.acknowledge(start + ms(51), 1200, 1);
        noq.on_end_acks(start + ms(104), 18 * 1200, false, Some(1));
        assert_last(
            &seen,
            2,
            &[(Signal::PacketsAcked, 1), (Signal::PacketsInFlight, 18)],
        );
    }

    #[test]
    fn a_lost_probe_of_the_mtu_is_forgotten() {
        let (mut noq, start, seen, _factory) = connected();
        noq.on_packet_sent(start + ms(101), 1452, 20);
        noq.acknowledge(start + ms(51), 1200, 1);
        // noq has given the probe up and counts the others.
        noq.on_end_acks(start + ms(105), 18 * 1200, false, Some(1));
        assert_last(
            &seen,
            2,
            &[(Signal::PacketsInFlight, 18), (Signal::LostPkts, 0)],
        );
        noq.on_mtu_update(1452);
        assert_eq!(noq.window().min(2 * 1452), 2 * 1452);
    }

    #[test]
    fn a_path_that_follows_has_a_flow_of_its_own() {
        let (noq, start, _, factory) = connected();
        let mut next = noq.clone_box();
        assert_eq!(factory.status().flows, 1);
        next.on_packet_sent(start + ms(200), 1200, 30);
        drop(noq);
        assert_eq!(factory.status().flows, 0);
        let handle = NoqController::handle_of(next).unwrap();
        assert!(handle.delivery_rate().is_some(), "that of the former path");
    }

    #[test]
    fn ten_thousand_spoofed_connections_have_no_flow() {
        let (options, start, _) = probed();
        let factory = options.noq("probe").unwrap();
        let mut controllers = Vec::new();
        for _ in 0..10_000 {
            let mut noq = Arc::clone(&factory).build(start, 1200);
            noq.on_packet_sent(start, 1200, 0);
            controllers.push(noq);
        }
        assert_eq!(factory.status().flows, 0);
    }
}
