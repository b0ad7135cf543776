//! Who looks on while a simulation runs.

use std::ops::ControlFlow;

use fairwater_net::{DropReason, Ecn, Passage, Time};

use crate::EdgeId;
use crate::tcp::Segment;

/// Looks on, and may end it; `()` does neither.
pub trait Observer {
    /// Called now and then, some hundred times a second of real time. After a
    /// [`ControlFlow::Break`] the simulation ends without an outcome.
    fn progress(&mut self, now: Time) -> ControlFlow<()> {
        let _ = now;
        ControlFlow::Continue(())
    }

    /// A packet entered or left the node of [`crate::Measure::capture`].
    fn packet(&mut self, packet: &Captured<'_>) {
        let _ = packet;
    }

    /// What became of a packet on the edge of [`crate::Measure::watch`]; `flow` is the index of its
    /// flow in [`crate::Config::flows`]. Of those that pass it is told when they come out.
    fn fate(&mut self, flow: usize, fate: &Fate) {
        let _ = (flow, fate);
    }
}

impl Observer for () {}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn progress(&mut self, now: Time) -> ControlFlow<()> {
        (**self).progress(now)
    }

    fn packet(&mut self, packet: &Captured<'_>) {
        (**self).packet(packet);
    }

    fn fate(&mut self, flow: usize, fate: &Fate) {
        (**self).fate(flow, fate);
    }
}

/// What became of a packet on an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It came out.
    Passed(Passage),
    /// It was dropped.
    Dropped {
        /// When.
        at: Time,
        /// Bytes of the IP packet.
        size_bytes: u32,
        /// Why.
        reason: DropReason,
    },
}

/// A packet at a node.
#[derive(Debug, Clone, Copy)]
pub struct Captured<'a> {
    /// When.
    pub at: Time,
    /// The edge by which it came, or is about to leave.
    pub edge: EdgeId,
    /// Whether it leaves the node.
    pub leaves: bool,
    /// Index of its flow in [`crate::Config::flows`].
    pub flow: usize,
    /// Tells the connections of a flow apart: they are numbered as they begin, over all flows.
    pub connection: u64,
    /// Data; acknowledgements otherwise.
    pub to_receiver: bool,
    /// Bytes of the IP packet.
    pub size_bytes: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// What TCP put into it.
    pub segment: &'a Segment,
}
