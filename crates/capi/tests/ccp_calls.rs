//! libccp's interface as its callers use it, without a socket: an agent played by the test, one
//! that answers within a callback, and threads. Runs under Miri too.

#![expect(
    unsafe_code,
    reason = "the functions of a C interface are unsafe to call"
)]
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each one hands the interface pointers of the test's own, which live for the call"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::cell::Cell;
use core::ffi::{c_char, c_int};
use core::mem::zeroed;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;
use std::thread;

use fairwater::*;
use fairwater_exec::portable::{self, Append};
use fairwater_lang::{Scope, binary, compile};
use fairwater_proto::{Dialect, FlowId, ToDatapath, ToPlane, Update, Updates, Welcome};

const CONNECTIONS: usize = 4;
const PROGRAM: u32 = 2;

const NULL_ARG: c_int = -12;
const MISSING_ARG: c_int = -11;
const UNKNOWN_CONNECTION: c_int = -71;
const PROG_IS_NULL: c_int = -96;

const SOURCE: &str = "(def (Report (volatile acked 0)) (window 5000))
    (when true
      (:= Report.acked (+ Report.acked Ack.bytes_acked))
      (:= Cwnd window)
      (report))";

/// What the agent heard.
#[derive(Default)]
struct Agent {
    heard: Mutex<Vec<String>>,
    /// And in our own dialect: the kinds of messages.
    own: Mutex<Vec<String>>,
    /// Puts each flow under the program from within the callback that tells of it.
    answers: bool,
}

impl Agent {
    fn taken(&self) -> Vec<String> {
        core::mem::take(&mut self.heard.lock().unwrap())
    }
}

/// A transport's own state of a connection: the window that it applies.
#[derive(Default)]
struct Sender(AtomicU32);

unsafe extern "C" fn set_cwnd(conn: *mut ccp_connection, bytes: u32) {
    let sender = unsafe { &*ccp_get_impl(conn).cast::<Sender>() };
    sender.0.store(bytes, Ordering::Relaxed);
    // A callback may look its connection up.
    let sid = unsafe { (*conn).index };
    let datapath = unsafe { (*conn).datapath };
    assert_eq!(unsafe { ccp_connection_lookup(datapath, sid) }, conn);
}

unsafe extern "C" fn set_rate(_: *mut ccp_connection, _: u32) {
    panic!("no program sets a rate");
}

unsafe extern "C" fn send(datapath: *mut ccp_datapath, message: *mut c_char, size: c_int) -> c_int {
    let agent = unsafe { &*(*datapath).impl_.cast::<Agent>() };
    let bytes = unsafe { core::slice::from_raw_parts(message.cast::<u8>(), size as usize) };
    if Dialect::of(bytes) == Some(Dialect::Own) {
        let messages: Vec<_> = Dialect::Own.to_plane(bytes).collect();
        let [Ok(message)] = &messages[..] else {
            panic!("not one message: {messages:?}");
        };
        let mut own = agent.own.lock().unwrap();
        own.push(
            format!("{message:?}")
                .split([' ', '('])
                .next()
                .unwrap()
                .to_owned(),
        );
        return 0;
    }
    let messages: Vec<_> = Dialect::Ccp.to_plane(bytes).collect();
    let [Ok(message)] = &messages[..] else {
        panic!("not one message: {messages:?}");
    };
    let sid = |flow: &FlowId| flow.slot + 1;
    let (line, created) = match message {
        ToPlane::Hello(hello) => (format!("ready {}", hello.instance), None),
        ToPlane::Created { flow, info, .. } => {
            (format!("created {} {}", sid(flow), info.mss), Some(*flow))
        }
        ToPlane::Reported { flow, fields, .. } => {
            let fields: Vec<_> = fields.iter().collect();
            (format!("reported {} {fields:?}", sid(flow)), None)
        }
        ToPlane::Closed { flow } => (format!("closed {}", sid(flow)), None),
        other => panic!("libccp has no {other:?}"),
    };
    agent.heard.lock().unwrap().push(line);
    if let Some(flow) = created.filter(|_| agent.answers) {
        for mut answer in [installed(), switched(flow)] {
            assert_eq!(read(datapath, &mut answer), 0);
        }
    }
    0
}

