//! The box divides the windows of groups of flows.

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::Time;

use crate::Edge;
use crate::controlled::{ControlledFlow, Fate};
use crate::enforce::Limit;
use crate::share::{self, Member};
use crate::track::Flow;

impl Edge {
    /// Divides the windows of each group of flows by weight ([`share::divide`]). It is to be called every half
    /// RTT or so while the policy has weights: guests are told with their next ACK. Takes time in the number of
    /// connections, and none while no connection has a weight.
    pub fn divide(&mut self, now: Time) {
        if self.flows.sharing == 0 {
            return;
        }
        let members = self.table.iter().filter_map(|(id, _, flow, fate)| {
            let Fate::Controlled(controlled) = fate else {
                return None;
            };
            let group = &controlled.treatment.share.as_ref()?.group;
            Some((Arc::clone(group), id, member(flow, controlled)?))
        });
        let mut members: Vec<_> = members.collect();
        members.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        for group in members.chunk_by(|(a, ..), (b, ..)| a == b) {
            let of_group: Vec<Member> = group.iter().map(|(_, _, member)| *member).collect();
            let parts = share::divide(now, &of_group);
            for ((_, id, member), part) in group.iter().zip(parts) {
                if let Some((_, _, Fate::Controlled(controlled))) = self.table.get_mut(*id) {
                    controlled.divide(part, member);
                }
            }
        }
    }
}

/// A flow as a member of its group; `None` while nothing but its peer limits it.
fn member(flow: &Flow, controlled: &ControlledFlow) -> Option<Member> {
    let Limit::Target(window) = controlled.own_limit() else {
        return None;
    };
    let sender = flow.sender();
    Some(Member {
        weight: controlled.treatment.share.as_ref()?.weight,
        window,
        mss: sender.mss(),
        srtt: Duration::from_micros(sender.srtt_us()),
        sent_at: controlled.sent_at,
        is_out: sender.nxt() != sender.una(),
    })
}
