//! Stepping a simulation, reading snapshots of it, and commanding its flows.

use std::ops::Deref;

use fairwater_lang::MAX_RATE;
use fairwater_net::Time;
use thiserror::Error;

use super::{Simulation, SimulationError};
use crate::bundles;
use crate::connection::ConnectionController;
use crate::flow::Open;
use crate::{BundleSnapshot, EdgeId, Experiment, Observer, Outcome};

/// A flow now; counts are from the beginning. Several open connections count together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowSnapshot {
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
    /// Payload bytes sent, including retransmissions.
    pub sent_bytes: u64,
    /// Segments sent.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments marked CE on arrival.
    pub marked: u64,
}

/// An edge now; counts are of packets, from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EdgeSnapshot {
    /// Bytes that wait in the queue.
    pub queued_bytes: u64,
    /// Packets that wait in the queue.
    pub queued_packets: u64,
    /// Packets that have left the queue and not come out yet.
    pub in_flight_packets: u64,
    /// Packets that arrived: the sum of all the others but `marked`.
    pub arrived: u64,
    /// Packets that came out.
    pub delivered: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets that the queue marked.
    pub marked: u64,
}

/// Why a flow cannot be commanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CommandError {
    /// The flow does not exist.
    #[error("there is no flow {0}")]
    UnknownFlow(usize),
    /// The flow has no connection, or no algorithm of the plane controls it.
    #[error("flow {0} has no connection that the plane controls")]
    NotControlled(usize),
    /// The window is zero.
    #[error("cwnd is 0")]
    CwndZero,
    /// The rate is out of range.
    #[error("a rate of {0} bytes/s is more than 2^40")]
    RateAbsurd(u64),
}

impl<C: Deref<Target = Experiment>, O: Observer> Simulation<C, O> {
    /// Processes all events by `until`, or by the end if that is earlier.
    ///
    /// # Errors
    /// [`SimulationError::Stopped`] when the observer ended it.
    pub fn step_until(&mut self, until: Time) -> Result<(), SimulationError> {
        while self.step(until)? {}
        Ok(())
    }

    /// Processes all events to the end.
    ///
    /// # Errors
    /// [`SimulationError::Stopped`] when the observer ended it.
    pub fn finish(mut self) -> Result<Outcome, SimulationError> {
        self.step_until(self.end)?;
        Ok(self.outcome())
    }

    /// The time that the simulation was stepped to, or of the last event.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Whether the simulation has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.now >= self.end
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Experiment {
        &self.config
    }

    /// The flow of that index in [`Experiment::flows`], if there is one. Costs a look at every open
    /// connection.
    #[must_use]
    pub fn flow(&self, index: usize) -> Option<FlowSnapshot> {
        let flow = self.flows.get(index)?;
        let mut open = Open::NONE;
        let of_it = |connection: &&crate::connection::Connection| connection.flow as usize == index;
        for connection in self.connections.iter().filter(of_it) {
            open.add(connection);
        }
        Some(flow.measured.snapshot(&open))
    }

    /// The edge, if there is one.
    pub fn edge(&mut self, edge: EdgeId) -> Option<EdgeSnapshot> {
        self.edges.snapshot(edge.0, self.now)
    }

    /// A bundle at an edge: `None` if there is no such edge or bundle, or none of its packets has
    /// arrived there. Drops of which the queue has not told yet still count as queued.
    pub fn bundle(&mut self, edge: EdgeId, bundle: &str) -> Option<BundleSnapshot> {
        let names = bundles::names(&self.config);
        let place = names.iter().position(|name| name == bundle)?;
        let number = u8::try_from(place + 1).ok()?;
        self.edges.bundle(edge.0, number, self.now)
    }

    /// Sets cwnd (bytes), the pacing rate (bytes/s, 0 is none) or both of a flow that an algorithm
    /// of the plane controls, as the plane would at this moment: by a command in Fairwater's
    /// encoding that takes the plane's delay ([`crate::PlaneConfig::delay`]) to the flow's datapath
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
        let slot = match self.flows.get(flow) {
            Some(of) => of.connection.ok_or(CommandError::NotControlled(flow))?,
            None => return Err(CommandError::UnknownFlow(flow)),
        };
        if cwnd == Some(0) {
            return Err(CommandError::CwndZero);
        }
        if let Some(rate) = rate.filter(|rate| *rate > MAX_RATE) {
            return Err(CommandError::RateAbsurd(rate));
        }
        let controlled = match self.connections.get(slot).map(|c| &c.controller) {
            Some(ConnectionController::Plane { host, flow, .. }) => (*host, *flow),
            _ => return Err(CommandError::NotControlled(flow)),
        };
        self.plane.command(controlled, (cwnd, rate), self.now);
        self.wake_plane();
        Ok(())
    }

    /// The sender of the flow's present connection dies, as a machine without power: it sends nothing any more, and
    /// what comes for it is lost. Whether there was one. A box at the host's edge lives on.
    pub fn kill(&mut self, flow: usize) -> bool {
        let slot = self.flows.get(flow).and_then(|flow| flow.connection);
        let Some(connection) = slot.and_then(|slot| self.connections.get(slot)) else {
            return false;
        };
        connection.is_dead = true;
        true
    }

    /// The time at which the simulation ends.
    #[must_use]
    pub fn end(&self) -> Time {
        self.end
    }
}