unsafe extern "C" fn now() -> u64 {
    1
}

thread_local!(
    /// The transport's time, µs, on threads that let it pass.
    static PASSED_US: Cell<u64> = const { Cell::new(0) }
);

unsafe extern "C" fn since(then: u64) -> u64 {
    1000 + then + PASSED_US.get()
}

unsafe extern "C" fn after(us: u64) -> u64 {
    us
}

fn encoded(message: &ToDatapath<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Dialect::Ccp
        .encode_to_datapath(message, &mut bytes)
        .unwrap();
    bytes
}

fn installed() -> Vec<u8> {
    let program = compile("test.ccp", SOURCE).unwrap().program;
    let body = portable::encode(&program, Append::Nothing).unwrap().body;
    encoded(&ToDatapath::Install {
        idle_restart: true,
        program: PROGRAM,
        body: &body,
    })
}

fn command(flow: FlowId, switch: Option<u32>, updates: &[Update]) -> Vec<u8> {
    encoded(&ToDatapath::Command {
        flow,
        switch,
        cwnd: None,
        rate: None,
        updates: Updates::from(updates),
        withdraw: false,
    })
}

fn switched(flow: FlowId) -> Vec<u8> {
    command(flow, Some(PROGRAM), &[])
}

/// Sets the program's window.
fn updated(flow: FlowId, bytes: u64) -> Vec<u8> {
    let program = compile("test.ccp", SOURCE).unwrap().program;
    let controls = portable::encode(&program, Append::Nothing)
        .unwrap()
        .controls;
    let variable = program.variable(Scope::Control, "window").unwrap();
    let update = Update {
        variable: u16::try_from(controls[&variable]).unwrap(),
        value: bytes,
    };
    command(flow, None, &[update])
}

fn read(datapath: *mut ccp_datapath, message: &mut [u8]) -> c_int {
    let size = c_int::try_from(message.len()).unwrap();
    unsafe { ccp_read_msg(datapath, message.as_mut_ptr().cast(), size) }
}

/// The flow of a connection, as the agent names it.
fn flow(conn: *mut ccp_connection) -> FlowId {
    FlowId {
        slot: u32::from(unsafe { (*conn).index }) - 1,
        generation: 0,
    }
}

/// A datapath with its array, as a transport in C allocates them.
struct Rig {
    datapath: *mut ccp_datapath,
    connections: *mut [ccp_connection; CONNECTIONS],
    agent: *mut Agent,
}

impl Rig {
    fn idle(answers: bool) -> Self {
        let connections: [ccp_connection; CONNECTIONS] = unsafe { zeroed() };
        let connections = Box::into_raw(Box::new(connections));
        let agent = Box::into_raw(Box::new(Agent {
            answers,
            ..Agent::default()
        }));
        let mut datapath: ccp_datapath = unsafe { zeroed() };
        datapath.set_cwnd = Some(set_cwnd);
        datapath.set_rate_abs = Some(set_rate);
        datapath.send_msg = Some(send);
        datapath.now = Some(now);
        datapath.since_usecs = Some(since);
        datapath.after_usecs = Some(after);
        datapath.max_connections = CONNECTIONS;
        datapath.ccp_active_connections = connections.cast();
        datapath.fto_us = 1_000_000;
        datapath.max_programs = 8;
        datapath.impl_ = agent.cast();
        Self {
            datapath: Box::into_raw(Box::new(datapath)),
            connections,
            agent,
        }
    }

    fn new(answers: bool) -> Self {
        let rig = Self::idle(answers);
        assert_eq!(unsafe { ccp_init(rig.datapath, 9) }, 0);
        assert_eq!(rig.agent().taken(), ["ready 9"]);
        rig
    }

    fn agent(&self) -> &Agent {
        unsafe { &*self.agent }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        unsafe {
            ccp_free(self.datapath);
            drop(Box::from_raw(self.datapath));
            drop(Box::from_raw(self.connections));
            drop(Box::from_raw(self.agent));
        }
    }
}

fn start(datapath: *mut ccp_datapath, sender: &Sender) -> *mut ccp_connection {
    let mut info: ccp_datapath_info = unsafe { zeroed() };
    info.init_cwnd = 14_600;
    info.mss = 1460;
    let sender: *const Sender = sender;
    unsafe { ccp_connection_start(datapath, sender.cast_mut().cast(), &raw mut info) }
}

