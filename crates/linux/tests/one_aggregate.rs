//! Flows of three kinds of datapaths under one controller: a real TCP socket, a transport of the
//! datapath library behind shared memory, and a flow inside the service's process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairwater_datapath::{Config as DatapathConfig, Connection as Library};
use fairwater_exec::interp;
use fairwater_exec::invocation::{Registers, initial, reset_volatile};
use fairwater_lang::{Program, Signal, Signals};
use fairwater_linux::{LinuxTcp, Options};
use fairwater_plane::{
    Capabilities, Command, CommandSink, Event, FlowId, FlowInfo, Plane, ProgramId, RawReport,
};
use fairwater_service::{Config, DirectDatapath, Endpoints, FlowMeasures, Port, Server};
use socket2::{Domain, Socket, Type};
use support::machine_can;

const MSS: u32 = 1448;

/// Round trip of the flows that are not TCP, µs.
const RTT_US: u64 = 5_000;

/// How long the flows have to come to fair shares, and are watched at them.
const SECOND: Duration = Duration::from_secs(1);

/// An ACK of a path that loses nothing and delivers a window in a round trip.
fn ack(now_us: u64, since_us: u64, cwnd: u64) -> Signals {
    let acked = cwnd * (now_us - since_us).min(RTT_US) / RTT_US;
    let mut signals = Signals::default();
    signals[Signal::Now] = now_us;
    signals[Signal::BytesAcked] = acked;
    signals[Signal::PacketsAcked] = acked.div_ceil(MSS.into());
    signals[Signal::BytesInFlight] = cwnd - acked;
    signals[Signal::PacketsInFlight] = (cwnd - acked) / u64::from(MSS);
    signals[Signal::BytesPending] = 1 << 20;
    signals[Signal::RttSampleUs] = RTT_US;
    signals
}

fn info(port: u16, now_us: u64) -> FlowInfo {
    FlowInfo {
        local: SocketAddr::from(([127, 0, 0, 1], port)),
        remote: SocketAddr::from(([127, 0, 0, 1], 443)),
        mss: MSS,
        cwnd: 10 * u64::from(MSS),
        srtt_us: RTT_US,
        now_us,
        ..FlowInfo::default()
    }
}

/// A datapath of one flow, in the service's process, that interprets programs.
struct InProcess {
    programs: Vec<Arc<Program>>,
    begin: Instant,
    last_us: u64,
    running: Option<(ProgramId, Vec<u64>)>,
    registers: Registers,
    is_open: bool,
}

impl InProcess {
    const FLOW: FlowId = FlowId {
        slot: 0,
        generation: 1,
    };

    fn new(programs: Vec<Arc<Program>>) -> Self {
        Self {
            programs,
            begin: Instant::now(),
            last_us: 0,
            running: None,
            registers: Registers::default(),
            is_open: false,
        }
    }

    fn program(&self, id: ProgramId) -> Arc<Program> {
        Arc::clone(&self.programs[id.index() as usize])
    }
}

impl CommandSink for InProcess {
    fn command(&mut self, _: FlowId, command: &Command) {
        if let Some(id) = command.switch {
            self.running = Some((id, initial(&self.program(id))));
            self.registers.timer_zero = self.last_us;
        }
        self.registers.cwnd = command.cwnd.unwrap_or(self.registers.cwnd);
        self.registers.rate = command.rate.unwrap_or(self.registers.rate);
        for (variable, value) in &command.updates {
            if let Some((_, variables)) = &mut self.running {
                variables[usize::from(*variable)] = *value;
            }
        }
        assert!(!command.withdraw, "the flow is withdrawn");
    }
}

impl DirectDatapath for InProcess {
    fn name(&self) -> &str {
        "in process"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn heartbeat(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn measure(&self, _: FlowId) -> Option<FlowMeasures> {
        let info = info(1, 0);
        Some(FlowMeasures {
            local: info.local,
            remote: info.remote,
            tag: 0,
            cgroup: None,
            cwnd_bytes: self.registers.cwnd,
            rate_bytes_per_s: self.registers.rate,
            srtt_us: RTT_US,
            fallback: false,
            counts: None,
        })
    }

    fn turn(&mut self, port: &mut Port<'_>) {
        let flow = Self::FLOW;
        let now_us = u64::try_from(self.begin.elapsed().as_micros()).unwrap();
        if !self.is_open {
            self.is_open = true;
            let info = info(1, now_us);
            self.registers.cwnd = info.cwnd;
            let event = Event::Created {
                flow,
                algorithm: 0,
                info: &info,
            };
            return port.event(event, self);
        }
        let signals = ack(now_us, self.last_us, self.registers.cwnd);
        self.last_us = now_us;
        let Some((id, mut variables)) = self.running.take() else {
            return;
        };
        let program = self.program(id);
        let reported = interp::run(&program, &mut self.registers, &mut variables, &signals);
        let fields = variables[..program.report_len()].to_vec();
        if reported {
            reset_volatile(&program, &mut variables);
        }
        self.running = Some((id, variables));
        if reported {
            let report = RawReport {
                program: id,
                time_us: now_us,
                cwnd: self.registers.cwnd,
                rate: self.registers.rate,
                fields: &fields,
            };
            port.event(Event::Reported { flow, report }, self);
        }
    }

    fn command(&mut self, flow: FlowId, command: &Command) {
        CommandSink::command(self, flow, command);
    }
}

/// Runs `step` again and again in a thread of its own until dropped.
struct Repeat {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Repeat {
    fn new() -> Self {
        Self {
            stop: Arc::default(),
            threads: Vec::new(),
        }
    }

    fn start(&mut self, mut step: impl FnMut() + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Acquire) {
                step();
            }
        }));
    }
}

