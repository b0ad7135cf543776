//! Existing sockets: moved onto an algorithm, taken over after a kill, and given back.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking; a process tells another that it is ready"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use fairwater_linux::observe::{self, PlaneSnapshot};
use fairwater_linux::{FlowState, MigrationCounts, Options};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use support::{Connection, FlowEvent, Log, Running, eventually, machine_can, recorder};

const COUNT: &[(&str, &str)] = &[(
    "count",
    "(def (Report (acked 0))) (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))",
)];

/// A migration moves every connection of the machine, so these tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn existing_connections_move_over_and_come_back_to_where_they_were() {
    if !machine_can() {
        return;
    }
    let _alone = alone();
    let mut reno = Connection::open("127.0.0.1:0", "reno");
    let cubic = Connection::open("[::1]:0", "cubic");
    reno.transfer(1_000_000);
    let log = Log::default();
    let running = Running::start_and(
        recorder("t_move", COUNT, &["acked"], &log, |_| {}),
        Options::default(),
        |session| {
            let moved = session.move_existing().unwrap();
            assert!(moved.connections >= 2, "{moved:?}");
        },
    )
    .unwrap();
    assert_eq!(reno.congestion_control(), "fw_t_move");
    assert_eq!(cubic.congestion_control(), "fw_t_move");
    let local = reno.local();
    // It comes back at an ACK from the fallback that a busy machine may have put it under.
    eventually("the moved flow runs", || {
        reno.transfer(1_000_000);
        let planes = observe::planes();
        let plane = planes.iter().find(|p| p.name == "fw_t_move").unwrap();
        plane
            .flows
            .iter()
            .any(|f| f.local == local && f.state == FlowState::Running)
    });
    // A connection that began under the algorithm has nowhere to go back to.
    let mut born = Connection::open("127.0.0.1:0", "fw_t_move");
    born.transfer(100_000);
    eventually("all flows are met", || {
        log.lock()
            .unwrap()
            .iter()
            .filter(|s| matches!(s, FlowEvent::New(_)))
            .count()
            >= 3
    });
    running.stop();

    assert_eq!(reno.congestion_control(), "reno");
    assert_eq!(cubic.congestion_control(), "cubic");
    assert!(
        !born.congestion_control().starts_with("fw_"),
        "{}",
        born.congestion_control()
    );
    reno.transfer(1_000_000);
    born.transfer(1_000_000);
    eventually("nothing is left loaded", || {
        observe::planes().iter().all(|p| p.name != "fw_t_move")
    });
}

/// Names the algorithm of the plane that this program is to run for another test.
const PLANE: &str = "FAIRWATER_TEST_PLANE";
/// Set if that plane is to move existing connections.
const MOVE: &str = "FAIRWATER_TEST_MOVE";

/// A plane in a process of its own.
struct OtherPlane(Child);

impl OtherPlane {
    fn start(algorithm: &str, moves: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "plane_in_a_process_of_its_own", "--nocapture"])
            .env(PLANE, algorithm)
            .stdout(Stdio::piped());
        if moves {
            command.env(MOVE, "1");
        }
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let other = Self(child);
        let mut lines = output.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("attached")));
        other
    }
}

