//! One path of one connection: what the adapters of all stacks share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use fairwater_datapath::fallback::{Controller, Path};
use fairwater_datapath::{Controls, Signal, Signals};
use fairwater_proto::{Fallback, FlowId, FlowInfo};

use crate::datapath::Shards;
use crate::handle::{Handle, Measures};
use crate::rate::{RateEstimator, Stamp};

/// RFC 9002 §7.2: the least window, in datagrams.
const MIN_WINDOW: u64 = 2;

/// What all flows of one factory have in common.
#[derive(Debug, Clone)]
pub(crate) struct FlowConfig {
    pub(crate) shards: Arc<Shards>,
    pub(crate) algorithm: Arc<str>,
    /// Local and remote address, where the factory knows them.
    pub(crate) addresses: Option<(SocketAddr, SocketAddr)>,
    pub(crate) fallback: Fallback,
}

/// Who has the flow.
#[derive(Debug)]
enum Stage {
    /// Nobody has proved yet to receive at the peer's address.
    Unvalidated,
    /// A flow of the datapath.
    Started(FlowId),
    /// The datapath has no place for the flow, which stays under the fallback here.
    Refused,
}

/// The congestion control of one path.
///
/// An adapter tells what its stack tells: packets sent, acknowledged, lost, marked. After each ACK
/// frame it calls [`PathFlow::invoke`], and the window and the rate are up to date.
///
/// The datapath's flow begins with the first ACK of a packet that was sent after another ACK had
/// come. The first ACK of a connection may acknowledge an Initial packet, whose keys everybody
/// knows (RFC 9001 §5.2): connections with spoofed addresses get no flow.
#[derive(Debug)]
pub(crate) struct PathFlow {
    config: FlowConfig,
    shard: usize,
    stage: Stage,
    first_ack_ns: Option<u64>,
    /// Of a path without a flow.
    fallback: Controller,
    controls: Controls,
    mss: u32,
    srtt_us: u64,
    pub(crate) signals: Signals,
    pub(crate) rates: RateEstimator,
    /// The last-sent packet that the ACK frame at hand acknowledges.
    newest: Option<Stamp>,
    /// Nothing was left to send when the stack was last asked.
    app_limited: bool,
    measures: Arc<Measures>,
}

impl PathFlow {
    pub(crate) fn new(config: FlowConfig, mtu: u16) -> Self {
        let mss = u32::from(mtu.max(1));
        // RFC 9002 §7.2.
        let window = 14_720.clamp(MIN_WINDOW * u64::from(mss), 10 * u64::from(mss));
        let shard = config.shards.next();
        let fallback = Controller::new(config.fallback, None);
        Self {
            config,
            shard,
            stage: Stage::Unvalidated,
            first_ack_ns: None,
            fallback,
            controls: Controls {
                cwnd: window,
                rate: 0,
            },
            mss,
            srtt_us: 0,
            signals: Signals::default(),
            rates: RateEstimator::default(),
            newest: None,
            app_limited: false,
            measures: Arc::default(),
        }
    }

    /// For a path that follows this one (RFC 9000 §9.4): another flow, from the beginning. Its
    /// handle shows this path until the new one has measured something.
    pub(crate) fn successor(&self) -> Self {
        let mtu = u16::try_from(self.mss).unwrap_or(u16::MAX);
        let mut next = Self::new(self.config.clone(), mtu);
        next.measures = Arc::clone(&self.measures);
        next
    }

