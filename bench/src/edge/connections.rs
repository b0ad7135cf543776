//! CPU of the machine while a guest has many connections that each send now and then, with the edge at its port
//! and without (Mystique, Figure 5).

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_edge_tc::EdgeOptions;
use fairwater_testbed::{BridgedSite, Family};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::running::{RunningEdge, controlling};
use crate::flows::raise_descriptor_limit;
use crate::record::{MachineTicks, Record, tick_seconds};
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithm of guests that the edge controls; the guests themselves use Reno.
    #[arg(long, default_value = "reno")]
    algorithm: String,
    /// Connections at once; each takes two descriptors of this process (`ulimit -Hn`).
    #[arg(long, default_value_t = 10_000)]
    connections: u32,
    /// Messages of 1,000 bytes a second, on one connection after the other.
    #[arg(long, default_value_t = 5_000)]
    messages: u64,
    /// Rounds; each measures with the edge and without.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of a measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Print all values as JSON.
    #[arg(long)]
    json: bool,
}

/// Connections to one listener: fewer than there are local ports for one remote port.
const PER_LISTENER: usize = 20_000;
/// Time between two turns of the reader and of the writer: with it the machine is mostly idle, as a server is.
const TURN: Duration = Duration::from_millis(2);
/// Longest time between two looks at whether to stop.
const LONGEST_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Bytes of a message.
const MESSAGE: usize = 1_000;

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    raise_descriptor_limit(2 * u64::from(arguments.connections) + 1000)?;
    let site = BridgedSite::new()?;
    let mut record = Record::new("edge-connections");
    let mut added = Rounds::default();
    for round in 1..=arguments.rounds {
        record.begin_round()?;
        let mut shares = [0.0; 2];
        // Whoever goes first has the other's heat.
        for with_edge in [round % 2 == 0, round % 2 == 1] {
            let (share, megabytes) = measure(&site, arguments, with_edge)?;
            shares[usize::from(with_edge)] = share;
            let edge = [("edge", EDGE[usize::from(with_edge)])];
            record.push("edge_cpu", &edge, share * 100.0);
            record.push("edge_memory", &edge, megabytes);
        }
        record.end_round()?;
        added.push((shares[1] - shares[0]) * 100.0);
        eprintln!(
            "round {round}: {:.2} % of the machine without the edge, {:.2} % with it",
            shares[0] * 100.0,
            shares[1] * 100.0
        );
    }
    if arguments.json {
        println!("{}", record.json()?);
        return Ok(());
    }
    let [without, with] = EDGE.map(|edge| record.rounds("edge_cpu", &[("edge", edge)]));
    println!(
        "{} connections, {} messages/s: without the edge {without} % of the machine, with it {with} %: {added} points more",
        arguments.connections, arguments.messages
    );
    let [without, with] = EDGE.map(|edge| record.rounds("edge_memory", &[("edge", edge)]));
    println!("memory of the machine: without the edge {without:.0} MB, with it {with:.0} MB");
    Ok(())
}

/// Whether the edge is there, as results name it.
const EDGE: [&str; 2] = ["no", "yes"];