fn acknowledge(conn: *mut ccp_connection, bytes: u32) {
    unsafe {
        (*conn).prims.bytes_acked = bytes;
        (*conn).prims.rtt_sample_us = 10_000;
        assert_eq!(ccp_invoke(conn), 0);
    }
}

#[test]
fn an_agent_controls_a_connection_from_its_start_to_its_end() {
    let rig = Rig::new(false);
    let sender = Sender::default();
    let conn = start(rig.datapath, &sender);
    assert_eq!(rig.agent().taken(), ["created 1 1460"]);
    let flow = flow(conn);
    assert_eq!(read(rig.datapath, &mut installed()), 0);
    assert_eq!(read(rig.datapath, &mut switched(flow)), 0);
    acknowledge(conn, 10);
    assert_eq!(sender.0.load(Ordering::Relaxed), 5000);
    assert_eq!(read(rig.datapath, &mut updated(flow, 7000)), 0);
    acknowledge(conn, 20);
    assert_eq!(sender.0.load(Ordering::Relaxed), 7000);
    assert_eq!(rig.agent().taken(), ["reported 1 [10]", "reported 1 [20]"]);
    unsafe { ccp_connection_free(rig.datapath, (*conn).index) };
    assert_eq!(rig.agent().taken(), ["closed 1"]);
    assert_eq!(unsafe { ccp_invoke(conn) }, UNKNOWN_CONNECTION);
}

/// What a transport writes into its primitives is what the program reads: all of CCP's Table 2.
#[test]
fn every_primitive_reaches_the_program() {
    const SIGNALS: [&str; 15] = [
        "Ack.bytes_acked",
        "Ack.packets_acked",
        "Ack.bytes_misordered",
        "Ack.packets_misordered",
        "Ack.ecn_bytes",
        "Ack.ecn_packets",
        "Ack.lost_pkts_sample",
        "(if Flow.was_timeout 1 0)",
        "Flow.rtt_sample_us",
        "Flow.rate_outgoing",
        "Flow.rate_incoming",
        "Flow.bytes_in_flight",
        "Flow.packets_in_flight",
        "Flow.bytes_pending",
        "Ack.now",
    ];
    let declared: String = (0..15).map(|at| format!("(s{at} 0)")).collect();
    let each = (0..).zip(SIGNALS);
    let set: String = each
        .map(|(at, signal)| format!("(:= Report.s{at} {signal})"))
        .collect();
    let source = format!("(def (Report {declared})) (when true {set} (report))");
    let program = compile("all.ccp", &source).unwrap().program;
    let body = portable::encode(&program, Append::Nothing).unwrap().body;
    let mut install = encoded(&ToDatapath::Install {
        idle_restart: true,
        program: PROGRAM,
        body: &body,
    });
    let rig = Rig::new(false);
    let sender = Sender::default();
    let conn = start(rig.datapath, &sender);
    assert_eq!(read(rig.datapath, &mut install), 0);
    assert_eq!(read(rig.datapath, &mut switched(flow(conn))), 0);
    rig.agent().taken();
    unsafe {
        let prims = &mut (*conn).prims;
        prims.bytes_acked = 101;
        prims.packets_acked = 102;
        prims.bytes_misordered = 103;
        prims.packets_misordered = 104;
        prims.ecn_bytes = 105;
        prims.ecn_packets = 106;
        prims.lost_pkts_sample = 107;
        prims.was_timeout = true;
        prims.rtt_sample_us = 109;
        prims.rate_outgoing = 110;
        prims.rate_incoming = 111;
        prims.bytes_in_flight = 112;
        prims.packets_in_flight = 113;
        prims.bytes_pending = 114;
        assert_eq!(ccp_invoke(conn), 0);
    }
    let expected =
        "reported 1 [101, 102, 103, 104, 105, 106, 107, 1, 109, 110, 111, 112, 113, 114, 1001]";
    assert_eq!(rig.agent().taken(), [expected]);
}

