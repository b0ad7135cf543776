//! The edge at work, in a thread of the test.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_algorithms::by_spec;
use fairwater_edge::policy::{EdgePolicy, PortPattern};
use fairwater_edge_tc::{ConnectionState, DescribedConnection, EdgeOptions, EdgeTc};
use fairwater_hosting::plane_of;
use fairwater_netlink::enter;
use fairwater_service::{Config, Endpoints, Server};
use fairwater_testbed::BridgedSite;

/// A site, if this process may make one. Fails instead if CI requires it.
pub(crate) fn site() -> Option<BridgedSite> {
    match BridgedSite::new() {
        Ok(site) => Some(site),
        Err(error) => {
            let required = std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED");
            assert!(required.is_none_or(|value| value != "1"), "{error}");
            println!("skipped: namespaces cannot be made: {error}");
            None
        }
    }
}

/// What is done with the edge between two turns.
type Question = Box<dyn FnOnce(&mut EdgeTc) + Send>;

/// The edge at work in the host's namespace, in a thread.
pub(crate) struct AtWork {
    stop: Arc<AtomicBool>,
    /// Runs closures between two turns.
    ask: mpsc::Sender<Question>,
    thread: Option<JoinHandle<()>>,
}

impl AtWork {
    pub(crate) fn start(site: &BridgedSite, policy: &str) -> Self {
        let namespace = site.host().as_fd().try_clone_to_owned().unwrap();
        // A machine at its limit may leave the plane waiting.
        Self::start_in(namespace, policy, Duration::from_secs(5))
    }

    pub(crate) fn start_in(namespace: OwnedFd, policy: &str, silent_after: Duration) -> Self {
        let parsed = EdgePolicy::parse("test", policy, None).unwrap();
        let policy = Arc::new(parsed.policy);
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let (ask, asked) = mpsc::channel::<Question>();
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::spawn(move || {
            enter(namespace.as_fd()).unwrap();
            let names = policy.algorithms();
            let named = names.iter().map(|name| (&**name, by_spec(name).unwrap()));
            let named: Vec<_> = named.collect();
            let plane = plane_of(named.iter().map(|(name, choice)| (*name, choice))).unwrap();
            let mut server = Server::bind(plane, Config::default(), &Endpoints::default()).unwrap();
            let on = vec![PortPattern::new("vnet*").unwrap()];
            let hosted = server.service().plane().algorithms();
            let options = EdgeOptions {
                silent_after,
                ..EdgeOptions::default()
            };
            let edge = EdgeTc::attach(hosted, on, policy, options).unwrap();
            let (id, _) = server.add(edge).unwrap();
            ready.send(()).unwrap();
            while !stopping.load(Ordering::Acquire) {
                server.turn(Duration::from_millis(5)).unwrap();
                for question in asked.try_iter() {
                    question(server.datapath_mut::<EdgeTc>(id).unwrap());
                }
                let link = server.datapath_mut::<EdgeTc>(id).unwrap().take_link();
                if let Some(link) = link {
                    server.add_link(Box::new(link));
                }
            }
        });
        is_ready.recv().unwrap();
        Self {
            stop,
            ask,
            thread: Some(thread),
        }
    }

    pub(crate) fn with<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut EdgeTc) -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = mpsc::channel();
        let question = move |edge: &mut EdgeTc| answer.send(question(edge)).unwrap();
        self.ask.send(Box::new(question)).unwrap();
        answered.recv().unwrap()
    }

    /// Waits until an algorithm controls a connection: before, slow start goes on.
    pub(crate) fn await_running(&self) {
        eventually(|| {
            let seen = self.connections();
            let is_running = |flow: &DescribedConnection| flow.state == ConnectionState::Running;
            seen.iter().any(is_running).then_some(())
        });
    }

    pub(crate) fn connections(&self) -> Vec<DescribedConnection> {
        self.with(|edge| edge.connections().unwrap())
    }

    pub(crate) fn stop(mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Asks again and again, for five seconds.
pub(crate) fn eventually<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "it never comes");
        thread::sleep(Duration::from_millis(10));
    }
}
