//! Flows of real TCP sockets that change their algorithm under load: nothing stalls, nothing falls back,
//! and no slow start begins anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use fairwater_lab::{Candidate, Comparison};
use fairwater_linux::{LinuxTcp, Options};
use fairwater_plane::{Algorithm, Control, Ecn, Flow, FlowInfo, Plane, Report};
use fairwater_results::TrafficProgram;
use fairwater_service::{DatapathId, FlowStatus, HandOverError, Server};
use support::{Connection, eventually, machine_can};

const ALGORITHMS: [&str; 3] = ["cubic", "vegas", "bbr"];

/// An algorithm whose reports are counted.
struct Counted(Box<dyn Algorithm>, Arc<AtomicU64>);

struct CountedFlow(Box<dyn Flow>, Arc<AtomicU64>);

impl Algorithm for Counted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control<'_>) -> Box<dyn Flow> {
        Box::new(CountedFlow(
            self.0.new_flow(info, control),
            Arc::clone(&self.1),
        ))
    }

    fn idle_restart(&self) -> bool {
        self.0.idle_restart()
    }

    fn ecn(&self) -> Ecn {
        self.0.ecn()
    }
}

impl Flow for CountedFlow {
    fn on_report(&mut self, report: &Report<'_>, control: &mut Control<'_>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.on_report(report, control);
    }
}

type Call = Box<dyn FnOnce(&mut Server, DatapathId) + Send>;

/// A server of [`ALGORITHMS`] in a thread of its own, which carries out calls between its turns.
struct Hosted {
    calls: mpsc::Sender<Call>,
    /// The kernel's name of the first algorithm.
    name: String,
    /// Reports by algorithm.
    reports: Vec<Arc<AtomicU64>>,
    thread: Option<JoinHandle<()>>,
}

