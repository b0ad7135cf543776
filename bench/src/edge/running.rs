//! An edge at the guest's port, in a thread.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use fairwater_edge::policy::{EdgePolicy, PortPattern};
use fairwater_edge_tc::{EdgeOptions, EdgeTc};
use fairwater_netlink::enter;
use fairwater_plane::Plane;
use fairwater_service::{Config, Endpoints, Server};

/// Longest time between two looks at whether to stop.
const TURN: Duration = Duration::from_millis(50);

/// A policy that has the algorithm control each connection.
pub(super) fn controlling(algorithm: &str) -> String {
    format!("[[rule]]\nalgorithm = \"{algorithm}\"\n")
}

/// An edge at the guest's port until dropped.
pub(super) struct RunningEdge {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunningEdge {
    /// Attaches it to the ports `vnet*` of a namespace.
    pub(super) fn start(
        namespace: BorrowedFd<'_>,
        policy: &str,
        algorithm: &str,
        options: EdgeOptions,
    ) -> anyhow::Result<Self> {
        let parsed = EdgePolicy::parse("benchmark", policy, None);
        let parsed = parsed.map_err(|mistakes| anyhow::anyhow!("{}", mistakes.render(false)))?;
        let policy = Arc::new(parsed.policy);
        let choice = fairwater_algorithms::by_spec(algorithm)?;
        let namespace = namespace.try_clone_to_owned()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let (tell, told) = mpsc::channel::<anyhow::Result<()>>();
        let thread = std::thread::spawn(move || {
            let attached = || -> anyhow::Result<Server> {
                enter(namespace.as_fd())?;
                let mut plane = Plane::new();
                plane.add(|programs| choice.build(programs))?;
                let mut server = Server::bind(plane, Config::default(), &Endpoints::default())?;
                let on = PortPattern::new("vnet*").map_err(anyhow::Error::msg)?;
                let hosted = server.service().plane().algorithms();
                let edge = EdgeTc::attach(hosted, vec![on], policy, options)?;
                server.add(edge)?;
                Ok(server)
            };
            match attached() {
                Ok(mut server) => {
                    let _ = tell.send(Ok(()));
                    while !stopping.load(Ordering::Acquire) && server.turn(TURN).is_ok() {}
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                }
            }
        });
        told.recv()??;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for RunningEdge {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
