//! The toys under a plane: one that the test plays, over the links of the real one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fairwater_lang::{binary, compile};
use fairwater_proto::link::{Link, Listener, MAX_PACKET, seqpacket};
use fairwater_proto::{Dialect, ToDatapath, ToPlane, Updates, Welcome};
use support::run;

const PROGRAM: &str = "(def (Report (volatile acked 0) (volatile lost 0)))
    (when true
      (:= Report.acked (+ Report.acked Ack.bytes_acked))
      (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
      (:= Cwnd 60000)
      (when (> Report.acked 120000) (report)))";

/// What the plane heard.
#[derive(Debug, Default)]
struct Received {
    hellos: u32,
    created: u32,
    closed: u32,
    acked: u64,
    lost: u64,
}

impl Received {
    /// Takes in a packet of the datapath's and returns the answer.
    fn answer(&mut self, packet: &[u8]) -> Vec<u8> {
        let body = binary::encode(&compile("test.ccp", PROGRAM).unwrap().program);
        let mut answer = Vec::new();
        let mut say = |message| {
            Dialect::Own
                .encode_to_datapath(&message, &mut answer)
                .unwrap()
        };
        for message in Dialect::Own.to_plane(packet) {
            match message.unwrap() {
                ToPlane::Hello(_) => {
                    self.hellos += 1;
                    say(ToDatapath::Welcome(Welcome {
                        instance: 1,
                        alive_us: 10_000_000,
                    }));
                    say(ToDatapath::Install {
                        idle_restart: true,
                        program: 1,
                        body: &body,
                    });
                }
                ToPlane::Created { flow, .. } => {
                    self.created += 1;
                    say(ToDatapath::Command {
                        flow,
                        switch: Some(1),
                        cwnd: None,
                        rate: None,
                        updates: Updates::from(&[][..]),
                        withdraw: false,
                    });
                }
                ToPlane::Reported { fields, .. } => {
                    let fields: Vec<_> = fields.iter().collect();
                    self.acked += fields[0];
                    self.lost += fields[1];
                }
                ToPlane::Closed { .. } => self.closed += 1,
                other => panic!("{other:?}"),
            }
        }
        answer
    }
}

/// Plays the plane for one datapath after another until told to stop.
fn serve(mut listener: impl Listener, stop: &AtomicBool) -> Received {
    let mut heard = Received::default();
    let mut buffer = vec![0; MAX_PACKET];
    let mut link = None;
    while !stop.load(Ordering::Relaxed) {
        if let Some(new) = listener.accept().unwrap() {
            link = Some(new);
        }
        while let Some(Ok(length)) = link.as_mut().map(|link| link.receive(&mut buffer)) {
            let answer = heard.answer(&buffer[..length]);
            if let (Some(link), false) = (&mut link, answer.is_empty()) {
                link.send(&answer).unwrap();
            }
        }
        thread::sleep(Duration::from_micros(200));
    }
    heard
}

fn toy_under_a_plane(toy: &Path) {
    let path = toy.with_file_name("plane");
    let listener = seqpacket::Listener::bind(&path).unwrap();
    let stop = AtomicBool::new(false);
    let (said, heard) = thread::scope(|scope| {
        let plane = scope.spawn(|| serve(listener, &stop));
        let said = run(Command::new(toy).arg(&path), "");
        // What the toy sent last is read before the plane ends.
        thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        (said, plane.join().unwrap())
    });
    assert!(said.contains("plane: no error\n"), "{said}");
    assert!(
        said.ends_with("cwnd 60000 bytes, under the plane's program\n"),
        "{said}"
    );
    assert_eq!((heard.hellos, heard.created, heard.closed), (1, 1, 1));
    assert!(heard.acked > 1_000_000 && heard.lost > 0, "{heard:?}");
}

#[test]
fn the_toy_runs_under_a_planes_program() {
    let folder = tempfile::tempdir().unwrap();
    let toy = folder.path().join("toy");
    support::compile("examples/toy.c", &toy);
    toy_under_a_plane(&toy);
}

#[test]
fn the_toy_runs_clean_under_a_planes_program() {
    let folder = tempfile::tempdir().unwrap();
    let toy = folder.path().join("toy");
    if support::compile_sanitized("examples/toy.c", &toy).is_some() {
        toy_under_a_plane(&toy);
    }
}