impl Drop for Repeat {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A flow of the datapath library behind shared memory, with a clock of its own.
fn library_flow(threads: &mut Repeat, plane: PathBuf) {
    let config = DatapathConfig {
        name: "library".to_owned(),
        instance: 1,
        ..DatapathConfig::default()
    };
    let begin = Instant::now();
    let mut connection = Library::shared_memory(config, plane, Duration::from_millis(10), 0);
    let flow = connection.start("", &info(2, 0)).unwrap();
    let mut last_us = 0;
    threads.start(move || {
        std::thread::sleep(Duration::from_millis(1));
        let now_us = u64::try_from(begin.elapsed().as_micros()).unwrap();
        connection.service(now_us);
        let cwnd = connection.datapath().flow(flow).unwrap().controls.cwnd;
        let signals = ack(now_us, last_us, cwnd);
        last_us = now_us;
        connection.invoke(flow, &signals).unwrap();
        connection.flush(now_us);
    });
}

/// A TCP connection over loopback that always has more to send.
fn tcp_flow(threads: &mut Repeat, congestion_control: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_tcp_mss(MSS).unwrap();
    rustix::net::sockopt::set_tcp_congestion(&socket, congestion_control).unwrap();
    socket
        .connect(&listener.local_addr().unwrap().into())
        .unwrap();
    let mut sender: TcpStream = socket.into();
    let mut receiver = listener.accept().unwrap().0;
    let wait = Some(Duration::from_millis(100));
    sender.set_write_timeout(wait).unwrap();
    receiver.set_read_timeout(wait).unwrap();
    let chunk = vec![7; 1 << 14];
    let mut buffer = vec![0; 1 << 16];
    threads.start(move || {
        let _ = sender.write(&chunk);
    });
    threads.start(move || {
        let _ = receiver.read(&mut buffer);
    });
}

/// The server, and the kernel's name of its algorithm.
fn server(directory: &Path) -> (Server, String) {
    let mut plane = Plane::new();
    let manager = "congestion_manager:by=all,algorithm=constant:cwnd=60";
    let choice = fairwater_algorithms::by_spec(manager).unwrap();
    plane.add(|programs| choice.build(programs)).unwrap();
    let endpoints = Endpoints {
        ring: Some(directory.join("ring")),
        ..Endpoints::default()
    };
    let mut server = Server::bind(plane, Config::default(), &endpoints).unwrap();
    let algorithms = server.service().plane().algorithms();
    let programs = algorithms[0]
        .programs()
        .iter()
        .map(|p| p.shared())
        .collect();
    let tcp = LinuxTcp::attach(algorithms, Options::default()).unwrap();
    let name = tcp.names().next().unwrap().to_owned();
    assert_eq!(server.add(tcp).unwrap().1, []);
    assert_eq!(server.add(InProcess::new(programs)).unwrap().1, []);
    (server, name)
}

/// The windows of the flows, by datapath, bytes.
fn windows(server: &Server) -> Vec<(String, u64)> {
    let flows = server.flows().into_iter();
    let mut windows: Vec<_> = flows
        .filter(|flow| flow.controlled)
        .map(|flow| (flow.datapath, flow.measures.cwnd_bytes))
        .collect();
    windows.sort();
    windows
}

/// Whether three flows have a third of the window each, but for a segment.
fn are_fair(windows: &[(String, u64)]) -> bool {
    let mss = u64::from(MSS);
    windows.len() == 3 && windows.iter().all(|(_, w)| w.abs_diff(20 * mss) <= mss)
}

#[test]
fn flows_of_three_kinds_of_datapaths_share_a_window_within_a_second() {
    if !machine_can() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut server, name) = server(directory.path());
    let turn = |server: &mut Server| server.turn(Duration::from_millis(1)).unwrap();

    // The flow in the process is alone, and has all.
    let begin = Instant::now();
    let all = [("in process".to_owned(), 60 * u64::from(MSS))];
    while windows(&server) != all {
        assert!(begin.elapsed() < SECOND, "{:?}", windows(&server));
        turn(&mut server);
    }

    let mut threads = Repeat::new();
    library_flow(&mut threads, directory.path().join("ring"));
    tcp_flow(&mut threads, &name);
    let begin = Instant::now();
    while !are_fair(&windows(&server)) {
        let seen = windows(&server);
        assert!(begin.elapsed() < SECOND, "not fair in time: {seen:?}");
        turn(&mut server);
    }
    let names: Vec<_> = windows(&server).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Linux TCP", "in process", "library"]);
    let aggregates: Vec<_> = server.service().plane().aggregates().collect();
    assert_eq!(aggregates.len(), 1);
    assert_eq!(aggregates[0].members, 3);

    // And they stay so. A thread that the machine does not run for a while counts as idle, which
    // leaves its part to the others.
    let (mut fair, mut turns) = (0, 0);
    let begin = Instant::now();
    while begin.elapsed() < SECOND {
        turn(&mut server);
        fair += u32::from(are_fair(&windows(&server)));
        turns += 1;
    }
    assert!(
        fair * 10 >= turns * 7,
        "fair in {fair} of {turns} turns: {:?}",
        windows(&server)
    );
    drop(threads);
}