    /// What the program that owns the connection may know.
    pub(crate) fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.measures))
    }

    /// Congestion window, bytes.
    #[inline]
    pub(crate) fn window(&self) -> u64 {
        self.controls.cwnd.max(MIN_WINDOW * u64::from(self.mss))
    }

    /// Pacing rate, bytes/s.
    #[inline]
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        (self.controls.rate > 0).then_some(self.controls.rate)
    }

    /// The datapath's time, ns.
    #[inline]
    pub(crate) fn time_ns(&self, at: Instant) -> u64 {
        self.config.shards.time_ns(at)
    }

    /// The last delivery rate, bytes/s.
    pub(crate) fn delivery_rate(&self) -> Option<u64> {
        let rate = self.signals[Signal::RateIncoming];
        (rate > 0).then_some(rate)
    }

    pub(crate) const fn mss(&self) -> u32 {
        self.mss
    }

    /// Largest datagram, bytes of UDP payload.
    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        self.mss = u32::from(mtu.max(1));
        if let Stage::Started(flow) = self.stage {
            self.config.shards.set_mss(self.shard, flow, self.mss);
        }
    }

    /// Packets were acknowledged, the last of which was sent so.
    #[inline]
    pub(crate) fn acked(&mut self, stamp: &Stamp, packets: u64, bytes: u64, in_order: bool) {
        let (of_bytes, of_packets) = match in_order {
            true => (Signal::BytesAcked, Signal::PacketsAcked),
            false => (Signal::BytesMisordered, Signal::PacketsMisordered),
        };
        self.signals[of_bytes] += bytes;
        self.signals[of_packets] += packets;
        self.rates.deliver(bytes);
        let is_newer = |newest: &Stamp| newest.sent_bytes <= stamp.sent_bytes;
        if self.newest.as_ref().is_none_or(is_newer) {
            self.newest = Some(*stamp);
        }
    }

    /// An ACK frame has been read. `largest_is_new`: it acknowledges its largest packet for the
    /// first time, and so samples the RTT (RFC 9002 §5.1).
    #[inline]
    pub(crate) fn end_of_acks(&mut self, now_ns: u64, largest_is_new: bool) {
        let Some(newest) = self.newest.take() else {
            return;
        };
        if largest_is_new {
            let rtt_ns = now_ns.saturating_sub(newest.sent_ns);
            self.rates.on_rtt(rtt_ns);
            self.signals[Signal::RttSampleUs] = (rtt_ns / 1_000).max(1);
        }
        if let Some(sample) = self.rates.on_ack(now_ns, &newest) {
            self.signals[Signal::AppLimited] = sample.app_limited.into();
            if let Some(rate) = sample.incoming() {
                self.signals[Signal::RateIncoming] = rate;
            }
            if let Some(rate) = sample.outgoing() {
                self.signals[Signal::RateOutgoing] = rate;
            }
        }
        if matches!(self.stage, Stage::Unvalidated) {
            self.validate(now_ns, newest.sent_ns);
        }
    }

    /// Starts the flow, if the ACK at hand proves the peer's address.
    #[cold]
    fn validate(&mut self, now_ns: u64, sent_ns: u64) {
        let first_ack_ns = *self.first_ack_ns.get_or_insert(now_ns);
        if sent_ns < first_ack_ns {
            return;
        }
        let unspecified = FlowInfo::default();
        let addresses = (unspecified.local, unspecified.remote);
        let (local, remote) = self.config.addresses.unwrap_or(addresses);
        let info = FlowInfo {
            local,
            remote,
            mss: self.mss,
            cwnd: self.controls.cwnd,
            ssthresh: self.fallback.ssthresh(),
            srtt_us: self.srtt_us,
            now_us: now_ns / 1_000,
            ..unspecified
        };
        let started = self
            .config
            .shards
            .start(self.shard, &self.config.algorithm, &info);
        self.stage = started.map_or(Stage::Refused, Stage::Started);
        self.measures = Arc::default();
    }

    /// What is in flight after the ACK frame, and whether the application has nothing to send.
    #[inline]
    pub(crate) fn set_state(&mut self, bytes: u64, packets: u64, app_limited: bool) {
        self.signals[Signal::BytesInFlight] = bytes;
        self.signals[Signal::PacketsInFlight] = packets;
        self.app_limited = app_limited;
        // No stack tells how much waits. That something does, the program must know.
        self.signals[Signal::BytesPending] = match app_limited {
            true => 0,
            false => u64::from(self.mss),
        };
    }

    /// Runs the program on what was measured since the last call. `persistent`: all packets of a
    /// persistent congestion period were lost (RFC 9002 §7.6), which stands for a retransmission
    /// timeout.
    #[inline]
    pub(crate) fn invoke(&mut self, now_ns: u64, persistent: bool) {
        self.signals[Signal::Now] = now_ns / 1_000;
        self.signals[Signal::WasTimeout] = persistent.into();
        match self.stage {
            Stage::Started(flow) => {
                let changed = self.config.shards.invoke(self.shard, flow, &self.signals);
                if let Some(controls) = changed {
                    self.controls = controls;
                }
            }
            Stage::Unvalidated | Stage::Refused => self.fall_back(),
        }
        self.measures.set(&self.signals, self.controls);
        for signal in [
            Signal::BytesAcked,
            Signal::BytesMisordered,
            Signal::EcnBytes,
            Signal::EcnPackets,
            Signal::LostPkts,
            Signal::PacketsAcked,
            Signal::PacketsMisordered,
        ] {
            self.signals[signal] = 0;
        }
    }

    fn fall_back(&mut self) {
        let sample = self.signals[Signal::RttSampleUs];
        if sample != u64::MAX {
            // RFC 9002 §5.3.
            self.srtt_us = match self.srtt_us {
                0 => sample,
                old => old - old / 8 + sample / 8,
            };
        }
        let path = Path {
            mss: self.mss.into(),
            srtt_us: self.srtt_us,
            available: self.config.shards.signals().present(),
            signals: &self.signals,
        };
        self.controls = Controls {
            cwnd: self.fallback.on_signals(self.controls.cwnd, &path),
            rate: 0,
        };
    }
}

impl Drop for PathFlow {
    fn drop(&mut self) {
        if let Stage::Started(flow) = self.stage {
            self.config.shards.close(self.shard, flow);
        }
    }
}
