//! What many live flows take: memory of a flow in the kernel side's maps and in the plane, and the
//! time to attach with room for them and to detach from them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use fairwater_linux::{FlowState, Options, observe};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::hosted::Hosted;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The algorithm.
    #[arg(long, default_value = "cubic")]
    algorithm: String,
    /// Flows at once; each takes two descriptors of this process (`ulimit -Hn`).
    #[arg(long, default_value_t = 100_000)]
    flows: u32,
    /// Flows that there is room for; as many as there are if not given.
    #[arg(long)]
    room: Option<u32>,
}

/// Connections to one listener: fewer than there are local ports for one remote port.
const PER_LISTENER: u32 = 20_000;
/// Time for the plane to have chosen a program for each flow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let flows = arguments.flows;
    let room = arguments.room.unwrap_or(flows).max(flows);
    raise_descriptor_limit(2 * u64::from(flows) + 1000)?;
    let choice = fairwater_algorithms::by_spec(&arguments.algorithm)?;
    let name = format!("fw_{}", choice.name());
    let fill = move |plane: &mut fairwater_plane::Plane| plane.add(|p| choice.build(p)).map(drop);
    let options = Options {
        max_flows: room,
        ..Options::default()
    };
    let maps_before = map_bytes()?;
    let begin = Instant::now();
    let hosted = Hosted::start(fill, options)?;
    let attach = begin.elapsed();
    let maps = map_bytes()? - maps_before;
    let resident_before = anonymous_kib()?;

    let begin = Instant::now();
    let mut connections = Vec::with_capacity(flows as usize);
    while connections.len() < flows as usize {
        let left = flows - u32::try_from(connections.len())?;
        open(&name, left.min(PER_LISTENER), &mut connections)?;
    }
    let opened = begin.elapsed();
    let running = wait_until_all_run(&name, flows as usize, &mut connections)?;
    let resident = anonymous_kib()? - resident_before;
    let begin = Instant::now();
    let work = hosted.stop();
    let detach = begin.elapsed();

    println!(
        "{running} flows of {name} run its program; opened in {:.1} s, {} reports",
        opened.as_secs_f64(),
        work.reports
    );
    println!(
        "attach {:.3} s, detach {:.3} s",
        attach.as_secs_f64(),
        detach.as_secs_f64()
    );
    println!(
        "memory per flow: {} bytes of the kernel side's maps ({} MiB in all, for {room} flows), {} \
         of this process",
        maps / u64::from(room),
        maps >> 20,
        (resident << 10) / u64::from(flows)
    );
    Ok(())
}

/// Lets this process have so many descriptors.
pub(crate) fn raise_descriptor_limit(needed: u64) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let raised = Rlimit {
            current: Some(needed),
            maximum: limit.maximum.map(|most| most.max(needed)),
        };
        setrlimit(Resource::Nofile, raised)
            .with_context(|| format!("{needed} descriptors are needed"))?;
    }
    Ok(())
}

fn open(
    congestion_control: &str,
    count: u32,
    connections: &mut Vec<(TcpStream, TcpStream)>,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    for _ in 0..count {
        let sender = TcpStream::connect(address)?;
        let receiver = listener.accept()?.0;
        rustix::net::sockopt::set_tcp_congestion(&sender, congestion_control)?;
        connections.push((sender, receiver));
    }
    Ok(())
}

/// A flow runs its program from its next ACK on.
fn wait_until_all_run(
    name: &str,
    flows: usize,
    connections: &mut [(TcpStream, TcpStream)],
) -> anyhow::Result<usize> {
    let begin = Instant::now();
    loop {
        for (sender, receiver) in connections.iter_mut() {
            sender.write_all(&[0])?;
            receiver.read_exact(&mut [0])?;
        }
        let planes = observe::planes();
        let running = planes
            .iter()
            .filter(|plane| plane.name == name)
            .flat_map(|plane| &plane.flows)
            .filter(|flow| flow.state == FlowState::Running)
            .count();
        if running == flows || begin.elapsed() > PATIENCE {
            return Ok(running);
        }
    }
}

/// Bytes of the BPF maps that this process holds (`memlock` of bpf(2)'s fdinfo).
fn map_bytes() -> anyhow::Result<u64> {
    let mut maps = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fdinfo")?.flatten() {
        let info = fs::read_to_string(entry.path()).unwrap_or_default();
        let field = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        if let (Some(id), Some(bytes)) = (field("map_id:"), field("memlock:")) {
            maps.insert(id, bytes);
        }
    }
    Ok(maps.values().sum())
}

/// Anonymous memory of this process, KiB: what the plane allocates, without the maps.
fn anonymous_kib() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|value| value.trim().trim_end_matches(" kB").parse().ok());
    kib.ok_or_else(|| anyhow::anyhow!("/proc/self/status has no RssAnon"))
}
