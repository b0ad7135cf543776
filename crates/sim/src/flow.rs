//! What a simulation keeps of each flow.

use std::time::Duration;

use fairwater_datapath::FlowState;
use fairwater_net::Time;

use crate::connection::{Connection, Totals};
use crate::datagrams::Datagrams;
use crate::events::Alarm;
use crate::measure::Distribution;
use crate::packet::spread;
use crate::plane_link::Host;
use crate::routes::{FlowPaths, Hop, Load, Routes, ideal, ideal_of_all};
use crate::traffic::Source;
use crate::{
    Balancing, Ecn, Experiment, Fallback, FlowConfig, FlowOutcome, FlowSnapshot, Path, Request,
    Sample, TcpConfig,
};
use fairwater_tcp::{HEADERS, State};
use rand_chacha::ChaCha8Rng;

/// One flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) source: Source,
    pub(crate) alarm: Alarm,
    pub(crate) forward: FlowPaths,
    pub(crate) reverse: FlowPaths,
    balancing: Balancing,
    /// What its connections agree upon.
    ecn: Ecn,
    /// Its sender's host at the plane, if the plane controls it.
    pub(crate) host: Option<Host>,
    /// The box that its sender is behind, if it is behind one.
    pub(crate) edge: Option<Box<FlowEdge>>,
    /// The connection that its application writes to: the last that it opened.
    pub(crate) connection: Option<u32>,
    /// The connections of its pool, in the order they were opened.
    pub(crate) pool: Vec<u32>,
    /// Its application, if that sends UDP packets.
    pub(crate) datagrams: Option<Datagrams>,
    /// Number of its bundle, from 1; 0 of none.
    pub(crate) bundle: u8,
    /// Connections that it opened.
    opened: u64,
    /// Round trip of two packets without data, alone in the network: of a handshake.
    handshake: Duration,
    pub(crate) measured: Measured,
}

/// The box that a flow's sender is behind.
#[derive(Debug)]
pub(crate) struct FlowEdge {
    /// The box, as the plane's link names it.
    pub(crate) host: Host,
    /// Whether the box holds its data.
    pub(crate) is_held: bool,
    /// Where connections get their initial sequence numbers from.
    pub(crate) numbers: ChaCha8Rng,
}

/// What is measured of a flow.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Of connections that are closed, and of UDP packets.
    closed: Totals,
    /// At the beginning of what is summed up.
    before: Totals,
    /// At the end of the last interval.
    last: Totals,
    pub(crate) rtt: Distribution,
    pub(crate) requests: Vec<Request>,
    pub(crate) asked: u64,
    samples: Vec<Sample>,
    controlled: ControlledTime,
}

/// Time that an algorithm was to control a flow.
#[derive(Debug, Clone, Copy, Default)]
struct ControlledTime {
    /// When it was counted last: a flow may have several connections.
    at: Time,
    all: Duration,
    fallback: Duration,
    is_for_good: bool,
}

impl Flow {
    pub(crate) fn new(
        config: &Experiment,
        flow: &FlowConfig,
        source: Source,
        (forward, reverse): (FlowPaths, FlowPaths),
        routes: &Routes,
        (host, edge): (Option<Host>, Option<FlowEdge>),
        ecn: Ecn,
    ) -> Self {
        let empty = Load {
            bytes: u64::from(HEADERS),
            least: u64::from(HEADERS),
        };
        let one_way = |paths: &FlowPaths| quickest(config, paths, routes, empty);
        Self {
            source,
            ecn,
            alarm: Alarm::default(),
            handshake: one_way(&forward).saturating_add(one_way(&reverse)),
            forward,
            reverse,
            balancing: match &flow.path {
                Path::Along { balancing, .. } => *balancing,
                Path::Shortest => Balancing::PerFlow,
            },
            host,
            edge: edge.map(Box::new),
            connection: None,
            pool: Vec::new(),
            datagrams: None,
            bundle: 0,
            opened: 0,
            measured: Measured {
                closed: Totals::default(),
                before: Totals::default(),
                last: Totals::default(),
                rtt: Distribution::new(),
                requests: Vec::new(),
                asked: 0,
                samples: Vec::new(),
                controlled: ControlledTime::default(),
            },
        }
    }

    /// How a new connection's TCP behaves, after the handshake's agreement.
    pub(crate) fn tcp(&self, config: &FlowConfig) -> TcpConfig {
        TcpConfig {
            ecn: self.ecn,
            ..config.tcp.clone()
        }
    }

