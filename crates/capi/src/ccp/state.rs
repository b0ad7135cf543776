//! What the library keeps for one `struct ccp_datapath`, and what it then does for it.
//!
//! **Which dialect.** Agents written for libccp speak libccp's encoding, with libccp's bounds on
//! programs; Fairwater's plane speaks ours too. So each Hello is sent in both, ours first: portus drops
//! what it does not know, and the plane answers a Hello of ours with a Welcome. From the first message
//! that the agent sends in the other dialect on, that one is spoken. A plane that took this datapath for
//! libccp, because it came after another agent, learns better when it installs a program: the answer is
//! our Hello.
//!
//! Callbacks are called after the lock is released, so that they may call the library again: an
//! agent in the same process may answer from within `send_msg`.

use core::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use fairwater_datapath::{Backend, Config, Controls, Datapath, PeerId, StartError};
use fairwater_lang::{Signal, Signals};
use fairwater_proto::{Dialect, FlowId, FlowInfo, Hello, ToPlane};

use super::layout::{ccp_datapath_info, ccp_primitives};
use super::refusal::{self, Code};
use crate::signals::rtt_sample;

/// libccp's bound on a message, bytes.
const MAX_PACKET: usize = 32_678;

/// The name under which the plane lists the datapath.
const NAME: &str = "libfairwater, ccp.h";

/// Invocations look after the agent's silence this often, µs.
const TICK_US: u64 = 10_000;

/// What `set_rate_abs` gets when the window alone limits the flow.
const NO_RATE: u32 = u32::MAX;

/// What is to be done once the lock is released.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Messages for the agent, one each.
    pub(super) messages: Vec<Vec<u8>>,
    /// The window to apply, bytes.
    pub(super) cwnd: Option<u32>,
    /// The rate to apply, bytes/s.
    pub(super) rate: Option<u32>,
}

#[derive(Debug)]
pub(super) struct State(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    datapath: Datapath,
    agent: PeerId,
    /// Our Hello, encoded.
    hello: Vec<u8>,
    /// By index less 1.
    flows: Vec<Option<ConnectionFlow>>,
    ticked_us: u64,
    /// When the transport last invoked anything.
    invoked_us: u64,
    /// How long the agent may be silent, µs.
    silence_us: u64,
    /// A pause of the transport excused the agent's silence, and nothing has come since.
    excused: bool,
}

/// A connection's flow, and the window and rate that the transport was last given.
#[derive(Debug, Clone, Copy)]
struct ConnectionFlow {
    flow: FlowId,
    cwnd: u64,
    rate: u64,
}

impl ConnectionFlow {
    /// Window and rate that the transport applies, if they differ from those that it was given.
    fn taken_from(&self, prims: &ccp_primitives) -> Option<Controls> {
        let (cwnd, rate) = (u64::from(prims.snd_cwnd), prims.snd_rate);
        let is_new = |said: u64, told: u64| said != 0 && said != clamped(told).into();
        let controls = Controls {
            cwnd: if is_new(cwnd, self.cwnd) {
                cwnd
            } else {
                self.cwnd
            },
            rate: if is_new(rate, self.rate) && rate != NO_RATE.into() {
                rate
            } else {
                self.rate
            },
        };
        (controls.cwnd != self.cwnd || controls.rate != self.rate).then_some(controls)
    }
}

impl State {
    pub(super) fn new(
        id: u32,
        connections: u16,
        programs: u32,
        silence_us: u64,
    ) -> (Self, Effects) {
        let config = Config {
            name: NAME.to_owned(),
            instance: id.into(),
            backend: Backend::default(),
            silence_us,
            max_flows: connections.into(),
            max_programs: programs,
            ..Config::default()
        };
        let hello = Hello {
            name: &config.name,
            instance: config.instance,
            capabilities: config.capabilities(),
        };
        let hello = encoded(Dialect::Own, &hello);
        let mut datapath = Datapath::new(config);
        let agent = datapath.add_peer(Dialect::Ccp, 0);
        let mut inner = Inner {
            datapath,
            agent,
            hello,
            flows: vec![None; connections.into()],
            ticked_us: 0,
            invoked_us: 0,
            silence_us,
            excused: false,
        };
        let effects = inner.transmit();
        (Self(Mutex::new(inner)), effects)
    }

