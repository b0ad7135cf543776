//! The controller for s2n-quic.
//!
//! Per ACK frame s2n-quic calls `on_rtt_update` when the largest packet is newly acknowledged, then
//! tells losses and marks, then `on_ack` once with a sum: one invocation a frame. Losses by timer
//! have no `on_ack`. The state of a packet travels in its `PacketInfo`.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fairwater_datapath::Signal;
use s2n_quic::provider::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp,
};

use crate::path_flow::PathFlow;
use crate::rate::Stamp;
use crate::{Factory, Handle};

/// Makes controllers for s2n-quic: see [`crate::Options::s2n`].
#[derive(Debug, Clone)]
pub struct S2nEndpoint {
    factory: Factory,
    clock: Clock,
}

/// s2n-quic's clock, from the first time that was seen: that and the datapath's time then, ns.
#[derive(Debug, Clone, Default)]
struct Clock(Arc<OnceLock<(Timestamp, u64)>>);

impl Clock {
    fn time_ns(&self, at: Timestamp, flow: &PathFlow) -> u64 {
        let (origin, origin_ns) = *self.0.get_or_init(|| (at, flow.time_ns(Instant::now())));
        let since = at.saturating_duration_since(origin).as_nanos();
        origin_ns.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn at(&self, time_ns: u64) -> Option<Timestamp> {
        let (origin, origin_ns) = *self.0.get()?;
        Some(origin + Duration::from_nanos(time_ns.saturating_sub(origin_ns)))
    }
}

impl S2nEndpoint {
    pub(crate) fn new(factory: Factory) -> Self {
        Self {
            factory,
            clock: Clock::default(),
        }
    }

    /// The factory that it stands for.
    #[must_use]
    pub const fn factory(&self) -> &Factory {
        &self.factory
    }

    fn controller(&self, mtu: u16) -> S2nController {
        let flow = PathFlow::new(self.factory.flow_config().clone(), mtu);
        S2nController::of(flow, self.clock.clone())
    }
}

impl Endpoint for S2nEndpoint {
    type CongestionController = S2nController;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> S2nController {
        self.controller(path.max_datagram_size)
    }
}

/// What was known when a packet was sent.
#[derive(Debug, Clone, Copy)]
pub struct S2nPacket(Stamp);

/// The congestion control of one path of an s2n-quic connection.
#[derive(Debug)]
pub struct S2nController {
    flow: PathFlow,
    clock: Clock,
    in_flight: u64,
    /// Bytes acknowledged, lost or forgotten.
    resolved: u64,
    /// An ACK frame is being told of: its `on_ack` is yet to come.
    is_in_frame: bool,
    app_limited: bool,
    /// Persistent congestion was told in the frame.
    persistent: bool,
    /// When the rate allows the next packet, ns.
    next_sent_ns: u64,
}

impl S2nController {
    fn of(flow: PathFlow, clock: Clock) -> Self {
        Self {
            flow,
            clock,
            in_flight: 0,
            resolved: 0,
            is_in_frame: false,
            app_limited: false,
            persistent: false,
            next_sent_ns: 0,
        }
    }

    /// Live measures of the path.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.flow.handle()
    }

    fn invoke(&mut self, now_ns: u64) {
        let packets = self.in_flight.div_ceil(u64::from(self.flow.mss()));
        self.flow
            .set_state(self.in_flight, packets, self.app_limited);
        let persistent = std::mem::take(&mut self.persistent);
        self.flow.invoke(now_ns, persistent);
    }

    fn sent(&mut self, now_ns: u64, bytes: u64, app_limited: Option<bool>) -> S2nPacket {
        if let Some(app_limited) = app_limited {
            self.app_limited = app_limited;
            if app_limited {
                self.flow.rates.on_app_limited(self.in_flight);
            }
        }
        let idle = self.in_flight == 0;
        let stamp = self.flow.rates.on_send(now_ns, bytes, idle);
        self.in_flight += bytes;
        if let Some(rate) = self.flow.pacing_rate() {
            let ns = bytes.saturating_mul(1_000_000_000) / rate;
            self.next_sent_ns = self.next_sent_ns.max(now_ns).saturating_add(ns);
        }
        S2nPacket(stamp)
    }

    fn acknowledged(&mut self, now_ns: u64, bytes: u64, newest: &S2nPacket) {
        self.resolve(bytes);
        let stamp = newest.0;
        // Nothing is left of what was sent up to this packet.
        let in_order = self.resolved >= stamp.sent_bytes;
        let packets = bytes.div_ceil(u64::from(self.flow.mss()));
        self.flow.acked(&stamp, packets, bytes, in_order);
        let largest_is_new = std::mem::take(&mut self.is_in_frame);
        self.flow.end_of_acks(now_ns, largest_is_new);
        self.invoke(now_ns);
    }

    fn lost(&mut self, now_ns: u64, bytes: u32, persistent: bool) {
        self.resolve(bytes.into());
        self.flow.signals[Signal::LostPkts] += 1;
        self.persistent |= persistent;
        if !self.is_in_frame {
            self.invoke(now_ns);
        }
    }

    fn marked(&mut self, now_ns: u64, packets: u64) {
        let mss = u64::from(self.flow.mss());
        self.flow.signals[Signal::EcnPackets] += packets;
        self.flow.signals[Signal::EcnBytes] += packets.saturating_mul(mss);
        if !self.is_in_frame {
            self.invoke(now_ns);
        }
    }

    fn resolve(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.resolved += bytes;
    }
}

impl Clone for S2nController {
    /// For another path: another flow, from the beginning.
    fn clone(&self) -> Self {
        Self::of(self.flow.successor(), self.clock.clone())
    }
}

