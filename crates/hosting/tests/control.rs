//! The control socket, in company: users without rights, peers that send nonsense, leave, or never
//! read.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairwater_hosting::control::{
    Client, ClientError, Control, ControlListener, Request, Response,
};
use fairwater_hosting::host::{Host, HostConfig};

/// A plane for links alone, at work in a thread.
struct Plane {
    folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Plane {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let source = format!(
            "algorithms = [\"reno\", \"cubic\"]\n[links]\nlisten = \"{}\"\n[control]\nsocket = \"{}\"\n",
            at("plane"),
            at("control"),
        );
        let file = folder.path().join("host.toml");
        std::fs::write(&file, &source).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let mut host = Host::start(read(&file).unwrap()).unwrap();
        let listener =
            ControlListener::bind(&folder.path().join("control"), Vec::new(), host.waker())
                .unwrap();
        let thread = std::thread::spawn(move || {
            let mut control = Control::new(listener);
            while !stopping.load(Ordering::Relaxed) {
                host.turn(Duration::from_millis(20)).unwrap();
                control.turn(&mut host, &|| read(&file));
            }
            control.finish(&mut host);
        });
        Self {
            folder,
            stop,
            thread: Some(thread),
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    fn ask(&self, request: &Request) -> Result<Response, ClientError> {
        Client::connect(&self.socket())?.ask(request)
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn read(file: &Path) -> Result<HostConfig, String> {
    let source = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    HostConfig::parse("host.toml", &source, Path::new("")).map_err(|errors| errors.to_string())
}

#[test]
fn a_plane_tells_its_status_flows_and_metrics() {
    let plane = Plane::start();
    let Response::Status(status) = plane.ask(&Request::Status).unwrap() else {
        panic!("no status");
    };
    let names: Vec<_> = status
        .algorithms
        .iter()
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(names, ["reno", "cubic"]);
    assert_eq!(
        plane.ask(&Request::Flows).unwrap(),
        Response::Flows(Vec::new())
    );
    assert_eq!(
        plane.ask(&Request::Incidents).unwrap(),
        Response::Incidents(Vec::new())
    );
    let Response::Metrics(text) = plane.ask(&Request::Metrics).unwrap() else {
        panic!("no metrics");
    };
    assert!(
        text.contains("fairwater_flows{algorithm=\"reno\"} 0"),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn a_reload_is_whole_or_not_at_all() {
    let plane = Plane::start();
    let file = plane.folder.path().join("host.toml");
    let source = std::fs::read_to_string(&file).unwrap();
    let reload = || plane.ask(&Request::Reload);
    assert_eq!(reload().unwrap(), Response::Reloaded(Vec::new()));

    let rule = "[[policy]]\nmark = 7\nalgorithm = \"cubic\"\n";
    std::fs::write(&file, format!("{source}{rule}")).unwrap();
    let told = "The policy has 1 rule now, and had 0.".to_owned();
    assert_eq!(reload().unwrap(), Response::Reloaded(vec![told]));

    // A mistake leaves the configuration in force, whatever else is new.
    std::fs::write(&file, format!("{source}[[policy]]\nmark = 8\n")).unwrap();
    let ClientError::Failed(why) = reload().unwrap_err() else {
        panic!("taken");
    };
    assert!(why.contains("a policy has no `algorithm`"), "{why}");
    // So does what can only change at a restart.
    let others = source.replace("\"reno\", ", "");
    std::fs::write(
        &file,
        format!("{others}[[policy]]\nmark = 9\nalgorithm = \"cubic\"\n"),
    )
    .unwrap();
    let ClientError::Failed(why) = reload().unwrap_err() else {
        panic!("taken");
    };
    assert!(
        why.contains("`algorithms` cannot change while the plane runs"),
        "{why}"
    );
    // An algorithm in Python needs another program, which must not take the place of this one.
    let python = source.replace("\"cubic\"", "\"my.py:Mine\"");
    std::fs::write(&file, python).unwrap();
    let ClientError::Failed(why) = reload().unwrap_err() else {
        panic!("taken");
    };
    assert!(why.contains("restart the plane"), "{why}");
    let Response::Status(status) = plane.ask(&Request::Status).unwrap() else {
        panic!("no status");
    };
    assert_eq!((status.policy_rules, status.algorithms.len()), (1, 2));
}

#[test]
fn peers_that_send_nonsense_or_never_read_disturb_nobody() {
    let plane = Plane::start();
    let mut nonsense = UnixStream::connect(plane.socket()).unwrap();
    nonsense.write_all(b"{\"switch\": 7}\n").unwrap();
    let mut answer = String::new();
    BufReader::new(&nonsense).read_line(&mut answer).unwrap();
    assert!(answer.contains("no request"), "{answer}");
    // As much as the socket takes, and nothing is read.
    let mut greedy = UnixStream::connect(plane.socket()).unwrap();
    greedy.set_nonblocking(true).unwrap();
    while greedy
        .write(b"\"metrics\"\n\"metrics\"\n\"metrics\"\n")
        .is_ok()
    {}
    // One that never ends its line.
    let mut endless = UnixStream::connect(plane.socket()).unwrap();
    endless.write_all(b"\"stat").unwrap();
    // More than are admitted, and silent.
    let silent: Vec<_> = (0..40)
        .map(|_| UnixStream::connect(plane.socket()).unwrap())
        .collect();
    let start = Instant::now();
    drop(silent);
    while plane.ask(&Request::Status).is_err() {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_second_plane_at_the_socket_is_told_of_the_first() {
    let plane = Plane::start();
    let waker = Host::start(HostConfig {
        links: None,
        ..read(&plane.folder.path().join("host.toml")).unwrap()
    })
    .unwrap()
    .waker();
    let error = ControlListener::bind(&plane.socket(), Vec::new(), waker).unwrap_err();
    assert!(
        error.to_string().contains("another plane is there"),
        "{error}"
    );
    assert!(plane.ask(&Request::Status).is_ok());
}

/// Run as `nobody` by the test below.
#[test]
#[ignore = "the part of an unprivileged user"]
fn as_nobody() {
    let Some(socket) = std::env::var_os("FAIRWATER_TEST_CONTROL") else {
        return;
    };
    let ask = |request| Client::connect(Path::new(&socket)).unwrap().ask(&request);
    assert!(matches!(ask(Request::Status), Ok(Response::Status(_))));
    for request in [Request::Incidents, Request::Reload] {
        assert!(matches!(ask(request), Err(ClientError::Refused(_))));
    }
}

#[test]
fn a_user_without_rights_may_look_and_change_nothing() {
    if !rustix::process::geteuid().is_root() {
        let required = std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
        assert!(!required, "not root");
        println!("skipped: not root");
        return;
    }
    let plane = Plane::start();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(plane.folder.path(), mode).unwrap();
    // The test program may lie where `nobody` cannot reach it.
    let program = plane.folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let status = Command::new(&program)
        .args(["--ignored", "--exact", "as_nobody"])
        .env("FAIRWATER_TEST_CONTROL", plane.socket())
        .uid(65_534)
        .gid(65_534)
        .status()
        .unwrap();
    assert!(status.success());
}
