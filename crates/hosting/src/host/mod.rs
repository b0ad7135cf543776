//! One plane for everything on a host that sends: this machine's TCP, and datapaths in other
//! processes.

mod boxes;
mod config;
mod edge;
mod failure;
mod incidents;
mod read;
mod reload;
mod status;

use std::io;
use std::time::{Duration, Instant, SystemTime};

use fairwater_linux::{LinuxTcp, MigrationCounts, MovedConnections, observe, probe};
use fairwater_plane::{FlowId, nearest};
use fairwater_service::switching::Plan;
use fairwater_service::{
    DatapathId, FlowStatus, HandOverError, Server, Service, ServiceNotice, Stopper,
};

use crate::bundle::RunningReceivebox;
use crate::changed_default::{self, ChangedDefault, Places};
use crate::plane::plane_resuming;
use crate::process::finish_all;
use crate::tcp_notices::TcpNotices;
use crate::{AlgorithmProcess, NamedAlgorithm, fork};

pub use config::{
    ControlConfig, DEFAULT_PATH, HostConfig, LinksConfig, LinuxConfig, MetricsAddress,
    runtime_directory,
};
pub use edge::{
    BufferRow, ConnectionRow, EdgeConfig, EdgePolicyError, EdgeStatus, PortRow, read_edge_policy,
};
pub use failure::HostFailure;
pub use incidents::{KeptIncident, MOST_INCIDENTS};
pub use reload::ReloadError;
pub use status::{AlgorithmRow, BuffersRow, CarefulResumeRow, DatapathRow, HostStatus};

use incidents::Incidents;

/// A plane at work, with all its datapaths. Dropping it, or better [`Host::finish`], leaves the
/// machine as it was.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    server: Server,
    /// This machine's TCP under the algorithms in Rust.
    tcp: Option<DatapathId>,
    /// The edge at the ports of guests.
    edge: Option<DatapathId>,
    /// The sendbox of this site.
    sendbox: Option<boxes::RunningSendbox>,
    /// The receivebox of this site.
    receivebox: Option<RunningReceivebox>,
    tcp_notices: TcpNotices,
    /// Algorithms in Python on this machine's TCP, each in a process of its own, so that one that
    /// blocks, spins, forks or dies harms its own flows alone.
    processes: Vec<AlgorithmProcess>,
    /// The algorithms on this machine's TCP, in the configuration's order, with the kernel's names.
    names: Vec<(String, String)>,
    default: Option<ChangedDefault>,
    moved: MovedConnections,
    incidents: Incidents,
    /// Notices for the next turn.
    notices: Vec<String>,
    started: Instant,
}

impl Host {
    /// Starts everything, or nothing.
    ///
    /// # Errors
    /// What keeps it from being started.
    pub fn start(config: HostConfig) -> Result<Self, HostFailure> {
        if config.algorithms.is_empty() {
            return Err(HostFailure::NoAlgorithm);
        }
        crate::require_different(&config.algorithms)?;
        // Finds errors in any algorithm before the first is attached.
        let all = plane_resuming(&config.algorithms, config.careful_resume)?;
        failure::within_budget(&all, config.max_instructions)?;
        let linux = config.linux.clone();
        let wanted = linux.is_some().then(|| probe::probe().require());
        let mut notices = Vec::new();
        let with_linux = match (wanted, &linux) {
            (Some(Err(missing)), Some(linux)) if linux.optional && config.links.is_some() => {
                notices.push(format!("Linux TCP is not served: {missing}."));
                false
            }
            (Some(Err(missing)), _) => return Err(missing.into()),
            (wanted, _) => wanted.is_some(),
        };
        // Where there is no Linux TCP, algorithms in Python run in this process.
        let hosted: Vec<NamedAlgorithm> = if with_linux {
            let hosted = config.algorithms.iter();
            let hosted = hosted.filter(|(_, each)| !config.has_own_process(each));
            hosted.cloned().collect()
        } else {
            config.algorithms.clone()
        };
        let plane = plane_resuming(&hosted, config.careful_resume)?;
        let service = config.service(instance());
        fork::mark_plane_thread();
        let server =
            Server::bind(plane, service, &config.endpoints()).map_err(HostFailure::Links)?;
        let mut host = Self {
            config,
            server,
            tcp: None,
            edge: None,
            sendbox: None,
            receivebox: None,
            tcp_notices: TcpNotices::new(),
            processes: Vec::new(),
            names: Vec::new(),
            default: None,
            moved: MovedConnections::default(),
            incidents: Incidents::default(),
            notices,
            started: Instant::now(),
        };
        let policy = host.config.policy.clone();
        host.server.service_mut().set_policy(policy);
        if with_linux && let Some(linux) = linux {
            host.attach(&linux)?;
        }
        if let Some(edge) = host.config.edge.clone() {
            host.attach_edge(&edge)?;
        }
        if let Some(sendbox) = host.config.sendbox.clone() {
            host.start_sendbox(&sendbox)?;
        }
        if let Some(receivebox) = host.config.receivebox.clone() {
            host.receivebox = Some(RunningReceivebox::start(receivebox)?);
        }
        Ok(host)
    }

