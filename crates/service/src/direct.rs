//! Datapaths in the service's process, or in memory that it maps: registered by what they can do,
//! driven by events, without messages.

use std::collections::VecDeque;

use fairwater_plane::{
    Capabilities, Command, CommandSink, Event, FlowId, FlowSnapshot, HostedAlgorithm, MAX_FLOWS,
    Unmet,
};

use crate::conformance::Conformance;
use crate::deferred_commands::DeferredCommands;
use crate::notice::ServiceNotice;
use crate::policy::PolicyKey;
use crate::service::{Service, Shared};
use crate::slots::{Location, PlaneSlots};

/// A direct datapath of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatapathId(pub(crate) u32);

/// A direct datapath that is registered.
#[derive(Debug)]
pub(crate) struct Direct {
    name: String,
    capabilities: Capabilities,
    /// The plane's flow in each of the datapath's slots.
    flows: Vec<Option<DirectFlow>>,
    live: u32,
    reports: u64,
    conformance: Conformance,
    /// Commands that events of other datapaths brought about.
    commands: VecDeque<(FlowId, Command)>,
}

#[derive(Debug, Clone, Copy)]
struct DirectFlow {
    /// Generation of the datapath's slot.
    generation: u32,
    flow: FlowId,
}

/// What a datapath cannot run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotServed {
    /// Index of the algorithm in the plane.
    pub algorithm: usize,
    /// What the datapath lacks.
    pub unmet: Vec<Unmet>,
}

/// State of a direct datapath, for status screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatapathSnapshot<'a> {
    /// Its identity.
    pub id: DatapathId,
    /// Its name.
    pub name: &'a str,
    /// What it has and can do.
    pub capabilities: &'a Capabilities,
    /// Flows that it has now.
    pub flows: u32,
    /// Reports that came from it.
    pub reports: u64,
}

impl Direct {
    fn flow(&self, flow: FlowId) -> Option<FlowId> {
        let found = self.flows.get(flow.slot as usize)?.as_ref()?;
        (found.generation == flow.generation).then_some(found.flow)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn queue(&mut self, flow: FlowId, command: Command) {
        self.commands.push_back((flow, command));
    }
}

impl Service {
    /// Registers a datapath and says which algorithms it cannot run. An algorithm that is refused
    /// here goes on elsewhere.
    pub fn register(
        &mut self,
        name: &str,
        capabilities: Capabilities,
    ) -> (DatapathId, Vec<NotServed>) {
        let direct = Direct {
            name: name.to_owned(),
            capabilities,
            flows: Vec::new(),
            live: 0,
            reports: 0,
            conformance: Conformance::default(),
            commands: VecDeque::new(),
        };
        let not_served = not_served(self.shared.plane.algorithms(), &capabilities);
        for refused in &not_served {
            let notice = ServiceNotice::not_served(
                name,
                self.shared.plane.algorithms(),
                refused.algorithm,
                &refused.unmet,
            );
            self.shared.notice(notice);
        }
        // More than `u32::MAX` datapaths do not fit into memory.
        let id = DatapathId(u32::try_from(self.datapaths.len()).unwrap_or(u32::MAX));
        self.datapaths.push(Some(direct));
        (id, not_served)
    }

    /// Ends the flows of a datapath, and the datapath.
    pub fn unregister(&mut self, id: DatapathId) {
        let Some(direct) = self.datapaths.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        for (slot, flow) in (0u32..).zip(&direct.flows) {
            if let Some(DirectFlow { generation, flow }) = *flow {
                let local = FlowId { slot, generation };
                self.shared
                    .direct_event(id, local, Event::Closed { flow }, &mut Nowhere);
                self.shared.slots.give_back(flow);
            }
        }
        self.carry_out_deferred();
    }

    /// The direct datapaths.
    pub fn datapaths(&self) -> impl Iterator<Item = DatapathSnapshot<'_>> {
        let numbered = (0..).map(DatapathId).zip(&self.datapaths);
        numbered.filter_map(|(id, direct)| {
            let direct = direct.as_ref()?;
            Some(DatapathSnapshot {
                id,
                name: &direct.name,
                capabilities: &direct.capabilities,
                flows: direct.live,
                reports: direct.reports,
            })
        })
    }

