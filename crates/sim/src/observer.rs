//! Who looks on while a simulation runs.

use std::ops::ControlFlow;

use fairwater_net::{Ecn, Time};

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
}

impl Observer for () {}

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
