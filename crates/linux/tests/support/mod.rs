//! Support of the tests on real TCP: the check for privileges, a session in a thread, connections
//! on loopback.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "support of tests alone"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairwater_linux::{LinuxError, LinuxTcp, Options, probe};
use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Ecn, Flow, FlowInfo, Plane, ProgramHandle, Programs, Report,
};

/// Whether this machine can run these tests. Fails instead if CI requires them.
pub(crate) fn machine_can() -> bool {
    match probe::probe().require() {
        Ok(()) => true,
        Err(missing) => {
            let required =
                std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(!required, "{missing}");
            println!("skipped: {missing}");
            false
        }
    }
}

/// An event of a flow of a [`Recorder`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FlowEvent {
    New(FlowInfo),
    Report {
        time_us: u64,
        cwnd: u64,
        rate: u64,
        fields: Vec<u64>,
    },
    Mss(u32),
    Closed,
}

pub(crate) type Log = Arc<Mutex<Vec<FlowEvent>>>;
type Then = Arc<dyn Fn(usize, &Report<'_>, &mut Control<'_>) + Send + Sync>;
type First = Arc<dyn Fn(&FlowInfo, &mut Control<'_>) + Send + Sync>;

/// An algorithm of any programs that logs its events and calls the test's functions.
pub(crate) struct Recorder {
    pub(crate) name: String,
    pub(crate) fields: Vec<String>,
    pub(crate) handles: Vec<ProgramHandle>,
    pub(crate) log: Log,
    pub(crate) first: First,
    pub(crate) then: Then,
    pub(crate) idle_restart: bool,
    pub(crate) ecn: Ecn,
}

impl Recorder {
    pub(crate) fn build(
        programs: &mut Programs,
        name: &str,
        sources: &[(&str, &str)],
        fields: &[&str],
        log: &Log,
    ) -> Result<Self, AlgorithmError> {
        let handles = sources
            .iter()
            .map(|(n, s)| programs.add(n, s).unwrap())
            .collect();
        Ok(Self {
            name: name.to_owned(),
            fields: fields.iter().map(|f| (*f).to_owned()).collect(),
            handles,
            log: Arc::clone(log),
            first: Arc::new(|_, _| {}),
            then: Arc::new(|_, _, _| {}),
            idle_restart: true,
            ecn: Ecn::default(),
        })
    }
}

struct RecorderFlow {
    fields: Vec<Vec<Option<fairwater_plane::Field>>>,
    ids: Vec<fairwater_plane::ProgramId>,
    reports: usize,
    log: Log,
    then: Then,
}

impl Algorithm for Recorder {
    fn idle_restart(&self) -> bool {
        self.idle_restart
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control<'_>) -> Box<dyn Flow> {
        self.log.lock().unwrap().push(FlowEvent::New(info.clone()));
        (self.first)(info, control);
        let of = |h: &ProgramHandle| self.fields.iter().map(|f| h.field(f).ok()).collect();
        Box::new(RecorderFlow {
            fields: self.handles.iter().map(of).collect(),
            ids: self.handles.iter().map(ProgramHandle::id).collect(),
            reports: 0,
            log: Arc::clone(&self.log),
            then: Arc::clone(&self.then),
        })
    }
}

impl Flow for RecorderFlow {
    fn on_report(&mut self, report: &Report<'_>, control: &mut Control<'_>) {
        let at = self
            .ids
            .iter()
            .position(|id| *id == report.program())
            .unwrap();
        let fields = self.fields[at]
            .iter()
            .flatten()
            .filter_map(|f| report.get(*f))
            .collect();
        self.log.lock().unwrap().push(FlowEvent::Report {
            time_us: report.time_us(),
            cwnd: report.cwnd(),
            rate: report.rate(),
            fields,
        });
        self.reports += 1;
        (self.then)(self.reports, report, control);
    }

    fn on_mss(&mut self, mss: u32, _: &mut Control<'_>) {
        self.log.lock().unwrap().push(FlowEvent::Mss(mss));
    }

    fn on_close(&mut self) {
        self.log.lock().unwrap().push(FlowEvent::Closed);
    }
}

/// A session that turns in a thread of its own until dropped.
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    pub(crate) paused: Arc<AtomicBool>,
    /// Whether the session's thread has noticed that it is to pause.
    rests: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Running {
    pub(crate) fn start(
        plane: impl FnOnce() -> Plane + Send + 'static,
        options: Options,
    ) -> Result<Self, LinuxError> {
        Self::start_and(plane, options, |_| {})
    }

    /// Calls `at_once` in the session's thread before the first turn.
    pub(crate) fn start_and(
        plane: impl FnOnce() -> Plane + Send + 'static,
        options: Options,
        at_once: impl FnOnce(&mut LinuxTcp) + Send + 'static,
    ) -> Result<Self, LinuxError> {
        Self::launch(plane, options, at_once, |_| {})
    }

    /// Calls `each` in the session's thread after each turn.
    pub(crate) fn start_each_turn(
        plane: impl FnOnce() -> Plane + Send + 'static,
        options: Options,
        each: impl FnMut(&mut LinuxTcp) + Send + 'static,
    ) -> Result<Self, LinuxError> {
        Self::launch(plane, options, |_| {}, each)
    }

    fn launch(
        plane: impl FnOnce() -> Plane + Send + 'static,
        options: Options,
        at_once: impl FnOnce(&mut LinuxTcp) + Send + 'static,
        mut each: impl FnMut(&mut LinuxTcp) + Send + 'static,
    ) -> Result<Self, LinuxError> {
        let flag = || Arc::new(AtomicBool::new(false));
        let (stop, paused, rests) = (flag(), flag(), flag());
        let resting = Arc::clone(&rests);
        let (attached, result) = mpsc::channel();
        let (stopping, pausing) = (Arc::clone(&stop), Arc::clone(&paused));
        let thread = std::thread::spawn(move || {
            let (mut server, tcp) = match fairwater_linux::server(plane(), options) {
                Ok((mut server, tcp)) => {
                    at_once(server.datapath_mut(tcp).unwrap());
                    attached.send(Ok(())).unwrap();
                    (server, tcp)
                }
                Err(error) => {
                    attached.send(Err(error)).unwrap();
                    return Vec::new();
                }
            };
            let mut notices = Vec::new();
            while !stopping.load(Ordering::Acquire) {
                let pauses = pausing.load(Ordering::Acquire);
                resting.store(pauses, Ordering::Release);
                if pauses {
                    std::thread::sleep(Duration::from_millis(5));
                } else {
                    server.turn(Duration::from_millis(10)).unwrap();
                    each(server.datapath_mut(tcp).unwrap());
                    notices.extend(server.service_mut().drain_notices().map(|n| n.to_string()));
                }
            }
            notices
        });
        result.recv().unwrap()?;
        Ok(Self {
            stop,
            paused,
            rests,
            thread: Some(thread),
        })
    }

    /// Makes the plane silent until `paused` is cleared.
    pub(crate) fn pause(&self) {
        self.paused.store(true, Ordering::Release);
        eventually("the plane pauses", || self.rests.load(Ordering::Acquire));
    }

    /// Ends the session; yields the plane's notices.
    pub(crate) fn stop(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A plane of one recorder.
pub(crate) fn recorder(
    name: &'static str,
    sources: &'static [(&'static str, &'static str)],
    fields: &'static [&'static str],
    log: &Log,
    adjust: impl FnOnce(&mut Recorder) + Send + 'static,
) -> impl FnOnce() -> Plane + Send + 'static {
    let log = Arc::clone(log);
    move || {
        let mut plane = Plane::new();
        plane
            .add(|programs| {
                let mut recorder = Recorder::build(programs, name, sources, fields, &log)?;
                adjust(&mut recorder);
                Ok(recorder)
            })
            .unwrap();
        plane
    }
}

/// A connection over loopback whose sender uses that congestion control.
pub(crate) struct Connection {
    pub(crate) sender: TcpStream,
    pub(crate) receiver: TcpStream,
}

impl Connection {
    pub(crate) fn open(address: &str, congestion_control: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let receiver = listener.accept().unwrap().0;
        rustix::net::sockopt::set_tcp_congestion(&sender, congestion_control).unwrap();
        Self { sender, receiver }
    }

    /// The sender's congestion control, read from the kernel.
    pub(crate) fn congestion_control(&self) -> String {
        rustix::net::sockopt::tcp_congestion(&self.sender).unwrap()
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.sender.local_addr().unwrap()
    }

    /// Sends and receives that many bytes.
    pub(crate) fn transfer(&mut self, bytes: usize) {
        let mut receiver = self.receiver.try_clone().unwrap();
        let reading = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            let mut left = bytes;
            while left > 0 {
                left -= receiver.read(&mut buffer[..left.min(1 << 16)]).unwrap();
            }
        });
        let chunk = vec![7; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            left -= self.sender.write(&chunk[..left.min(1 << 16)]).unwrap();
        }
        reading.join().unwrap();
    }
}

/// Waits until the condition holds; fails after ten seconds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "never happened: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The congestion controls that the kernel offers now.
pub(crate) fn available() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}