impl Drop for OtherPlane {
    /// As `kill -9` does.
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn plane_in_a_process_of_its_own() {
    let Ok(name) = std::env::var(PLANE) else {
        return;
    };
    let plane = recorder(name.leak(), COUNT, &["acked"], &Log::default(), |_| {});
    let _running = Running::start_and(plane, Options::default(), |session| {
        if std::env::var_os(MOVE).is_some() {
            session.move_existing().unwrap();
        }
    })
    .unwrap();
    println!("attached");
    std::thread::sleep(Duration::from_secs(60));
}

/// A plane of this process, and what it took over.
fn successor(name: &'static str, log: &Log) -> (Running, MigrationCounts) {
    let (tell, adopted) = mpsc::channel();
    let plane = recorder(name, COUNT, &["acked"], log, |_| {});
    let at_once = move |session: &mut fairwater_linux::LinuxTcp| {
        tell.send(session.adopted()).unwrap();
    };
    let running = Running::start_and(plane, Options::default(), at_once).unwrap();
    (running, adopted.recv().unwrap())
}

fn planes(name: &str) -> Vec<PlaneSnapshot> {
    let mut planes = observe::planes();
    planes.retain(|plane| plane.name == name);
    planes
}

fn state(name: &str, connection: &Connection) -> Option<FlowState> {
    let remote = connection.receiver.local_addr().unwrap();
    let planes = planes(name);
    let mut flows = planes.iter().flat_map(|plane| &plane.flows);
    flows
        .find(|flow| flow.remote == remote)
        .map(|flow| flow.state)
}

#[test]
fn a_listener_of_a_killed_plane_is_taken_over_and_its_children_run_the_algorithm() {
    if !machine_can() {
        return;
    }
    let _alone = alone();
    let other = OtherPlane::start("t_heir", false);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    set_tcp_congestion(&listener, "fw_t_heir").unwrap();
    let accept = || {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let sender = listener.accept().unwrap().0;
        assert_eq!(tcp_congestion(&sender).unwrap(), "fw_t_heir");
        Connection {
            sender,
            receiver: client,
        }
    };
    let _idle = accept();
    // Another network namespace may have the name as its default.
    let mut namespace = Command::new("unshare")
        .args(["--net", "sh", "-c"])
        .arg("echo fw_t_heir > /proc/sys/net/ipv4/tcp_congestion_control; echo; exec sleep 60")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(namespace.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    drop(other);
    assert_eq!(
        planes("fw_t_heir").len(),
        1,
        "sockets keep the plane that was killed"
    );

    let log = Log::default();
    let (running, adopted) = successor("t_heir", &log);
    assert_eq!(
        (adopted.connections, adopted.listeners),
        (1, 1),
        "{adopted:?}"
    );
    eventually("the killed plane's memory is freed", || {
        planes("fw_t_heir").len() == 1
    });
    let mut connection = accept();
    eventually("a child of the listener runs", || {
        connection.transfer(100_000);
        state("fw_t_heir", &connection) == Some(FlowState::Running)
    });
    running.stop();
    namespace.kill().unwrap();
    namespace.wait().unwrap();
}

#[test]
fn idle_flows_of_a_killed_plane_are_shown_under_the_fallback() {
    if !machine_can() {
        return;
    }
    let _alone = alone();
    let other = OtherPlane::start("t_idle_dead", false);
    let mut connection = Connection::open("127.0.0.1:0", "fw_t_idle_dead");
    eventually("the flow runs", || {
        connection.transfer(100_000);
        state("fw_t_idle_dead", &connection) == Some(FlowState::Running)
    });
    drop(other);
    assert_eq!(
        state("fw_t_idle_dead", &connection),
        Some(FlowState::Fallback)
    );
}

#[test]
fn moved_connections_go_back_to_where_they_were_even_after_a_kill() {
    if !machine_can() {
        return;
    }
    let _alone = alone();
    let (mut reno, cubic) = (
        Connection::open("127.0.0.1:0", "reno"),
        Connection::open("[::1]:0", "cubic"),
    );
    let other = OtherPlane::start("t_origin", true);
    assert_eq!(reno.congestion_control(), "fw_t_origin");
    drop(other);

    // A plane of the same name takes them over without being asked to move any.
    let log = Log::default();
    let (running, adopted) = successor("t_origin", &log);
    assert!(adopted.connections >= 2, "{adopted:?}");
    reno.transfer(100_000);
    running.stop();
    assert_eq!(reno.congestion_control(), "reno");
    assert_eq!(cubic.congestion_control(), "cubic");

    // So does a plane of another name that is asked to.
    drop(OtherPlane::start("t_origin", true));
    assert_eq!(reno.congestion_control(), "fw_t_origin");
    let plane = recorder("t_origin_2", COUNT, &["acked"], &log, |_| {});
    let running = Running::start_and(plane, Options::default(), |session| {
        session.move_existing().unwrap();
    })
    .unwrap();
    assert_eq!(reno.congestion_control(), "fw_t_origin_2");
    running.stop();
    assert_eq!(reno.congestion_control(), "reno");
    assert_eq!(cubic.congestion_control(), "cubic");
}

#[test]
fn an_origin_that_is_gone_leaves_no_connection_behind() {
    if !machine_can() {
        return;
    }
    let _alone = alone();
    let log = Log::default();
    let first = recorder("t_first", COUNT, &["acked"], &log, |_| {});
    let first = Running::start(first, Options::default()).unwrap();
    let connection = Connection::open("127.0.0.1:0", "fw_t_first");
    let second = recorder("t_second", COUNT, &["acked"], &log, |_| {});
    let second = Running::start_and(second, Options::default(), |session| {
        session.move_existing().unwrap();
    })
    .unwrap();
    assert_eq!(connection.congestion_control(), "fw_t_second");
    first.stop();
    second.stop();
    let now = connection.congestion_control();
    assert!(!now.starts_with("fw_"), "{now}");
}

#[test]
fn sessions_with_unique_names_run_an_algorithm_side_by_side() {
    if !machine_can() {
        return;
    }
    let _alone = alone();
    let options = Options {
        unique_names: true,
        ..Options::default()
    };
    let log = Log::default();
    let start = || {
        let (tell, names) = mpsc::channel();
        let plane = recorder("t_twin", COUNT, &["acked"], &log, |_| {});
        let running = Running::start_and(plane, options, move |session| {
            tell.send(session.names().next().unwrap().to_owned())
                .unwrap();
        })
        .unwrap();
        (running, names.recv().unwrap())
    };
    let (first, second) = (start(), start());
    assert_ne!(first.1, second.1);
    for (_, name) in [&first, &second] {
        assert!(name.starts_with("fw_t_twin_"), "{name}");
        let mut connection = Connection::open("127.0.0.1:0", name);
        eventually("each has its flows", || {
            connection.transfer(100_000);
            state(name, &connection) == Some(FlowState::Running)
        });
    }
}
