//! The kernel calls a congestion control before its `init`: `cong_control` for the SYN-ACK,
//! `set_state` at a SYN's timeout. No such call may touch the flow of another socket.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fairwater_linux::Options;
use fairwater_linux::observe::{self, FlowSnapshot};
use rustix::net::sockopt::set_tcp_congestion;
use rustix::thread::set_thread_uid;
use socket2::{Domain, Socket, Type};
use support::{Connection, FlowEvent, Log, Running, eventually, machine_can, recorder};

/// Reports each ACK and each timeout.
const EACH: &[(&str, &str)] = &[(
    "each",
    "(def (Report (acked 0) (timeouts 0)))
     (when true
       (:= Report.acked (+ Report.acked Ack.bytes_acked))
       (:= Report.timeouts (+ Report.timeouts (if Flow.was_timeout 1 0)))
       (report))",
)];
const FIELDS: &[&str] = &["acked", "timeouts"];
/// Any user that is not root: `nobody`.
const NOBODY: u32 = 65_534;
/// A SYN is sent again after 1 s (RFC 6298 §2).
const SYN_TIMEOUT: Duration = Duration::from_millis(1300);

fn reports(log: &Log) -> usize {
    let log = log.lock().unwrap();
    log.iter()
        .filter(|event| matches!(event, FlowEvent::Report { .. }))
        .count()
}

/// The flow of that local address, without its age.
fn flow(name: &str, local: SocketAddr) -> FlowSnapshot {
    let mut planes = observe::planes().into_iter();
    let plane = planes.find(|plane| plane.name == name).unwrap();
    let mut flow = plane.flows.into_iter().find(|f| f.local == local).unwrap();
    flow.age_us = 0;
    flow
}

/// A socket that has that congestion control before it connects.
fn socket(congestion_control: &str) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    set_tcp_congestion(&socket, congestion_control).unwrap();
    socket
}

/// A listener that accepts nothing: its queue is full, so that further SYNs are not answered.
struct Silent {
    listener: Socket,
    _queued: Vec<TcpStream>,
}

impl Silent {
    fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let queued = TcpStream::connect(address).unwrap();
        Self {
            listener,
            _queued: vec![queued],
        }
    }

    /// Sends a SYN; the socket keeps trying while it lives.
    fn knock(&self, congestion_control: &str) -> Socket {
        let socket = socket(congestion_control);
        socket.set_nonblocking(true).unwrap();
        let error = socket
            .connect(&self.listener.local_addr().unwrap())
            .unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(rustix::io::Errno::INPROGRESS.raw_os_error())
        );
        socket
    }
}

/// Opens `others` beside an idle flow in slot 0, and checks that nothing touched that flow. The
/// other sockets stay open meanwhile: the ACK of a FIN is a report of their own.
fn leaves_the_idle_flow_alone<S>(name: &'static str, others: impl FnOnce(&str) -> S) {
    let log = Log::default();
    // A fallback on a busy machine would restart the program.
    let options = Options {
        silent_after: Duration::from_secs(60),
        ..Options::default()
    };
    let running = Running::start(recorder(name, EACH, FIELDS, &log, |_| {}), options).unwrap();
    let congestion_control = format!("fw_{name}");
    let mut idle = Connection::open("127.0.0.1:0", &congestion_control);
    eventually("the plane meets the flow", || {
        !log.lock().unwrap().is_empty()
    });
    idle.transfer(100_000);
    eventually("all bytes are reported", || {
        let log = log.lock().unwrap();
        matches!(log.last(), Some(FlowEvent::Report { fields, .. }) if fields[0] == 100_000)
    });
    let before = (reports(&log), flow(&congestion_control, idle.local()));
    assert_eq!(before.1.id.0, 0, "an unwritten slot number names slot 0");

    let sockets = others(&congestion_control);

    std::thread::sleep(Duration::from_millis(100));
    let after = (reports(&log), flow(&congestion_control, idle.local()));
    assert_eq!(before, after);
    drop(sockets);
    // Signals are still counted from where they were.
    idle.transfer(100_000);
    eventually("the idle flow goes on", || {
        let log = log.lock().unwrap();
        log.iter().any(
            |event| matches!(event, FlowEvent::Report { fields, .. } if fields[..] == [200_000, 0]),
        )
    });
    drop(idle);
    assert_eq!(running.stop(), Vec::<String>::new());
}

#[test]
fn a_syn_ack_of_another_socket_runs_no_flows_program() {
    if !machine_can() {
        return;
    }
    leaves_the_idle_flow_alone("t_synack", |name| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| {
            let connection = socket(name);
            connection.connect(&address.into()).unwrap();
            connection
        };
        (listener, (0..5).map(connect).collect::<Vec<_>>())
    });
}

#[test]
fn syns_of_any_user_that_time_out_run_no_flows_program() {
    if !machine_can() {
        return;
    }
    leaves_the_idle_flow_alone("t_syns", |name| {
        let silent = Silent::new();
        let knocking = std::thread::scope(|scope| {
            let knock = || {
                // The system call changes this thread alone.
                set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).unwrap();
                (0..200).map(|_| silent.knock(name)).collect::<Vec<_>>()
            };
            scope.spawn(knock).join().unwrap()
        });
        std::thread::sleep(SYN_TIMEOUT);
        (silent, knocking)
    });
}

#[test]
fn a_socket_that_disconnects_and_connects_again_names_no_flow_until_init() {
    if !machine_can() {
        return;
    }
    leaves_the_idle_flow_alone("t_again", |name| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connection = socket(name);
        for _ in 0..4 {
            connection.connect(&address.into()).unwrap();
            disconnect(&connection);
        }
        // From a flow that was released to a SYN that times out.
        let silent = Silent::new();
        connection.set_nonblocking(true).unwrap();
        let refused = connection.connect(&silent.listener.local_addr().unwrap());
        assert!(refused.is_err());
        std::thread::sleep(SYN_TIMEOUT);
        (silent, listener, connection)
    });
}

#[test]
fn children_of_a_listener_and_switches_of_name_touch_no_other_flow() {
    if !machine_can() {
        return;
    }
    leaves_the_idle_flow_alone("t_child", |name| {
        let log = Log::default();
        let running = Running::start(
            recorder("t_child_2", EACH, FIELDS, &log, |_| {}),
            Options::default(),
        )
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_tcp_congestion(&listener, name).unwrap();
        let address = listener.local_addr().unwrap();
        let mut sockets = Vec::new();
        for round in 1..5 {
            let client = socket("fw_t_child_2");
            client.connect(&address.into()).unwrap();
            let (child, _) = listener.accept().unwrap();
            // From one plane to another and back, each with slots of its own.
            set_tcp_congestion(&client, name).unwrap();
            set_tcp_congestion(&child, "fw_t_child_2").unwrap();
            set_tcp_congestion(&client, "fw_t_child_2").unwrap();
            sockets.push((client, child));
            let mut planes = observe::planes().into_iter();
            let second = planes.find(|plane| plane.name == "fw_t_child_2").unwrap();
            assert_eq!(second.flows.len(), 2 * round);
        }
        (running, listener, sockets)
    });
}

/// Dissolves the association, as `connect` to AF_UNSPEC does; the socket can connect again.
fn disconnect(socket: &Socket) {
    match rustix::net::connect_unspec(socket) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotConnected),
    }
}
