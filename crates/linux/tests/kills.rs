//! A plane that is killed again and again under load: no flow stalls for longer than a retransmission
//! timeout, each next plane takes the flows over, and nothing is left in the kernel.
//!
//! `FAIRWATER_KILLS` sets how many times (20):
//!
//! ```sh
//! sudo -E env FAIRWATER_KILLS=1000 cargo test -p fairwater-linux --test kills -- --nocapture
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking; it prints what it measured, and a process that it is ready"
)]

mod support;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairwater_linux::{FlowState, Options, observe};
use fairwater_plane::{Algorithm, Control, Flow, FlowInfo, Plane};
use libbpf_rs::MapType;
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use support::{Connection, Running, available, eventually, machine_can};

const FLOWS: usize = 8;
/// The least retransmission timeout of Linux (`TCP_RTO_MIN`).
const RTO: Duration = Duration::from_millis(200);
/// What each flow's application writes, and how often.
const CHUNK: usize = 1 << 15;
const PERIOD: Duration = Duration::from_millis(5);

const NAME: &str = "t_kills";
/// Set in the process that is to be killed.
const HOST: &str = "FAIRWATER_TEST_HOST";

/// Cubic under the test's name.
struct Named(Box<dyn Algorithm>);

impl Algorithm for Named {
    fn name(&self) -> &str {
        NAME
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control<'_>) -> Box<dyn Flow> {
        self.0.new_flow(info, control)
    }
}

#[test]
fn plane_to_be_killed() {
    if std::env::var_os(HOST).is_none() {
        return;
    }
    let plane = || {
        let mut plane = Plane::new();
        let choice = fairwater_algorithms::by_spec("cubic").unwrap();
        plane
            .add(|programs| choice.build(programs).map(Named))
            .unwrap();
        plane
    };
    let _running = Running::start(plane, Options::default()).unwrap();
    println!("attached");
    std::thread::sleep(Duration::from_secs(60));
}

/// A plane in a process of its own, which dies by SIGKILL when dropped.
struct OtherPlane(Child);

impl OtherPlane {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "plane_to_be_killed", "--nocapture"])
            .env(HOST, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let other = Self(child);
        let mut lines = output.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("attached")));
        other
    }

    /// Flows that run the program of this process.
    fn running(&self) -> usize {
        let planes = observe::planes();
        let own = planes.iter().filter(|plane| plane.pid == self.0.id());
        own.flat_map(|plane| &plane.flows)
            .filter(|flow| flow.state == FlowState::Running)
            .count()
    }
}

impl Drop for OtherPlane {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Longest time between two events since it was last asked, µs.
#[derive(Clone, Default)]
struct LongestGap(Arc<AtomicU64>);

impl LongestGap {
    fn note(&self, gap: Duration) {
        let us = u64::try_from(gap.as_micros()).unwrap();
        self.0.fetch_max(us, Ordering::Relaxed);
    }

    fn take(&self) -> Duration {
        Duration::from_micros(self.0.swap(0, Ordering::Relaxed))
    }
}

/// Flows that send all the time, and how long they paused.
struct Load {
    stop: Arc<AtomicBool>,
    arrivals: LongestGap,
    /// Between the ticks of a thread that does nothing else: what the machine's other load does.
    ticks: LongestGap,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(congestion_control: &str) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            arrivals: LongestGap::default(),
            ticks: LongestGap::default(),
            threads: Vec::new(),
        };
        for _ in 0..FLOWS {
            let Connection {
                mut sender,
                mut receiver,
            } = Connection::open("127.0.0.1:0", congestion_control);
            load.spawn(move |stop| {
                let chunk = vec![7; CHUNK];
                while !stop.load(Ordering::Acquire) {
                    sender.write_all(&chunk).unwrap();
                    std::thread::sleep(PERIOD);
                }
            });
            let arrivals = load.arrivals.clone();
            load.spawn(move |_| {
                let mut buffer = vec![0; CHUNK];
                let mut last = Instant::now();
                while receiver.read(&mut buffer).unwrap() > 0 {
                    arrivals.note(last.elapsed());
                    last = Instant::now();
                }
            });
        }
        let ticks = load.ticks.clone();
        load.spawn(move |stop| {
            while !stop.load(Ordering::Acquire) {
                let last = Instant::now();
                std::thread::sleep(PERIOD);
                ticks.note(last.elapsed());
            }
        });
        load
    }

    fn spawn(&mut self, body: impl FnOnce(&AtomicBool) + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || body(&stop)));
    }

    /// The longest stall of a flow since the last call, and the longest that the machine kept a thread
    /// from running, which is no stall.
    fn stall(&self) -> (Duration, Duration) {
        let late = self.ticks.take().saturating_sub(PERIOD);
        (self.arrivals.take().saturating_sub(late), late)
    }

    fn end(self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Maps and programs of Fairwater in the kernel, the registered congestion controls among them.
///
/// Program arrays do not count: the kernel (6.18) loses a reference to one that is opened by its id, as
/// every listing of maps does, while it is being emptied after its plane's end. An array without
/// programs is left then, of about 1 KiB.
fn loaded() -> usize {
    let of_ours = |name: &OsStr| name.to_string_lossy().starts_with("fw_");
    let maps = MapInfoIter::default();
    let maps = maps.filter(|map| map.ty != MapType::ProgArray && of_ours(&map.name));
    let programs = ProgInfoIter::default();
    maps.count() + programs.filter(|program| of_ours(&program.name)).count()
}

#[test]
fn a_plane_that_is_killed_again_and_again_stalls_nobody_and_leaves_nothing() {
    if !machine_can() {
        return;
    }
    let kills: usize = std::env::var("FAIRWATER_KILLS").map_or(20, |n| n.parse().unwrap());
    let name = format!("fw_{NAME}");
    let before = loaded();
    let mut plane = OtherPlane::start();
    let load = Load::start(&name);
    let mut stalls = Vec::new();
    let mut most = 0;
    for kill in 0..kills {
        eventually("the flows run", || plane.running() == FLOWS);
        // At any time of what a plane does.
        std::thread::sleep(Duration::from_millis(kill as u64 * 7 % 40));
        most = most.max(loaded().saturating_sub(before));
        drop(plane);
        // The next plane takes over meanwhile.
        plane = OtherPlane::start();
        let (stall, late) = load.stall();
        assert!(
            stall < RTO,
            "kill {kill}: {stall:?}, and {late:?} by the machine"
        );
        stalls.push(stall);
    }
    load.end();
    drop(plane);
    stalls.sort_unstable();
    println!(
        "{kills} kills, {FLOWS} flows: longest stall {:?}, median {:?}; at most {most} maps and programs at a time",
        stalls[kills - 1],
        stalls[kills / 2],
    );
    assert!(!available().contains(&name), "{}", available());
    eventually("nothing is left", || loaded() <= before);
}
