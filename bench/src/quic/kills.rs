//! Transfers while the plane's process is killed and started again: whether each byte arrives, how long
//! none did, and how soon a plane has the flows again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fairwater_plane::Plane;
use fairwater_quic::certificate::Certificate;
use fairwater_quic::transfer::{
    Content, FileServer, Fingerprint, GetConfig, ServeConfig, TransferError, get,
};
use fairwater_quic::{Factory, Options};
use fairwater_service::{Config, Endpoints, Server};

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithm of the plane.
    #[arg(long, default_value = "copa")]
    algorithm: String,
    /// Transfers at least; they go on until the last kill.
    #[arg(long, default_value_t = 200)]
    transfers: u32,
    /// How often the plane's process is killed.
    #[arg(long, default_value_t = 50)]
    kills: u32,
    /// Transfers at once.
    #[arg(long, default_value_t = 8)]
    at_once: u32,
    /// Bytes of a transfer.
    #[arg(long, default_value_t = 8_000_000)]
    bytes: u64,
    /// Be the plane at this socket; what this benchmark starts as its child.
    #[arg(long, hide = true)]
    plane: Option<PathBuf>,
}

/// What a client waits between chunks, so that transfers outlast planes.
const PAUSE: Duration = Duration::from_millis(10);
/// Bytes between two pauses.
const CHUNK: u64 = 1 << 15;
/// Shortest life of a plane once it has the flows, and how far lives differ.
const LIFE: Duration = Duration::from_millis(100);
const LIFE_STEP: Duration = Duration::from_millis(37);
const LIVES: u32 = 13;
/// What counts as lost: nothing here waits longer.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Bounds of what is measured.
const LONGEST: Duration = Duration::from_secs(1);

/// What transfers came to.
#[derive(Debug, Default)]
struct Transfers {
    done: u32,
    stall: Duration,
}

/// Measures and prints; a bound that is not held is an error.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(socket) = &arguments.plane {
        return plane(socket, &arguments.algorithm);
    }
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("plane.ring");
    let file = folder.path().join("content");
    std::fs::write(&file, content(arguments.bytes))?;
    let hash = blake3::hash(&std::fs::read(&file)?).to_string();
    let factory = Options::default()
        .plane(&socket)
        .noq(&arguments.algorithm)?;
    let server = FileServer::bind(ServeConfig {
        listen: "127.0.0.1:0".parse()?,
        content: Content::File(file),
        controllers: Some(Arc::clone(&factory)),
        certificate: Certificate::generate(["localhost".to_owned()])?,
        qlog: None,
    })?;
    let (remote, trust) = (server.address(), server.fingerprint());
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let begun = AtomicU32::new(0);
    let (stop, hash) = (&stop, hash.as_str());
    let (all, planes) = thread::scope(|scope| {
        let serving = scope.spawn(move || serve(server, stop));
        let clients: Vec<_> = (0..arguments.at_once)
            .map(|_| scope.spawn(|| transfers(arguments, remote, trust, hash, &begun, &over)))
            .collect();
        let planes = kill_planes(arguments, &socket, &factory);
        over.store(true, Ordering::Relaxed);
        let joined: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        stop.store(true, Ordering::Relaxed);
        serving.join().ok().context("the server panicked")?;
        let mut all = Transfers::default();
        for each in joined {
            let each = each.ok().context("a client panicked")??;
            all.done += each.done;
            all.stall = all.stall.max(each.stall);
        }
        anyhow::Ok((all, planes?))
    })?;
    println!(
        "{} transfers of {} bytes, every hash equal; {} planes killed",
        all.done, arguments.bytes, arguments.kills
    );
    println!(
        "  longest stall of a transfer: {:.3} s",
        all.stall.as_secs_f64()
    );
    let (taken, fallen) = planes;
    println!(
        "  flows taken back after a start: {:.3} s at most",
        taken.as_secs_f64()
    );
    println!(
        "  under the fallback after a kill: {:.3} s at most",
        fallen.as_secs_f64()
    );
    ensure!(
        all.stall <= LONGEST,
        "a transfer stalled for more than {LONGEST:?}"
    );
    ensure!(
        taken <= LONGEST,
        "flows were without their plane for more than {LONGEST:?}"
    );
    Ok(())
}