/// The share of the machine's time that was not idle, and the memory that was not available, MB.
fn measure(
    site: &BridgedSite,
    arguments: &Arguments,
    with_edge: bool,
) -> anyhow::Result<(f64, f64)> {
    let policy = controlling(&arguments.algorithm);
    let edge = with_edge.then(|| {
        let options = EdgeOptions {
            max_flows: arguments.connections + 1000,
            ..EdgeOptions::default()
        };
        RunningEdge::start(site.host().as_fd(), &policy, &arguments.algorithm, options)
    });
    let edge = edge.transpose()?;
    let (senders, receivers) = connect(site, arguments.connections as usize)?;
    let stop = Arc::new(AtomicBool::new(false));
    let received = Arc::new(AtomicU64::new(0));
    let reader = {
        let (stop, received) = (Arc::clone(&stop), Arc::clone(&received));
        thread::spawn(move || drain(receivers, &stop, &received))
    };
    let writer = {
        let (stop, rate) = (Arc::clone(&stop), arguments.messages);
        thread::spawn(move || write(senders, rate, &stop))
    };
    thread::sleep(Duration::from_secs(1));
    let (ticks, begin) = (MachineTicks::now()?, Instant::now());
    let bytes = received.load(Ordering::Relaxed);
    thread::sleep(Duration::from_secs(arguments.seconds));
    let cores = thread::available_parallelism()?.get() as f64;
    let busy = tick_seconds(MachineTicks::now()?.since(ticks).busy());
    let share = busy / (begin.elapsed().as_secs_f64() * cores);
    let megabytes = used_megabytes()?;
    let bytes = received.load(Ordering::Relaxed) - bytes;
    stop.store(true, Ordering::Relaxed);
    for thread in [reader, writer] {
        let ended = thread.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("a traffic thread panicked")))?;
    }
    drop(edge);
    let due = arguments.messages * arguments.seconds * MESSAGE as u64;
    anyhow::ensure!(
        bytes * 10 > due * 9,
        "the machine cannot carry {} messages/s: {bytes} of {due} bytes arrived",
        arguments.messages
    );
    Ok((share, megabytes))
}

/// Memory of the machine that is not available to a new process, MB (proc(5), /proc/meminfo).
fn used_megabytes() -> anyhow::Result<f64> {
    let info = fs::read_to_string("/proc/meminfo")?;
    let kib = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        value.ok_or_else(|| anyhow::anyhow!("/proc/meminfo has no {name}"))
    };
    Ok((kib("MemTotal:")? - kib("MemAvailable:")?) * 1024.0 / 1e6)
}

fn connect(site: &BridgedSite, count: usize) -> io::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let (mut senders, mut receivers) = (Vec::with_capacity(count), Vec::with_capacity(count));
    while senders.len() < count {
        let listener = site.listen(Family::V4)?;
        let to = listener.local_addr()?;
        let now = (count - senders.len()).min(PER_LISTENER);
        site.guest().inside(|| -> io::Result<()> {
            for _ in 0..now {
                let sender = TcpStream::connect(to)?;
                let receiver = listener.accept()?.0;
                for end in [&sender, &receiver] {
                    end.set_nonblocking(true)?;
                }
                senders.push(sender);
                receivers.push(receiver);
            }
            Ok(())
        })??;
    }
    Ok((senders, receivers))
}

/// Writes so many messages a second, on one connection after the other.
fn write(mut senders: Vec<TcpStream>, per_second: u64, stop: &AtomicBool) -> io::Result<()> {
    let message = [0x5a; MESSAGE];
    let count = senders.len() as u64;
    let begin = Instant::now();
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = per_second * begin.elapsed().as_micros() as u64 / 1_000_000;
        while written < due {
            match senders[(written % count) as usize].write(&message) {
                Ok(_) => {}
                // What a connection does not take is missed where what arrives is counted.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            written += 1;
        }
        thread::sleep(TURN);
    }
    Ok(())
}

/// Reads whatever arrives on any connection.
fn drain(mut receivers: Vec<TcpStream>, stop: &AtomicBool, received: &AtomicU64) -> io::Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, receiver) in receivers.iter().enumerate() {
        epoll::add(
            &poll,
            receiver,
            epoll::EventData::new_u64(index as u64),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
    }
    let mut events = Vec::with_capacity(1024);
    let mut buffer = [0; MESSAGE * 16];
    while !stop.load(Ordering::Relaxed) {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), Some(&LONGEST_WAIT))?;
        for event in &events {
            let receiver = &mut receivers[event.data.u64() as usize];
            while let Ok(read @ 1..) = receiver.read(&mut buffer) {
                received.fetch_add(read as u64, Ordering::Relaxed);
            }
        }
        thread::sleep(TURN);
    }
    Ok(())
}
