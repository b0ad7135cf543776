//! Applications: what they ask of their connections, and when.

use std::time::Duration;

use fairwater_net::Time;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::sizes::{draw, until_next_arrival};
use crate::{FlowConfig, Traffic};

/// An action of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Opens a connection, which the actions after it are about.
    Open,
    /// Turns to a connection of the pool, by number: the actions after it are about that.
    Choose(u32),
    /// Writes a request of this many bytes.
    Ask(u64),
    /// Writes a request of this many bytes, which the receiver's host asked for a way ago.
    AskFromAfar(u64),
    /// Writes this many bytes.
    Write(u64),
    /// Writes without end.
    Flood,
    /// Takes back what has not been sent.
    Cut,
    /// Closes the connection after what was written.
    Close,
}

/// The application of one flow, sans-IO: turns and answers go in, actions and the time of the next
/// turn come out.
#[derive(Debug)]
pub(crate) struct Source {
    traffic: Traffic,
    start: Time,
    stop: Time,
    mss: u64,
    rng: ChaCha8Rng,
    /// Turns taken.
    turns: u64,
    /// Requests asked for on the same connection.
    asked: u64,
    stopped: bool,
    /// How long the request of a client takes to the sender.
    way: Duration,
}

impl Source {
    /// Starts at `start`, which is the configuration's with its jitter.
    pub(crate) fn new(flow: &FlowConfig, start: Time, rng: ChaCha8Rng) -> Self {
        Self {
            traffic: flow.traffic.clone(),
            start,
            stop: flow.stop.unwrap_or(Time::from_nanos(u64::MAX)),
            mss: u64::from(flow.tcp.mss),
            rng,
            turns: 0,
            asked: 0,
            stopped: false,
            way: Duration::ZERO,
        }
    }

    /// Says how long the request of a client takes to the sender.
    pub(crate) fn set_way(&mut self, way: Duration) {
        self.way = way;
    }

    /// When the first turn is.
    pub(crate) fn first_turn(&mut self) -> Time {
        let wait = match &self.traffic {
            Traffic::Requests { sizes, load } => {
                until_next_arrival(sizes.mean() / load, &mut self.rng)
            }
            _ => Duration::ZERO,
        };
        self.start + wait
    }

    /// A turn; returns when the next is.
    pub(crate) fn turn(&mut self, now: Time, actions: &mut Vec<Action>) -> Option<Time> {
        if self.stopped {
            return None;
        }
        if now >= self.stop {
            self.stopped = true;
            self.end(actions);
            return None;
        }
        let is_first = self.turns == 0;
        self.turns += 1;
        if is_first
            && !matches!(
                self.traffic,
                Traffic::Requests { .. } | Traffic::Pool { .. }
            )
        {
            actions.push(Action::Open);
        }
        let next = self.go_on(now, is_first, actions);
        let stops = self.stop < Time::from_nanos(u64::MAX);
        match next {
            Some(next) => Some(next.min(self.stop)),
            None => stops.then_some(self.stop),
        }
    }

    fn go_on(&mut self, now: Time, is_first: bool, actions: &mut Vec<Action>) -> Option<Time> {
        match &self.traffic {
            Traffic::Bulk => {
                if is_first {
                    actions.push(Action::Flood);
                }
                None
            }
            Traffic::Bytes(bytes) => {
                if is_first {
                    actions.extend([Action::Ask(*bytes), Action::Close]);
                    self.stopped = true;
                }
                None
            }
            Traffic::OnOff { on, off } => {
                let sends = self.turns % 2 == 1;
                actions.push(if sends { Action::Flood } else { Action::Cut });
                Some(now + if sends { *on } else { *off })
            }
            Traffic::Limited { rate } => {
                // A segment at a time, or what comes together in a millisecond.
                let chunk = self.mss.max(rate / 1_000);
                actions.push(Action::Write(chunk));
                let bytes = u128::from(self.turns) * u128::from(chunk);
                let ns = (bytes * 1_000_000_000).div_ceil(u128::from(*rate));
                let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                Some(self.start + Duration::from_nanos(ns))
            }
            Traffic::Requests { sizes, load } => {
                let bytes = draw(sizes, &mut self.rng);
                actions.extend([Action::Open, Action::Ask(bytes), Action::Close]);
                Some(now + until_next_arrival(sizes.mean() / load, &mut self.rng))
            }
            Traffic::Pool {
                sizes,
                load,
                connections,
            } => {
                let mut from = now;
                if is_first {
                    // No client asks before the start.
                    from = now + self.way;
                    actions.extend((0..*connections).map(|_| Action::Open));
                    actions.extend((0..*connections).map(Action::Choose));
                } else {
                    let chosen = self.rng.random_range(0..(*connections).max(1));
                    let bytes = draw(sizes, &mut self.rng);
                    actions.extend([Action::Choose(chosen), Action::AskFromAfar(bytes)]);
                }
                Some(from + until_next_arrival(sizes.mean() / load, &mut self.rng))
            }
            // Not of TCP: see [`crate::datagrams`].
            Traffic::ConstantRate { .. } | Traffic::Echo { .. } => None,
            Traffic::PingPong { bytes, count, .. } => {
                if count.is_some_and(|count| self.asked >= count) {
                    self.stopped = true;
                    actions.push(Action::Close);
                } else {
                    self.asked += 1;
                    actions.push(Action::Ask(*bytes));
                }
                None
            }
        }
    }

    fn end(&self, actions: &mut Vec<Action>) {
        match self.traffic {
            _ if self.turns == 0 => {}
            Traffic::Bulk | Traffic::OnOff { .. } => actions.extend([Action::Cut, Action::Close]),
            Traffic::Limited { .. } | Traffic::PingPong { .. } => actions.push(Action::Close),
            Traffic::Pool { connections, .. } => {
                for connection in 0..connections {
                    actions.extend([Action::Choose(connection), Action::Close]);
                }
            }
            // Each closed its connection when it asked.
            Traffic::Bytes(_) | Traffic::Requests { .. } => {}
            Traffic::ConstantRate { .. } | Traffic::Echo { .. } => {}
        }
    }

    /// The answer to a request arrives at `at`; returns when to take a turn.
    pub(crate) fn answered(&self, at: Time) -> Option<Time> {
        match &self.traffic {
            Traffic::PingPong { think, .. } if !self.stopped => Some(at + *think),
            _ => None,
        }
    }
}
