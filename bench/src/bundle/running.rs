//! Boxes of bundles, each a process of the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fairwater_testbed::{Machine, TwoSites};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long a box may take to begin, or to do what it is waited for.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The program that is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Program {
    /// The program `fairwater` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

impl Program {
    /// Where it is.
    pub(super) fn path(&self) -> anyhow::Result<PathBuf> {
        let beside = || Ok(std::env::current_exe()?.with_file_name("fairwater"));
        let path = self
            .program
            .clone()
            .map_or_else(beside, Ok::<_, anyhow::Error>)?;
        ensure!(
            path.exists(),
            "{} is not there: `make build`, or name it by --program",
            path.display()
        );
        Ok(path)
    }
}

/// Where a sendbox schedules packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataPlane {
    Tap,
    Kernel,
}

impl DataPlane {
    pub(super) const ALL: [Self; 2] = [Self::Tap, Self::Kernel];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tap => "tap",
            Self::Kernel => "kernel",
        }
    }
}

/// A folder with the files of both boxes, for so many bundles. The first is that of the sites' hosts.
pub(super) struct Files {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Files {
    pub(super) fn new(program: &Program, bundles: u32, sendbox: &str) -> anyhow::Result<Self> {
        let this = Self {
            folder: tempfile::tempdir()?,
            program: program.path()?,
        };
        let made = Command::new(&this.program)
            .args(["bundle", "key"])
            .arg(this.file("a.key"))
            .stderr(Stdio::null())
            .status()?;
        ensure!(made.success(), "no key could be made");
        let mut receive = "[receivebox]\nports = [\"wan0\"]\n".to_owned();
        let mut send = String::new();
        for number in 1..=bundles {
            let (near, far) = match number {
                1 => ("10.1.0.0/24".to_owned(), "10.2.0.0/24".to_owned()),
                // Sites that nobody is at.
                n => (
                    format!("10.{}.{}.0/24", 64 + n / 256, n % 256),
                    format!("10.{}.{}.0/24", 128 + n / 256, n % 256),
                ),
            };
            let both = format!(
                "[[bundle]]\nname = \"bundle {number}\"\nnumber = {number}\nkey = \"a.key\"\nto = [\"{far}\"]\n"
            );
            receive += &format!("{both}from = [\"{near}\"]\n");
            send += &format!("{both}receivebox = \"192.0.2.2\"\n{sendbox}");
        }
        fs::write(this.file("receive.toml"), receive)?;
        for (plane, port) in [(DataPlane::Tap, "lan0"), (DataPlane::Kernel, "wan0")] {
            let name = plane.name();
            let head = format!("[sendbox]\nplane = \"{name}\"\nports = [\"{port}\"]\n");
            fs::write(this.file(&format!("{name}.toml")), head + &send)?;
        }
        Ok(this)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the receivebox, and waits until it answers.
    pub(super) fn receive(&self, sites: &TwoSites) -> anyhow::Result<RunningBox> {
        self.start(sites, Machine::ReceiverRouter, "receive", "receive")
    }

    /// Starts the sendbox, and waits until it answers.
    pub(super) fn send(&self, sites: &TwoSites, plane: DataPlane) -> anyhow::Result<RunningBox> {
        self.start(sites, Machine::SenderRouter, "send", plane.name())
    }

    fn start(
        &self,
        sites: &TwoSites,
        machine: Machine,
        role: &str,
        file: &str,
    ) -> anyhow::Result<RunningBox> {
        let socket = self.file(role);
        let log = self.file(&format!("{role}.log"));
        let output = fs::File::create(&log)?;
        let began = Instant::now();
        let start = || {
            Command::new(&self.program)
                .args(["bundle", role])
                .arg(self.file(&format!("{file}.toml")))
                .arg("--socket")
                .arg(&socket)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(output)
                .spawn()
        };
        let child = sites.namespace(machine).inside(start)??;
        let mut this = RunningBox {
            child,
            program: self.program.clone(),
            socket,
            log,
            start_time: Duration::ZERO,
        };
        while this.status().is_none() {
            let ended = this.child.try_wait()?;
            ensure!(ended.is_none(), "the box has ended: {}", this.log());
            ensure!(began.elapsed() < TIMEOUT, "the box does not answer");
            thread::sleep(LOOK);
        }
        this.start_time = began.elapsed();
        Ok(this)
    }
}

/// A box at work. It is asked to end when this is dropped.
pub(super) struct RunningBox {
    child: Child,
    program: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    /// From the start of the process to its first answer.
    pub(super) start_time: Duration,
}

impl RunningBox {
    pub(super) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)?;
        Ok(())
    }

    pub(super) fn status(&self) -> Option<Value> {
        let output = Command::new(&self.program)
            .args(["bundle", "status", "--json", "--socket"])
            .arg(&self.socket)
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let boxes: Value = serde_json::from_slice(&output.stdout).ok()?;
        boxes.get(0).cloned()
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the first bundle is limited by its algorithm. Something has to be sent meanwhile.
    pub(super) fn await_control(&self) -> anyhow::Result<()> {
        self.await_status("control", |status| {
            status["bundles"][0]["mode"] == "control"
        })
    }

    pub(super) fn await_status(
        &self,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        while !self.status().is_some_and(|status| is_so(&status)) {
            let why = || format!("waited for {what} in vain: {}", self.log());
            ensure!(began.elapsed() < TIMEOUT, why());
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// CPU time that it took so far, s (proc(5), `utime` and `stime` of /proc/PID/stat).
    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(self.proc("stat"))?;
        let after_name = stat.rsplit_once(") ").map(|(_, rest)| rest);
        let fields: Vec<&str> = after_name.unwrap_or_default().split(' ').collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok());
        let times = ticks(11).zip(ticks(12)).context("no times in stat")?;
        Ok((times.0 + times.1) / 100.0)
    }

    /// Memory that it holds, MB (`VmRSS` of /proc/PID/status).
    pub(super) fn memory_mb(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(self.proc("status"))?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kb = line.and_then(|it| it.split_whitespace().next());
        Ok(kb.context("no VmRSS")?.parse::<f64>()? / 1e3)
    }

    fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc")
            .join(self.child.id().to_string())
            .join(name)
    }
}

impl Drop for RunningBox {
    fn drop(&mut self) {
        // A process that was killed takes no signals.
        let _ = self.signal(Signal::CONT);
        let _ = self.signal(Signal::INT);
        let _ = self.child.wait();
    }
}
