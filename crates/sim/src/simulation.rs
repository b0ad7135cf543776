//! The simulation: processes one event after another.

mod boxes;
mod control;
mod datagrams;
mod measuring;
mod moving;
mod sendboxes;
mod stepping;

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Deref};

use fairwater_edge::policy::Share;
use fairwater_edge::{Mode, Treatment};
use fairwater_net::Time;
use fairwater_plane::Plane;
use thiserror::Error;

use crate::bundles;
use crate::check::check_with;
use crate::connection::Connections;
use crate::datagrams::Datagrams;
use crate::ecn::negotiated_ecn;
use crate::edges::Edges;
use crate::events::{Alarm, Event, Events};
use crate::flow::{Flow, FlowEdge};
use crate::guest::Wire;
use crate::packet::Segments;
use crate::plane_link::{Host, PlaneLink};
use crate::random::{Purpose, stream};
use crate::routes::{Finder, Routes};
use crate::sendboxes::Sendboxes;
use crate::traffic::{Action, Source};
use crate::{ConfigErrors, Controller, EdgeMode, Experiment, NodeId, Observer, Outcome};

use boxes::Boxes;
pub use stepping::{CommandError, EdgeSnapshot, FlowSnapshot};

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SimulationError {
    /// The configuration was refused.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The observer stopped the simulation.
    #[error("the simulation was ended before its time")]
    Stopped,
}

/// Runs a simulation. `plane` hosts the algorithms that the flows name; it may be empty if no flow
/// names one.
///
/// # Errors
/// All errors of the configuration, or that the observer stopped it.
pub fn run(
    config: &Experiment,
    plane: Plane,
    observer: &mut dyn Observer,
) -> Result<Outcome, SimulationError> {
    Simulation::new(config, plane, observer)?.finish()
}

/// A box at each host where a flow's sender is to be behind one. Each flow is a guest of its own: its port's
/// number is the flow's.
fn add_edges(config: &Experiment, plane: &mut PlaneLink) -> BTreeMap<NodeId, Host> {
    let mut treatments: BTreeMap<NodeId, BTreeMap<u32, Treatment>> = BTreeMap::new();
    for (flow, interface) in config.flows.iter().zip(0..) {
        if let Some(edge) = &flow.edge {
            let treatment = Treatment {
                algorithm: edge.algorithm.as_str().into(),
                ecn: edge.ecn,
                police: edge.police,
                max_scale: edge.max_scale,
                mode: match edge.mode {
                    EdgeMode::Window => Mode::Window,
                    EdgeMode::Buffer => Mode::Buffer,
                },
                selector: edge.selector.clone(),
                share: edge.weight.map(|weight| Share {
                    group: "".into(),
                    weight,
                }),
                ..Treatment::default()
            };
            let of_host = treatments.entry(flow.from).or_default();
            of_host.insert(interface, treatment);
        }
    }
    let added = treatments.into_iter().filter_map(|(node, treatments)| {
        let name = format!("edge of host {}", node.0);
        let host = plane.add_edge(&name, config.plane.silence, treatments)?;
        Some((node, host))
    });
    added.collect()
}

/// Events between two calls of [`Observer::progress`]: some milliseconds.
const PROGRESS_EVENTS: u64 = 1 << 16;

/// A running simulation. The caller steps it, may read snapshots and may command flows; [`run`]
/// takes one to its end at once. Where a simulation was stopped, and what was read, changes nothing
/// in the outcome.
///
/// `C` is the configuration, borrowed or owned: `&Experiment`, `Arc<Experiment>`.
#[derive(Debug)]
pub struct Simulation<C, O = ()> {
    config: C,
    observer: O,
    now: Time,
    end: Time,
    events: Events,
    taken: u64,
    routes: Routes,
    edges: Edges,
    segments: Segments,
    flows: Vec<Flow>,
    connections: Connections,
    plane: PlaneLink,
    /// The boxes, by host.
    host_edges: BTreeMap<NodeId, Host>,
    /// What boxes send themselves.
    boxes: Boxes,
    /// The boxes of bundles.
    sendboxes: Sendboxes,
    /// Buffers of packets that pass boxes.
    wire: Wire,
    plane_alarm: Alarm,
    datapaths_alarm: Alarm,
    /// Scratch space for the actions of an application.
    actions: Vec<Action>,
}

impl<C: Deref<Target = Experiment>, O: Observer> Simulation<C, O> {
    /// A simulation at time 0. `plane` hosts the algorithms that the flows name; it may be empty if
    /// no flow names one.
    ///
    /// # Errors
    /// All errors of the configuration.
    pub fn new(config: C, plane: Plane, observer: O) -> Result<Self, ConfigErrors> {
        let has = |name: &str| plane.algorithms().iter().any(|a| a.name() == name);
        check_with(&config, has)?;
        Ok(Self::begin(config, plane, observer))
    }

