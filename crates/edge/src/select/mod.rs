//! Which algorithm controls a flow, by what is measured of it, with hysteresis (Mystique §3.4).
//!
//! Sans-IO: a [`Selector`] is told of a flow's measures at intervals, and says when another algorithm should
//! control the flow. Who asks carries that out.

mod condition;
mod selector;
mod windowed;

pub use condition::{Condition, Measure};
pub use selector::{Clause, Selector, SelectorConfig, Switch};

use fairwater_net::Time;
use fairwater_proto::FlowId;

use crate::starved::Tally;
use crate::track::Flow;
use crate::{Edge, Fate, FlowKey};

/// What was measured of a flow since the last measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measures {
    /// When.
    pub now: Time,
    /// RTT now, µs; 0 if it is not known.
    pub rtt_us: u64,
    /// Least RTT of the path, µs; 0 if it is not known.
    pub min_rtt_us: u64,
    /// Packets that were acknowledged since the last measures.
    pub acked_packets: u64,
    /// Packets that were lost since the last measures.
    pub lost_packets: u64,
    /// Packets that were marked with CE since the last measures.
    pub marked_packets: u64,
}

/// Another algorithm should control a connection: a hand-over is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The connection.
    pub key: FlowKey,
    /// The connection as the datapath knows it.
    pub flow: FlowId,
    /// The algorithm, and the clause that says so.
    pub switch: Switch,
}

impl Edge {
    /// Asks the selectors of all connections, which look at what happened since they were asked last. It is to be
    /// called at the reports' interval or so; the caller carries the hand-overs out. Takes time in the number of
    /// connections.
    pub fn select(&mut self, now: Time) -> Vec<Selection> {
        let ids: Vec<usize> = self.table.iter().map(|(id, ..)| id).collect();
        let selections = ids.into_iter().filter_map(|id| {
            let (key, flow, fate) = self.table.get_mut(id)?;
            let Fate::Controlled(controlled) = fate else {
                return None;
            };
            let flow_id = controlled.flow;
            let (selector, since) = controlled.selector.as_deref_mut()?;
            let tally = std::mem::take(since);
            // Without an ACK or a timeout there is nothing to go by.
            if tally == Tally::default() {
                return None;
            }
            Some(Selection {
                key: *key,
                flow: flow_id,
                switch: selector.on_measures(&measures(now, flow, &tally))?,
            })
        });
        selections.collect()
    }
}

fn measures(now: Time, flow: &Flow, tally: &Tally) -> Measures {
    Measures {
        now,
        rtt_us: flow.sender().srtt_us(),
        min_rtt_us: flow.sender().min_rtt_us(),
        acked_packets: tally.acked_packets,
        lost_packets: tally.lost_packets,
        marked_packets: tally.marked_packets,
    }
}