/// In whatever dialect the agent speaks last; programs are not bound by libccp's then.
#[test]
fn a_plane_of_ours_is_spoken_to_in_our_dialect_and_libccp_s_agent_again_in_its_own() {
    let rig = Rig::new(false);
    let own = || core::mem::take(&mut *rig.agent().own.lock().unwrap());
    assert_eq!(own(), ["Hello"]);
    let sender = Sender::default();
    let conn = start(rig.datapath, &sender);
    assert_eq!(rig.agent().taken(), ["created 1 1460"]);

    let say = |message: &ToDatapath<'_>| {
        let mut bytes = Vec::new();
        Dialect::Own
            .encode_to_datapath(message, &mut bytes)
            .unwrap();
        read(rig.datapath, &mut bytes)
    };
    let welcome = ToDatapath::Welcome(Welcome {
        instance: 3,
        alive_us: 50_000,
    });
    assert_eq!(say(&welcome), 0);
    assert_eq!(own(), ["Resumed"]);
    let long = format!("(when true {})", "(:= Cwnd 7000)".repeat(400));
    let program = compile("long.ccp", &long).unwrap().program;
    assert!(portable::encode(&program, Append::Nothing).is_err());
    let body = binary::encode(&program);
    let install = ToDatapath::Install {
        program: 5,
        body: &body,
        idle_restart: true,
    };
    assert_eq!(say(&install), 0);
    let switch = ToDatapath::Command {
        flow: flow(conn),
        switch: Some(5),
        cwnd: None,
        rate: None,
        updates: Updates::NONE,
        withdraw: false,
    };
    assert_eq!(say(&switch), 0);
    acknowledge(conn, 10);
    assert_eq!(sender.0.load(Ordering::Relaxed), 7000);

    // A transport that did nothing for a while has signs of life unread; then they are missing.
    let pass = |us| PASSED_US.set(PASSED_US.get() + us);
    pass(10_000_000);
    acknowledge(conn, 10);
    assert_eq!(say(&welcome), 0);
    acknowledge(conn, 10);
    assert_eq!(own(), [""; 0]);
    for _ in 0..2 {
        pass(10_000_000);
        acknowledge(conn, 10);
    }
    assert_eq!(own()[0], "Hello");
    assert_eq!(rig.agent().taken()[0], "ready 9");

    // Another agent takes the place; it may be a plane of ours that knows no better.
    rig.agent().taken();
    own();
    assert_eq!(read(rig.datapath, &mut installed()), 0);
    assert_eq!(own(), ["Hello"]);
    assert_eq!(rig.agent().taken(), ["created 1 1460"]);
    assert_eq!(read(rig.datapath, &mut switched(flow(conn))), 0);
    acknowledge(conn, 20);
    assert_eq!(sender.0.load(Ordering::Relaxed), 5000);
    assert_eq!(rig.agent().taken(), ["reported 1 [20]"]);
}

#[test]
fn an_agent_may_answer_within_the_callback_that_tells_it() {
    let rig = Rig::new(true);
    let senders: [Sender; CONNECTIONS] = Default::default();
    for sender in &senders {
        let conn = start(rig.datapath, sender);
        acknowledge(conn, 10);
        assert_eq!(sender.0.load(Ordering::Relaxed), 5000);
    }
    let one_more = Sender::default();
    assert!(start(rig.datapath, &one_more).is_null());
    unsafe { ccp_connection_free(rig.datapath, 2) };
    assert!(unsafe { ccp_connection_lookup(rig.datapath, 2) }.is_null());
    let conn = start(rig.datapath, &one_more);
    assert_eq!(unsafe { (*conn).index }, 2);
    unsafe { ccp_set_impl(conn, (&raw const senders[0]).cast_mut().cast()) };
    acknowledge(conn, 1);
    assert_eq!(one_more.0.load(Ordering::Relaxed), 0);
}

