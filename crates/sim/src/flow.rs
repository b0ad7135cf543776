//! What a simulation keeps of each flow.

use std::time::Duration;

use fairwater_net::Time;

use crate::connection::{Connection, Totals};
use crate::events::Alarm;
use crate::measure::Distribution;
use crate::packet::spread;
use crate::plane_link::Host;
use crate::routes::{Hop, Load, Routes, Ways, ideal, ideal_of_all};
use crate::tcp::HEADERS;
use crate::traffic::Source;
use crate::{
    Balancing, Config, Ecn, FlowConfig, FlowOutcome, FlowReading, Path, Request, Sample, TcpConfig,
};

/// One flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) source: Source,
    pub(crate) alarm: Alarm,
    pub(crate) forward: Ways,
    pub(crate) reverse: Ways,
    balancing: Balancing,
    /// What its connections agree upon.
    ecn: Ecn,
    /// Its sender's host at the plane, if the plane governs it.
    pub(crate) host: Option<Host>,
    /// The connection that its application writes to: the last that it opened.
    pub(crate) connection: Option<u32>,
    /// Connections that it opened.
    opened: u64,
    /// Round trip of two packets without data, alone in the network: of a handshake.
    handshake: Duration,
    pub(crate) measured: Measured,
}

/// What is measured of a flow.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Of connections that are closed.
    closed: Totals,
    /// At the beginning of what is summed up.
    before: Totals,
    /// At the end of the last interval.
    last: Totals,
    pub(crate) rtt: Distribution,
    pub(crate) requests: Vec<Request>,
    pub(crate) asked: u64,
    samples: Vec<Sample>,
}

impl Flow {
    pub(crate) fn new(
        config: &Config,
        flow: &FlowConfig,
        source: Source,
        (forward, reverse): (Ways, Ways),
        routes: &Routes,
        host: Option<Host>,
        ecn: Ecn,
    ) -> Self {
        let empty = Load {
            bytes: u64::from(HEADERS),
            least: u64::from(HEADERS),
        };
        let one_way = |ways: &Ways| quickest(config, ways, routes, empty);
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
            connection: None,
            opened: 0,
            measured: Measured {
                closed: Totals::default(),
                before: Totals::default(),
                last: Totals::default(),
                rtt: Distribution::new(),
                requests: Vec::new(),
                asked: 0,
                samples: Vec::new(),
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

    /// The ways that a new connection's packets begin with.
    pub(crate) fn first_turns(&mut self, seed: u64, index: u32) -> [u32; 2] {
        let name = spread(seed ^ spread(u64::from(index) << 32 | self.opened));
        self.opened += 1;
        let (high, low) = ((name >> 32) as u32, name as u32);
        [high, low]
    }

    /// The way of a packet, and whose turn is next.
    #[inline]
    pub(crate) fn way(&self, to_receiver: bool, turns: &mut [u32; 2]) -> Option<Hop> {
        let (Ways(ways), turn) = if to_receiver {
            (&self.forward, &mut turns[0])
        } else {
            (&self.reverse, &mut turns[1])
        };
        if let [only] = ways.as_slice() {
            return Some(*only);
        }
        let chosen = *turn as usize % ways.len().max(1);
        if self.balancing == Balancing::PerPacket {
            *turn = turn.wrapping_add(1);
        }
        ways.get(chosen).copied()
    }

    /// The least time for so many bytes to be in order at the receiver.
    pub(crate) fn ideal(
        &self,
        config: &Config,
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
                let ways = self.forward.0.iter().map(|way| routes.edges(*way));
                ideal_of_all(config, ways, load)
            }
        })
    }

    /// The time that an answer without data takes back, alone in the network.
    pub(crate) fn answer_time(&self, config: &Config, routes: &Routes) -> Duration {
        let empty = Load {
            bytes: u64::from(HEADERS),
            least: u64::from(HEADERS),
        };
        quickest(config, &self.reverse, routes, empty)
    }
}

fn quickest(config: &Config, ways: &Ways, routes: &Routes, load: Load) -> Duration {
    let times = ways.0.iter();
    times
        .map(|way| ideal(config, routes.edges(*way), load))
        .min()
        .unwrap_or_default()
}

impl Measured {
    /// A connection is closed.
    pub(crate) fn close(&mut self, totals: &Totals) {
        self.closed.add(totals);
    }

    /// All counts, with those of the open connections.
    fn totals(&self, open: &Totals) -> Totals {
        let mut totals = self.closed;
        totals.add(open);
        totals
    }

    /// Summaries begin.
    pub(crate) fn begin(&mut self, open: &Totals) {
        self.before = self.totals(open);
    }

    /// An interval ends.
    pub(crate) fn sample(&mut self, at: Time, open: &Open) {
        let totals = self.totals(&open.totals);
        let last = std::mem::replace(&mut self.last, totals);
        self.samples.push(Sample {
            at,
            cwnd: open.cwnd,
            rate: open.rate,
            srtt_us: open.srtt_us,
            in_flight: open.in_flight,
            delivered_bytes: totals.delivered_bytes - last.delivered_bytes,
            retransmissions: totals.retransmissions - last.retransmissions,
        });
    }

    /// As it is now.
    pub(crate) fn reading(&self, open: &Open) -> FlowReading {
        let totals = self.totals(&open.totals);
        FlowReading {
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
            samples: self.samples,
        }
    }
}

/// The state of all open connections of a flow, taken together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Open {
    pub(crate) totals: Totals,
    cwnd: u64,
    rate: u64,
    srtt_us: u64,
    in_flight: u64,
}

impl Open {
    pub(crate) fn add(&mut self, connection: &Connection) {
        let controls = connection.sender.controls();
        self.totals.add(&connection.totals());
        self.cwnd = self.cwnd.saturating_add(controls.cwnd);
        self.rate = self.rate.saturating_add(controls.rate);
        self.srtt_us = self.srtt_us.max(connection.sender.srtt_us());
        self.in_flight = self.in_flight.saturating_add(connection.sender.in_flight());
    }
}
