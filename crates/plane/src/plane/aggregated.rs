//! Flows in aggregates: they join, report, leave, and are withdrawn together.

use std::collections::HashMap;

use super::{Plane, find_flow, foreign_field, program_id, withdrawal};
use crate::aggregate::members::Members;
use crate::contain::{contain, discard};
use crate::hosted::Role;
use crate::{
    Aggregate, AggregateSnapshot, Command, CommandSink, FlowId, FlowInfo, Group, Key,
    LoadedProgram, Member, Reason, Report,
};

/// The aggregates of a plane, by an index that is given out again.
#[derive(Debug, Default)]
pub(super) struct Aggregates {
    slots: Vec<Option<Hosted>>,
    free: Vec<u32>,
    /// Never iterated over, so its order does not matter.
    by_key: HashMap<(usize, Key), u32>,
}

/// An aggregate in a plane.
struct Hosted {
    algorithm: usize,
    key: Key,
    author: Box<dyn Aggregate>,
    members: Members,
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted")
            .field("algorithm", &self.algorithm)
            .field("key", &self.key)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl Hosted {
    fn view(&self, index: u32) -> AggregateSnapshot<'_> {
        AggregateSnapshot {
            index,
            algorithm: self.algorithm,
            key: &self.key,
            members: self.members.len(),
        }
    }
}

impl Aggregates {
    pub(super) fn view(&self, index: u32) -> Option<AggregateSnapshot<'_>> {
        let hosted = self.slots.get(index as usize)?.as_ref()?;
        Some(hosted.view(index))
    }

    pub(super) fn views(&self) -> impl Iterator<Item = AggregateSnapshot<'_>> {
        let numbered = (0..).zip(&self.slots);
        numbered.filter_map(|(index, hosted)| Some(hosted.as_ref()?.view(index)))
    }

    fn get_mut(&mut self, index: u32) -> Option<&mut Hosted> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    fn add(&mut self, hosted: Hosted) -> u32 {
        let owner_and_key = (hosted.algorithm, hosted.key.clone());
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(hosted);
                index
            }
            None => {
                // There are no more than flows, whose slots are `u32`s.
                let index = self.slots.len() as u32;
                self.slots.push(Some(hosted));
                index
            }
        };
        self.by_key.insert(owner_and_key, index);
        index
    }

    fn remove(&mut self, index: u32) -> Option<Hosted> {
        let hosted = self.slots.get_mut(index as usize)?.take()?;
        self.by_key.remove(&(hosted.algorithm, hosted.key.clone()));
        self.free.push(index);
        Some(hosted)
    }
}

impl Plane {
    /// A flow joins the aggregate of its key. `false`: the algorithm has none for it after all.
    pub(super) fn join(
        &mut self,
        flow: FlowId,
        algorithm: usize,
        key: Key,
        info: &FlowInfo,
        sink: &mut dyn CommandSink,
    ) -> bool {
        let hosted = &mut self.algorithms[algorithm];
        let owner_and_key = (algorithm, key);
        let index = match self.aggregates.by_key.get(&owner_and_key) {
            Some(index) => *index,
            None => match contain(|| hosted.algorithm.new_aggregate(&owner_and_key.1, info)) {
                Ok(None) => return false,
                Ok(Some(author)) => self.aggregates.add(Hosted {
                    algorithm,
                    key: owner_and_key.1,
                    author,
                    members: Members::default(),
                }),
                Err(reason) => {
                    self.not_started(flow, algorithm, reason, sink);
                    return true;
                }
            },
        };
        let Some(aggregate) = self.aggregates.get_mut(index) else {
            return false;
        };
        let member = aggregate.members.join(flow, program_id(algorithm, 0));
        hosted.statistics.flows += 1;
        if let Some(hosted_flow) = find_flow(&mut self.flows, flow) {
            hosted_flow.program = 0;
            hosted_flow.role = Role::Member {
                aggregate: index,
                member,
            };
        }
        self.ask(index, sink, |author, group| {
            author.create_subflow(member, info, group);
        });
        true
    }

    pub(super) fn member_reported(
        &mut self,
        (index, member): (u32, Member),
        report: &Report<'_>,
        sink: &mut dyn CommandSink,
    ) {
        let Some(aggregate) = self.aggregates.get_mut(index) else {
            return;
        };
        let programs = self.algorithms[aggregate.algorithm].programs();
        let outcome = consult(aggregate, programs, |author, group| {
            author.on_report(member, report, group);
        });
        if let Some(field) = report.foreign()
            && let Some(pending) = aggregate.members.touch(member)
        {
            let reason = foreign_field(&self.algorithms, field, report.program());
            pending.reason.get_or_insert(reason);
        }
        self.conclude(index, outcome, sink);
    }

