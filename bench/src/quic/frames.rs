//! ns per ACK frame of a controller, through noq's own trait, above noq's Cubic.

use std::any::Any;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use fairwater_quic::Options;
use fairwater_quic::virtual_time::{VirtualFlow, VirtualRun};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, CubicConfig};
use rustix::time::{ClockId, clock_gettime};

use super::Arguments;
use crate::statistics::Rounds;

/// Packets in flight at any time, and those of a frame (RFC 9000 §13.2.2).
const IN_FLIGHT: u64 = 100;
const PER_FRAME: u64 = 2;
const MTU: u16 = 1452;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let rtt = estimator()?;
    let factories: Vec<_> = arguments
        .algorithms
        .iter()
        .map(|name| {
            // The plane runs in a thread of its own, as it does in a server.
            let factory = Options::default().embedded().noq(name)?;
            anyhow::Ok((name.clone(), factory as Arc<dyn ControllerFactory>))
        })
        .collect::<Result<_, _>>()?;
    let own: Arc<dyn ControllerFactory> = Arc::new(CubicConfig::default());
    let mut base = Rounds::default();
    let mut above = vec![Rounds::default(); factories.len()];
    // The first round warms up and is not counted.
    for round in 0..=arguments.rounds {
        let own_ns = ns_per_frame(&own, &rtt, arguments.frames);
        for ((_, factory), above) in factories.iter().zip(&mut above) {
            let ns = ns_per_frame(factory, &rtt, arguments.frames);
            if round > 0 {
                above.push(ns - own_ns);
            }
        }
        if round > 0 {
            base.push(own_ns);
        }
    }
    println!("ACK frame of {PER_FRAME} packets, with their sending; {IN_FLIGHT} in flight");
    println!("  noq's Cubic: {base:.0} ns");
    for ((name, _), above) in factories.iter().zip(&above) {
        println!("  {name}: {above:+.0} ns above it");
    }
    Ok(())
}

/// CPU time of this thread, per frame.
fn ns_per_frame(factory: &Arc<dyn ControllerFactory>, rtt: &RttEstimator, frames: u64) -> f64 {
    let start = Instant::now();
    let mut controller = Arc::clone(factory).build(start, MTU);
    let gap = Duration::from_micros(100);
    let at = |pn: u64| start + gap * u32::try_from(pn).unwrap_or(u32::MAX);
    for pn in 0..IN_FLIGHT {
        controller.on_packet_sent(at(pn), MTU, pn);
    }
    let size = u64::from(MTU);
    let began = clock_gettime(ClockId::ThreadCPUTime);
    for frame in 0..frames {
        let first = frame * PER_FRAME;
        let now = at(first + IN_FLIGHT);
        for pn in first..first + PER_FRAME {
            controller.on_ack(now, at(pn), size, pn, false, rtt);
        }
        let in_flight = (IN_FLIGHT - PER_FRAME) * size;
        controller.on_end_acks(now, in_flight, false, Some(first + PER_FRAME - 1));
        for pn in first..first + PER_FRAME {
            let sent = pn + IN_FLIGHT;
            controller.on_packet_sent(at(sent), MTU, sent);
            black_box(controller.window());
            black_box(controller.metrics());
        }
    }
    let ended = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = (ended.tv_sec - began.tv_sec) as f64;
    let ns = seconds * 1e9 + (ended.tv_nsec - began.tv_nsec) as f64;
    ns / frames as f64
}

/// An RTT estimate, which only a connection of noq's makes.
fn estimator() -> anyhow::Result<RttEstimator> {
    let kept = Kept::default();
    let run = VirtualRun {
        link: "100mbit 10ms".parse()?,
        duration: Duration::from_millis(200),
        seed: 1,
        start: Instant::now(),
        flows: vec![VirtualFlow {
            controllers: Arc::new(KeepEstimator(Arc::clone(&kept))),
            start: Duration::ZERO,
            bytes: None,
        }],
    };
    run.run()?;
    let kept = kept.lock().map(|kept| *kept).ok().flatten();
    kept.context("no packet was acknowledged")
}

type Kept = Arc<Mutex<Option<RttEstimator>>>;

/// Makes controllers that keep the estimate that they are given.
#[derive(Debug, Clone)]
struct KeepEstimator(Kept);

impl ControllerFactory for KeepEstimator {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new((*self).clone())
    }
}

impl Controller for KeepEstimator {
    fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: u64, _: bool, rtt: &RttEstimator) {
        if let Ok(mut kept) = self.0.lock() {
            *kept = Some(*rtt);
        }
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: bool, _: u64, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.initial_window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        12_000
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
