//! Applications that send UDP packets: no connection, no congestion control, no retransmission.

use std::time::Duration;

use fairwater_net::Time;

use crate::{FlowConfig, Traffic};

/// Bytes of the IPv4 and UDP headers of a packet (RFC 791 §3.1, RFC 768).
pub(crate) const HEADERS: u32 = 28;

/// How long a request waits for its answer before the next is sent.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The application of one flow of UDP packets, sans-IO: turns and answers go in; packets to send
/// and the time of the next turn come out.
#[derive(Debug)]
pub(crate) struct Datagrams {
    kind: Kind,
    packet_bytes: u32,
    start: Time,
    stop: Time,
    /// When the next packet is sent; `None` after the last.
    next: Option<Time>,
    /// Packets sent.
    sent: u64,
    /// The request that waits for its answer: its number, and when it was sent.
    waiting: Option<(u64, Time)>,
    /// Which of the flow's paths the next packet takes, forward and reverse.
    pub(crate) turns: [u32; 2],
}

#[derive(Debug)]
enum Kind {
    /// Bytes/s of IP packets.
    Constant { rate: u64 },
    /// One request at a time.
    Echo { think: Duration, count: Option<u64> },
}

/// What a turn comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Number of the packet to send, if one is to be sent.
    pub(crate) send: Option<u64>,
    /// Whether a request before was given up.
    pub(crate) timed_out: bool,
}

impl Datagrams {
    /// `None` for a flow whose traffic is TCP's. It starts at `start`, which is the configuration's
    /// with its jitter.
    pub(crate) fn new(flow: &FlowConfig, start: Time, turns: [u32; 2]) -> Option<Self> {
        let (kind, packet_bytes) = match flow.traffic {
            Traffic::ConstantRate { rate, packet_bytes } => (Kind::Constant { rate }, packet_bytes),
            Traffic::Echo {
                packet_bytes,
                think,
                count,
            } => (Kind::Echo { think, count }, packet_bytes),
            _ => return None,
        };
        Some(Datagrams {
            kind,
            packet_bytes,
            start,
            stop: flow.stop.unwrap_or(Time::from_nanos(u64::MAX)),
            next: Some(start),
            sent: 0,
            waiting: None,
            turns,
        })
    }

    /// Bytes of each packet, headers included.
    pub(crate) fn packet_bytes(&self) -> u32 {
        self.packet_bytes
    }

    /// When the next turn is; `None` after the last.
    pub(crate) fn next_turn(&self) -> Option<Time> {
        self.next.filter(|next| *next < self.stop)
    }

    /// A turn, which does nothing before [`Datagrams::next_turn`].
    pub(crate) fn turn(&mut self, now: Time) -> Turn {
        let mut turn = Turn {
            send: None,
            timed_out: false,
        };
        if self.next_turn().is_none_or(|next| now < next) {
            return turn;
        }
        let number = self.sent;
        match &self.kind {
            Kind::Constant { rate } => {
                let bytes = u128::from(number + 1) * u128::from(self.packet_bytes);
                let ns = (bytes * 1_000_000_000).div_ceil(u128::from((*rate).max(1)));
                self.next = Some(self.start.plus_nanos(u64::try_from(ns).unwrap_or(u64::MAX)));
            }
            Kind::Echo { count, .. } => {
                turn.timed_out = self.waiting.take().is_some();
                if count.is_some_and(|count| number >= count) {
                    self.next = None;
                    return turn;
                }
                self.waiting = Some((number, now));
                self.next = Some(now + ANSWER_TIMEOUT);
            }
        }
        self.sent += 1;
        turn.send = Some(number);
        turn
    }

    /// Whether the receiver answers each packet.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.kind, Kind::Echo { .. })
    }

    /// The answer to a packet arrives: the time since the request was sent, unless it was given up.
    pub(crate) fn answered(&mut self, number: u64, now: Time) -> Option<(Time, Duration)> {
        let Kind::Echo { think, .. } = &self.kind else {
            return None;
        };
        let (_, asked) = self.waiting.take_if(|(waiting, _)| *waiting == number)?;
        self.next = Some(now + *think);
        Some((asked, now.since(asked)))
    }
}
