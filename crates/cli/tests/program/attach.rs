//! `fairwater attach` and `fairwater top` on a real kernel, in a network namespace of their own.

use std::io::{BufRead, BufReader};
use std::process::{ChildStderr, Command, ExitStatus, Stdio};

use rustix::process::Signal;

use crate::support::{Running, alone, fairwater, privileged};

/// A running `fairwater attach`.
struct Attached {
    process: Running,
    said: BufReader<ChildStderr>,
}

impl Attached {
    /// Attaches in that namespace and waits until it has said `last`.
    fn start(namespace: &Namespace, args: &[&str], last: &str) -> (Self, String) {
        let mut command = namespace.command(env!("CARGO_BIN_EXE_fairwater"));
        command
            .arg("attach")
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = Running(command.spawn().unwrap());
        let mut said = BufReader::new(process.0.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains(last) {
            let length = said.read_line(&mut text).unwrap();
            assert!(length > 0, "it ended without saying {last:?}:\n{text}");
        }
        (Self { process, said }, text)
    }

    /// Sends the signal and waits for the end: the exit status, and what was said since.
    fn signal(mut self, signal: Signal) -> (ExitStatus, String) {
        self.process.signal(signal);
        let status = self.process.0.wait().unwrap();
        (status, std::io::read_to_string(self.said).unwrap())
    }
}

/// A network namespace, held by a process that sleeps.
struct Namespace(Running);

impl Namespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo ready; exec sleep 600"]);
        let mut process = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut ready = String::new();
        BufReader::new(process.0.stdout.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert_eq!(ready, "ready\n");
        Self(process)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.0.0.id()))
            .arg(program);
        command
    }

    /// Sets the default as an administrator does.
    fn set_default(&self, name: &str) {
        let mut shell = self.command("sh");
        let script = format!("echo {name} > /proc/sys/net/ipv4/tcp_congestion_control");
        assert!(shell.args(["-c", &script]).status().unwrap().success());
    }

    fn default(&self) -> String {
        let mut cat = self.command("cat");
        let output = cat
            .arg("/proc/sys/net/ipv4/tcp_congestion_control")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

const READY: &str = "Ctrl-C stops";

#[test]
fn the_default_is_changed_and_restored() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let namespace = Namespace::new();
    let former = namespace.default();
    let (attached, said) = Attached::start(&namespace, &["constant", "--default"], READY);
    assert!(
        said.contains(&format!("the default was {former}")),
        "{said}"
    );
    assert_eq!(namespace.default(), "fw_constant");

    let look = fairwater(&["top", "--json", "--interval", "100ms"]);
    let look: serde_json::Value = serde_json::from_slice(&look.stdout).unwrap();
    let planes = look["planes"].as_array().unwrap();
    let pid = attached.process.0.id();
    let ours = planes.iter().find(|plane| plane["pid"] == pid).unwrap();
    assert_eq!(ours["algorithm"], "fw_constant", "{look}");
    assert_eq!(ours["alive"], true, "{look}");

    let (status, said) = attached.signal(Signal::INT);
    assert_eq!(status.code(), Some(130), "{said}");
    assert_eq!(namespace.default(), former);
}

#[test]
fn a_second_attach_of_a_name_says_who_holds_it() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let namespace = Namespace::new();
    let (attached, _) = Attached::start(&namespace, &["constant"], READY);
    let second = fairwater(&["attach", "constant"]);
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("fw_constant is held by process"), "{said}");
    let (status, said) = attached.signal(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{said}");
}

#[test]
fn a_start_after_a_kill_restores_the_default() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let namespace = Namespace::new();
    let former = namespace.default();
    let (attached, _) = Attached::start(&namespace, &["constant", "--default"], READY);
    attached.signal(Signal::KILL);
    let (attached, said) = Attached::start(&namespace, &["constant"], READY);
    assert!(said.contains(&format!("is {former} again")), "{said}");
    assert_eq!(namespace.default(), former);
    attached.signal(Signal::INT);
}

#[test]
fn a_default_that_is_gone_keeps_no_later_start_from_attaching() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let namespace = Namespace::new();
    let (first, _) = Attached::start(&namespace, &["hybla"], READY);
    namespace.set_default("fw_hybla");
    let (killed, said) = Attached::start(&namespace, &["illinois", "--default"], READY);
    assert!(said.contains("the default was fw_hybla"), "{said}");
    killed.signal(Signal::KILL);
    first.signal(Signal::TERM);
    let (attached, said) = Attached::start(&namespace, &["constant"], READY);
    assert!(
        said.contains("fw_hybla, the default before, is gone"),
        "{said}"
    );
    assert!(
        !namespace.default().starts_with("fw_"),
        "{}",
        namespace.default()
    );
    let (status, said) = attached.signal(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{said}");
}

#[test]
fn a_default_that_an_administrator_changed_meanwhile_is_left_and_said_to_be() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let namespace = Namespace::new();
    let (attached, _) = Attached::start(&namespace, &["constant", "--default"], READY);
    namespace.set_default("reno");
    let (_, said) = attached.signal(Signal::TERM);
    assert!(said.contains("left as it was set meanwhile"), "{said}");
    assert!(!said.contains("again"), "{said}");
    assert_eq!(namespace.default(), "reno");
}

#[test]
fn a_listener_is_said_to_be_taken_over_after_a_kill() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let namespace = Namespace::new();
    let (killed, _) = Attached::start(&namespace, &["constant"], READY);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_tcp_congestion(&listener, "fw_constant").unwrap();
    killed.signal(Signal::KILL);
    let (attached, said) = Attached::start(&namespace, &["constant"], READY);
    assert!(
        said.contains("1 listener taken over from an earlier fairwater"),
        "{said}"
    );
    attached.signal(Signal::TERM);
}