fn content(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 % 251) as u8).collect()
}

fn serve(mut server: FileServer, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        server.turn(Duration::from_millis(100), stop);
    }
    server.close();
}

/// One transfer after another, until there are enough and no plane is killed any more.
fn transfers(
    arguments: &Arguments,
    remote: std::net::SocketAddr,
    trust: Fingerprint,
    hash: &str,
    begun: &AtomicU32,
    over: &AtomicBool,
) -> anyhow::Result<Transfers> {
    let config = GetConfig {
        remote,
        trust,
        output: None,
        qlog: None,
    };
    let mut all = Transfers::default();
    while begun.fetch_add(1, Ordering::Relaxed) < arguments.transfers
        || !over.load(Ordering::Relaxed)
    {
        let (mut last, mut paused_at) = (Duration::ZERO, 0);
        let mut stall = Duration::ZERO;
        let mut pause = Duration::ZERO;
        let fetched = get(&config, &AtomicBool::new(false), &mut |progress| {
            let gap = progress.elapsed.saturating_sub(last);
            stall = stall.max(gap.saturating_sub(std::mem::take(&mut pause)));
            last = progress.elapsed;
            if progress.bytes - paused_at >= CHUNK {
                paused_at = progress.bytes;
                let began = Instant::now();
                thread::sleep(PAUSE);
                pause = began.elapsed();
            }
        });
        let fetched = fetched.map_err(|error: TransferError| anyhow::anyhow!("{error}"))?;
        ensure!(fetched.hash == hash, "a transfer has another hash");
        ensure!(fetched.bytes == arguments.bytes, "bytes are missing");
        all.done += 1;
        all.stall = all.stall.max(stall);
    }
    Ok(all)
}

/// Starts and kills planes; how long flows waited for a plane after its start, and for the fallback after
/// its end, at most.
fn kill_planes(
    arguments: &Arguments,
    socket: &Path,
    factory: &Factory,
) -> anyhow::Result<(Duration, Duration)> {
    let (mut taken, mut fallen) = (Duration::ZERO, Duration::ZERO);
    for kill in 1..=arguments.kills {
        let plane = PlaneProcess::start(socket, &arguments.algorithm)?;
        // The socket is there: a plane could take the flows.
        wait("a plane's socket", || socket.exists())?;
        let is_whole = || {
            let status = factory.status();
            status.is_connected && status.flows > 0 && status.running == status.flows
        };
        taken = taken.max(wait("flows taken by the plane", is_whole)?);
        thread::sleep(LIFE + LIFE_STEP * (kill % LIVES));
        drop(plane);
        // A dead plane's socket stays.
        let _ = std::fs::remove_file(socket);
        fallen = fallen.max(wait("flows under the fallback", || {
            factory.status().running == 0
        })?);
    }
    Ok((taken, fallen))
}

fn wait(what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<Duration> {
    let began = Instant::now();
    while !is_so() {
        ensure!(began.elapsed() < GIVE_UP, "{what}: not within {GIVE_UP:?}");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(began.elapsed())
}

/// A plane in a process of its own, which dies without a word.
struct PlaneProcess(Child);

impl PlaneProcess {
    fn start(socket: &Path, algorithm: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let child = Command::new(program)
            .args(["quic-kills", "--algorithm", algorithm, "--plane"])
            .arg(socket)
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for PlaneProcess {
    fn drop(&mut self) {
        // SIGKILL.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Is the plane, until it is killed.
fn plane(socket: &Path, algorithm: &str) -> anyhow::Result<()> {
    let choice = fairwater_algorithms::by_spec(algorithm)?;
    let mut plane = Plane::new();
    plane.add(|programs| choice.build(programs))?;
    let config = Config {
        instance: u64::from(std::process::id()),
        ..Config::default()
    };
    let endpoints = Endpoints {
        ring: Some(socket.to_owned()),
        ..Endpoints::default()
    };
    Server::bind(plane, config, &endpoints)?.run()?;
    Ok(())
}