    /// Puts the algorithms on this machine's TCP.
    fn attach(&mut self, linux: &LinuxConfig) -> Result<(), HostFailure> {
        let places = Places::of_this_namespace().map_err(HostFailure::Namespace)?;
        // A default that cannot be restored is no reason not to attach.
        match changed_default::restore_after_kill(&places) {
            Ok(Some(restored)) => {
                self.tell(format!("An earlier fairwater was killed: {restored}."));
            }
            Ok(None) => {}
            Err(error) => self.tell(format!(
                "The default of an earlier fairwater is not restored: {error}."
            )),
        }
        let mut own = Vec::new();
        if !self.server.service().plane().algorithms().is_empty() {
            let hosted = self.server.service().plane().algorithms();
            let tcp = LinuxTcp::attach(hosted, linux.options)?;
            own.extend(tcp.names().map(str::to_owned));
            let (id, _) = self.server.add(tcp).map_err(HostFailure::Links)?;
            self.tcp = Some(id);
            for name in &own {
                self.tell(registered_sentence(name));
            }
            let adopted = self.adoption();
            self.notices.extend(adopted);
        }
        let served: Vec<_> = self.served_by_tcp();
        let mut own = served.into_iter().zip(own);
        let mut next = own.next();
        for each in self.config.algorithms.clone() {
            if self.config.has_own_process(&each.1) {
                let process = AlgorithmProcess::start(std::slice::from_ref(&each), &linux.options)?;
                for name in process.names() {
                    self.notices.push(registered_sentence(name));
                }
                let name = process.names().first().cloned();
                self.names.extend(name.map(|name| (each.0, name)));
                self.processes.push(process);
            } else if let Some((_, name)) = next.take_if(|(served, _)| *served == each.0) {
                self.names.push((each.0, name));
                next = own.next();
            }
        }
        self.set_default(linux, places)
    }

    /// Names of the algorithms that this machine's TCP can run, in the plane's order.
    fn served_by_tcp(&self) -> Vec<String> {
        let hosted = self.server.service().plane().algorithms().iter();
        let served = hosted.filter(|hosted| {
            let unmet = hosted.requirements().unmet(&fairwater_linux::CAPABILITIES);
            unmet.is_empty()
        });
        served.map(|hosted| hosted.name().to_owned()).collect()
    }

