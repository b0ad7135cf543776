//! An observer sees what each invocation read, was told and did; an unobserved flow is the same flow.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use fairwater_datapath::{Config, Controls, Datapath, Invocation, InvocationObserver};
use fairwater_lang::{Signal, Signals, binary, compile};
use fairwater_proto::{Dialect, FlowId, FlowInfo, ToDatapath, Update, Updates, Welcome};

const SOURCE: &str = "(def (Report (volatile acked 0)) (grow 1))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= Cwnd (+ Cwnd (* grow Ack.bytes_acked)))
  (when (> Ack.lost_pkts_sample 1) (:= Cwnd 0))
  (when (> Ack.lost_pkts_sample 0) (report)))";

/// What an observer noted of each invocation, as text.
#[derive(Debug, Clone, Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl Noted {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl InvocationObserver for Noted {
    fn begins(&mut self, flow: FlowId, algorithm: &str, _: &FlowInfo) -> bool {
        let noted = format!("begins {} {algorithm}", flow.slot);
        self.0.lock().unwrap().push(noted);
        algorithm == "observed"
    }

    fn invoked(&mut self, invocation: &Invocation<'_>) {
        let noted = format!(
            "{} {} to {} program {:?} stage {:?} report {:?} fault {:?} variables {:?}",
            invocation.signals[Signal::Now],
            invocation.before.cwnd,
            invocation.after.cwnd,
            invocation.program.map(|ran| ran.number),
            invocation
                .stage
                .map(|s| (s.switch, s.cwnd, s.updates.clone())),
            invocation.report,
            invocation.fault,
            invocation.variables,
        );
        self.0.lock().unwrap().push(noted);
    }

    fn ended(&mut self, flow: FlowId) {
        self.0.lock().unwrap().push(format!("ended {}", flow.slot));
    }
}

fn signals(now_us: u64, lost: u64) -> Signals {
    let mut signals = Signals::default();
    signals[Signal::Now] = now_us;
    signals[Signal::BytesAcked] = 1000;
    signals[Signal::LostPkts] = lost;
    signals
}

#[test]
fn an_observer_sees_what_was_read_staged_and_done() {
    let mut datapath = Datapath::new(Config::default());
    let plane = datapath.add_peer(Dialect::Own, 0);
    let info = FlowInfo {
        cwnd: 10_000,
        ..FlowInfo::default()
    };
    let early = datapath.start(plane, "other", &info).unwrap();
    let noted = Noted::default();
    datapath.set_observer(Box::new(noted.clone()));
    let flow = datapath.start(plane, "observed", &info).unwrap();
    assert_eq!(noted.take(), ["begins 0 other", "begins 1 observed"]);
    while datapath.poll_transmit(1400).is_some() {}

    let body = binary::encode(&compile("p.ccp", SOURCE).unwrap().program);
    let mut packet = Vec::new();
    let updates = [Update {
        variable: 1,
        value: 3,
    }];
    for message in [
        ToDatapath::Welcome(Welcome {
            instance: 1,
            alive_us: 100_000,
        }),
        ToDatapath::Install {
            idle_restart: true,
            program: 7,
            body: &body,
        },
        command(early, &[]),
        command(flow, &updates),
    ] {
        Dialect::Own
            .encode_to_datapath(&message, &mut packet)
            .unwrap();
    }
    datapath.on_message(plane, &packet, 100);
    let mut both = |at: &Signals| {
        let other = datapath.invoke(early, at).unwrap();
        (datapath.invoke(flow, at).unwrap(), other)
    };
    assert_eq!(
        both(&signals(200, 0)).0.map(|c: Controls| c.cwnd),
        Some(23_000)
    );
    let first = "200 10000 to 23000 program Some(7) stage Some((Some(7), Some(20000), \
                 [(VarId(1), 3)])) report None fault None variables [1000, 3]";
    assert_eq!(noted.take(), [first]);
    both(&signals(300, 1));
    let second = "300 23000 to 26000 program Some(7) stage None report Some([2000]) fault None \
                  variables [0, 3]";
    assert_eq!(noted.take(), [second]);
    // The fallback goes on after a fault.
    both(&signals(400, 2));
    let third = noted.take();
    assert_eq!(third.len(), 1);
    assert!(third[0].contains("program Some(7) stage None report None fault Some(CwndZero)"));
    datapath.close(flow).unwrap();
    datapath.close(early).unwrap();
    assert_eq!(noted.take(), ["ended 1"]);
}

fn command(flow: FlowId, updates: &[Update]) -> ToDatapath<'_> {
    ToDatapath::Command {
        flow,
        switch: Some(7),
        cwnd: Some(20_000),
        rate: None,
        updates: Updates::from(updates),
        withdraw: false,
    }
}
