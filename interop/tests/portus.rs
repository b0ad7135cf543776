//! The crate `portus` as the agent of our datapath: the algorithms of its own tests, over Unix
//! datagrams at a path of their own, for portus joins every name to `/tmp/ccp/`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../crates/capi/tests/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use fairwater_datapath::{Config, Connection, Controls};
use fairwater_interop::cases::{self, Case};
use fairwater_lang::{Signal, Signals};
use fairwater_proto::{FlowId, FlowInfo};
use portus::ipc::{BackendBuilder, Blocking, Ipc, unix};
use portus::lang::Scope;
use portus::{CongAlg, DatapathInfo, DatapathTrait, Report, RunBuilder};

/// How long to wait for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A program, what to preset and to update, and the fields of its reports.
#[derive(Clone)]
struct Test {
    source: &'static str,
    preset: &'static [(&'static str, u32)],
    update: &'static [(&'static str, u32)],
    fields: &'static [&'static str],
    /// Answers each report with a window one MSS larger, as Reno does.
    grows: bool,
    tell: Sender<(u32, Vec<u64>)>,
    closed: Arc<AtomicBool>,
}

struct TestFlow<I: Ipc> {
    test: Test,
    datapath: portus::Datapath<I>,
    scope: Scope,
    cwnd: u32,
    mss: u32,
}

impl<I: Ipc> CongAlg<I> for Test {
    type Flow = TestFlow<I>;

    fn name() -> &'static str {
        "test"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("test", self.source.to_owned())])
    }

    fn new_flow(&self, mut datapath: portus::Datapath<I>, info: DatapathInfo) -> Self::Flow {
        let scope = datapath.set_program("test", Some(self.preset)).unwrap();
        if !self.update.is_empty() {
            datapath.update_field(&scope, self.update).unwrap();
        }
        TestFlow {
            test: self.clone(),
            datapath,
            scope,
            cwnd: info.init_cwnd,
            mss: info.mss,
        }
    }
}

impl<I: Ipc> portus::Flow for TestFlow<I> {
    fn on_report(&mut self, sock_id: u32, report: Report) {
        let fields = self.test.fields.iter();
        let values = fields.map(|f| report.get_field(f, &self.scope).unwrap());
        // The test may have ended already.
        let _ = self.test.tell.send((sock_id, values.collect()));
        if self.test.grows {
            self.cwnd += self.mss;
            let update = [("Cwnd", self.cwnd)];
            // The datapath may have ended, and its socket with it, with reports on their way.
            let _ = self.datapath.update_field(&self.scope, &update);
        }
    }

    fn close(&mut self) {
        self.test.closed.store(true, Ordering::SeqCst);
    }
}

/// A portus that runs a test.
struct Agent {
    handle: portus::CCPHandle,
    heard: Receiver<(u32, Vec<u64>)>,
    closed: Arc<AtomicBool>,
    socket: SocketFile,
}

/// Where portus bound its socket, which it leaves behind.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // portus removes none itself, and a test that fails fails for its own reason.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Agent {
    fn new(name: &str, Case { source, fields }: Case, change: impl FnOnce(&mut Test)) -> Self {
        let (tell, heard) = channel();
        let closed = Arc::new(AtomicBool::new(false));
        let mut test = Test {
            source,
            preset: &[],
            update: &[],
            fields,
            grows: false,
            tell,
            closed: Arc::clone(&closed),
        };
        change(&mut test);
        let name = format!("fairwater-{}-{name}", std::process::id());
        let socket_file = SocketFile(PathBuf::from("/tmp/ccp").join(&name));
        let socket = unix::Socket::<Blocking>::new(&name).unwrap();
        let handle = RunBuilder::new(BackendBuilder { sock: socket })
            .default_alg(test)
            .spawn_thread()
            .run()
            .unwrap();
        Self {
            handle,
            heard,
            closed,
            socket: socket_file,
        }
    }

    fn path(&self) -> &Path {
        &self.socket.0
    }

    fn end(self) {
        self.handle.kill();
        self.handle.wait().unwrap();
    }
}

/// A portus that runs a test, and our datapath at its socket.
struct Joined {
    agent: Agent,
    connection: Connection,
    start: Instant,
    /// The datapath's time, µs, where the test tells it rather than the clock.
    told_us: Option<u64>,
    _directory: tempfile::TempDir,
}

impl Joined {
    fn new(name: &str, case: Case, change: impl FnOnce(&mut Test)) -> Self {
        let agent = Agent::new(name, case, change);
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("datapath");
        let config = Config {
            // Time that is told passes while portus is about to answer.
            silence_us: 1 << 40,
            ..Config::default()
        };
        let connection = Connection::ccp(config, own, agent.path(), 0);
        Self {
            agent,
            connection,
            start: Instant::now(),
            told_us: None,
            _directory: directory,
        }
    }

    fn now_us(&self) -> u64 {
        self.told_us
            .unwrap_or_else(|| u64::try_from(self.start.elapsed().as_micros()).unwrap())
    }

