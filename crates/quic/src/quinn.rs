//! The controller for quinn.
//!
//! quinn tells of batches when they are sent, and of packets, by the time of their batch, when they
//! are acknowledged. It ignores rates: its own pacer sends 1.25 windows a round trip. So the datapath
//! is told that there is a window alone, and hands out windows that keep mean rates.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use fairwater_datapath::Signal;
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

use crate::flight::Flight;
use crate::path_flow::PathFlow;
use crate::{Factory, Handle};

/// Makes controllers for quinn: see [`crate::Options::quinn`].
#[derive(Debug, Clone)]
pub struct QuinnFactory(pub(crate) Factory);

impl QuinnFactory {
    /// The factory that it stands for.
    #[must_use]
    pub const fn factory(&self) -> &Factory {
        &self.0
    }
}

impl ControllerFactory for QuinnFactory {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let flow = PathFlow::new(self.0.flow_config().clone(), current_mtu);
        Box::new(QuinnController::of(flow))
    }
}

/// The congestion control of one path of a quinn connection.
#[derive(Debug)]
pub struct QuinnController {
    flow: PathFlow,
    flight: Flight,
    initial_window: u64,
    /// The ACK frame at hand acknowledges something.
    has_acked: bool,
    /// When the last-sent packet that was ever acknowledged was sent, ns.
    newest_ns: Option<u64>,
    /// The ACK frame at hand acknowledges a packet that was sent later than that.
    is_newer: bool,
    /// What was in flight after the last ACK frame, bytes, less what was lost since.
    in_flight: u64,
    app_limited: bool,
}

impl QuinnController {
    fn of(flow: PathFlow) -> Self {
        Self {
            initial_window: flow.window(),
            flow,
            flight: Flight::default(),
            has_acked: false,
            newest_ns: None,
            is_newer: false,
            in_flight: 0,
            app_limited: false,
        }
    }

    /// Live measures of the path.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.flow.handle()
    }

    /// Live measures of the path whose controller quinn gave out (`Connection::congestion_state`);
    /// `None` for a controller that is not Fairwater's.
    #[must_use]
    pub fn handle_of(controller: Box<dyn Controller>) -> Option<Handle> {
        let controller = controller.into_any().downcast::<Self>().ok()?;
        Some(controller.handle())
    }

    /// [`Controller::on_ack`], without the estimate that it does not need.
    fn acknowledge(&mut self, sent: Instant, bytes: u64) {
        let sent_ns = self.flow.time_ns(sent);
        self.has_acked = true;
        self.is_newer |= self.newest_ns.is_none_or(|newest| sent_ns > newest);
        self.newest_ns = self.newest_ns.max(Some(sent_ns));
        let size = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.flight.acknowledge_batch(sent_ns, size) {
            Some(acked) => self
                .flow
                .acked(&acked.stamp, 1, acked.bytes, acked.in_order),
            None => {
                // A probe of the MTU, of whose sending nothing was told.
                self.flow.signals[Signal::BytesAcked] += bytes;
                self.flow.signals[Signal::PacketsAcked] += 1;
            }
        }
    }

    fn invoke(&mut self, now_ns: u64, persistent: bool) {
        let packets = self.in_flight.div_ceil(u64::from(self.flow.mss()));
        self.flow
            .set_state(self.in_flight, packets, self.app_limited);
        self.flow.invoke(now_ns, persistent);
    }
}