    fn with<R>(&self, body: impl FnOnce(&mut Inner) -> R) -> R {
        // A panic is the library's defect and was reported; what it left is still sound.
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a flow in the first place that `take` takes.
    pub(super) fn start(
        &self,
        info: &ccp_datapath_info,
        now_us: u64,
        take: impl FnMut(usize) -> bool,
    ) -> Result<Effects, StartError> {
        self.with(|inner| inner.start(info, now_us, take))
    }

    pub(super) fn free(&self, at: usize) -> Effects {
        self.with(|inner| {
            if let Some(flow) = inner.flows.get_mut(at).and_then(Option::take) {
                // The flow's flow is there as long as the flow.
                let _: Result<(), _> = inner.datapath.close(flow.flow);
            }
            inner.transmit()
        })
    }

    pub(super) fn read(&self, bytes: &[u8], now_us: u64) -> (Code, Effects) {
        self.with(|inner| {
            inner.excused = false;
            let spoken = Dialect::of(bytes);
            let is_message = |d: &Dialect| matches!(d.to_datapath(bytes).next(), Some(Ok(_)));
            if let Some(dialect) = spoken.filter(is_message) {
                inner.datapath.set_dialect(inner.agent, dialect);
            }
            let dialect = inner.dialect();
            let before = inner.datapath.statistics();
            inner.datapath.on_message(inner.agent, bytes, now_us);
            let after = inner.datapath.statistics();
            let code = refusal::of(dialect, bytes, &before, &after);
            let mut effects = inner.transmit();
            if dialect == Dialect::Ccp && after.installs > before.installs {
                effects.messages.push(inner.hello.clone());
            }
            (code, effects)
        })
    }

    /// Runs one invocation; `None` when there is no such connection.
    pub(super) fn invoke(&self, at: usize, prims: &ccp_primitives, now_us: u64) -> Option<Effects> {
        self.with(|inner| inner.invoke(at, prims, now_us))
    }
}

impl Inner {
    fn start(
        &mut self,
        info: &ccp_datapath_info,
        now_us: u64,
        mut take: impl FnMut(usize) -> bool,
    ) -> Result<Effects, StartError> {
        let mut free = (0..self.flows.len()).filter(|at| self.flows[*at].is_none());
        let Some(at) = free.find(|at| take(*at)) else {
            let connections = self.flows.len() as u32;
            return Err(StartError::Full(connections));
        };
        let known = FlowInfo {
            local: address(info.src_ip, info.src_port),
            remote: address(info.dst_ip, info.dst_port),
            mss: info.mss.max(1),
            cwnd: u64::from(info.init_cwnd).max(1),
            srtt_us: 0,
            now_us,
            tag: 0,
            ..FlowInfo::default()
        };
        let flow = self.datapath.start(self.agent, &algorithm(info), &known)?;
        self.flows[at] = Some(ConnectionFlow {
            flow,
            cwnd: known.cwnd,
            rate: 0,
        });
        Ok(self.transmit())
    }

