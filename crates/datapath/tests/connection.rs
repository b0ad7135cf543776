//! A connection over real sockets: it finds its plane, loses it, and finds the next one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use fairwater_datapath::{Config, Connection, FlowState, Signal, Signals};
use fairwater_lang::{binary, compile};
use fairwater_proto::link::{Link, LinkError, Listener, ring, seqpacket};
use fairwater_proto::{Dialect, FlowId, FlowInfo, ToDatapath, ToPlane, Updates, Welcome};

/// A plane that switches every flow that it hears of to one program.
struct Plane<L> {
    link: L,
    instance: u64,
}

impl<L: Link> Plane<L> {
    /// Answers what came, and returns it in few words.
    fn serve(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        let mut buffer = vec![0; 1 << 17];
        loop {
            let length = match self.link.receive(&mut buffer) {
                Ok(length) => length,
                Err(LinkError::WouldBlock) => return messages,
                Err(error) => panic!("{error}"),
            };
            for message in Dialect::Own.to_plane(&buffer[..length]) {
                match message.unwrap() {
                    ToPlane::Hello(hello) => {
                        messages.push(format!("hello {}", hello.name));
                        self.say(&ToDatapath::Welcome(Welcome {
                            instance: self.instance,
                            alive_us: 1000,
                        }));
                        let source = "(when true (:= Cwnd (+ Cwnd 1)))";
                        let body = binary::encode(&compile("p", source).unwrap().program);
                        self.say(&ToDatapath::Install {
                            idle_restart: true,
                            program: 1,
                            body: &body,
                        });
                    }
                    ToPlane::Created { flow, .. } => {
                        messages.push(format!("created {}", flow.slot));
                        self.switch(flow);
                    }
                    ToPlane::Resumed { flow, .. } => {
                        messages.push(format!("resumed {}", flow.slot));
                        self.switch(flow);
                    }
                    other => messages.push(format!("{other:?}")),
                }
            }
        }
    }

    fn switch(&mut self, flow: FlowId) {
        self.say(&ToDatapath::Command {
            flow,
            switch: Some(1),
            cwnd: None,
            rate: None,
            updates: Updates::NONE,
            withdraw: false,
        });
    }

    fn say(&mut self, message: &ToDatapath<'_>) {
        let mut packet = Vec::new();
        Dialect::Own
            .encode_to_datapath(message, &mut packet)
            .unwrap();
        self.link.send(&packet).unwrap();
    }
}

fn info() -> FlowInfo {
    FlowInfo {
        local: ([10, 0, 0, 1], 1).into(),
        remote: ([10, 0, 0, 2], 2).into(),
        mss: 1000,
        cwnd: 10_000,
        srtt_us: 0,
        now_us: 0,
        tag: 0,
        ..FlowInfo::default()
    }
}

fn state(connection: &Connection, flow: FlowId) -> FlowState {
    connection.datapath().flow(flow).unwrap().state
}

fn ack(connection: &mut Connection, flow: FlowId, now_us: u64) -> Option<u64> {
    let mut signals = Signals::default();
    signals[Signal::Now] = now_us;
    let controls = connection.invoke(flow, &signals).unwrap();
    controls.map(|controls| controls.cwnd)
}