    /// Makes an algorithm the default of new connections, and moves existing ones.
    fn set_default(&mut self, linux: &LinuxConfig, places: Places) -> Result<(), HostFailure> {
        if let Some(algorithm) = &linux.default {
            let name = self
                .kernel_name(algorithm)
                .ok_or_else(|| HostFailure::NotOnLinux(algorithm.clone()))?;
            let changed = ChangedDefault::set(places, &name)?;
            let former = changed.former();
            self.notices.push(format!(
                "New connections use {name}: the default was {former} and will be again."
            ));
            self.default = Some(changed);
        }
        if linux.move_existing {
            let first = self.names.first().map(|(_, name)| name.clone());
            let onto = linux
                .default
                .as_deref()
                .and_then(|name| self.kernel_name(name));
            if let Some(name) = onto.or(first) {
                let moved = self.moved.move_onto(&name)?;
                self.tell(migration_sentence(&moved, &name));
            }
        }
        Ok(())
    }

    /// The kernel's name of an algorithm of the configuration.
    fn kernel_name(&self, algorithm: &str) -> Option<String> {
        let found = self.names.iter().find(|(known, _)| known == algorithm);
        found.map(|(_, name)| name.clone())
    }

    fn tell(&mut self, sentence: String) {
        self.notices.push(sentence);
    }

    /// What was taken over from earlier planes, if anything, as a sentence.
    #[must_use]
    pub fn adoption(&self) -> Option<String> {
        let tcp = self.server.datapath::<LinuxTcp>(self.tcp?)?;
        adoption_sentence(tcp.adopted())
    }

    /// What an operator should know of the start, or since the last turn.
    pub fn drain_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// What ends waits in [`Host::turn`].
    #[must_use]
    pub fn waker(&self) -> Stopper {
        self.server.stopper()
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// The service, for its counts.
    #[must_use]
    pub fn service(&self) -> &Service {
        self.server.service()
    }

    /// Whether flows can change between the plan's algorithms here.
    ///
    /// # Errors
    /// Why they cannot, as a sentence.
    pub fn can_switch(&self, plan: &Plan) -> Result<(), String> {
        for name in [&plan.from, &plan.to] {
            let known = self
                .config
                .algorithms
                .iter()
                .find(|(known, _)| known == name);
            let Some((_, algorithm)) = known else {
                let names = self.config.algorithms.iter().map(|(name, _)| name.as_str());
                let near = nearest(name, names).map(|near| format!("; did you mean {near}?"));
                let near = near.unwrap_or_default();
                return Err(format!("this plane has no algorithm {name}{near}"));
            };
            if algorithm.is_python && self.hosted(name).is_none() {
                return Err(format!(
                    "{name} has a process of its own, and flows cannot go from one process to another"
                ));
            }
        }
        Ok(())
    }

    /// Hands a flow over to an algorithm, by name.
    ///
    /// # Errors
    /// There is no such flow or algorithm, or the flow's datapath cannot run it.
    pub fn hand_over(&mut self, flow: FlowId, algorithm: &str) -> Result<(), HandOverError> {
        let to = self
            .hosted(algorithm)
            .ok_or(HandOverError::UnknownAlgorithm)?;
        self.server.service_mut().hand_over(flow, to)
    }

    /// Index of an algorithm of this process's plane.
    fn hosted(&self, name: &str) -> Option<usize> {
        let hosted = self.server.service().plane().algorithms();
        hosted.iter().position(|hosted| hosted.name() == name)
    }

    /// The kernel's names of the algorithms on this machine's TCP, in the configuration's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(_, name)| name.as_str())
    }

    /// What is known of the flows of all datapaths. Those of algorithms in Python on Linux TCP are
    /// their processes'.
    #[must_use]
    pub fn flows(&self) -> Vec<FlowStatus> {
        self.server.flows()
    }

    /// What is kept of flows that left their algorithm, the oldest first.
    pub fn incidents(&self) -> impl Iterator<Item = &KeptIncident> {
        self.incidents.iter()
    }

