//! What the edge does to the connections of a guest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_algorithms::by_spec;
use fairwater_edge::policy::{EdgePolicy, PortPattern};
use fairwater_edge_tc::{ConnectionState, DescribedConnection, EdgeOptions, EdgeTc};
use fairwater_hosting::plane_of;
use fairwater_netlink::{Namespace, enter, make_veth};
use fairwater_service::{Config, Endpoints, Server};
use std::os::fd::AsFd;

use crate::site::{PORTS, Site};

/// Window of the algorithm in these tests, bytes: ten segments of Ethernet with timestamps.
const WINDOW: u64 = 14_480;

/// Bytes of a transfer.
const BYTES: usize = 16 << 20;

/// A site, if this process may make one. Fails instead if CI requires it.
fn site() -> Option<Site> {
    match Site::new() {
        Ok(site) => Some(site),
        Err(error) => {
            let required = std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED");
            assert!(required.is_none_or(|value| value != "1"), "{error}");
            println!("skipped: namespaces cannot be made: {error}");
            None
        }
    }
}

/// The edge at work in the host's namespace, in a thread.
struct AtWork {
    stop: Arc<AtomicBool>,
    /// Asks for the connections.
    ask: mpsc::Sender<mpsc::Sender<Vec<DescribedConnection>>>,
    thread: Option<JoinHandle<()>>,
}

impl AtWork {
    fn start(site: &Site, policy: &str) -> Self {
        let parsed = EdgePolicy::parse("test", policy, None).unwrap();
        let policy = Arc::new(parsed.policy);
        let namespace = site.host.as_fd().try_clone_to_owned().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let (ask, asked) = mpsc::channel::<mpsc::Sender<Vec<DescribedConnection>>>();
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
            let edge = EdgeTc::attach(hosted, on, policy, EdgeOptions::default()).unwrap();
            let (id, _) = server.add(edge).unwrap();
            ready.send(()).unwrap();
            while !stopping.load(Ordering::Acquire) {
                server.turn(Duration::from_millis(5)).unwrap();
                for answer in asked.try_iter() {
                    let edge = server.datapath::<EdgeTc>(id).unwrap();
                    answer.send(edge.connections().unwrap()).unwrap();
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

    fn connections(&self) -> Vec<DescribedConnection> {
        let (answer, answered) = mpsc::channel();
        self.ask.send(answer).unwrap();
        answered.recv().unwrap()
    }

    fn stop(mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A policy that holds every connection to [`WINDOW`].
fn hold() -> String {
    format!("[[rule]]\nalgorithm = \"constant:cwnd=10\"\n")
}

#[test]
fn a_guest_keeps_to_the_window_of_its_algorithm_and_every_byte_arrives() {
    let Some(site) = site() else { return };
    for v6 in [false, true] {
        let free = site.transfer(v6, BYTES, || ());
        assert!(free.intact);
        assert!(free.greatest_window > 4 * WINDOW, "{free:?}");

        let edge = AtWork::start(&site, &hold());
        let mut seen = Vec::new();
        let held = site.transfer(v6, BYTES, || seen = edge.connections());
        assert!(held.intact);
        // Rounded up to the unit of the window's scale, 2¹⁰ on this kernel at most 2¹⁴.
        assert!(held.greatest_window < WINDOW + (1 << 14), "{held:?}");
        let running = seen.iter().find(|c| c.state == ConnectionState::Running);
        let running = running.unwrap_or_else(|| panic!("{seen:?}"));
        assert_eq!(running.limit_bytes, Some(WINDOW));
        assert_eq!(running.why, "rule 1 (line 1)");
        assert!(running.bytes_acked.unwrap() > 1 << 20, "{running:?}");
        edge.stop();
    }
}

#[test]
fn guests_go_on_by_themselves_when_the_edge_ends_under_load() {
    let Some(site) = site() else { return };
    let edge = AtWork::start(&site, &hold());
    let mut edge = Some(edge);
    let began = Instant::now();
    let transfer = site.transfer(false, BYTES, || edge.take().unwrap().stop());
    assert!(transfer.intact);
    // The window that the guest is told is its peer's again.
    assert!(transfer.greatest_window > 4 * WINDOW, "{transfer:?}");
    println!("{:?}", began.elapsed());
}

#[test]
fn a_connection_from_before_the_edge_and_one_that_no_rule_is_for_are_left_alone() {
    let Some(site) = site() else { return };
    let (address, _reader) = site.receiver(false).unwrap();
    let mut before = site.connect(address).unwrap();
    let policy = "[[rule]]\npeer_port = 1\nalgorithm = \"reno\"\n\n".to_owned() + &hold();
    let edge = AtWork::start(&site, &policy);
    std::io::Write::write_all(&mut before, &[7; 100_000]).unwrap();
    let exempt = eventually(|| edge.connections().pop());
    assert_eq!(exempt.state, ConnectionState::Exempt, "{exempt:?}");
    edge.stop();

    let edge = AtWork::start(&site, "[[rule]]\npeer_port = 1\nalgorithm = \"reno\"\n");
    let transfer = site.transfer(false, BYTES, || ());
    assert!(transfer.intact && transfer.greatest_window > 4 * WINDOW);
    edge.stop();
}

#[test]
fn a_port_that_comes_later_is_found() {
    let Some(site) = site() else { return };
    let edge = AtWork::start(&site, &hold());
    assert!(edge.connections().is_empty());
    let later = Namespace::new().unwrap();
    site.host
        .inside(|| make_veth("vnet7", "eth0", later.as_fd()))
        .unwrap()
        .unwrap();
    // The kernel says which programs are at an interface only by number: it is enough that the edge goes on.
    thread::sleep(Duration::from_millis(200));
    let transfer = site.transfer(false, BYTES / 8, || ());
    assert!(transfer.intact && transfer.greatest_window < WINDOW + (1 << 14));
    assert_eq!(PORTS[0], "vnet0");
    edge.stop();
}

fn eventually<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "it never comes");
        thread::sleep(Duration::from_millis(10));
    }
}