impl CongestionController for S2nController {
    type PacketInfo = S2nPacket;

    fn congestion_window(&self) -> u32 {
        u32::try_from(self.flow.window()).unwrap_or(u32::MAX)
    }

    fn bytes_in_flight(&self) -> u32 {
        u32::try_from(self.in_flight).unwrap_or(u32::MAX)
    }

    fn is_congestion_limited(&self) -> bool {
        let room = self.flow.window().saturating_sub(self.in_flight);
        room < u64::from(self.flow.mss())
    }

    fn requires_fast_retransmission(&self) -> bool {
        false
    }

    fn on_packet_sent<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        app_limited: Option<bool>,
        _rtt_estimator: &RttEstimator,
        _publisher: &mut Pub,
    ) -> S2nPacket {
        let now_ns = self.clock.time_ns(time_sent, &self.flow);
        self.sent(now_ns, sent_bytes as u64, app_limited)
    }

    fn on_rtt_update<Pub: Publisher>(
        &mut self,
        _time_sent: Timestamp,
        _now: Timestamp,
        _rtt_estimator: &RttEstimator,
        _publisher: &mut Pub,
    ) {
        self.is_in_frame = true;
    }

    fn on_ack<Pub: Publisher>(
        &mut self,
        _newest_acked_time_sent: Timestamp,
        bytes_acknowledged: usize,
        newest_acked_packet_info: S2nPacket,
        _rtt_estimator: &RttEstimator,
        _random_generator: &mut dyn RandomGenerator,
        ack_receive_time: Timestamp,
        _publisher: &mut Pub,
    ) {
        let now_ns = self.clock.time_ns(ack_receive_time, &self.flow);
        let bytes = bytes_acknowledged as u64;
        self.acknowledged(now_ns, bytes, &newest_acked_packet_info);
    }

    fn on_packet_lost<Pub: Publisher>(
        &mut self,
        lost_bytes: u32,
        _packet_info: S2nPacket,
        persistent_congestion: bool,
        _new_loss_burst: bool,
        _random_generator: &mut dyn RandomGenerator,
        timestamp: Timestamp,
        _publisher: &mut Pub,
    ) {
        let now_ns = self.clock.time_ns(timestamp, &self.flow);
        self.lost(now_ns, lost_bytes, persistent_congestion);
    }

    fn on_explicit_congestion<Pub: Publisher>(
        &mut self,
        ce_count: u64,
        event_time: Timestamp,
        _publisher: &mut Pub,
    ) {
        let now_ns = self.clock.time_ns(event_time, &self.flow);
        self.marked(now_ns, ce_count);
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, max_data_size: u16, _publisher: &mut Pub) {
        self.flow.set_mtu(max_data_size);
    }

    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes_sent: usize, _publisher: &mut Pub) {
        self.resolve(bytes_sent as u64);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        self.flow.pacing_rate()?;
        self.clock.at(self.next_sent_ns)
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::conformance::{assert_last, probed};

    /// The parts of the trait's calls that carry no stack's own types, which cannot be made here.
    #[test]
    fn each_signal_is_what_s2n_lets_it_be() {
        let (options, _, seen) = probed();
        let endpoint = options.s2n("probe").unwrap();
        let mut s2n = endpoint.controller(1200);
        let at = |milliseconds: u64| milliseconds * 1_000_000;
        let first = s2n.sent(at(0), 1200, None);
        s2n.is_in_frame = true;
        s2n.acknowledged(at(50), 1200, &first);
        let packets: Vec<_> = (0..10)
            .map(|n| s2n.sent(at(50 + n), 1200, Some(false)))
            .collect();
        s2n.is_in_frame = true;
        s2n.acknowledged(at(100), 1200, &packets[0]);
        assert_eq!(endpoint.factory().status().flows, 1);
        assert_last(
            &seen,
            1,
            &[
                (Signal::Now, 100_000),
                (Signal::BytesAcked, 1200),
                (Signal::PacketsAcked, 1),
                (Signal::RttSampleUs, 50_000),
                (Signal::BytesInFlight, 10_800),
                (Signal::PacketsInFlight, 9),
                (Signal::BytesPending, 1200),
                (Signal::AppLimited, 0),
                (Signal::RateIncoming, 24_000),
            ],
        );
        // 1 is missing: 2 to 4 are acknowledged, out of order as far as is known.
        s2n.is_in_frame = true;
        s2n.acknowledged(at(104), 3600, &packets[4]);
        assert_last(
            &seen,
            2,
            &[
                (Signal::BytesAcked, 0),
                (Signal::BytesMisordered, 3600),
                (Signal::PacketsMisordered, 3),
            ],
        );
        // The loss of 1 and a mark come before the sum of their frame: one invocation.
        s2n.is_in_frame = true;
        s2n.lost(at(105), 1200, false);
        s2n.marked(at(105), 2);
        s2n.acknowledged(at(105), 1200, &packets[5]);
        assert_last(
            &seen,
            3,
            &[
                (Signal::LostPkts, 1),
                (Signal::EcnPackets, 2),
                (Signal::EcnBytes, 2400),
                (Signal::BytesAcked, 1200),
                (Signal::BytesInFlight, 4800),
                (Signal::WasTimeout, 0),
            ],
        );
        // By timer: no sum follows.
        s2n.lost(at(500), 1200, true);
        assert_last(&seen, 4, &[(Signal::WasTimeout, 1), (Signal::LostPkts, 1)]);
        let limited = s2n.sent(at(510), 1200, Some(true));
        s2n.is_in_frame = true;
        s2n.acknowledged(at(560), 1200, &limited);
        assert_last(
            &seen,
            5,
            &[(Signal::AppLimited, 1), (Signal::BytesPending, 0)],
        );
    }
}