#[test]
fn a_connection_outlives_its_planes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plane");
    let mut connection = Connection::seqpacket(Config::default(), &path, 0);
    // Nobody is there: flows run under the fallback, and it is tried less and less often.
    let flow = connection.start("", &info()).unwrap();
    let mut waits = Vec::new();
    let mut now_us = 0;
    for _ in 0..12 {
        connection.service(now_us);
        assert!(!connection.is_connected());
        let next = connection.next_timeout().unwrap();
        assert!(next > now_us);
        waits.push(next - now_us);
        now_us = next;
    }
    assert!(waits.iter().max() > Some(&100_000), "{waits:?}");
    assert!(waits.iter().max() <= Some(&1_000_000), "{waits:?}");
    assert_eq!(ack(&mut connection, flow, now_us), None);

    for (life, expected) in [(1, "created 0"), (2, "resumed 0")] {
        let mut listener = seqpacket::Listener::bind(&path).unwrap();
        now_us += 1_000_000;
        connection.service(now_us);
        let link = listener.accept().unwrap().unwrap();
        let mut plane = Plane {
            link,
            instance: life,
        };
        connection.service(now_us);
        assert_eq!(plane.serve(), ["hello fairwater", expected]);
        assert_eq!(state(&connection, flow), FlowState::Waiting);
        connection.service(now_us);
        assert_eq!(
            ack(&mut connection, flow, now_us),
            Some(10_000 + u64::from(life == 2) + 1)
        );
        assert_eq!(state(&connection, flow), FlowState::Running);
        // The plane dies.
        drop((plane, listener));
        connection.service(now_us);
        assert!(!connection.is_connected());
    }
    assert_eq!(connection.datapath().statistics().refused_total(), 0);
}

#[test]
fn a_plane_that_does_not_read_costs_reports_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plane");
    let mut listener = seqpacket::Listener::bind(&path).unwrap();
    let mut connection = Connection::seqpacket(
        Config {
            queue_bytes: 4096,
            ..Config::default()
        },
        &path,
        0,
    );
    connection.service(0);
    let link = listener.accept().unwrap().unwrap();
    let mut plane = Plane { link, instance: 1 };
    plane.serve();
    let source = "(def (Report (x 0))) (when true (report))";
    let body = binary::encode(&compile("p", source).unwrap().program);
    plane.say(&ToDatapath::Install {
        idle_restart: true,
        program: 2,
        body: &body,
    });
    let flow = connection.start("", &info()).unwrap();
    connection.service(0);
    plane.say(&ToDatapath::Command {
        flow,
        switch: Some(2),
        cwnd: None,
        rate: None,
        updates: Updates::NONE,
        withdraw: false,
    });
    connection.service(0);
    for _ in 0..20_000 {
        ack(&mut connection, flow, 0);
        connection.service(0);
    }
    assert!(connection.datapath().statistics().reports_dropped > 0);
    connection.close(flow).unwrap();
    // It reads at last, and receives all that matters.
    let mut messages = Vec::new();
    for _ in 0..20_000 {
        connection.service(0);
        let more = plane.serve();
        if more.is_empty() {
            break;
        }
        messages.extend(more);
    }
    assert!(messages.len() > 100);
    assert!(
        messages.last().unwrap().starts_with("Closed"),
        "{messages:?}"
    );
    assert!(connection.is_connected());
}

#[test]
fn shared_memory_carries_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plane");
    let plane = {
        let path = path.clone();
        std::thread::spawn(move || serve_one(&path))
    };
    while !path.exists() {
        std::thread::yield_now();
    }
    let timeout = Duration::from_secs(10);
    let mut connection = Connection::shared_memory(Config::default(), &path, timeout, 0);
    let flow = connection.start("", &info()).unwrap();
    let mut now_us = 0;
    while state(&connection, flow) == FlowState::Waiting {
        now_us += 10;
        connection.service(now_us);
        ack(&mut connection, flow, now_us);
        std::thread::yield_now();
    }
    assert_eq!(state(&connection, flow), FlowState::Running);
    drop(connection);
    assert_eq!(plane.join().unwrap(), ["hello fairwater", "created 0"]);
}

/// Serves one datapath until it is gone.
fn serve_one(path: &Path) -> Vec<String> {
    let mut listener = ring::Listener::bind(path, ring::DEFAULT_CAPACITY).unwrap();
    let link = loop {
        if let Some(link) = listener.accept().unwrap() {
            break link;
        }
        std::thread::yield_now();
    };
    let mut plane = Plane { link, instance: 1 };
    let mut messages = Vec::new();
    while messages.len() < 2 {
        messages.extend(plane.serve());
        std::thread::yield_now();
    }
    messages
}
