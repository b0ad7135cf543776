//! Flows of real TCP sockets that share one controller: told apart by the sockets' marks, and seen
//! from outside as what they are.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairwater_linux::{FlowState, Options, observe};
use fairwater_plane::{
    Aggregate, Algorithm, By, Control, Flow, FlowInfo, Group, Key, Member, Plane, Report,
};
use socket2::SockRef;
use support::{Connection, Running, eventually, machine_can};

const PROGRAM: &str = "
    (def (Report (acked 0)))
    (when true
      (:= Report.acked (+ Report.acked Ack.bytes_acked))
      (report))";

/// Aggregates by tag; gives an aggregate up at its next report once `give_up` is set.
struct ByTag {
    give_up: Arc<AtomicBool>,
}

struct SharedWindow(Arc<AtomicBool>);

struct SingleFlow;

impl Algorithm for ByTag {
    fn name(&self) -> &str {
        "t_tags"
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control<'_>) -> Box<dyn Flow> {
        Box::new(SingleFlow)
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        By::Tag.key(info)
    }

    fn new_aggregate(&self, _: &Key, _: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        Some(Box::new(SharedWindow(Arc::clone(&self.give_up))))
    }
}

impl Flow for SingleFlow {
    fn on_report(&mut self, _: &Report<'_>, _: &mut Control<'_>) {}
}

impl Aggregate for SharedWindow {
    fn create_subflow(&mut self, _: Member, _: &FlowInfo, _: &mut Group<'_>) {}

    fn on_report(&mut self, _: Member, _: &Report<'_>, group: &mut Group<'_>) {
        if self.0.load(Ordering::Acquire) {
            group.withdraw("the test says so".to_owned());
        }
    }
}

/// A connection of that mark, 0 being none.
fn marked(mark: u32) -> Connection {
    let connection = Connection::open("127.0.0.1:0", "reno");
    SockRef::from(&connection.sender).set_mark(mark).unwrap();
    rustix::net::sockopt::set_tcp_congestion(&connection.sender, "fw_t_tags").unwrap();
    connection
}

/// What an observer sees of the connection: its state and its aggregate's number and key.
fn seen(connection: &Connection) -> Option<(FlowState, Option<(u32, String)>)> {
    let flows = observe::planes().into_iter().flat_map(|plane| plane.flows);
    let flow = flows.into_iter().find(|f| f.local == connection.local())?;
    Some((flow.state, flow.aggregate.map(|a| (a.number, a.key))))
}

fn aggregate(connection: &Connection) -> Option<(u32, String)> {
    seen(connection).and_then(|(_, aggregate)| aggregate)
}

#[test]
fn marks_tell_aggregates_apart_and_observers_see_them() {
    if !machine_can() {
        return;
    }
    let give_up = Arc::new(AtomicBool::new(false));
    let given_up = Arc::clone(&give_up);
    let running = Running::start(
        move || {
            let mut plane = Plane::new();
            let build = |programs: &mut fairwater_plane::Programs| {
                programs.add("count", PROGRAM)?;
                Ok(ByTag { give_up: given_up })
            };
            plane.add(build).unwrap();
            plane
        },
        Options::default(),
    )
    .unwrap();

    let (mut one, mut other) = (marked(7), marked(7));
    let (apart, mut unmarked) = (marked(9), marked(0));
    eventually("those with a mark are in aggregates", || {
        [&one, &other, &apart]
            .into_iter()
            .all(|c| aggregate(c).is_some())
    });
    let (of_seven, key) = aggregate(&one).unwrap();
    assert_eq!(key, "tag 7");
    assert_eq!(aggregate(&other), Some((of_seven, key)));
    let (of_nine, key) = aggregate(&apart).unwrap();
    assert_eq!(key, "tag 9");
    assert_ne!(of_nine, of_seven);
    one.transfer(100_000);
    eventually("the one without runs by itself", || {
        unmarked.transfer(1_000);
        seen(&unmarked) == Some((FlowState::Running, None))
    });

    // Those that are given up are in no aggregate any more; the others are where they were.
    give_up.store(true, Ordering::Release);
    other.transfer(100_000);
    eventually("both of the aggregate are withdrawn", || {
        [&one, &other].into_iter().all(|c| aggregate(c).is_none())
    });
    assert_eq!(aggregate(&apart), Some((of_nine, "tag 9".to_owned())));
    // What the others report as they end is not to be answered.
    give_up.store(false, Ordering::Release);
    drop((one, other, apart, unmarked));
    let notices = running.stop();
    assert_eq!(notices.len(), 2, "{notices:?}");
}