    fn flow(&mut self) -> FlowId {
        let info = FlowInfo {
            local: "192.0.2.1:1".parse().unwrap(),
            remote: "192.0.2.2:3".parse().unwrap(),
            mss: 1500,
            cwnd: 15_000,
            srtt_us: 0,
            now_us: self.now_us(),
            tag: 0,
            ..FlowInfo::default()
        };
        self.connection.start("test", &info).unwrap()
    }

    /// One ACK of 5 bytes, as in the tests of portus.
    fn ack(&mut self, flow: FlowId) -> Option<Controls> {
        self.invoke(flow, 5, 2)
    }

    fn invoke(&mut self, flow: FlowId, acked: u64, rtt_us: u64) -> Option<Controls> {
        let now_us = self.now_us();
        let mut signals = Signals::default();
        signals[Signal::Now] = now_us;
        signals[Signal::BytesAcked] = acked;
        signals[Signal::RttSampleUs] = rtt_us;
        self.connection.service(now_us);
        let changed = self.connection.invoke(flow, &signals).unwrap();
        self.connection.service(now_us);
        changed
    }

    /// Reports until there are so many, each flow acknowledging all the while.
    fn reports(&mut self, flows: &[FlowId], count: usize) -> Vec<(u32, Vec<u64>)> {
        let begin = Instant::now();
        let mut reports = Vec::new();
        while reports.len() < count {
            assert!(begin.elapsed() < TIMEOUT, "{reports:?}");
            for flow in flows {
                self.ack(*flow);
            }
            std::thread::sleep(Duration::from_micros(200));
            reports.extend(self.agent.heard.try_iter());
        }
        reports.truncate(count);
        reports
    }

    /// The fields of the first report, each step giving it an occasion.
    fn first(&mut self, mut step: impl FnMut(&mut Self) -> Option<Controls>) -> Vec<u64> {
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < TIMEOUT);
            step(self);
            std::thread::sleep(Duration::from_micros(200));
            if let Ok((_, fields)) = self.agent.heard.try_recv() {
                return fields;
            }
        }
    }

    fn end(self) {
        self.agent.end();
    }
}

#[test]
fn twenty_acks_of_five_bytes_report_a_hundred_and_the_end_is_told() {
    let source = "(def (Report.acked 0) (Control.num_invoked 0))
        (when true
            (:= Report.acked (+ Report.acked Ack.bytes_acked))
            (:= Control.num_invoked (+ Control.num_invoked 1))
            (fallthrough))
        (when (== Control.num_invoked 20) (report))";
    let mut joined = Joined::new("basic", Case::new(source, &["Report.acked"]), |_| {});
    let flow = joined.flow();
    assert_eq!(joined.reports(&[flow], 1)[0].1, [100]);
    joined.connection.close(flow).unwrap();
    let begin = Instant::now();
    while !joined.agent.closed.load(Ordering::SeqCst) {
        assert!(begin.elapsed() < TIMEOUT);
        joined.connection.service(joined.now_us());
        std::thread::sleep(Duration::from_millis(1));
    }
    joined.end();
}

#[test]
fn a_preset_control_is_seen_in_the_report() {
    let mut joined = Joined::new("preset", cases::PRESET, |test| {
        test.preset = &[("foo", 52)];
    });
    let flow = joined.flow();
    assert_eq!(joined.reports(&[flow], 1)[0].1, [52]);
    joined.end();
}

#[test]
fn an_update_of_cwnd_and_rate_is_visible_to_the_program() {
    let source = "(def (Report.cwnd 0) (Report.rate 0))
        (when true (:= Report.cwnd Cwnd) (:= Report.rate Rate) (fallthrough))
        (when (== Cwnd 42) (report))";
    let fields = &["Report.cwnd", "Report.rate"];
    let mut joined = Joined::new("update", Case::new(source, fields), |test| {
        test.update = &[("Cwnd", 42), ("Rate", 10)];
    });
    let flow = joined.flow();
    assert_eq!(joined.reports(&[flow], 1)[0].1, [42, 10]);
    joined.end();
}

#[test]
fn volatile_variables_are_reset_by_a_report_and_others_are_not() {
    let mut joined = Joined::new("volatile", cases::VOLATILE, |_| {});
    let flow = joined.flow();
    let reports: Vec<_> = joined
        .reports(&[flow], 2)
        .into_iter()
        .map(|r| r.1)
        .collect();
    assert_eq!(reports, [[10, 10, 20], [10, 20, 30]]);
    joined.end();
}

#[test]
fn two_flows_do_not_mix_and_a_timer_reports_in_time() {
    let source = "(def (Report (acked 0)) (state 0))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
        (when (&& (> Micros 300000) (== state 0)) (:= state 1) (report))";
    let mut joined = Joined::new("two", Case::new(source, &["Report.acked"]), |_| {});
    let flows = [joined.flow(), joined.flow()];
    let reports = joined.reports(&flows, 2);
    assert_ne!(reports[0].0, reports[1].0);
    assert!(joined.start.elapsed() >= Duration::from_millis(300));
    joined.end();
}

