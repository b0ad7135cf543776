//! Observers of a running simulation.

use std::ops::ControlFlow;

use fairwater_datapath::InvocationObserver;
use fairwater_net::{DropReason, Ecn, PacketTimes, Time};

use crate::{EdgeId, NodeId};
use fairwater_tcp::Segment;

/// Observes a simulation and may stop it; `()` does neither.
pub trait Observer {
    /// Called some hundred times a second of real time. [`ControlFlow::Break`] ends the simulation
    /// without an outcome.
    fn progress(&mut self, now: Time) -> ControlFlow<()> {
        let _ = now;
        ControlFlow::Continue(())
    }

    /// A packet entered or left a node of [`crate::Measure::capture`].
    fn packet(&mut self, packet: &Captured<'_>) {
        let _ = packet;
    }

    /// Who observes the invocations of the datapath of that name, if anybody does: asked once for each
    /// host and box with a datapath, before anything happens.
    fn invocations(&mut self, datapath: &str) -> Option<Box<dyn InvocationObserver>> {
        let _ = datapath;
        None
    }

    /// A packet was delivered or dropped on the edge of [`crate::Measure::watch`]; `flow` is the
    /// index of its flow in [`crate::Experiment::flows`]. A delivery is reported when the packet
    /// comes out.
    fn packet_outcome(&mut self, flow: usize, outcome: &PacketOutcome) {
        let _ = (flow, outcome);
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

    fn invocations(&mut self, datapath: &str) -> Option<Box<dyn InvocationObserver>> {
        (**self).invocations(datapath)
    }

    fn packet_outcome(&mut self, flow: usize, outcome: &PacketOutcome) {
        (**self).packet_outcome(flow, outcome);
    }
}

/// How a packet fared on an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketOutcome {
    /// The packet came out.
    Delivered(PacketTimes),
    /// The packet was dropped.
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
    /// The node.
    pub node: NodeId,
    /// The edge by which it came, or is about to leave.
    pub edge: EdgeId,
    /// Whether it leaves the node.
    pub leaves: bool,
    /// Index of its flow in [`crate::Experiment::flows`].
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
