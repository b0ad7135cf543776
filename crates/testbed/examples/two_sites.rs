//! Two sites with a slow link between them, to try `fairwater bundle` on: see docs/bundle.md.
//!
//! `two_sites` makes them under the names fw-sender, fw-sender-router, fw-receiver-router and fw-receiver for `ip netns
//! exec`, sends bulk data by four connections, and prints each second what arrives, and the delay of a small datagram
//! from the sender's host and from its router. The second does not pass a sendbox: its delay above the RTT of 20 ms is
//! the queue in the network. Enter or Ctrl-C ends everything.
//!
//! `two_sites demo PROGRAM` runs the program's `bundle receive` and `bundle send` after 10 s, and draws both queues.

#![expect(clippy::print_stdout, reason = "what it shows goes there")]

use std::error::Error;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_net::{Capacity, Limit, LinkConfig, QueueConfig, Rate};
use fairwater_testbed::{Family, Machine, TwoSites};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

/// The link between the sites.
const MBIT_PER_S: u64 = 48;
const ONE_WAY: Duration = Duration::from_millis(10);
/// Two bandwidth-delay products.
const BUFFER: u64 = 240_000;

/// Seconds of the demonstration without and with a sendbox.
const BEFORE: u64 = 10;
const AFTER: u64 = 15;
/// Seconds at the beginning of each part that are not measured.
const SETTLING: u64 = 4;

const NAMES: [&str; 4] = [
    "fw-sender",
    "fw-sender-router",
    "fw-receiver-router",
    "fw-receiver",
];

/// Names of the namespaces, as `ip netns` knows them; gone when this is dropped.
struct Names(Vec<PathBuf>);

impl Names {
    fn new(sites: &TwoSites) -> Result<Self, Box<dyn Error>> {
        fs::create_dir_all("/run/netns")?;
        let mut names = Self(Vec::new());
        for (machine, name) in Machine::ALL.into_iter().zip(NAMES) {
            let path = Path::new("/run/netns").join(name);
            fs::File::create_new(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let number = sites.namespace(machine).as_fd().as_raw_fd();
            mount_bind(format!("/proc/self/fd/{number}"), &path)?;
            names.0.push(path);
        }
        Ok(names)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = unmount(path, UnmountFlags::DETACH);
            let _ = fs::remove_file(path);
        }
    }
}

/// A process that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
        let _ = self.0.wait();
    }
}

/// What was measured in a second.
struct Second {
    mbit_per_s: f64,
    /// Delays from the sender's host and from its router, ms, sorted.
    whole: Vec<f64>,
    network: Vec<f64>,
}

impl Second {
    fn measure(sites: &TwoSites, received: impl Fn() -> u64) -> Result<Self, Box<dyn Error>> {
        let began = (Instant::now(), received());
        let ping = |from| {
            let found = sites.ping(from, Family::V4, (20, Duration::from_millis(45)));
            let mut found: Vec<f64> = found
                .unwrap_or_default()
                .into_iter()
                .filter_map(|ping| ping.delay)
                .map(|delay| delay.as_secs_f64() * 1e3)
                .collect();
            found.sort_by(f64::total_cmp);
            found
        };
        let (whole, network) = thread::scope(|scope| {
            let whole = scope.spawn(|| ping(Machine::Sender));
            let network = scope.spawn(|| ping(Machine::SenderRouter));
            (whole.join(), network.join())
        });
        let bytes = received() - began.1;
        Ok(Self {
            mbit_per_s: bytes as f64 * 8e-6 / began.0.elapsed().as_secs_f64(),
            whole: whole.unwrap_or_default(),
            network: network.unwrap_or_default(),
        })
    }

    fn line(&self, at: u64) -> String {
        let (whole, network) = (median(&self.whole), median(&self.network));
        let bar = "#".repeat((network / 2.0) as usize);
        format!(
            "{at:>4} s  {:>6.1} Mbit/s  from the host {whole:>6.1} ms  network {network:>6.1} ms  {bar}",
            self.mbit_per_s
        )
    }
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let program = match arguments.as_slice() {
        [] => None,
        [word, program] if word == "demo" => Some(fs::canonicalize(program)?),
        _ => return Err("usage: two_sites [demo PROGRAM]".into()),
    };
    let rate = Rate::from_bps(MBIT_PER_S * 1_000_000).ok_or("no rate")?;
    let link = |limit| {
        let queue = QueueConfig::DropTail(limit);
        LinkConfig::new(Capacity::Rate(rate), queue, ONE_WAY)
    };
    let sites = TwoSites::new([&link(Limit::Bytes(BUFFER)), &link(Limit::Unlimited)])
        .map_err(|error| format!("cannot make the sites: {error}; try again with sudo"))?;
    let names = Names::new(&sites)?;
    let stop = Arc::<AtomicBool>::default();
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))?;
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop))?;
    let outcome = match program {
        Some(program) => demonstrate(&sites, &program, &stop),
        None => watch(&sites, &stop),
    };
    drop(names);
    outcome
}

