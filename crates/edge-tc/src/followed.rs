//! Flows whose policy asks for more than one algorithm: selectors that change it, and shares of a group's windows.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwater_edge::Treatment;
use fairwater_edge::enforce::Limit;
use fairwater_edge::policy::EdgePolicy;
use fairwater_edge::select::{Measures, Selector};
use fairwater_edge::share::{Member, divide, whole_segments};
use fairwater_kernel::{Frame, now_us};
use fairwater_net::Time;
use fairwater_plane::FlowId;

use crate::kernel_side::KernelSide;
use crate::{Controlled, EdgeError};

/// Least time between two looks at the flows: a look takes two system calls for each.
const PAUSE: Duration = Duration::from_millis(10);

/// A flow that is followed.
#[derive(Debug)]
struct FollowedFlow {
    treatment: Treatment,
    selector: Option<Selector>,
    /// Counts at the last look.
    bytes_acked: u64,
    lost_packets: u64,
    marked_packets: u64,
    /// What the last part had beyond whole segments, bytes.
    rest: u64,
    /// When the flow was seen to send or to be acknowledged last.
    active: Time,
}

/// The flows that are followed.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    flows: HashMap<FlowId, FollowedFlow>,
    /// Flows that began since the last look.
    begun: RefCell<Vec<FlowId>>,
    looked: Option<Instant>,
}

/// Another algorithm should control a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) flow: FlowId,
    pub(crate) algorithm: Arc<str>,
}

impl Followed {
    /// A flow has begun.
    pub(crate) fn begin(&self, flow: FlowId) {
        self.begun.borrow_mut().push(flow);
    }

    /// Looks at the flows, divides the windows of groups, and says which flows should change their algorithm.
    pub(crate) fn look(
        &mut self,
        side: &KernelSide,
        policy: &EdgePolicy,
        port_sets: impl Fn(u32) -> u64,
    ) -> Result<Vec<Selected>, EdgeError> {
        if self.looked.is_some_and(|at| at.elapsed() < PAUSE) {
            return Ok(Vec::new());
        }
        for flow in self.begun.take() {
            let Some((key, _)) = side.programs.controlled(flow.slot)? else {
                continue;
            };
            let treatment = policy.treatment(&key, port_sets(key.interface));
            let treatment = treatment.map(|(_, treatment)| treatment);
            let followed = treatment.filter(|it| it.selector.is_some() || it.share.is_some());
            if let Some(treatment) = followed {
                // What a resynchronization opens, its event opens once more.
                let new = || FollowedFlow::new(treatment);
                self.flows.entry(flow).or_insert_with(new);
            }
        }
        if self.flows.is_empty() {
            return Ok(Vec::new());
        }
        self.looked = Some(Instant::now());
        self.follow(side)
    }

    fn follow(&mut self, side: &KernelSide) -> Result<Vec<Selected>, EdgeError> {
        let now = Time::from_nanos(now_us() * 1_000);
        let mut selected = Vec::new();
        let mut members = Vec::new();
        let mut gone = Vec::new();
        for (&flow, followed) in &mut self.flows {
            let frame = side.memory().frame_of(flow);
            let (Some(frame), Some((_, controlled))) =
                (frame, side.programs.controlled(flow.slot)?)
            else {
                gone.push(flow);
                continue;
            };
            let measures = followed.measure(now, frame, &controlled);
            if let Some(algorithm) = followed.select(&measures) {
                selected.push(Selected { flow, algorithm });
            }
            if let Some(member) = followed.member(frame, &controlled) {
                let group = followed.treatment.share.as_ref();
                let group = group.map(|share| Arc::clone(&share.group));
                members.push((group.unwrap_or_default(), flow, frame, member));
            }
        }
        members.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        for group in members.chunk_by(|(a, ..), (b, ..)| a == b) {
            let of_group: Vec<Member> = group.iter().map(|(.., member)| *member).collect();
            let parts = divide(now, &of_group);
            for ((_, flow, frame, member), part) in group.iter().zip(parts) {
                let rest = self.flows.get_mut(flow).map(|followed| &mut followed.rest);
                let part = part.zip(rest);
                let part = part.map(|(part, rest)| whole_segments(part, member.mss, rest));
                frame.set_part(part.map(|part| (part, member.window)));
                // Of the slot's next flow, if it has one meanwhile, it is no part.
                if side.memory().frame_of(*flow).is_none() {
                    frame.set_part(None);
                }
            }
        }
        for flow in gone {
            self.flows.remove(&flow);
        }
        Ok(selected)
    }
}

impl FollowedFlow {
    fn new(treatment: &Treatment) -> Self {
        Self {
            selector: treatment.selector.clone().map(Selector::new),
            treatment: treatment.clone(),
            bytes_acked: 0,
            lost_packets: 0,
            marked_packets: 0,
            rest: 0,
            active: Time::from_nanos(now_us() * 1_000),
        }
    }

    /// What happened since the last look.
    fn measure(&mut self, now: Time, frame: Frame<'_>, controlled: &Controlled) -> Measures {
        let mss = u64::from(frame.mss().max(1));
        let acked = frame.bytes_acked().saturating_sub(self.bytes_acked);
        let lost = frame.retransmitted().saturating_sub(self.lost_packets);
        let marked = controlled
            .marked_packets
            .saturating_sub(self.marked_packets);
        self.bytes_acked = frame.bytes_acked();
        self.lost_packets = frame.retransmitted();
        self.marked_packets = controlled.marked_packets;
        if acked > 0 {
            self.active = now;
        }
        Measures {
            now,
            rtt_us: controlled.srtt_us,
            min_rtt_us: controlled.min_rtt_us,
            acked_packets: acked.div_ceil(mss),
            lost_packets: lost,
            marked_packets: marked,
        }
    }

    fn select(&mut self, measures: &Measures) -> Option<Arc<str>> {
        // Without an ACK or a timeout there is nothing to go by.
        if measures.acked_packets == 0 && measures.lost_packets == 0 {
            return None;
        }
        Some(self.selector.as_mut()?.on_measures(measures)?.algorithm)
    }

    /// The flow as a member of its group; `None` while nothing but its peer limits it.
    fn member(&self, frame: Frame<'_>, controlled: &Controlled) -> Option<Member> {
        let share = self.treatment.share.as_ref()?;
        if controlled.limit == Limit::Released {
            return None;
        }
        Some(Member {
            weight: share.weight,
            window: own_window(frame, controlled),
            mss: frame.mss(),
            srtt: Duration::from_micros(controlled.srtt_us),
            sent_at: self.active,
            is_out: false,
        })
    }
}

/// The window that the flow's algorithm decided, bytes: at most rate × minimum RTT, but one segment.
fn own_window(frame: Frame<'_>, controlled: &Controlled) -> u64 {
    let (rate, min_rtt_us) = (frame.rate(), controlled.min_rtt_us);
    if rate == 0 || min_rtt_us == 0 {
        return frame.cwnd();
    }
    let bytes = u128::from(rate) * u128::from(min_rtt_us) / 1_000_000;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    frame.cwnd().min(bytes.max(frame.mss().into()))
}