    /// How the receiver's TCP behaves. A guest's peer is not told what the guest is: it understands ECN, as Linux
    /// does for whoever offers it.
    pub(crate) fn receiver_tcp(&self, sender: &TcpConfig) -> TcpConfig {
        let ecn = match &self.edge {
            Some(_) => Ecn::Classic,
            None => sender.ecn,
        };
        TcpConfig {
            ecn,
            ..sender.clone()
        }
    }

    /// The paths that a new connection's packets begin with.
    pub(crate) fn first_turns(&mut self, seed: u64, index: u32) -> [u32; 2] {
        let name = spread(seed ^ spread(u64::from(index) << 32 | self.opened));
        self.opened += 1;
        let (high, low) = ((name >> 32) as u32, name as u32);
        [high, low]
    }

    /// The path of the next packet.
    #[inline]
    pub(crate) fn path(&self, to_receiver: bool, turns: &mut [u32; 2]) -> Option<Hop> {
        let (FlowPaths(paths), turn) = if to_receiver {
            (&self.forward, &mut turns[0])
        } else {
            (&self.reverse, &mut turns[1])
        };
        if let [only] = paths.as_slice() {
            return Some(*only);
        }
        let chosen = *turn as usize % paths.len().max(1);
        if self.balancing == Balancing::PerPacket {
            *turn = turn.wrapping_add(1);
        }
        paths.get(chosen).copied()
    }

    /// Lower bound of the time until this many bytes are in order at the receiver.
    pub(crate) fn ideal(
        &self,
        config: &Experiment,
        routes: &Routes,
        bytes: u64,
        mss: u32,
        handshake: bool,
    ) -> Duration {
        let mss = u64::from(mss);
        let segments = bytes.div_ceil(mss);
        let headers = u64::from(HEADERS);
        let load = Load {
            bytes: bytes.saturating_add(segments.saturating_mul(headers)),
            least: headers + (bytes - (segments - 1) * mss),
        };
        let wait = if handshake {
            self.handshake
        } else {
            Duration::ZERO
        };
        wait.saturating_add(match self.balancing {
            Balancing::PerFlow => quickest(config, &self.forward, routes, load),
            Balancing::PerPacket => {
                let paths = self.forward.0.iter().map(|path| routes.edges(*path));
                ideal_of_all(config, paths, load)
            }
        })
    }

    /// The time of a request of this size over a connection that is open, alone in the network, if
    /// it is asked for at the receiver's host: the round trip without queues, and its bytes, headers
    /// not counted, at the edge that takes longest for them (Bundler §7.1).
    pub(crate) fn ideal_from_afar(
        &self,
        config: &Experiment,
        routes: &Routes,
        bytes: u64,
        mss: u32,
    ) -> Duration {
        let load = Load {
            bytes,
            least: bytes.min(mss.into()),
        };
        let there = quickest(config, &self.forward, routes, load);
        there.saturating_add(self.answer_time(config, routes))
    }

    /// The time of a packet there and back, alone in the network.
    pub(crate) fn round_trip(&self, config: &Experiment, routes: &Routes, bytes: u64) -> Duration {
        let load = Load {
            bytes,
            least: bytes,
        };
        let there = quickest(config, &self.forward, routes, load);
        there.saturating_add(quickest(config, &self.reverse, routes, load))
    }

    /// The time that an answer without data takes back, alone in the network.
    pub(crate) fn answer_time(&self, config: &Experiment, routes: &Routes) -> Duration {
        let empty = Load {
            bytes: u64::from(HEADERS),
            least: u64::from(HEADERS),
        };
        quickest(config, &self.reverse, routes, empty)
    }
}

fn quickest(config: &Experiment, paths: &FlowPaths, routes: &Routes, load: Load) -> Duration {
    let times = paths.0.iter();
    times
        .map(|path| ideal(config, routes.edges(*path), load))
        .min()
        .unwrap_or_default()
}

impl Measured {
    /// A connection is closed.
    pub(crate) fn close(&mut self, totals: &Totals) {
        self.closed.add(totals);
    }

    /// All counters, open connections included.
    fn totals(&self, open: &Totals) -> Totals {
        let mut totals = self.closed;
        totals.add(open);
        totals
    }

    /// A UDP packet with so much payload is sent.
    pub(crate) fn datagram_sent(&mut self, payload: u64) {
        self.closed.sent_bytes += payload;
        self.closed.segments += 1;
    }

    /// A UDP packet arrives at the receiver.
    pub(crate) fn datagram_arrived(&mut self, payload: u64, is_marked: bool) {
        self.closed.delivered_bytes += payload;
        self.closed.marked += u64::from(is_marked);
    }

