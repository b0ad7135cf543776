//! The simulation: takes one event after another.

mod governing;
mod measuring;
mod moving;
mod stepping;

use std::ops::{ControlFlow, Deref};

use fairwater_net::Time;
use fairwater_plane::Plane;
use thiserror::Error;

use crate::connection::Connections;
use crate::edges::Edges;
use crate::events::{Alarm, Event, Events};
use crate::flow::Flow;
use crate::packet::Segments;
use crate::plane_link::PlaneLink;
use crate::random::{Purpose, stream};
use crate::routes::{Finder, Routes};
use crate::traffic::{Act, Source};
use crate::{Config, ConfigError, Governor, Observer, Outcome};

pub use stepping::{CommandError, EdgeReading, FlowReading};

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SimulationError {
    /// It was not begun.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The observer ended it.
    #[error("the simulation was ended before its time")]
    Stopped,
}

/// Simulates. `plane` hosts the algorithms that the flows name; one without any will do when none
/// is named.
///
/// # Errors
/// Everything that is wrong with the configuration, or that the observer ended it.
pub fn run(
    config: &Config,
    plane: Plane,
    observer: &mut dyn Observer,
) -> Result<Outcome, SimulationError> {
    Simulation::new(config, plane, observer)?.finish()
}

/// Events between two calls of [`Observer::progress`]: some milliseconds.
const PROGRESS_EVENTS: u64 = 1 << 16;

/// A simulation under way: whoever has it says how far it goes, looks at it, and may command its
/// flows. [`run`] is one that is taken to its end at once; where it was stopped on the way, and
/// what was looked at, changes nothing in the outcome.
///
/// `C` is the configuration, borrowed or owned: `&Config`, `Arc<Config>`.
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
    plane_alarm: Alarm,
    datapaths_alarm: Alarm,
    /// Filled and emptied at a turn of an application.
    acts: Vec<Act>,
}

impl<C: Deref<Target = Config>, O: Observer> Simulation<C, O> {
    /// At its beginning. `plane` hosts the algorithms that the flows name; one without any will
    /// do when none is named.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: C, plane: Plane, observer: O) -> Result<Self, ConfigError> {
        let has = |name: &str| plane.algorithms().iter().any(|a| a.name() == name);
        config.check_with(has)?;
        Ok(Self::begin(config, plane, observer))
    }

    /// The configuration has been checked.
    fn begin(owner: C, plane: Plane, observer: O) -> Self {
        let config: &Config = &owner;
        let end = Time::ZERO + config.duration;
        let ecn = config.flows.iter().map(|flow| flow.negotiated_ecn(&plane));
        let ecn: Vec<_> = ecn.collect();
        let mut plane = PlaneLink::new(plane, &config.plane);
        let mut events = Events::default();
        let mut routes = Routes::default();
        let mut finder = Finder::new(config);
        let mut hosts = vec![None; config.nodes as usize];
        if config.measure.from > Time::ZERO {
            events.push(config.measure.from, Event::Summaries);
        }
        if let Some(interval) = config.measure.interval {
            events.push(Time::ZERO + interval, Event::Sample);
        }
        let mut flows = Vec::with_capacity(config.flows.len());
        for (index, (flow, ecn)) in config.flows.iter().zip(ecn).enumerate() {
            let ways = finder.ways(flow, &mut routes);
            let host = match flow.governor {
                Governor::Plane(_) => {
                    let host = &mut hosts[flow.from.0 as usize];
                    if host.is_none() {
                        *host =
                            plane.add_host(&format!("host {}", flow.from.0), config.plane.silence);
                    }
                    *host
                }
                Governor::Native(_) => None,
            };
            let jitter = crate::sizes::jitter(
                flow.start_jitter,
                &mut stream(config.seed, Purpose::Start, index),
            );
            let rng = stream(config.seed, Purpose::Requests, index);
            let source = Source::new(flow, flow.start + jitter, rng);
            let mut flow = Flow::new(config, flow, source, ways, &routes, host, ecn);
            let first = flow.source.first_turn();
            let event = Event::Flow(u32::try_from(index).unwrap_or(u32::MAX));
            flow.alarm.set(Some(first), event, &mut events);
            flows.push(flow);
        }
        if flows.iter().any(|flow| flow.host.is_some()) {
            events.push(Time::ZERO, Event::Heartbeat);
        }
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
            plane_alarm: Alarm::default(),
            datapaths_alarm: Alarm::default(),
            acts: Vec::new(),
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
                let next = self.plane.beat(self.now);
                self.events.push(next, Event::Heartbeat);
                self.wake_plane();
            }
            Event::Sample => self.sample(),
            Event::Summaries => self.begin_summaries(),
        }
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
