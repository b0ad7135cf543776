//! A simulation in the hands of somebody: how far it goes, what is read off it, and what its flows
//! are told from outside.

use std::ops::Deref;

use fairwater_lang::MAX_RATE;
use fairwater_net::Time;
use thiserror::Error;

use super::{Simulation, SimulationError};
use crate::connection::Governing;
use crate::flow::Open;
use crate::{Config, EdgeId, Observer, Outcome};

/// A flow at a moment; counts are from the beginning. Several open connections are taken
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowReading {
    /// cwnd, bytes; the sum of open connections.
    pub cwnd: u64,
    /// Pacing rate, bytes/s; 0 is none.
    pub rate: u64,
    /// Smoothed RTT, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Payload bytes that the receiver had in order.
    pub delivered_bytes: u64,
    /// Payload bytes sent, those sent again included.
    pub sent_bytes: u64,
    /// Segments sent.
    pub segments: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments marked CE on arrival.
    pub marked: u64,
}

/// An edge at a moment; counts are of packets, from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EdgeReading {
    /// Bytes that wait in the queue.
    pub queued_bytes: u64,
    /// That came to it.
    pub arrived: u64,
    /// That came out of it.
    pub delivered: u64,
    /// That its queue dropped.
    pub dropped: u64,
    /// Lost at random.
    pub lost: u64,
    /// That its queue marked.
    pub marked: u64,
}

/// Why a flow cannot be commanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CommandError {
    /// There is no such flow.
    #[error("there is no flow {0}")]
    UnknownFlow(usize),
    /// It has no connection, or one that no algorithm of the plane governs.
    #[error("flow {0} has no connection that the plane governs")]
    NotGoverned(usize),
    /// A window of nothing.
    #[error("cwnd is 0")]
    CwndZero,
    /// A rate that no control may have.
    #[error("a rate of {0} bytes/s is more than 2^40")]
    RateAbsurd(u64),
}

impl<C: Deref<Target = Config>, O: Observer> Simulation<C, O> {
    /// Takes all events by `until`, or to the end if that is earlier: then it is that time.
    ///
    /// # Errors
    /// [`SimulationError::Stopped`] when the observer ended it.
    pub fn step_until(&mut self, until: Time) -> Result<(), SimulationError> {
        while self.step(until)? {}
        Ok(())
    }

    /// Takes all that is left, to the end.
    ///
    /// # Errors
    /// [`SimulationError::Stopped`] when the observer ended it.
    pub fn finish(mut self) -> Result<Outcome, SimulationError> {
        self.step_until(self.end)?;
        Ok(self.outcome())
    }

    /// The time of the last event taken, or that it was stepped to.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Whether it is at its end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.now >= self.end
    }

    /// What it simulates.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The flow of that index in [`Config::flows`], if there is one. Costs a look at every open
    /// connection.
    #[must_use]
    pub fn flow(&self, index: usize) -> Option<FlowReading> {
        let flow = self.flows.get(index)?;
        let mut open = Open::default();
        let of_it = |connection: &&crate::connection::Connection| connection.flow as usize == index;
        for connection in self.connections.iter().filter(of_it) {
            open.add(connection);
        }
        Some(flow.measured.reading(&open))
    }

    /// The edge, if there is one.
    pub fn edge(&mut self, edge: EdgeId) -> Option<EdgeReading> {
        self.edges.reading(edge.0, self.now)
    }

    /// Sets cwnd (bytes), the pacing rate (bytes/s, 0 is none) or both of a flow that an algorithm
    /// of the plane governs, as the plane would at this moment: by a command in Fairwater's
    /// encoding that takes the plane's way ([`crate::PlaneConfig::delay`]) to the flow's datapath
    /// and comes into force at the flow's next ACK.
    ///
    /// # Errors
    /// What [`CommandError`] names; nothing is sent then.
    pub fn command(
        &mut self,
        flow: usize,
        cwnd: Option<u64>,
        rate: Option<u64>,
    ) -> Result<(), CommandError> {
        let place = match self.flows.get(flow) {
            Some(of) => of.connection.ok_or(CommandError::NotGoverned(flow))?,
            None => return Err(CommandError::UnknownFlow(flow)),
        };
        if cwnd == Some(0) {
            return Err(CommandError::CwndZero);
        }
        if let Some(rate) = rate.filter(|rate| *rate > MAX_RATE) {
            return Err(CommandError::RateAbsurd(rate));
        }
        let governed = match self.connections.get(place).map(|c| &c.governing) {
            Some(Governing::Plane { host, flow, .. }) => (*host, *flow),
            _ => return Err(CommandError::NotGoverned(flow)),
        };
        self.plane.command(governed, (cwnd, rate), self.now);
        self.wake_plane();
        Ok(())
    }

    /// The time at which it ends.
    #[must_use]
    pub fn end(&self) -> Time {
        self.end
    }
}
