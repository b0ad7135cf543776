//! Connections of a guest while the edge's process is killed and started again: whether each byte arrives, how
//! long none did, and what the kernel keeps.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_edge_tc::EdgeOptions;
use fairwater_testbed::{BridgedSite, Family};
use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};

use super::running::{RunningEdge, controlling};

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithm of guests that the edge controls; the guests themselves use Reno.
    #[arg(long, default_value = "reno")]
    algorithm: String,
    /// How often the edge's process is killed.
    #[arg(long, default_value_t = 1000)]
    kills: u32,
    /// Connections at once; each is closed after 4 MiB, and another begins.
    #[arg(long, default_value_t = 8)]
    flows: usize,
    /// Hold the edge in the namespace at this path; what this benchmark starts as its child.
    #[arg(long, hide = true)]
    host: Option<std::path::PathBuf>,
}

/// Bytes of a connection.
const BYTES: usize = 4 << 20;
/// Bytes of a write, and the time between two.
const CHUNK: usize = 1 << 15;
const PERIOD: Duration = Duration::from_millis(5);
/// Shortest life of the edge's process once it is attached, and how far lives differ.
const LIFE: Duration = Duration::from_millis(20);
const LIFE_STEP: Duration = Duration::from_millis(7);
/// How many lengths of life there are.
const LIVES: u32 = 23;
/// Time that the kernel gets to free what a dead process held.
const SETTLE: Duration = Duration::from_secs(3);

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(namespace) = &arguments.host {
        return host(namespace, &arguments.algorithm);
    }
    let site = Arc::new(BridgedSite::new()?);
    let before = BpfObjects::now();
    let stop = Arc::new(AtomicBool::new(false));
    let transfers: Vec<_> = (0..arguments.flows)
        .map(|flow| {
            let (site, stop) = (Arc::clone(&site), Arc::clone(&stop));
            thread::spawn(move || transfers(&site, flow, &stop))
        })
        .collect();
    let begin = Instant::now();
    for kill in 1..=arguments.kills {
        let edge = EdgeProcess::start(&site, &arguments.algorithm)?;
        thread::sleep(LIFE + LIFE_STEP * (kill % LIVES));
        drop(edge);
        if kill.is_multiple_of(50) {
            eprintln!(
                "{kill} of {} kills, {:.0} s",
                arguments.kills,
                begin.elapsed().as_secs_f64()
            );
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut all = Transfers::default();
    for thread in transfers {
        all.add(join(thread)?);
    }
    thread::sleep(SETTLE);
    println!(
        "{} kills in {:.0} s: {} connections, {:.2} GB, {} of them with a byte that was not sent; longest time \
         without a byte {} ms",
        arguments.kills,
        begin.elapsed().as_secs_f64(),
        all.connections,
        all.bytes as f64 / 1e9,
        all.corrupted,
        all.longest_gap.as_millis()
    );
    println!(
        "kernel objects before: {before}; after: {}",
        BpfObjects::now()
    );
    Ok(())
}

/// What the connections of one thread came to.
#[derive(Debug, Default)]
struct Transfers {
    connections: u64,
    bytes: u64,
    corrupted: u64,
    /// Longest time between two reads of one connection.
    longest_gap: Duration,
}

impl Transfers {
    fn add(&mut self, other: Self) {
        self.connections += other.connections;
        self.bytes += other.bytes;
        self.corrupted += other.corrupted;
        self.longest_gap = self.longest_gap.max(other.longest_gap);
    }
}

/// Sends connection after connection until told to stop.
fn transfers(site: &BridgedSite, flow: usize, stop: &AtomicBool) -> anyhow::Result<Transfers> {
    let listener = site.listen(if flow.is_multiple_of(2) {
        Family::V4
    } else {
        Family::V6
    })?;
    let mut all = Transfers::default();
    while !stop.load(Ordering::Relaxed) {
        let mut sender = site.connect(&listener)?;
        let receiver = listener.accept()?.0;
        let reader = thread::spawn(move || receive(receiver));
        for chunk in 0..BYTES / CHUNK {
            let data: Vec<u8> = (chunk * CHUNK..(chunk + 1) * CHUNK).map(byte_at).collect();
            sender.write_all(&data)?;
            thread::sleep(PERIOD);
        }
        drop(sender);
        all.add(join(reader)?);
    }
    Ok(all)
}

fn receive(mut stream: TcpStream) -> anyhow::Result<Transfers> {
    let mut buffer = vec![0; CHUNK];
    let mut received = 0;
    let mut corrupted = false;
    let mut longest_gap = Duration::ZERO;
    let mut last = Instant::now();
    loop {
        let read = stream.read(&mut buffer)?;
        longest_gap = longest_gap.max(last.elapsed());
        last = Instant::now();
        if read == 0 {
            break;
        }
        let sent = (received..received + read).map(byte_at);
        corrupted |= !sent.eq(buffer[..read].iter().copied());
        received += read;
    }
    Ok(Transfers {
        connections: 1,
        bytes: received as u64,
        corrupted: u64::from(corrupted || received != BYTES),
        longest_gap,
    })
}

/// The byte that is sent at an offset.
const fn byte_at(offset: usize) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 13) as u8
}

fn join<T>(thread: JoinHandle<anyhow::Result<T>>) -> anyhow::Result<T> {
    let joined = thread.join();
    joined.unwrap_or_else(|_| Err(anyhow::anyhow!("a traffic thread panicked")))
}

/// Programs, maps and links of the kernel's BPF, whoever made them.
struct BpfObjects {
    programs: usize,
    maps: usize,
    links: usize,
}

impl BpfObjects {
    fn now() -> Self {
        Self {
            programs: ProgInfoIter::default().count(),
            maps: MapInfoIter::default().count(),
            links: LinkInfoIter::default().count(),
        }
    }
}

impl fmt::Display for BpfObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            programs,
            maps,
            links,
        } = self;
        write!(f, "{programs} programs, {maps} maps, {links} links")
    }
}

/// The edge in a process of its own, killed when dropped.
struct EdgeProcess(Child);

impl EdgeProcess {
    /// Starts it and waits until it is attached.
    fn start(site: &BridgedSite, algorithm: &str) -> anyhow::Result<Self> {
        let descriptor = site.host().as_fd().as_raw_fd();
        let namespace = format!("/proc/{}/fd/{descriptor}", std::process::id());
        let mut child = Command::new(std::env::current_exe()?)
            .args([
                "edge-restarts",
                "--algorithm",
                algorithm,
                "--host",
                &namespace,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take();
        let edge = Self(child);
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        anyhow::ensure!(line.trim() == READY, "the edge is not attached");
        Ok(edge)
    }
}

impl Drop for EdgeProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the child says once the edge is attached.
const READY: &str = "ready";

fn host(namespace: &std::path::Path, algorithm: &str) -> anyhow::Result<()> {
    let namespace = std::fs::File::open(namespace)?;
    let policy = controlling(algorithm);
    let _edge = RunningEdge::start(
        namespace.as_fd(),
        &policy,
        algorithm,
        EdgeOptions::default(),
    )?;
    println!("{READY}");
    // Until the parent ends, which kills before.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
