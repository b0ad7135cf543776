//! Flows of real TCP sockets under a plane: signals in, controls out, mistakes contained.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fairwater_linux::{FlowState, Options, observe};
use fairwater_plane::Plane;
use support::{Connection, FlowEvent, Log, Running, available, eventually, machine_can, recorder};

const COUNT: &[(&str, &str)] = &[(
    "count",
    "(def (Report (acked 0) (packets 0) (rtt 0) (flight 0)))
     (when true
       (:= Report.acked (+ Report.acked Ack.bytes_acked))
       (:= Report.packets (+ Report.packets Ack.packets_acked))
       (:= Report.rtt Flow.rtt_sample_us)
       (:= Report.flight Flow.bytes_in_flight)
       (report))",
)];

fn fields(log: &Log) -> Vec<Vec<u64>> {
    log.lock()
        .unwrap()
        .iter()
        .filter_map(|s| match s {
            FlowEvent::Report { fields, .. } => Some(fields.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn every_acknowledged_byte_is_counted_over_ipv4_and_ipv6() {
    if !machine_can() {
        return;
    }
    for (name, address) in [("t_count4", "127.0.0.1:0"), ("t_count6", "[::1]:0")] {
        let log = Log::default();
        let plane = recorder(
            name,
            COUNT,
            &["acked", "packets", "rtt", "flight"],
            &log,
            |_| {},
        );
        let running = Running::start(plane, Options::default()).unwrap();
        assert!(
            available().contains(&format!("fw_{name}")),
            "{}",
            available()
        );

        let mut connection = Connection::open(address, &format!("fw_{name}"));
        let local = connection.local();
        eventually("the plane meets the flow", || {
            !log.lock().unwrap().is_empty()
        });
        connection.transfer(5_000_000);
        eventually("all bytes are reported", || {
            fields(&log).last().is_some_and(|f| f[0] == 5_000_000)
        });
        drop(connection);
        eventually("the flow closes", || {
            log.lock().unwrap().contains(&FlowEvent::Closed)
        });
        assert_eq!(running.stop(), Vec::<String>::new());

        let Some(FlowEvent::New(info)) = log.lock().unwrap().first().cloned() else {
            panic!("the first thing seen is the new flow");
        };
        assert_eq!(info.local, local);
        assert!(info.mss > 500, "{info:?}");
        let reports = fields(&log);
        assert!(
            reports.windows(2).all(|w| w[0][0] <= w[1][0]),
            "acked never falls"
        );
        let last = reports.last().unwrap();
        assert!(last[1] > 0 && last[1] <= 5_000_000, "packets {last:?}");
        assert!(last[2] > 0 && last[2] < 10_000_000, "RTT in µs {last:?}");
        assert_eq!(last[3], 0, "nothing is in flight after the last ACK");
        assert!(
            !available().contains(&format!("fw_{name}")),
            "the name is gone"
        );
    }
}

/// A sender of a small message every few milliseconds is limited by its application.
#[test]
fn a_flow_with_little_to_send_is_app_limited() {
    const PROGRAM: &[(&str, &str)] = &[(
        "count",
        "(def (Report (limited 0) (acks 0)))
         (when true
           (:= Report.acks (+ Report.acks 1))
           (if Flow.app_limited (:= Report.limited (+ Report.limited 1)))
           (report))",
    )];
    if !machine_can() {
        return;
    }
    let log = Log::default();
    let plane = recorder("t_limited", PROGRAM, &["limited", "acks"], &log, |_| {});
    let running = Running::start(plane, Options::default()).unwrap();
    let mut connection = Connection::open("127.0.0.1:0", "fw_t_limited");
    for _ in 0..100 {
        connection.transfer(1000);
        std::thread::sleep(Duration::from_millis(2));
    }
    eventually("reports arrive", || fields(&log).len() > 50);
    let reports = fields(&log);
    let [limited, acks] = reports.last().unwrap()[..] else {
        panic!("{reports:?}");
    };
    // The first of the messages may come before the kernel has seen a pause.
    assert!(limited + 5 >= acks, "{limited} of {acks}");
    drop(connection);
    assert_eq!(running.stop(), Vec::<String>::new());
}

#[test]
fn a_window_of_the_planes_is_exact_and_a_switch_restarts_the_program() {
    if !machine_can() {
        return;
    }
    const TWO: &[(&str, &str)] = &[
        (
            "one",
            "(def (Report (n 0)) (step 1)) (when true (:= Report.n (+ Report.n step)) (report))",
        ),
        (
            "two",
            "(def (Report (n 100)) (step 1)) (when true (:= Report.n (+ Report.n step)) (report))",
        ),
    ];
    let log = Log::default();
    let plane = recorder("t_switch", TWO, &["n"], &log, |r| {
        let two = r.handles[1].clone();
        r.first = Arc::new(|info, control| control.set_cwnd(u64::from(info.mss) * 7));
        r.then = Arc::new(move |reports, _, control| {
            if reports == 3 {
                control.switch(two.id());
                control.update(two.variable("step").unwrap(), 5u64);
            }
        });
    });
    let running = Running::start(plane, Options::default()).unwrap();
    let mut connection = Connection::open("127.0.0.1:0", "fw_t_switch");
    eventually("the plane meets the flow", || {
        !log.lock().unwrap().is_empty()
    });
    for _ in 0..200 {
        connection.transfer(1);
        std::thread::sleep(Duration::from_micros(300));
    }
    eventually("the second program reports", || {
        fields(&log).iter().any(|f| f[0] > 100)
    });
    let plane = observe::planes()
        .into_iter()
        .find(|p| p.name == "fw_t_switch")
        .unwrap();
    let flow = &plane.flows[0];
    assert_eq!(
        (flow.state, flow.program.as_str()),
        (FlowState::Running, "two")
    );
    assert_eq!(flow.local, connection.local());
    let Some(FlowEvent::New(info)) = log.lock().unwrap().first().cloned() else {
        panic!("new first")
    };
    assert_eq!(flow.cwnd, 7 * u64::from(info.mss));
    drop(connection);
    assert_eq!(running.stop(), Vec::<String>::new());
    let seen: Vec<u64> = fields(&log).iter().map(|f| f[0]).collect();
    assert_eq!(seen[..3], [1, 2, 3]);
    let second: Vec<u64> = seen.into_iter().filter(|n| *n >= 100).collect();
    assert!(second.len() > 3, "{second:?}");
    assert_eq!(
        second,
        (1..=second.len() as u64)
            .map(|i| 100 + 5 * i)
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_silent_plane_leaves_its_flow_to_reno_and_takes_it_back() {
    if !machine_can() {
        return;
    }
    let log = Log::default();
    let plane = recorder("t_silent", COUNT, &["acked"], &log, |_| {});
    let options = Options {
        silent_after: Duration::from_millis(60),
        ..Options::default()
    };
    let running = Running::start(plane, options).unwrap();
    let mut connection = Connection::open("127.0.0.1:0", "fw_t_silent");
    eventually("the plane meets the flow", || {
        !log.lock().unwrap().is_empty()
    });
    connection.transfer(100_000);
    eventually("it reports", || !fields(&log).is_empty());

    running.pause();
    std::thread::sleep(Duration::from_millis(150));
    connection.transfer(20_000_000);
    let flow = |name: &str| {
        observe::planes()
            .into_iter()
            .find(|p| p.name == name)
            .unwrap()
            .flows
            .remove(0)
    };
    assert_eq!(flow("fw_t_silent").state, FlowState::Fallback);
    let new_flows = |log: &Log| {
        log.lock()
            .unwrap()
            .iter()
            .filter(|s| matches!(s, FlowEvent::New(_)))
            .count()
    };
    assert_eq!(new_flows(&log), 1);

    running.paused.store(false, Ordering::Release);
    eventually("the algorithm starts afresh", || new_flows(&log) == 2);
    let before = fields(&log).len();
    connection.transfer(100_000);
    eventually("it reports again", || fields(&log).len() > before);
    assert_eq!(flow("fw_t_silent").state, FlowState::Running);
    drop(connection);
    running.stop();
}

#[test]
fn a_flow_that_goes_wrong_falls_back_and_harms_no_other() {
    if !machine_can() {
        return;
    }
    const ZERO: &[(&str, &str)] = &[(
        "zero",
        "(def (Report (n 0))) (when true (:= Cwnd 0) (report))",
    )];
    let (good, zero, panics) = (Log::default(), Log::default(), Log::default());
    let logs = (Arc::clone(&good), Arc::clone(&zero), Arc::clone(&panics));
    let plane = move || {
        let mut plane = Plane::new();
        let build = |name: &'static str, sources, log: Log| {
            move |p: &mut fairwater_plane::Programs| {
                support::Recorder::build(p, name, sources, &["acked", "n"], &log)
            }
        };
        plane.add(build("t_good", COUNT, logs.0)).unwrap();
        plane.add(build("t_zero", ZERO, logs.1)).unwrap();
        let panicking = build("t_panic", COUNT, logs.2);
        plane
            .add(|p| {
                let mut recorder = panicking(p)?;
                recorder.then = Arc::new(|_, _, _| panic!("on purpose"));
                Ok(recorder)
            })
            .unwrap();
        plane
    };
    let running = Running::start(plane, Options::default()).unwrap();
    let mut connections: Vec<_> = ["fw_t_good", "fw_t_zero", "fw_t_panic"]
        .map(|name| Connection::open("127.0.0.1:0", name))
        .into();
    for (log, connection) in [&good, &zero, &panics].into_iter().zip(&mut connections) {
        eventually("the plane meets the flow", || {
            !log.lock().unwrap().is_empty()
        });
        // What is acknowledged before the plane's first command is not counted.
        let sending = RefCell::new(&mut *connection);
        eventually("the program runs", || {
            sending.borrow_mut().transfer(1000);
            !fields(log).is_empty() || !Arc::ptr_eq(log, &good)
        });
        for _ in 0..20 {
            connection.transfer(100_000);
        }
    }
    eventually("the good flow is counted", || {
        fields(&good).last().is_some_and(|f| f[0] >= 2_000_000)
    });
    let state = |name: &str| {
        observe::planes()
            .into_iter()
            .find(|p| p.name == name)
            .unwrap()
            .flows[0]
            .state
    };
    assert_eq!(state("fw_t_good"), FlowState::Running);
    // A withdrawal acts at the flow's next ACK.
    for (at, name) in ["fw_t_good", "fw_t_zero", "fw_t_panic"]
        .into_iter()
        .enumerate()
        .skip(1)
    {
        let connection = RefCell::new(&mut connections[at]);
        eventually("the flow falls back", || {
            connection.borrow_mut().transfer(1000);
            state(name) == FlowState::Faulted
        });
    }
    assert_eq!(fields(&panics).len(), 1, "on_report is not called again");
    let notices = running.stop();
    assert!(
        notices.iter().any(|n| n.contains("Cwnd to 0")),
        "{notices:?}"
    );
    assert!(
        notices.iter().any(|n| n.contains("on purpose")),
        "{notices:?}"
    );
    assert_eq!(notices.len(), 2, "{notices:?}");
}

#[test]
fn a_rate_paces_without_a_qdisc() {
    if !machine_can() {
        return;
    }
    let log = Log::default();
    let plane = recorder("t_rate", COUNT, &["acked"], &log, |r| {
        r.first = Arc::new(|_, control| {
            control.set_cwnd(10_000_000);
            control.set_rate(4_000_000);
        });
    });
    let running = Running::start(plane, Options::default()).unwrap();
    let mut connection = Connection::open("127.0.0.1:0", "fw_t_rate");
    eventually("the plane meets the flow", || {
        !log.lock().unwrap().is_empty()
    });
    connection.transfer(100_000); // the first ACK applies the rate
    let start = std::time::Instant::now();
    connection.transfer(4_000_000);
    let seconds = start.elapsed().as_secs_f64();
    // A loaded machine can only be slower; the sockets' buffers and the first bursts, faster.
    assert!(seconds > 0.7, "4 MB at 4 MB/s took {seconds} s");
    drop(connection);
    running.stop();
}

#[test]
fn a_name_that_is_taken_tells_who_holds_it() {
    if !machine_can() {
        return;
    }
    let log = Log::default();
    let first = Running::start(
        recorder("t_taken", COUNT, &[], &log, |_| {}),
        Options::default(),
    );
    let second = Running::start(
        recorder("t_taken", COUNT, &[], &log, |_| {}),
        Options::default(),
    );
    let error = second.err().unwrap().to_string();
    assert!(error.contains("fw_t_taken"), "{error}");
    assert!(error.contains(&std::process::id().to_string()), "{error}");
    first.unwrap().stop();
}

#[test]
fn reports_that_the_ring_has_no_room_for_are_counted_and_harm_nothing() {
    if !machine_can() {
        return;
    }
    let log = Log::default();
    let lost = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counting = Arc::clone(&lost);
    let plane = recorder("t_full", COUNT, &["acked"], &log, |_| {});
    let options = Options {
        ring_bytes: 4096, // some 40 reports
        silent_after: Duration::from_secs(20),
        ..Options::default()
    };
    let running = Running::start_each_turn(plane, options, move |session| {
        counting.store(session.lost_reports(), Ordering::Release);
    })
    .unwrap();
    let mut connection = Connection::open("127.0.0.1:0", "fw_t_full");
    eventually("the plane meets the flow", || {
        !log.lock().unwrap().is_empty()
    });
    running.pause();
    for _ in 0..300 {
        connection.transfer(100_000);
    }
    running.paused.store(false, Ordering::Release);
    let sending = RefCell::new(connection);
    eventually("a later report comes through and tells of the lost", || {
        sending.borrow_mut().transfer(1000);
        lost.load(Ordering::Acquire) > 0
    });
    drop(sending);
    eventually("the flow closes", || {
        log.lock().unwrap().contains(&FlowEvent::Closed)
    });
    running.stop();
}

#[test]
fn an_idle_flow_restarts_from_the_initial_window_unless_its_algorithm_says_otherwise() {
    if !machine_can() {
        return;
    }
    for (name, restart) in [("t_idle", true), ("t_keep", false)] {
        let log = Log::default();
        let plane = recorder(name, COUNT, &["acked"], &log, move |r| {
            r.idle_restart = restart;
            r.first = Arc::new(|info, control| control.set_cwnd(u64::from(info.mss) * 160));
        });
        let running = Running::start(plane, Options::default()).unwrap();
        let congestion_control = format!("fw_{name}");
        let mut connection = Connection::open("127.0.0.1:0", &congestion_control);
        eventually("the plane meets the flow", || {
            !log.lock().unwrap().is_empty()
        });
        connection.transfer(100_000);
        let cwnd = || {
            let planes = observe::planes();
            planes
                .iter()
                .find(|p| p.name == congestion_control)
                .unwrap()
                .flows[0]
                .cwnd
        };
        let Some(FlowEvent::New(info)) = log.lock().unwrap().first().cloned() else {
            panic!("new first")
        };
        let mss = u64::from(info.mss);
        assert_eq!(cwnd(), 160 * mss);
        // Four halvings, one each RTO, which is at least 200 ms (RFC 5681 §4.1, RFC 2861 §3).
        std::thread::sleep(Duration::from_millis(1500));
        connection.transfer(1);
        // The MSS may have grown with the peer's window since the flow was met.
        eventually("cwnd after the pause", || match restart {
            true => (1..=40 * mss).contains(&cwnd()),
            false => cwnd() == 160 * mss,
        });
        drop(connection);
        running.stop();
    }
}
