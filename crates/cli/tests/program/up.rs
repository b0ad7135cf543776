//! `up`, and the commands that ask it.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Running, alone, fairwater, privileged};

/// A plane from a file in a folder of its own; its control socket is there too.
struct Plane {
    folder: tempfile::TempDir,
    running: Running,
}

impl Plane {
    /// Starts a plane with these lines and waits until it answers.
    fn start(lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let links = at("plane");
        let control = at("control");
        let source =
            format!("{lines}\n[links]\nlisten = \"{links}\"\n[control]\nsocket = \"{control}\"\n");
        std::fs::write(folder.path().join("host.toml"), source).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_fairwater"))
            .arg("up")
            .arg(folder.path().join("host.toml"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let plane = Self {
            folder,
            running: Running(child),
        };
        let start = Instant::now();
        while plane.ask(&["status", "--json"]).0 != Some(0) {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "it never answers"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        plane
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("host.toml")
    }

    /// Runs a command on the plane's socket: the exit code, and standard output.
    fn ask(&self, words: &[&str]) -> (Option<i32>, String) {
        let socket = self.folder.path().join("control");
        let output = fairwater(&[words, &["--socket", socket.to_str().unwrap()]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text)
    }

    fn json(&self, words: &[&str]) -> serde_json::Value {
        let (code, text) = self.ask(&[words, &["--json"]].concat());
        assert_eq!(code, Some(0), "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Ends it; returns what it said.
    fn end(mut self) -> String {
        self.running.signal(Signal::TERM);
        assert_eq!(self.running.0.wait().unwrap().code(), Some(0));
        assert!(!self.folder.path().join("control").exists());
        let mut said = String::new();
        let stderr = self.running.0.stderr.take();
        stderr.unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

#[test]
fn a_plane_for_links_needs_no_root_tells_its_status_and_reloads_on_sighup() {
    let plane = Plane::start("algorithms = [\"reno\", \"cubic\"]");
    let status = plane.json(&["status"]);
    assert_eq!(status["algorithms"][1]["name"], "cubic");
    assert_eq!(status["datapaths"], serde_json::json!([]));
    let (code, text) = plane.ask(&["why"]);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "No flow has fallen back.\n")
    );

    let source = std::fs::read_to_string(plane.file()).unwrap();
    std::fs::write(
        plane.file(),
        format!("{source}[[policy]]\nremote_port = 80\nalgorithm = \"cubic\"\n"),
    )
    .unwrap();
    plane.running.signal(Signal::HUP);
    let start = Instant::now();
    while plane.json(&["status"])["policy_rules"] != 1 {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "it never reloads"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(plane.file(), "algorithms = [\"renoo\"]\n").unwrap();
    plane.running.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(plane.json(&["status"])["policy_rules"], 1);
    let said = plane.end();
    assert!(
        said.contains("Reloaded: The policy has 1 rule now, and had 0."),
        "{said}"
    );
    assert!(said.contains("did you mean `reno`?"), "{said}");
    assert!(
        said.contains("the former configuration stays in force"),
        "{said}"
    );
}

#[test]
fn without_a_plane_the_commands_that_ask_it_say_so() {
    for words in [&["status"][..], &["why"], &["switch", "cubic", "copa"]] {
        let output = fairwater(&[words, &["--socket", "/nowhere/control"]].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("no plane answers at /nowhere/control"),
            "{said}"
        );
    }
}

/// Two flows of one algorithm on a path of 24 Mbit/s, for as long as they are needed.
fn traffic(name: &str, seconds: u32) -> Running {
    let candidate = format!("kernel:{name}");
    let duration = format!("{seconds}s");
    let child = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .args([
            "try",
            &candidate,
            &candidate,
            "--together",
            "--bulk",
            "--quiet",
        ])
        .args(["--link", "24mbit 40ms 1bdp", "--for", &duration])
        .args(["--report", "/dev/null"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.unwrap())
}

/// A window of two packets is found out within ten seconds, and the flows go on as before.
#[test]
fn a_switch_to_something_worse_is_taken_back() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let plane = Plane::start(
        "algorithms = { upc = \"cubic\", upw = \"constant:cwnd=2\" }\n[linux]\nmax_flows = 64\n\
         silent_after = \"2s\"",
    );
    let _traffic = traffic("fw_upc", 60);
    let start = Instant::now();
    while plane.json(&["status"])["algorithms"][0]["flows"].as_u64() < Some(2) {
        assert!(start.elapsed() < Duration::from_secs(30), "no flow comes");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(2));
    let (code, text) = plane.ask(&["switch", "upc", "upw", "--seed", "7", "--json"]);
    let verdict: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &verdict["outcome"]),
        (Some(5), &"rolled_back".into()),
        "{text}"
    );
    // A disturbed sample or two on a busy machine.
    assert!(verdict["elapsed_us"].as_u64() < Some(15_000_000), "{text}");
    assert!(verdict["ratios"]["goodput"].as_f64() < Some(0.8), "{text}");
    let status = plane.json(&["status"]);
    let flows = |index: usize| status["algorithms"][index]["flows"].as_u64();
    assert_eq!(
        (flows(1), status["incidents_total"].as_u64()),
        (Some(0), Some(0))
    );
    assert!(flows(0) >= Some(2));
    // One that leaves takes the switch back, too.
    let mut asker = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .args(["switch", "upc", "upw", "--socket"])
        .arg(plane.folder.path().join("control"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(900));
    asker.kill().unwrap();
    asker.wait().unwrap();
    let start = Instant::now();
    let ended = |plane: &Plane| {
        let (code, text) = plane.ask(&["switch", "upc", "nothing"]);
        code == Some(2) && text.is_empty() && plane.json(&["status"])["algorithms"][1]["flows"] == 0
    };
    std::thread::sleep(Duration::from_secs(3));
    while !ended(&plane) {
        assert!(start.elapsed() < Duration::from_secs(15));
        std::thread::sleep(Duration::from_millis(100));
    }
    let said = plane.end();
    assert!(
        said.contains("upc is back: upw got less goodput than upc"),
        "{said}"
    );
    assert!(said.contains("whoever asked for it has left"), "{said}");
}

/// A cgroup of version 2 that is removed with its test; `None` where this machine has none.
struct Cgroup(std::path::PathBuf);

impl Cgroup {
    fn make(name: &str) -> Option<Self> {
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let mut mounts = mounts.into_iter();
        let root = mounts.find(|mount| mount.join("cgroup.controllers").exists())?;
        let path = root.join(name);
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    /// Moves this process into the cgroup, or out of it.
    fn enter(&self, inside: bool) {
        let to = match inside {
            true => &*self.0,
            false => self.0.parent().unwrap(),
        };
        std::fs::write(to.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.enter(false);
        std::fs::remove_dir(&self.0).unwrap();
    }
}

/// The cgroup is that of the socket as it was made, whoever uses it later.
#[test]
fn a_policy_chooses_the_algorithm_by_cgroup() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let name = format!("fairwater-test-{}", std::process::id());
    let Some(cgroup) = Cgroup::make(&name) else {
        eprintln!("skipped: no cgroups of version 2");
        return;
    };
    let plane = Plane::start(&format!(
        "algorithms = {{ upp = \"reno\", upq = \"cubic\" }}\n[linux]\nmax_flows = 64\n\
         [[policy]]\ncgroup = \"/{name}\"\nalgorithm = \"upq\""
    ));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        );
        let socket = socket.unwrap();
        rustix::net::sockopt::set_tcp_congestion(&socket, "fw_upp").unwrap();
        rustix::net::connect(&socket, &listener.local_addr().unwrap()).unwrap();
        (
            std::net::TcpStream::from(socket),
            listener.accept().unwrap(),
        )
    };
    let _outside = connect();
    cgroup.enter(true);
    let _inside = connect();
    cgroup.enter(false);
    let start = Instant::now();
    loop {
        let status = plane.json(&["status"]);
        let flows = |index: usize| status["algorithms"][index]["flows"].as_u64();
        if (flows(0), flows(1)) == (Some(1), Some(1)) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{status:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
    plane.end();
}

/// An algorithm that fails leaves what a bug report needs.
#[test]
fn why_tells_of_a_flow_that_fell_back() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let plane = Plane::start(
        "algorithms = { uph = \"cubic\" }\n[linux]\nmax_flows = 64\nsilent_after = \"50ms\"",
    );
    let _traffic = traffic("fw_uph", 30);
    let start = Instant::now();
    while plane.json(&["status"])["reports_total"].as_u64() < Some(20) {
        assert!(start.elapsed() < Duration::from_secs(30), "no flow comes");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Silent for longer than it may be.
    plane.running.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(400));
    plane.running.signal(Signal::CONT);
    let incidents = loop {
        let incidents = plane.json(&["why"]);
        if !incidents.as_array().unwrap().is_empty() {
            break incidents;
        }
        assert!(start.elapsed() < Duration::from_secs(40), "no incident");
        std::thread::sleep(Duration::from_millis(100));
    };
    let incident = &incidents[0];
    let cause = incident["cause"].as_str().unwrap();
    assert!(cause.starts_with("the plane was silent"), "{cause}");
    assert_eq!(incident["flow"]["algorithm"], "uph");
    let reports = incident["reports"].as_array().unwrap();
    assert!(!reports.is_empty() && reports[0]["fields"].as_object().unwrap().len() > 1);
    let remote = incident["flow"]["remote"].as_str().unwrap();
    let (code, text) = plane.ask(&["why", remote]);
    assert_eq!(code, Some(0));
    assert!(
        text.contains(remote) && text.contains("uph/cubic"),
        "{text}"
    );
    plane.end();
}