    /// So many UDP packets were given up without an answer.
    pub(crate) fn datagram_timeouts(&mut self, timeouts: u64) {
        self.closed.timeouts += timeouts;
    }

    /// Summaries begin.
    pub(crate) fn begin(&mut self, open: &Totals) {
        self.before = self.totals(open);
    }

    /// Until now, for `time`, an algorithm was to control the flow.
    pub(crate) fn controlled(&mut self, now: Time, time: Duration, state: Option<FlowState>) {
        let controlled = &mut self.controlled;
        let is_for_good = match state {
            Some(FlowState::Waiting | FlowState::Running) | None => None,
            Some(FlowState::Silent) => Some(false),
            Some(_) => Some(true),
        };
        if std::mem::replace(&mut controlled.at, now) != now {
            controlled.all += time;
            if let Some(is_for_good) = is_for_good {
                controlled.fallback += time;
                controlled.is_for_good |= is_for_good;
            }
        }
    }

    /// An interval ends.
    pub(crate) fn sample(&mut self, at: Time, open: &Open) {
        let totals = self.totals(&open.totals);
        let last = std::mem::replace(&mut self.last, totals);
        self.samples.push(Sample {
            at,
            cwnd: open.cwnd,
            ssthresh: open.ssthresh.filter(|_| open.state.is_some()),
            state: open.state,
            rate: open.rate,
            srtt_us: open.srtt_us,
            in_flight: open.in_flight,
            delivered_bytes: totals.delivered_bytes - last.delivered_bytes,
            retransmissions: totals.retransmissions - last.retransmissions,
        });
    }

    /// As it is now.
    pub(crate) fn snapshot(&self, open: &Open) -> FlowSnapshot {
        let totals = self.totals(&open.totals);
        FlowSnapshot {
            cwnd: open.cwnd,
            rate: open.rate,
            srtt_us: open.srtt_us,
            in_flight: open.in_flight,
            delivered_bytes: totals.delivered_bytes,
            sent_bytes: totals.sent_bytes,
            segments: totals.segments,
            retransmissions: totals.retransmissions,
            timeouts: totals.timeouts,
            marked: totals.marked,
        }
    }

    pub(crate) fn finish(self, open: &Totals) -> FlowOutcome {
        let totals = self.totals(open);
        let before = &self.before;
        FlowOutcome {
            delivered_bytes: totals.delivered_bytes - before.delivered_bytes,
            sent_bytes: totals.sent_bytes - before.sent_bytes,
            segments: totals.segments - before.segments,
            retransmissions: totals.retransmissions - before.retransmissions,
            timeouts: totals.timeouts - before.timeouts,
            marked: totals.marked - before.marked,
            rtt_us: self.rtt.quantiles_us(),
            unfinished: self.asked - self.requests.len() as u64,
            requests: self.requests,
            fallback: (!self.controlled.fallback.is_zero()).then(|| Fallback {
                share: self.controlled.fallback.as_secs_f64() / self.controlled.all.as_secs_f64(),
                is_for_good: self.controlled.is_for_good,
            }),
            samples: self.samples,
        }
    }
}

/// The state of all open connections of a flow, taken together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) totals: Totals,
    cwnd: u64,
    /// The sum, as of cwnd; `None` when a connection has no threshold.
    ssthresh: Option<u64>,
    /// The worst; `None` of no connection.
    state: Option<State>,
    rate: u64,
    srtt_us: u64,
    in_flight: u64,
}

impl Open {
    /// Of no connection.
    pub(crate) const NONE: Open = Open {
        totals: Totals::NONE,
        cwnd: 0,
        ssthresh: Some(0),
        state: None,
        rate: 0,
        srtt_us: 0,
        in_flight: 0,
    };

    pub(crate) fn add(&mut self, connection: &Connection) {
        let controls = connection.sender.controls();
        self.totals.add(&connection.totals());
        // The window of a guest is that which it is told, if it is the lesser.
        let window = match connection.guest {
            Some(_) => controls.cwnd.min(connection.sender.send_window()),
            None => controls.cwnd,
        };
        self.cwnd = self.cwnd.saturating_add(window);
        let all = self.ssthresh.zip(connection.ssthresh());
        self.ssthresh = all.map(|(sum, one)| sum.saturating_add(one));
        self.state = self.state.max(Some(connection.sender.state()));
        self.rate = self.rate.saturating_add(controls.rate);
        self.srtt_us = self.srtt_us.max(connection.sender.srtt_us());
        self.in_flight = self.in_flight.saturating_add(connection.sender.in_flight());
    }
}