#[test]
fn a_timer_of_three_seconds_reports_between_three_and_four() {
    let source = "(def (Report (at 0)) (told 0))
        (when (&& (> Micros 3000000) (== told 0))
            (:= told 1)
            (:= Report.at Micros)
            (report))";
    let mut joined = Joined::new("timer", Case::new(source, &["Report.at"]), |_| {});
    joined.told_us = Some(0);
    let flow = joined.flow();
    let reported = joined.first(|joined| {
        joined.told_us = joined.told_us.map(|now_us| now_us + 70_000);
        joined.ack(flow)
    });
    // Between two ACKs, 70 ms apart, lies the third second.
    assert!(
        (3_000_001..=3_070_000).contains(&reported[0]),
        "{reported:?}"
    );
    joined.end();
}

#[test]
fn a_minimum_of_the_rtt_that_falls_is_reported() {
    let mut joined = Joined::new("minrtt", cases::MIN_RTT, |_| {});
    let flow = joined.flow();
    let first = joined.first(|joined| joined.invoke(flow, 5, 31_000));
    let mut reports = vec![first];
    for rtt_us in [40_000, 31_000, 17_000, 18_000, 9_000] {
        joined.invoke(flow, 5, rtt_us);
    }
    for _ in 0..2 {
        reports.push(joined.agent.heard.recv_timeout(TIMEOUT).unwrap().1);
    }
    assert_eq!(reports, [[31_000], [17_000], [9_000]]);
    joined.end();
}

#[test]
fn quiet_acks_are_counted_until_one_that_is_not() {
    let mut joined = Joined::new("quiet", cases::QUIET, |_| {});
    let flow = joined.flow();
    assert_eq!(joined.first(|joined| joined.invoke(flow, 5, 2)), [0]);
    for acked in [0, 0, 5, 0, 5] {
        joined.invoke(flow, acked, 2);
    }
    // Before the first report was heard, others like it may have been on their way.
    let mut counted = Vec::new();
    while counted.len() < 2 {
        let (_, fields) = joined.agent.heard.recv_timeout(TIMEOUT).unwrap();
        counted.extend(fields.into_iter().filter(|quiet| *quiet > 0));
    }
    assert_eq!(counted, [2, 1]);
    joined.end();
}

#[test]
fn fallthrough_reports_one_and_then_three() {
    let source = "(def (Report (foo 0)))
        (when true (:= Report.foo (+ Report.foo 1)) (fallthrough))
        (when (== Report.foo 1) (report))
        (when (== Report.foo 2) (:= Report.foo 3) (report))";
    let mut joined = Joined::new("fallthrough", Case::new(source, &["Report.foo"]), |_| {});
    let flow = joined.flow();
    let reports = joined.reports(&[flow], 2);
    assert_eq!((&reports[0].1[..], &reports[1].1[..]), (&[1][..], &[3][..]));
    joined.end();
}

#[test]
fn a_window_that_the_program_sets_is_what_it_reads_and_what_is_in_force() {
    let mut joined = Joined::new("intermediate", cases::OWN_WINDOW, |_| {});
    let flow = joined.flow();
    assert_eq!(joined.reports(&[flow], 1)[0].1, [1]);
    let view = joined.connection.datapath().flow(flow).unwrap();
    assert_eq!(view.controls.cwnd, 5);
    joined.end();
}

#[test]
fn a_window_that_grows_by_reports_is_in_force() {
    let source = "(def (Report (volatile acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
        (when (> Report.acked 99) (report))";
    let mut joined = Joined::new("grows", Case::new(source, &["Report.acked"]), |test| {
        test.grows = true;
    });
    let flow = joined.flow();
    let begin = Instant::now();
    let mut cwnd = 0;
    while cwnd < 15_000 + 3 * 1500 {
        assert!(begin.elapsed() < TIMEOUT, "cwnd is {cwnd}");
        cwnd = joined.ack(flow).map_or(cwnd, |controls| controls.cwnd);
        std::thread::sleep(Duration::from_micros(200));
    }
    assert_eq!(cwnd % 1500, 0);
    joined.end();
}

/// The library greets in our dialect first, which portus does not know.
#[test]
fn a_transport_written_for_libccp_runs_over_libfairwater() {
    let source = "(def (Report (volatile acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
        (when (> Report.acked 20000) (report))";
    let agent = Agent::new("toy", Case::new(source, &["Report.acked"]), |test| {
        test.grows = true;
    });
    let folder = tempfile::tempdir().unwrap();
    let toy = folder.path().join("ccp_toy");
    support::compile("examples/ccp_toy.c", &toy);
    let said = support::run(Command::new(&toy).arg(agent.path()), "");
    let begin = Instant::now();
    while !agent.closed.load(Ordering::SeqCst) {
        assert!(begin.elapsed() < TIMEOUT, "{said}");
        std::thread::sleep(Duration::from_millis(1));
    }
    let reports: Vec<_> = agent.heard.try_iter().collect();
    assert!(reports.len() > 2, "{reports:?}\n{said}");
    assert!(reports.iter().all(|(_, fields)| fields[0] > 20_000));
    agent.end();
}