impl Controller for QuinnController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        let now_ns = self.flow.time_ns(now);
        let stamp = self
            .flow
            .rates
            .on_send(now_ns, bytes, self.flight.is_empty());
        let size = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.flight.push(stamp, last_packet_number, size);
    }

    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        self.acknowledge(sent, bytes);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        if !std::mem::take(&mut self.has_acked) {
            return;
        }
        let now_ns = self.flow.time_ns(now);
        self.flight.reconcile(in_flight, self.flow.mss());
        let largest_is_new = std::mem::take(&mut self.is_newer);
        self.flow.end_of_acks(now_ns, largest_is_new);
        self.in_flight = in_flight;
        self.app_limited = app_limited;
        if app_limited {
            self.flow.rates.on_app_limited(in_flight);
        }
        self.invoke(now_ns, false);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let mss = u64::from(self.flow.mss());
        if lost_bytes == 0 {
            // A mark: quinn tells that marks came, not how many.
            self.flow.signals[Signal::EcnPackets] += 1;
            self.flow.signals[Signal::EcnBytes] += mss;
        } else {
            self.flow.signals[Signal::LostPkts] += lost_bytes.div_ceil(mss);
            self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        }
        let now_ns = self.flow.time_ns(now);
        self.invoke(now_ns, is_persistent_congestion);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.flow.set_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.flow.window()
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

    use super::*;
    use crate::Options;
    use crate::conformance::{assert_last, ms, probed};

    #[test]
    fn each_signal_is_what_quinn_lets_it_be() {
        let (options, start, seen) = probed();
        let factory = options.quinn("probe").unwrap();
        let flow = PathFlow::new(factory.factory().flow_config().clone(), 1200);
        let mut quinn = QuinnController::of(flow);
        quinn.on_sent(start, 2400, 0);
        quinn.acknowledge(start, 1200);
        quinn.on_end_acks(start + ms(50), 1200, false, Some(0));
        // Batches of two packets, a millisecond apart.
        let sent = |batch: u64| start + ms(50 + batch);
        for batch in 0..5 {
            quinn.on_sent(sent(batch), 2400, 2 * batch + 1);
        }
        // The rest of the handshake is discarded: what is in flight is what quinn says.
        quinn.acknowledge(sent(0), 1200);
        quinn.acknowledge(sent(0), 1200);
        quinn.on_end_acks(start + ms(100), 8 * 1200, false, Some(1));
        assert_last(
            &seen,
            1,
            &[
                (Signal::Now, 100_000),
                (Signal::RttSampleUs, 50_000),
                (Signal::BytesInFlight, 9600),
                (Signal::PacketsInFlight, 8),
                (Signal::RateIncoming, 48_000),
            ],
        );
        // The second batch is missing.
        quinn.acknowledge(sent(2), 1200);
        quinn.acknowledge(sent(2), 1200);
        quinn.on_end_acks(start + ms(102), 6 * 1200, false, Some(5));
        assert_last(
            &seen,
            2,
            &[
                (Signal::BytesAcked, 0),
                (Signal::BytesMisordered, 2400),
                (Signal::PacketsMisordered, 2),
            ],
        );
        quinn.on_congestion_event(start + ms(102), sent(1), false, 2400);
        assert_last(
            &seen,
            3,
            &[
                (Signal::LostPkts, 2),
                (Signal::EcnPackets, 0),
                (Signal::BytesInFlight, 4800),
            ],
        );
        quinn.on_congestion_event(start + ms(103), sent(2), false, 0);
        assert_last(
            &seen,
            4,
            &[(Signal::EcnPackets, 1), (Signal::EcnBytes, 1200)],
        );
        quinn.on_congestion_event(start + ms(400), sent(4), true, 2400);
        assert_last(&seen, 5, &[(Signal::WasTimeout, 1)]);
        quinn.acknowledge(sent(3), 1200);
        quinn.on_end_acks(start + ms(410), 1200, true, Some(7));
        assert_last(
            &seen,
            6,
            &[(Signal::BytesPending, 0), (Signal::RttSampleUs, 357_000)],
        );
    }

    #[test]
    fn algorithms_that_need_a_rate_are_refused_by_name() {
        for name in ["nimbus", "vivace"] {
            let refused = Options::default().embedded().quinn(name).unwrap_err();
            assert_eq!(
                refused.to_string(),
                format!("{name} cannot run on quinn: it enforces no pacing rate")
            );
        }
        assert!(Options::default().embedded().quinn("copa").is_ok());
    }
}