impl Hosted {
    fn start() -> Self {
        let reports: Vec<Arc<AtomicU64>> = ALGORITHMS.map(|_| Arc::default()).into();
        let counts = reports.clone();
        let (calls, called) = mpsc::channel::<Call>();
        let (named, name) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut plane = Plane::new();
            for (spec, count) in ALGORITHMS.into_iter().zip(counts) {
                let choice = fairwater_algorithms::by_spec(spec).unwrap();
                plane
                    .add(|programs| choice.build(programs).map(|inner| Counted(inner, count)))
                    .unwrap();
            }
            let options = Options {
                unique_names: true,
                // The machine may be busy with something else.
                silent_after: Duration::from_secs(5),
                ..Options::default()
            };
            let (mut server, tcp) = fairwater_linux::server(plane, options).unwrap();
            let first = server.datapath::<LinuxTcp>(tcp).unwrap().names().next();
            named.send(first.unwrap().to_owned()).unwrap();
            loop {
                match called.try_recv() {
                    Ok(call) => call(&mut server, tcp),
                    Err(mpsc::TryRecvError::Empty) => {}
                    Err(mpsc::TryRecvError::Disconnected) => break,
                }
                server.turn(Duration::from_millis(2)).unwrap();
            }
        });
        Self {
            calls,
            name: name.recv().unwrap(),
            reports,
            thread: Some(thread),
        }
    }

    /// What the call yields, between two turns.
    fn with<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Server, DatapathId) -> R + Send + 'static,
    ) -> R {
        let (answer, answered) = mpsc::channel();
        let call: Call = Box::new(move |server, tcp| answer.send(call(server, tcp)).unwrap());
        self.calls.send(call).unwrap();
        answered.recv().unwrap()
    }

    /// Hands all flows over.
    fn hand_over(&self, algorithm: usize) {
        self.with(move |server, _| {
            let flows: Vec<_> = server.service().flows().collect();
            for flow in flows {
                server.service_mut().hand_over(flow, algorithm).unwrap();
            }
        });
    }

    fn flows(&self) -> Vec<FlowStatus> {
        self.with(|server, _| server.flows())
    }

    fn fallbacks(&self) -> u64 {
        self.with(|server, tcp| server.datapath::<LinuxTcp>(tcp).unwrap().fallbacks())
    }

    fn reports(&self, algorithm: usize) -> u64 {
        self.reports[algorithm].load(Ordering::Relaxed)
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        // The thread ends when nobody can call any more.
        self.calls = mpsc::channel().0;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_flow_under_load_keeps_its_window_and_moves_on() {
    /// When the flow is handed over to which algorithm, s.
    const SWITCHES: [(f64, usize); 4] = [(2.0, 1), (3.5, 0), (5.0, 2), (6.5, 0)];
    if !machine_can() {
        return;
    }
    let hosted = Hosted::start();
    let candidate = Candidate {
        label: "cubic".to_owned(),
        congestion_control: hosted.name.clone(),
    };
    let comparison = Comparison {
        duration: Duration::from_secs(8),
        program: TrafficProgram::Bulk,
        tries: 1,
        ..Comparison::new("20mbit 40ms 1bdp".parse().unwrap(), vec![candidate])
    };
    let mut next = 0;
    // Of each switch: the flow before and soon after it.
    let mut seen: Vec<(FlowStatus, Option<FlowStatus>)> = Vec::new();
    let mut reports = Vec::new();
    let results = fairwater_lab::run(&comparison, &AtomicBool::new(false), &mut |progress| {
        let now = progress.elapsed.as_secs_f64();
        if let Some((at, to)) = SWITCHES.get(next)
            && now >= *at
        {
            let largest = |flow: &FlowStatus| flow.measures.counts.map(|c| c.bytes_acked);
            let before = hosted.flows().into_iter().max_by_key(largest);
            hosted.hand_over(*to);
            std::thread::sleep(Duration::from_millis(60));
            let before = before.unwrap();
            let id = before.id();
            let after = hosted.with(move |server, _| server.flow(id));
            seen.push((before, after));
            reports.push((*to, hosted.reports(*to)));
            next += 1;
        }
    });
    let run = results.unwrap().runs[0].clone();
    assert_eq!(seen.len(), SWITCHES.len());
    assert_eq!(hosted.fallbacks(), 0);
    for ((before, after), (_, to)) in seen.iter().zip(SWITCHES) {
        let after = after.as_ref().unwrap();
        assert!(after.controlled && !after.measures.fallback, "{after:?}");
        assert_eq!(after.algorithm, ALGORITHMS[to]);
        let ratio = after.measures.cwnd_bytes as f64 / before.measures.cwnd_bytes as f64;
        // BBR sets its own window, of up to 2.89 BDP; Cubic goes on from that.
        let bounds = if to == 2 { 0.3..3.5 } else { 0.5..1.25 };
        assert!(bounds.contains(&ratio), "{before:?} {after:?}");
        let srtt = after.measures.srtt_us as f64 / before.measures.srtt_us as f64;
        assert!((0.4..2.5).contains(&srtt), "{before:?} {after:?}");
    }
    for (to, before) in reports {
        assert!(hosted.reports(to) > before, "{} reports", ALGORITHMS[to]);
    }
    let throughputs: Vec<f64> = run
        .series
        .link
        .iter()
        .filter(|interval| (1.0..7.9).contains(&interval.at_s))
        .map(|interval| interval.throughput_bps)
        .collect();
    let moving = throughputs
        .windows(12)
        .all(|w| w.iter().any(|bps| *bps > 0.0));
    assert!(moving, "a stall: {throughputs:?}");
    let mean = throughputs.iter().sum::<f64>() / throughputs.len() as f64;
    assert!(mean > 0.85 * 20e6, "{mean}");
}

#[test]
fn many_flows_change_back_and_forth_without_a_fallback_or_a_stall() {
    const FLOWS: usize = 64;
    const SWITCHES: usize = 20;
    if !machine_can() {
        return;
    }
    let hosted = Hosted::start();
    let connections: Vec<_> = (0..FLOWS)
        .map(|_| Connection::open("127.0.0.1:0", &hosted.name))
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let load = std::thread::spawn(move || pump(&connections, &stopping));
    eventually("all flows run", || {
        let flows = hosted.flows();
        let running = |flow: &&FlowStatus| flow.controlled && !flow.measures.fallback;
        flows.iter().filter(running).count() == FLOWS
    });
    let acked = || -> HashMap<u32, u64> {
        let flows = hosted.flows().into_iter();
        flows
            .map(|f| (f.number, f.measures.counts.unwrap().bytes_acked))
            .collect()
    };
    for switch in 1..=SWITCHES {
        let to = switch % 2;
        let (before, reports) = (acked(), hosted.reports(to));
        hosted.hand_over(to);
        eventually("every flow has the other algorithm and moves", || {
            let now = acked();
            let flows = hosted.flows();
            flows.len() == FLOWS
                && flows.iter().all(|f| f.algorithm == ALGORITHMS[to])
                && before.iter().all(|(number, bytes)| now[number] > *bytes)
        });
        eventually("the other algorithm has reports", || {
            hosted.reports(to) > reports
        });
        assert_eq!(hosted.fallbacks(), 0);
    }
    let all_run = hosted
        .flows()
        .iter()
        .all(|flow| flow.controlled && !flow.measures.fallback);
    assert!(all_run);
    stop.store(true, Ordering::Release);
    load.join().unwrap();
}

/// Sends through all connections, as fast as one thread can.
fn pump(connections: &[Connection], stop: &AtomicBool) {
    let (chunk, mut buffer) = (vec![7; 1 << 16], vec![0; 1 << 18]);
    for connection in connections {
        connection.sender.set_nonblocking(true).unwrap();
        connection.receiver.set_nonblocking(true).unwrap();
    }
    let blocked = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    while !stop.load(Ordering::Acquire) {
        for connection in connections {
            let written = (&connection.sender).write(&chunk);
            assert!(written.as_ref().err().is_none_or(blocked), "{written:?}");
            let read = (&connection.receiver).read(&mut buffer);
            assert!(read.as_ref().err().is_none_or(blocked), "{read:?}");
        }
    }
}

#[test]
fn a_hand_over_that_cannot_be_is_refused_and_an_idle_flow_changes() {
    if !machine_can() {
        return;
    }
    let hosted = Hosted::start();
    let mut connection = Connection::open("127.0.0.1:0", &hosted.name);
    connection.transfer(1_000_000);
    eventually("the flow runs", || {
        hosted.flows().iter().any(|flow| flow.controlled)
    });
    let before = hosted.flows().pop().unwrap();
    let id = before.id();

    let unknown = hosted.with(move |server, _| server.service_mut().hand_over(id, 3));
    assert_eq!(unknown, Err(HandOverError::UnknownAlgorithm));

    // Nothing is sent: the flow has the other algorithm at once, and its program from the next ACK on.
    hosted.hand_over(1);
    eventually("the idle flow changes", || {
        hosted.flows().iter().any(|flow| flow.algorithm == "vegas")
    });
    assert_eq!(hosted.reports(1), 0);
    let idle = hosted.flows().pop().unwrap();
    assert_eq!(idle.measures.cwnd_bytes, before.measures.cwnd_bytes);
    connection.transfer(1_000_000);
    eventually("it reports", || hosted.reports(1) > 0);
    assert_eq!(hosted.fallbacks(), 0);

    // The flow ends while it is handed over.
    hosted.hand_over(0);
    drop(connection);
    eventually("the flow is gone", || hosted.flows().is_empty());
    let gone = hosted.with(move |server, _| server.service_mut().hand_over(id, 1));
    assert_eq!(gone, Err(HandOverError::UnknownFlow));
    let notices: Vec<String> = hosted.with(|server, _| {
        server
            .service_mut()
            .drain_notices()
            .map(|n| n.to_string())
            .collect()
    });
    assert_eq!(notices, [""; 0]);
}