    pub(crate) fn capabilities(&self, id: DatapathId) -> Option<Capabilities> {
        let direct = self.datapaths.get(id.0 as usize)?.as_ref()?;
        Some(direct.capabilities)
    }

    /// What the plane knows of a datapath's flow, by the datapath's name for it.
    #[must_use]
    pub fn flow_of(&self, id: DatapathId, flow: FlowId) -> Option<FlowSnapshot<'_>> {
        let direct = self.datapaths.get(id.0 as usize)?.as_ref()?;
        self.shared.plane.flow(direct.flow(flow)?)
    }

    /// Hands the plane an event of a datapath, whose flows have the datapath's own names. Commands
    /// for its flows go to `sink` at once, under those names; commands for the flows of other
    /// datapaths go to them.
    #[inline]
    pub fn on_event(&mut self, id: DatapathId, event: Event<'_>, sink: &mut dyn CommandSink) {
        let Some(Some(direct)) = self.datapaths.get_mut(id.0 as usize) else {
            return;
        };
        let local = event.flow();
        let shared = &mut self.shared;
        if matches!(event, Event::Created { .. } | Event::Resumed { .. }) {
            shared.plane.set_datapath(&direct.capabilities);
        }
        match event {
            Event::Reported { report, .. } => {
                shared.statistics.reports += 1;
                direct.reports += 1;
                if let Some(flow) = direct.flow(local) {
                    shared.log.push(flow, &report);
                    let ran = report.program;
                    let position = shared.catalogue.position(ran.algorithm(), ran.index());
                    let (time_us, fields) = (report.time_us, report.fields);
                    let watched = direct
                        .conformance
                        .on_report(position, flow, time_us, fields);
                    if let Some(watch) = watched {
                        let datapath = (direct.name.as_str(), &direct.capabilities);
                        shared.judge(&mut direct.conformance, datapath, position, &watch);
                    }
                    shared.direct_event(id, local, Event::Reported { flow, report }, sink);
                }
            }
            Event::Created {
                algorithm, info, ..
            } => shared.open_direct(direct, id, (local, algorithm, info), sink),
            Event::Resumed {
                algorithm, info, ..
            } => match direct.flow(local) {
                Some(flow) => {
                    shared.note_silence(flow, algorithm);
                    let event = Event::Resumed {
                        flow,
                        algorithm,
                        info,
                    };
                    shared.direct_event(id, local, event, sink);
                }
                None => shared.open_direct(direct, id, (local, algorithm, info), sink),
            },
            Event::MssChanged { mss, .. } => {
                if let Some(flow) = direct.flow(local) {
                    shared.direct_event(id, local, Event::MssChanged { flow, mss }, sink);
                }
            }
            Event::Faulted { reason, .. } => {
                if let Some(flow) = direct.flow(local) {
                    shared.direct_event(id, local, Event::Faulted { flow, reason }, sink);
                }
            }
            Event::Closed { .. } => shared.close_direct(direct, id, local, sink),
        }
        self.carry_out_deferred();
    }

    /// Index of the algorithm that a new flow of a datapath gets, which asked for that of index
    /// `asked`: the policy's, if it has one for the flow.
    #[must_use]
    pub fn assign(&self, id: DatapathId, asked: usize, key: &PolicyKey<'_>) -> usize {
        match self.capabilities(id) {
            Some(capabilities) => self.shared.assign(&capabilities, asked, key),
            None => asked,
        }
    }

    /// A datapath cannot hand a flow over, which goes on as before: the operator is told.
    pub(crate) fn refuse_hand_over(&mut self, id: DatapathId, local: FlowId, to: usize, why: &str) {
        let Some(Some(direct)) = self.datapaths.get(id.0 as usize) else {
            return;
        };
        let Some(flow) = direct.flow(local) else {
            return;
        };
        let algorithms = self.shared.plane.algorithms();
        let name = |index: usize| {
            let hosted = algorithms.get(index);
            hosted.map_or_else(String::new, |hosted| hosted.name().to_owned())
        };
        let from = self.shared.plane.flow(flow);
        let notice = ServiceNotice::HandOverRefused {
            datapath: direct.name.clone(),
            flow,
            from: from.map_or_else(String::new, |flow| name(flow.algorithm)),
            to: name(to),
            why: why.to_owned(),
        };
        self.shared.notice(notice);
    }

    /// The next command for a datapath that an event of another datapath, or an operator, brought
    /// about.
    pub fn poll_command(&mut self, id: DatapathId) -> Option<(FlowId, Command)> {
        let direct = self.datapaths.get_mut(id.0 as usize)?.as_mut()?;
        direct.commands.pop_front()
    }
}