    /// Builds the simulation of a checked configuration.
    fn begin(owner: C, plane: Plane, mut observer: O) -> Self {
        let config: &Experiment = &owner;
        let end = Time::ZERO + config.duration;
        let ecn = config.flows.iter().map(|flow| negotiated_ecn(flow, &plane));
        let ecn: Vec<_> = ecn.collect();
        let mut plane = PlaneLink::new(plane, &config.plane);
        let mut events = Events::default();
        let mut routes = Routes::default();
        let mut finder = Finder::new(config);
        let mut hosts = vec![None; config.nodes as usize];
        let host_edges = add_edges(config, &mut plane);
        if config.measure.from > Time::ZERO {
            events.push(config.measure.from, Event::Summaries);
        }
        if let Some(interval) = config.measure.interval {
            events.push(Time::ZERO + interval, Event::Sample);
        }
        let mut flows = Vec::with_capacity(config.flows.len());
        let bundles = bundles::names(config);
        for (index, (flow, ecn)) in config.flows.iter().zip(ecn).enumerate() {
            let (described, nth) = (flow, u32::try_from(index).unwrap_or(u32::MAX));
            let paths = finder.paths(flow, &mut routes);
            let host = match flow.controller {
                Controller::Plane(_) => {
                    let host = &mut hosts[flow.from.0 as usize];
                    if host.is_none() {
                        *host =
                            plane.add_host(&format!("host {}", flow.from.0), config.plane.silence);
                    }
                    *host
                }
                Controller::Native(_) => None,
            };
            let jitter = crate::sizes::jitter(
                flow.start_jitter,
                &mut stream(config.seed, Purpose::Start, index),
            );
            let rng = stream(config.seed, Purpose::Requests, index);
            let source = Source::new(flow, flow.start + jitter, rng);
            let edge = flow.edge.as_ref();
            let edge = edge.and_then(|edge| Some((host_edges.get(&flow.from)?, edge)));
            let edge = edge.map(|(host, edge)| FlowEdge {
                host: *host,
                is_held: edge.mode == EdgeMode::Buffer,
                numbers: stream(config.seed, Purpose::Numbers, index),
            });
            let mut flow = Flow::new(config, flow, source, paths, &routes, (host, edge), ecn);
            flow.source.set_way(flow.answer_time(config, &routes));
            flow.bundle = bundles::number(&bundles, described.bundle.as_ref());
            let first = if described.traffic.is_datagrams() {
                let turns = flow.first_turns(config.seed, nth);
                flow.datagrams = Datagrams::new(described, described.start + jitter, turns);
                described.start + jitter
            } else {
                flow.source.first_turn()
            };
            flow.alarm.set(Some(first), Event::Flow(nth), &mut events);
            flows.push(flow);
        }
        let mut sendboxes = Sendboxes::new(config, end, (&flows, &mut routes), &mut plane);
        sendboxes.begin_turns(&mut events);
        if !sendboxes.is_empty()
            || flows
                .iter()
                .any(|flow| flow.host.is_some() || flow.edge.is_some())
        {
            events.push(Time::ZERO, Event::Heartbeat);
        }
        plane.observe(&mut |datapath| observer.invocations(datapath));
        let edges = Edges::new(config, end);
        Self {
            config: owner,
            observer,
            now: Time::ZERO,
            end,
            events,
            taken: 0,
            routes,
            edges,
            segments: Segments::default(),
            flows,
            connections: Connections::default(),
            plane,
            host_edges,
            boxes: Boxes::default(),
            sendboxes,
            wire: Wire::default(),
            plane_alarm: Alarm::default(),
            datapaths_alarm: Alarm::default(),
            actions: Vec::new(),
        }
    }

    /// Takes the next event, if there is one by `until` and by the end. Whether there was; if
    /// there was none, it is `until` now, or the end.
    ///
    /// # Errors
    /// [`SimulationError::Stopped`] when the observer ended it: so it does again, with each event.
    #[inline]
    pub fn step(&mut self, until: Time) -> Result<bool, SimulationError> {
        let until = until.min(self.end);
        let Some((at, event)) = self.events.pop_by(until) else {
            self.now = self.now.max(until);
            return Ok(false);
        };
        self.now = at;
        self.taken += 1;
        if self.taken.is_multiple_of(PROGRESS_EVENTS)
            && let ControlFlow::Break(()) = self.observer.progress(at)
        {
            return Err(SimulationError::Stopped);
        }
        self.take(event);
        Ok(true)
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Edge(edge) => {
                if self.edges.rings(edge, self.now) {
                    self.let_out(edge);
                }
            }
            Event::Connection(connection) => self.timer(connection),
            Event::Flow(flow) => {
                if self.flows[flow as usize].alarm.rings(self.now) {
                    self.application_turn(flow);
                }
            }
            Event::Box(host) => self.box_timer(host),
            Event::Sendbox(index) => self.sendbox_turn(index),
            Event::Plane => {
                if self.plane_alarm.rings(self.now) {
                    self.plane.take_up(self.now);
                    self.wake_plane();
                }
            }
            Event::Datapaths => {
                if self.datapaths_alarm.rings(self.now) {
                    self.plane.arrive(self.now);
                    self.wake_plane();
                }
            }
            Event::Heartbeat => {
                let next = self.plane.heartbeat(self.now);
                self.count_fallbacks(next.since(self.now));
                self.events.push(next, Event::Heartbeat);
                self.wake_plane();
            }
            Event::Sample => self.sample(),
            Event::Summaries => self.begin_summaries(),
        }
        self.serve_boxes();
    }

    /// Something may have been sent between the plane and the datapaths.
    #[inline]
    fn wake_plane(&mut self) {
        let events = &mut self.events;
        self.plane_alarm
            .set(self.plane.next_take_up(), Event::Plane, events);
        self.datapaths_alarm
            .set(self.plane.next_arrival(), Event::Datapaths, events);
    }
}
