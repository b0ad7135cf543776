//! The edge at the guests of the lab.

use std::any::Any;
use std::error::Error;
use std::fmt::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_edge::policy::{EdgePolicy, PortPattern};
use fairwater_edge_tc::{EdgeOptions, EdgeTc};
use fairwater_experiment::EdgeMode;
use fairwater_netlink::enter;
use fairwater_service::{Config, Endpoints, Server};
use fairwater_testbed::{EdgeAttacher, GuestPort};

use crate::plane::plane_of_named;
use crate::{NamedAlgorithm, TURN, fork, resolve};

/// How long attaching may take.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(60);

/// Puts the edge at the ports of the lab's guests, with a plane in a thread of this process.
#[derive(Debug, Clone)]
pub struct LabEdge {
    /// Folder of files that algorithms name.
    pub folder: PathBuf,
}

impl EdgeAttacher for LabEdge {
    fn attach(
        &self,
        host: BorrowedFd<'_>,
        ports: &[GuestPort],
    ) -> Result<Box<dyn Any>, Box<dyn Error + Send + Sync>> {
        let (policy, specs) = policy_of(ports);
        let policy = EdgePolicy::parse("the scenario's edge", &policy, None)
            .map_err(|mistakes| mistakes.render(false))?;
        let patterns = ports.iter().map(|port| PortPattern::new(&port.name));
        let mut algorithms: Vec<NamedAlgorithm> = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            algorithms.push((name_of(index), resolve(spec, &self.folder)?));
        }
        let edge = AttachedEdge::start(Setup {
            host: host.try_clone_to_owned()?,
            on: patterns.collect::<Result<_, _>>()?,
            policy: Arc::new(policy.policy),
            algorithms,
        })?;
        Ok(Box::new(edge))
    }
}

/// The policy that does to each port's connections what is asked for, and the algorithms that it names, by index.
fn policy_of(ports: &[GuestPort]) -> (String, Vec<&str>) {
    let mut policy = String::new();
    let mut specs: Vec<&str> = Vec::new();
    for port in ports {
        let Some(treatment) = &port.treatment else {
            continue;
        };
        let spec = treatment.algorithm.as_str();
        let known = specs.iter().position(|other| *other == spec);
        let index = known.unwrap_or_else(|| {
            specs.push(spec);
            specs.len() - 1
        });
        // Writing to a string cannot fail.
        let _ = write!(
            policy,
            "[[rule]]\nport = \"{}\"\nalgorithm = \"{}\"\necn = {}\npolice = {}\n",
            port.name,
            name_of(index),
            treatment.ecn,
            treatment.police
        );
        if treatment.mode == EdgeMode::Buffer {
            policy += "mode = \"buffer\"\n";
        }
        if let Some(scale) = treatment.max_scale {
            let _ = writeln!(policy, "max_scale = {scale}");
        }
        if let Some(weight) = treatment.weight {
            let _ = writeln!(policy, "weight = {weight}");
        }
    }
    (policy, specs)
}

/// Name of an algorithm at the plane of the box.
fn name_of(index: usize) -> String {
    format!("edge_{index}")
}

/// What a box starts with.
struct Setup {
    host: OwnedFd,
    on: Vec<PortPattern>,
    policy: Arc<EdgePolicy>,
    algorithms: Vec<NamedAlgorithm>,
}

impl Setup {
    fn attach(self) -> Result<Server, Box<dyn Error + Send + Sync>> {
        enter(self.host.as_fd())?;
        let plane = plane_of_named(&self.algorithms)?;
        let mut server = Server::bind(plane, Config::default(), &Endpoints::default())?;
        let hosted = server.service().plane().algorithms();
        let mut edge = EdgeTc::attach(hosted, self.on, self.policy, EdgeOptions::default())?;
        let buffers = edge.take_link();
        server.add(edge)?;
        if let Some(link) = buffers {
            server.add_link(Box::new(link));
        }
        Ok(server)
    }
}

/// A box at work in a thread until dropped.
struct AttachedEdge {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AttachedEdge {
    fn start(setup: Setup) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new().name("lab-edge".to_owned());
        let thread = thread.spawn(move || {
            fork::mark_plane_thread();
            match setup.attach() {
                Ok(mut server) => {
                    let _ = tell.send(Ok(()));
                    // A turn fails if its own poll does; the guests are released then.
                    while !stopping.load(Acquire) && server.turn(TURN).is_ok() {}
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                }
            }
        })?;
        let edge = Self {
            stop,
            thread: Some(thread),
        };
        match told.recv_timeout(ATTACH_TIMEOUT) {
            Ok(attached) => attached.map(|()| edge),
            Err(RecvTimeoutError::Timeout) => Err("it was not attached within a minute".into()),
            Err(RecvTimeoutError::Disconnected) => Err("attaching it panicked".into()),
        }
    }
}

impl Drop for AttachedEdge {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        if let Some(thread) = self.thread.take() {
            // Its failure was told, or nobody is left to hear it.
            let _ = thread.join();
        }
    }
}