    /// A member is gone; its flow is not its aggregate's any more.
    pub(super) fn part(&mut self, index: u32, member: Member, sink: &mut dyn CommandSink) {
        let Some(aggregate) = self.aggregates.get_mut(index) else {
            return;
        };
        aggregate.members.leave(member);
        self.ask(index, sink, |author, group| author.on_close(member, group));
    }

    /// Runs the aggregate's code and carries out what comes of it.
    pub(super) fn ask(
        &mut self,
        index: u32,
        sink: &mut dyn CommandSink,
        work: impl FnOnce(&mut dyn Aggregate, &mut Group<'_>),
    ) {
        let Some(aggregate) = self.aggregates.get_mut(index) else {
            return;
        };
        let programs = self.algorithms[aggregate.algorithm].programs();
        let outcome = consult(aggregate, programs, work);
        self.conclude(index, outcome, sink);
    }

    /// Carries out what an aggregate's code asked for, unless it failed.
    fn conclude(&mut self, index: u32, outcome: Result<(), Reason>, sink: &mut dyn CommandSink) {
        let mut outcome = outcome;
        // Each round but the last withdraws a member at least.
        while outcome.is_ok() {
            let mistaken = self.send(index, sink);
            if mistaken.is_empty() {
                break;
            }
            for (member, flow, reason) in mistaken {
                let Some(algorithm) = self.aggregates.get_mut(index).map(|a| a.algorithm) else {
                    return;
                };
                self.withdraw_member(flow, algorithm, reason, sink);
                if let Some(aggregate) = self.aggregates.get_mut(index)
                    && outcome.is_ok()
                {
                    let programs = self.algorithms[algorithm].programs();
                    outcome = consult(aggregate, programs, |author, group| {
                        author.on_close(member, group);
                    });
                }
            }
        }
        let Some(aggregate) = self.aggregates.get_mut(index) else {
            return;
        };
        match outcome {
            Err(reason) => self.disband(index, &reason, sink),
            Ok(()) if aggregate.members.len() > 0 => {}
            Ok(()) => {
                if let Some(last) = self.aggregates.remove(index) {
                    discard(last.author);
                }
            }
        }
    }

    /// Sends the commands for the members that were controlled. Those with a mistake leave
    /// instead, and are returned.
    fn send(&mut self, index: u32, sink: &mut dyn CommandSink) -> Vec<(Member, FlowId, Reason)> {
        let mut mistaken = Vec::new();
        let Some(aggregate) = self.aggregates.get_mut(index) else {
            return mistaken;
        };
        let mut at = 0;
        while let Some((member, record)) = aggregate.members.touched(at) {
            at += 1;
            // It may have left since.
            let Some(record) = record else {
                continue;
            };
            let pending = &mut record.pending;
            pending.resolve_hand_over(&self.algorithms);
            if let Some(reason) = pending.reason.take() {
                mistaken.push((member, record.flow, reason));
                aggregate.members.leave(member);
            } else if pending.command != Command::default() {
                if let Some(switch) = pending.command.switch
                    && let Some(hosted_flow) = find_flow(&mut self.flows, record.flow)
                {
                    hosted_flow.program = switch.index;
                }
                sink.command(record.flow, &pending.command);
                pending.reset(pending.running);
            }
        }
        aggregate.members.settled();
        mistaken
    }

    /// The aggregate's code failed: its members are withdrawn.
    fn disband(&mut self, index: u32, reason: &Reason, sink: &mut dyn CommandSink) {
        let Some(aggregate) = self.aggregates.remove(index) else {
            return;
        };
        for (_, record) in aggregate.members.iter() {
            self.withdraw_member(record.flow, aggregate.algorithm, reason.clone(), sink);
        }
        discard(aggregate.author);
    }

    fn withdraw_member(
        &mut self,
        flow: FlowId,
        algorithm: usize,
        reason: Reason,
        sink: &mut dyn CommandSink,
    ) {
        if let Some(hosted_flow) = find_flow(&mut self.flows, flow) {
            hosted_flow.role = Role::Withdrawn;
        }
        sink.command(flow, &withdrawal());
        self.withdrawn(flow, algorithm, reason);
    }
}

/// Runs an aggregate's code. What it wants of its members is in their drafts.
fn consult(
    aggregate: &mut Hosted,
    programs: &[LoadedProgram],
    work: impl FnOnce(&mut dyn Aggregate, &mut Group<'_>),
) -> Result<(), Reason> {
    let Hosted {
        author, members, ..
    } = aggregate;
    let mut group = Group::new(members, programs);
    contain(|| work(author.as_mut(), &mut group))?;
    group.into_failure().map_or(Ok(()), Err)
}