    /// One turn of at most this time; returns what an operator should know.
    ///
    /// # Errors
    /// Of the system, none of which are to be expected.
    pub fn turn(&mut self, wait: Duration) -> io::Result<Vec<String>> {
        self.server.turn(wait)?;
        self.tell_port_changes();
        self.tell_mode_changes();
        let mut notices = std::mem::take(&mut self.notices);
        if let Some(tcp) = self.tcp.and_then(|id| self.server.datapath::<LinuxTcp>(id)) {
            notices.extend(self.tcp_notices.poll(tcp, Instant::now()));
        }
        for incident in self.server.incidents() {
            self.incidents.keep(incident, SystemTime::now());
        }
        let on_linux = self.tcp.is_some() && self.config.links.is_none();
        for notice in self.server.service_mut().drain_notices() {
            notices.push(match notice {
                ServiceNotice::Flow(notice) if on_linux => {
                    format!("{notice}; it goes on under Cubic in the kernel.")
                }
                other => format!("{other}."),
            });
        }
        for process in &mut self.processes {
            process.drain_notices(&mut notices);
        }
        Ok(notices)
    }

    /// Ends everything and leaves the machine as it was; returns what an operator should know.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        let edge_ends = self.edge_ends();
        let Self {
            server,
            sendbox,
            receivebox,
            tcp,
            processes,
            names,
            default,
            mut moved,
            ..
        } = self;
        let names: Vec<_> = names.into_iter().map(|(_, name)| name).collect();
        let mut notices = Vec::new();
        if let Some(default) = default {
            notices.push(match default.restore() {
                Ok(Some(restored)) => format!("Stopping: {restored}."),
                Ok(None) => "Stopping: the default is left as it was set meanwhile.".to_owned(),
                Err(error) => format!("Stopping: the default is not restored: {error}."),
            });
        }
        notices.extend(edge_ends);
        notices.extend(sendbox.map(boxes::RunningSendbox::finish));
        drop(receivebox);
        let flows = flows_on_linux(&names, &processes);
        moved.give_back_moved();
        let end = finish_all(processes);
        notices.extend(end.notices);
        // A worker that had to be killed gave nothing back.
        for name in &end.killed {
            moved.give_back(name);
        }
        drop(server);
        if tcp.is_some() || !names.is_empty() {
            notices.push(format!(
                "Stopped: {} unregistered, {} given back.",
                names.join(" and "),
                count(flows as u64, "flow")
            ));
        }
        notices
    }
}

/// Flows of these algorithms that this process or one of these has.
fn flows_on_linux(names: &[String], processes: &[AlgorithmProcess]) -> usize {
    if names.is_empty() {
        return 0;
    }
    let pids: Vec<u32> = processes
        .iter()
        .map(AlgorithmProcess::id)
        .chain([std::process::id()])
        .collect();
    let planes = observe::planes().into_iter();
    planes
        .filter(|plane| names.contains(&plane.name) && pids.contains(&plane.pid))
        .map(|plane| plane.flows.len())
        .sum()
}

fn registered_sentence(name: &str) -> String {
    format!("{name} is registered: any TCP socket and any route can choose it.")
}

/// "1 flow", "2 flows".
pub(crate) fn count(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// What was taken over from earlier planes, if anything.
fn adoption_sentence(adopted: MigrationCounts) -> Option<String> {
    let parts: Vec<_> = [
        (adopted.connections, "connection"),
        (adopted.listeners, "listener"),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .map(|(number, what)| count(number, what))
    .collect();
    (!parts.is_empty()).then(|| {
        let parts = parts.join(" and ");
        format!("{parts} taken over from an earlier fairwater that ended.")
    })
}

fn migration_sentence(moved: &MigrationCounts, name: &str) -> String {
    let mut text = format!(
        "{} moved onto {name}",
        count(moved.connections, "connection")
    );
    if moved.refused > 0 {
        text += &format!("; the kernel refused {}", moved.refused);
    }
    if moved.namespaces_skipped > 0 {
        text += &format!(
            "; {} could not be entered",
            count(moved.namespaces_skipped, "network namespace")
        );
    }
    text + "."
}

/// Another number for each start.
fn instance() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanoseconds = since.map_or(1, |since| since.as_nanos());
    // The low bits: those that differ between starts.
    (nanoseconds & u128::from(u64::MAX)) as u64
}
