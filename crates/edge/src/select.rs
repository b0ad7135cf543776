//! Which algorithm controls a connection, by what is measured of it, with hysteresis: [`fairwater_select`] for the
//! connections of a box.

pub use fairwater_select::{
    Clause, Condition, Measure, Measures, Selector, SelectorConfig, Switch,
};

use fairwater_net::Time;
use fairwater_proto::FlowId;

use crate::buffer::Buffering;
use crate::starved::Tally;
use crate::{Edge, Fate, FlowKey};

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
            // The box's own sender where it is one: the guest's packets wait in the box.
            let (rtt_us, min_rtt_us) = match &controlled.buffering {
                Buffering::Held(buffered) => buffered.rtts_us(),
                Buffering::Idle | Buffering::Ended => {
                    (flow.sender().srtt_us(), flow.sender().min_rtt_us())
                }
            };
            let (selector, since) = controlled.selector.as_deref_mut()?;
            let tally = std::mem::take(since);
            // Without an ACK or a timeout there is nothing to go by.
            if tally == Tally::default() {
                return None;
            }
            Some(Selection {
                key: *key,
                flow: flow_id,
                switch: selector.on_measures(&Measures {
                    now,
                    rtt_us,
                    min_rtt_us,
                    acked_packets: tally.acked_packets,
                    lost_packets: tally.lost_packets,
                    marked_packets: tally.marked_packets,
                })?,
            })
        });
        selections.collect()
    }
}