#[test]
fn null_is_refused_everywhere_and_so_is_what_is_not_in_use() {
    unsafe {
        assert_eq!(ccp_init(null_mut(), 1), MISSING_ARG);
        ccp_free(null_mut());
        assert!(ccp_connection_start(null_mut(), null_mut(), null_mut()).is_null());
        ccp_connection_free(null_mut(), 1);
        assert!(ccp_connection_lookup(null_mut(), 1).is_null());
        assert!(ccp_get_impl(null_mut()).is_null());
        ccp_set_impl(null_mut(), null_mut());
        assert_eq!(ccp_read_msg(null_mut(), null_mut(), 0), NULL_ARG);
        assert_eq!(ccp_invoke(null_mut()), NULL_ARG);
    }
    let rig = Rig::idle(false);
    let places = rig.connections.cast::<ccp_connection>();
    unsafe {
        assert_eq!(ccp_invoke(places), UNKNOWN_CONNECTION);
        assert_eq!(read(rig.datapath, &mut installed()), PROG_IS_NULL);
        assert!(start(rig.datapath, &Sender::default()).is_null());
        ccp_connection_free(rig.datapath, 1);
        for sid in [0, 1, CONNECTIONS as u16 + 1, u16::MAX] {
            assert!(ccp_connection_lookup(rig.datapath, sid).is_null());
        }
    }
    let missing: [fn(&mut ccp_datapath); 7] = [
        |it| it.set_cwnd = None,
        |it| it.set_rate_abs = None,
        |it| it.send_msg = None,
        |it| it.now = None,
        |it| it.since_usecs = None,
        |it| it.after_usecs = None,
        |it| it.ccp_active_connections = null::<ccp_connection>().cast_mut(),
    ];
    for take in missing {
        let rig = Rig::idle(false);
        take(unsafe { &mut *rig.datapath });
        assert_eq!(unsafe { ccp_init(rig.datapath, 1) }, MISSING_ARG);
    }
}

#[test]
fn a_message_cut_at_any_byte_is_refused_and_changes_nothing() {
    let rig = Rig::new(true);
    let sender = Sender::default();
    let conn = start(rig.datapath, &sender);
    acknowledge(conn, 10);
    rig.agent().taken();
    let step = if cfg!(miri) { 7 } else { 1 };
    for whole in [installed(), switched(flow(conn)), updated(flow(conn), 9)] {
        for end in (1..whole.len()).step_by(step) {
            // Of its own allocation, so that a read behind it is found.
            let mut cut = whole[..end].to_vec().into_boxed_slice();
            assert!(read(rig.datapath, &mut cut) < 0, "{end}");
        }
    }
    acknowledge(conn, 5);
    assert_eq!(sender.0.load(Ordering::Relaxed), 5000);
    assert_eq!(rig.agent().taken(), ["reported 1 [5]"]);
}

/// A datapath or a connection, for another thread.
struct Sent<T>(*mut T);

// `ccp.h` says that its functions may be called from several threads at once.
unsafe impl<T> Send for Sent<T> {}

impl<T> Sent<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

#[test]
fn threads_invoke_start_end_and_read_at_once() {
    let acks: u32 = if cfg!(miri) { 5 } else { 2000 };
    let rig = Rig::new(true);
    let senders: [Sender; 2] = Default::default();
    let workers = [0, 1].map(|at| Sent(start(rig.datapath, &senders[at])));
    let datapath = Sent(rig.datapath);
    let flows = workers.each_ref().map(|conn| flow(conn.get()));
    thread::scope(|scope| {
        for conn in &workers {
            let conn = Sent(conn.get());
            scope.spawn(move || (0..acks).for_each(|_| acknowledge(conn.get(), 1)));
        }
        scope.spawn(move || {
            for _ in 0..acks {
                let sender = Sender::default();
                let conn = start(datapath.get(), &sender);
                acknowledge(conn, 1);
                assert_eq!(sender.0.load(Ordering::Relaxed), 5000);
                unsafe { ccp_connection_free(datapath.get(), (*conn).index) };
            }
        });
        for turn in 1..=acks {
            for flow in flows {
                let mut message = updated(flow, 6000 + u64::from(turn));
                assert_eq!(read(rig.datapath, &mut message), 0);
            }
        }
    });
    for (conn, sender) in workers.iter().zip(&senders) {
        acknowledge(conn.get(), 1);
        assert_eq!(sender.0.load(Ordering::Relaxed), 6000 + acks);
    }
    let heard = rig.agent().taken();
    let ended = heard.iter().filter(|line| line.starts_with("closed"));
    assert_eq!(ended.count(), acks as usize);
    for worker in 1..=2 {
        let reported = format!("reported {worker} [1]");
        let reports = heard.iter().filter(|line| **line == reported);
        assert_eq!(reports.count(), acks as usize + 1);
    }
}
