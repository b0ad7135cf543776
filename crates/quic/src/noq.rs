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
        let sent_ns = self.flow.time_ns(sent);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(acked) = self.flight.acknowledge(sent_ns, pn, bytes) {
            self.flow
                .acked(&acked.stamp, 1, acked.bytes, acked.in_order);
            self.largest_acked = self.largest_acked.max(Some(pn));
        }
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