/// Prints what happens until it is ended.
fn watch(sites: &TwoSites, stop: &Arc<AtomicBool>) -> Result<(), Box<dyn Error>> {
    println!(
        "{} are there: `ip netns exec {} bash`. Enter ends.",
        NAMES.join(", "),
        NAMES[0]
    );
    let ended = Arc::clone(stop);
    thread::spawn(move || {
        // The end of the input ends nothing: it may be /dev/null.
        if let Ok(1) = std::io::stdin().read(&mut [0]) {
            ended.store(true, Relaxed);
        }
    });
    let bulk = sites.bulk(Family::V4, 4)?;
    for at in 1.. {
        if stop.load(Relaxed) {
            break;
        }
        println!("{}", Second::measure(sites, || bulk.received())?.line(at));
    }
    Ok(())
}

/// Without a sendbox, and with one.
fn demonstrate(
    sites: &TwoSites,
    program: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<(), Box<dyn Error>> {
    println!(
        "Two sites, {MBIT_PER_S} Mbit/s and an RTT of {} ms between them; four bulk connections.\n\
         The bars are the delay of a datagram that does not pass the sendbox: RTT and network queue.\n",
        2 * ONE_WAY.as_millis()
    );
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    let status = Command::new(program)
        .args(["bundle", "key"])
        .arg(file("demo.key"))
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        return Err("no key could be made".into());
    }
    let bundle =
        "[[bundle]]\nname = \"demo\"\nnumber = 1\nkey = \"demo.key\"\nto = [\"10.2.0.0/24\"]\n";
    fs::write(
        file("send.toml"),
        format!(
            "[sendbox]\nports = [\"lan0\"]\n{bundle}receivebox = \"192.0.2.2\"\nalgorithm = \"copa\"\n\
             queue = \"sfq\"\n"
        ),
    )?;
    fs::write(
        file("receive.toml"),
        format!("[receivebox]\nports = [\"wan0\"]\n{bundle}from = [\"10.1.0.0/24\"]\n"),
    )?;
    let start = |machine: usize, role: &str| {
        let child = Command::new("ip")
            .args(["netns", "exec", NAMES[machine]])
            .arg(program)
            .args(["bundle", role])
            .arg(file(&format!("{role}.toml")))
            .arg("--socket")
            .arg(file(role))
            .spawn();
        child.map(Running)
    };
    let bulk = sites.bulk(Family::V4, 4)?;
    let mut seconds = Vec::new();
    let mut boxes = Vec::new();
    for at in 1..=BEFORE + AFTER {
        if stop.load(Relaxed) {
            return Ok(());
        }
        if at == BEFORE + 1 {
            println!("      fairwater bundle receive, fairwater bundle send");
            boxes.push(start(2, "receive")?);
            boxes.push(start(1, "send")?);
        }
        let second = Second::measure(sites, || bulk.received())?;
        println!("{}", second.line(at));
        seconds.push(second);
    }
    let settling = usize::try_from(SETTLING)?;
    let (before, after) = seconds.split_at(usize::try_from(BEFORE)?);
    println!(
        "\n{:14}{:>12}{:>18}{:>18}{:>18}",
        "", "Mbit/s", "host, p50/p99", "network, p50/p99", "network queue"
    );
    for (name, part) in [("status quo", before), ("with bundle", after)] {
        let part = part.get(settling..).unwrap_or_default();
        let rate = part.iter().map(|second| second.mbit_per_s).sum::<f64>() / part.len() as f64;
        let all = |of: fn(&Second) -> &Vec<f64>| {
            let mut all: Vec<f64> = part.iter().flat_map(|it| of(it).clone()).collect();
            all.sort_by(f64::total_cmp);
            let high = all.get(all.len() * 99 / 100).copied().unwrap_or(f64::NAN);
            (median(&all), high)
        };
        let (whole, network) = (all(|it| &it.whole), all(|it| &it.network));
        let queue = network.0 - 2.0 * ONE_WAY.as_secs_f64() * 1e3;
        println!(
            "{name:14}{rate:>12.1}{:>18}{:>18}{:>15.1} ms",
            format!("{:.1}/{:.1} ms", whole.0, whole.1),
            format!("{:.1}/{:.1} ms", network.0, network.1),
            queue
        );
    }
    Ok(())
}