impl Shared {
    fn open_direct(
        &mut self,
        direct: &mut Direct,
        id: DatapathId,
        (local, algorithm, info): (FlowId, usize, &fairwater_plane::FlowInfo),
        sink: &mut dyn CommandSink,
    ) {
        let slot = local.slot as usize;
        if local.slot >= MAX_FLOWS {
            return sink.command(local, &withdrawal());
        }
        if direct.flows.len() <= slot {
            direct.flows.resize_with(slot + 1, || None);
        }
        if let Some(former) = direct.flows[slot] {
            let former = FlowId {
                generation: former.generation,
                ..local
            };
            self.close_direct(direct, id, former, sink);
        }
        let location = Location::Direct {
            datapath: id,
            flow: local,
        };
        let Some(flow) = self.slots.take(self.config.max_flows, location) else {
            return sink.command(local, &withdrawal());
        };
        direct.flows[slot] = Some(DirectFlow {
            generation: local.generation,
            flow,
        });
        direct.live += 1;
        self.statistics.flows_total += 1;
        let event = Event::Created {
            flow,
            algorithm,
            info,
        };
        self.direct_event(id, local, event, sink);
    }

    fn close_direct(
        &mut self,
        direct: &mut Direct,
        id: DatapathId,
        local: FlowId,
        sink: &mut dyn CommandSink,
    ) {
        let Some(flow) = direct.flow(local) else {
            return;
        };
        direct.flows[local.slot as usize] = None;
        direct.live -= 1;
        self.direct_event(id, local, Event::Closed { flow }, sink);
        self.slots.give_back(flow);
    }

    /// Hands the plane an event of the flow that the datapath calls `local`.
    #[inline]
    fn direct_event(
        &mut self,
        id: DatapathId,
        local: FlowId,
        event: Event<'_>,
        sink: &mut dyn CommandSink,
    ) {
        let mut commands = DirectCommands {
            id,
            flow: event.flow(),
            local,
            slots: &self.slots,
            deferred: &mut self.deferred,
            sink,
        };
        self.plane.on_event(event, &mut commands);
    }
}

/// Takes the plane's commands while it handles an event of a direct datapath.
struct DirectCommands<'a> {
    id: DatapathId,
    /// The plane's name of the flow that the event is about, and the datapath's.
    flow: FlowId,
    local: FlowId,
    slots: &'a PlaneSlots,
    deferred: &'a mut DeferredCommands,
    sink: &'a mut dyn CommandSink,
}

impl CommandSink for DirectCommands<'_> {
    #[inline]
    fn command(&mut self, flow: FlowId, command: &Command) {
        if flow == self.flow {
            return self.sink.command(self.local, command);
        }
        match self.slots.location(flow) {
            Some(Location::Direct { datapath, flow }) if datapath == self.id => {
                self.sink.command(flow, command);
            }
            Some(_) => self.deferred.push(flow, command),
            None => {}
        }
    }
}

/// For a datapath that is gone.
struct Nowhere;

impl CommandSink for Nowhere {
    fn command(&mut self, _: FlowId, _: &Command) {}
}

fn withdrawal() -> Command {
    Command {
        withdraw: true,
        ..Command::default()
    }
}

/// The algorithms that a datapath with these capabilities cannot run.
fn not_served(algorithms: &[HostedAlgorithm], capabilities: &Capabilities) -> Vec<NotServed> {
    let numbered = algorithms.iter().enumerate();
    numbered
        .map(|(algorithm, hosted)| NotServed {
            algorithm,
            unmet: hosted.requirements().unmet(capabilities),
        })
        .filter(|refused| !refused.unmet.is_empty())
        .collect()
}