    fn invoke(&mut self, at: usize, prims: &ccp_primitives, now_us: u64) -> Option<Effects> {
        let flow = self.flows.get_mut(at)?.as_mut()?;
        let signals = signals(prims, now_us);
        let paused_us = now_us.saturating_sub(self.invoked_us);
        self.invoked_us = now_us;
        // Some transports read what the agent says only while connections are busy.
        if paused_us > self.silence_us / 2 && !self.excused {
            self.excused = true;
            self.datapath.excuse_silence(self.agent, now_us);
        }
        if let Some(controls) = flow.taken_from(prims) {
            // Of what is out of range nothing is taken.
            if self.datapath.set_controls(flow.flow, controls).is_ok() {
                (flow.cwnd, flow.rate) = (controls.cwnd, controls.rate);
            }
        }
        let changed = self.datapath.invoke(flow.flow, &signals).ok()?;
        let (mut cwnd, mut rate) = (None, None);
        if let Some(controls) = changed {
            if controls.cwnd != flow.cwnd {
                cwnd = Some(clamped(controls.cwnd));
            }
            if controls.rate != flow.rate {
                rate = Some(if controls.rate == 0 {
                    NO_RATE
                } else {
                    clamped(controls.rate)
                });
            }
            (flow.cwnd, flow.rate) = (controls.cwnd, controls.rate);
        }
        if now_us.wrapping_sub(self.ticked_us) >= TICK_US {
            self.ticked_us = now_us;
            self.datapath.tick(now_us);
        }
        Some(Effects {
            cwnd,
            rate,
            ..self.transmit()
        })
    }

    fn dialect(&self) -> Dialect {
        let spoken = self.datapath.dialect(self.agent);
        spoken.unwrap_or(Dialect::Ccp)
    }

    fn transmit(&mut self) -> Effects {
        let dialect = self.dialect();
        let mut messages = Vec::new();
        while let Some((_, packet)) = self.datapath.poll_transmit(MAX_PACKET) {
            for message in dialect.split(packet) {
                match dialect.to_plane(message).next() {
                    Some(Ok(ToPlane::Hello(hello))) => {
                        messages.push(self.hello.clone());
                        messages.push(encoded(Dialect::Ccp, &hello));
                    }
                    _ => messages.push(message.to_vec()),
                }
            }
        }
        Effects {
            messages,
            ..Effects::default()
        }
    }
}

/// A Hello in that dialect: each has one.
fn encoded(dialect: Dialect, hello: &Hello<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = dialect.encode_to_plane(&ToPlane::Hello(*hello), &mut bytes);
    bytes
}

/// The address is passed as it lies in memory, as libccp does.
fn address(ip: u32, port: u32) -> SocketAddr {
    let port = u16::try_from(port).unwrap_or(0);
    (Ipv4Addr::from(ip.to_ne_bytes()), port).into()
}

/// The algorithm's name, up to its first zero byte.
fn algorithm(info: &ccp_datapath_info) -> String {
    let bytes = info.cong_alg.iter().map(|c| c.cast_unsigned());
    let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).take(63).collect();
    String::from_utf8_lossy(&name).into_owned()
}

fn clamped(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The signals that primitives are.
fn signals(prims: &ccp_primitives, now_us: u64) -> Signals {
    let mut signals = Signals::default();
    signals[Signal::BytesAcked] = prims.bytes_acked.into();
    signals[Signal::BytesMisordered] = prims.bytes_misordered.into();
    signals[Signal::EcnBytes] = prims.ecn_bytes.into();
    signals[Signal::EcnPackets] = prims.ecn_packets.into();
    signals[Signal::LostPkts] = prims.lost_pkts_sample.into();
    signals[Signal::Now] = now_us;
    signals[Signal::PacketsAcked] = prims.packets_acked.into();
    signals[Signal::PacketsMisordered] = prims.packets_misordered.into();
    signals[Signal::BytesInFlight] = prims.bytes_in_flight.into();
    signals[Signal::BytesPending] = prims.bytes_pending.into();
    signals[Signal::PacketsInFlight] = prims.packets_in_flight.into();
    signals[Signal::RateIncoming] = prims.rate_incoming;
    signals[Signal::RateOutgoing] = prims.rate_outgoing;
    signals[Signal::RttSampleUs] = rtt_sample(prims.rtt_sample_us);
    signals[Signal::WasTimeout] = prims.was_timeout.into();
    signals
}
