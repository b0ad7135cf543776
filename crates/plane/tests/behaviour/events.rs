//! What a plane does with events, at its public seam.

use fairwater_plane::{
    Abilities, Capabilities, Ecn, ProgramId, RawReport, Requirements, Signal, SignalQuality, Unmet,
};
use std::sync::{Arc, Mutex};

use crate::support::*;
use fairwater_plane::*;

type Log = Arc<Mutex<Vec<&'static str>>>;

/// A plane with one scripted algorithm and one flow of it, its first command taken.
fn plane_with(
    script: impl Fn(&Handles, &Report, &mut Control) + Send + Sync + 'static,
) -> (Plane, Commands, Log) {
    let mut plane = Plane::new();
    let log = Log::default();
    plane
        .add(Scripted::build("scripted", log.clone(), script))
        .unwrap();
    let mut sink = Commands::default();
    let info = info();
    plane.on_event(
        Event::Created {
            flow: id(0, 1),
            algorithm: 0,
            info: &info,
        },
        &mut sink,
    );
    assert_eq!(
        sink.0,
        [(
            id(0, 1),
            Command {
                switch: Some(ProgramId::new(0, 0)),
                ..Command::default()
            }
        )]
    );
    sink.0.clear();
    (plane, sink, log)
}

fn deliver(plane: &mut Plane, sink: &mut Commands, raw: RawReport<'_>) {
    plane.on_event(
        Event::Reported {
            flow: id(0, 1),
            report: raw,
        },
        sink,
    );
}

/// The reason for which a script loses its flow at its first report.
fn reason_of(
    script: impl Fn(&Handles, &Report, &mut Control) + Send + Sync + 'static,
) -> (Reason, Vec<&'static str>) {
    let (mut plane, mut sink, log) = plane_with(script);
    deliver(&mut plane, &mut sink, report(0, &[1, 0]));
    deliver(&mut plane, &mut sink, report(0, &[1, 0]));
    let withdrawal = Command {
        withdraw: true,
        ..Command::default()
    };
    assert_eq!(
        sink.0,
        [(id(0, 1), withdrawal)],
        "nothing but one withdrawal is sent"
    );
    assert_eq!(
        plane.flow(id(0, 1)).unwrap().controller,
        Controller::Fallback
    );
    let statistics = plane.algorithms()[0].statistics();
    assert_eq!((statistics.flows, statistics.withdrawn), (0, 1));
    let notices: Vec<_> = plane.drain_notices().collect();
    assert_eq!(notices.len(), 1);
    assert_eq!(plane.drain_notices().count(), 0);
    let log = log.lock().unwrap().clone();
    (notices[0].reason.clone(), log)
}

#[test]
fn a_report_is_read_by_handle_and_answered_in_one_command() {
    let (mut plane, mut sink, _) = plane_with(|h, report, control| {
        assert_eq!(report.program(), h.count);
        assert_eq!(
            (report.time_us(), report.cwnd(), report.rate()),
            (1_000, 10_000, 0)
        );
        assert_eq!(report.get(h.beat), None);
        assert!(report.is_set(h.marked));
        control.set_cwnd(report[h.acked] * 2);
        control.set_rate(MAX_RATE);
        control.update(h.gain, 3_u32);
        control.update(h.armed, true);
        control.update(h.gain, 4_u64);
    });
    deliver(&mut plane, &mut sink, report(0, &[700, 1]));
    let gain = 2;
    let expected = Command {
        switch: None,
        cwnd: Some(1_400),
        rate: Some(MAX_RATE),
        updates: vec![(gain, 4), (gain + 1, 1)],
        withdraw: false,
        hand_over: None,
    };
    assert_eq!(sink.0, [(id(0, 1), expected)]);
}

#[test]
fn a_report_that_needs_no_answer_gets_none() {
    let (mut plane, mut sink, _) = plane_with(|_, _, _| ());
    deliver(&mut plane, &mut sink, report(0, &[1, 0]));
    assert!(sink.0.is_empty());
    assert_eq!(plane.algorithms()[0].statistics().reports, 1);
}

#[test]
fn after_a_switch_only_the_new_program_is_heard() {
    let (mut plane, mut sink, _) = plane_with(|h, report, control| {
        if report.program() == h.count {
            control.update(h.gain, 9_u64);
            control.switch(h.idle);
            control.update(h.pace, 50_u64);
        } else {
            control.set_cwnd(report[h.beat]);
        }
    });
    deliver(&mut plane, &mut sink, report(0, &[1, 0]));
    deliver(&mut plane, &mut sink, report(0, &[2, 0]));
    deliver(&mut plane, &mut sink, report(1, &[33]));
    let switch = Command {
        switch: Some(ProgramId::new(0, 1)),
        updates: vec![(1, 50)],
        ..Command::default()
    };
    let cwnd = Command {
        cwnd: Some(33),
        ..Command::default()
    };
    assert_eq!(sink.0, [(id(0, 1), switch), (id(0, 1), cwnd)]);
    let statistics = plane.algorithms()[0].statistics();
    assert_eq!((statistics.reports, statistics.superseded), (2, 1));
}

#[test]
fn each_mistake_withdraws_the_flow_and_says_why() {
    assert_eq!(reason_of(|_, _, c| c.set_cwnd(0)).0, Reason::CwndZero);
    let rate = MAX_RATE + 1;
    assert_eq!(
        reason_of(move |_, _, c| c.set_rate(rate)).0,
        Reason::RateAbsurd { rate }
    );
    assert_eq!(
        reason_of(|h, r, c| c.set_cwnd(r[h.beat] + 1)).0,
        Reason::ForeignField {
            field: "beat".to_owned(),
            of: "idle".to_owned(),
            reporter: "count".to_owned()
        }
    );
    assert_eq!(
        reason_of(|h, _, c| c.update(h.pace, 1_u64)).0,
        Reason::ForeignVariable {
            variable: "pace".to_owned(),
            of: "idle".to_owned(),
            running: "count".to_owned()
        }
    );
    assert_eq!(
        reason_of(|h, _, c| c.update(h.armed, 2_u64)).0,
        Reason::NotBoolean {
            variable: "armed".to_owned(),
            value: 2
        }
    );
}

#[test]
fn a_flow_is_closed_once_and_never_after_a_panic() {
    assert_eq!(reason_of(|_, _, c| c.set_cwnd(0)).1, ["new", "close"]);
    let (reason, log) = reason_of(|_, report, _| panic!("at {} µs", report.time_us()));
    assert_eq!(reason, Reason::Panicked("at 1000 µs".to_owned()));
    assert_eq!(log, ["new"]);

    let (mut plane, mut sink, log) = plane_with(|_, _, _| ());
    plane.on_event(Event::Closed { flow: id(0, 1) }, &mut sink);
    plane.on_event(Event::Closed { flow: id(0, 1) }, &mut sink);
    assert_eq!(*log.lock().unwrap(), ["new", "close"]);
    assert_eq!(plane.statistics().stray, 1);
    assert_eq!(plane.flow(id(0, 1)), None);
}

#[test]
fn a_resumed_flow_starts_afresh_and_a_withdrawn_one_stays_so() {
    let (mut plane, mut sink, log) = plane_with(|h, report, control| match report[h.acked] {
        0 => control.switch(h.idle),
        _ => control.set_cwnd(0),
    });
    deliver(&mut plane, &mut sink, report(0, &[0, 0]));
    sink.0.clear();
    let info = info();
    plane.on_event(
        Event::Resumed {
            flow: id(0, 1),
            algorithm: 0,
            info: &info,
        },
        &mut sink,
    );
    assert_eq!(
        sink.0,
        [(
            id(0, 1),
            Command {
                switch: Some(ProgramId::new(0, 0)),
                ..Command::default()
            }
        )]
    );
    assert_eq!(*log.lock().unwrap(), ["new", "close", "new"]);
    assert_eq!(plane.algorithms()[0].statistics().flows, 1);

    deliver(&mut plane, &mut sink, report(0, &[1, 0]));
    sink.0.clear();
    plane.on_event(
        Event::Resumed {
            flow: id(0, 1),
            algorithm: 0,
            info: &info,
        },
        &mut sink,
    );
    assert!(sink.0.is_empty());
    assert_eq!(
        plane.flow(id(0, 1)).unwrap().controller,
        Controller::Fallback
    );
}

#[test]
fn a_datapath_fault_is_passed_on() {
    let (mut plane, mut sink, log) = plane_with(|_, _, _| ());
    let fault = Event::Faulted {
        flow: id(0, 1),
        reason: "its program set Cwnd to 0",
    };
    plane.on_event(fault, &mut sink);
    plane.on_event(fault, &mut sink);
    assert!(sink.0.is_empty());
    assert_eq!(*log.lock().unwrap(), ["new", "close"]);
    let notices: Vec<_> = plane.drain_notices().map(|n| n.to_string()).collect();
    assert_eq!(
        notices,
        ["flow 0 of scripted: the datapath stopped the program: its program set Cwnd to 0"]
    );
}

#[test]
fn strangers_and_malformed_reports_are_counted_and_ignored() {
    let (mut plane, mut sink, _) = plane_with(|_, _, c| c.set_cwnd(1));
    let good = report(0, &[1, 0]);
    for flow in [id(0, 2), id(1, 1), id(u32::MAX, 1)] {
        plane.on_event(Event::Reported { flow, report: good }, &mut sink);
    }
    deliver(&mut plane, &mut sink, report(0, &[1]));
    deliver(&mut plane, &mut sink, report(2, &[1, 0]));
    assert!(sink.0.is_empty());
    assert_eq!(
        (plane.statistics().stray, plane.statistics().malformed),
        (3, 2)
    );
}

#[test]
fn a_slot_beyond_bounds_is_refused_without_growing() {
    let (mut plane, mut sink, _) = plane_with(|_, _, _| ());
    let info = info();
    let flow = id(MAX_FLOWS, 1);
    plane.on_event(
        Event::Created {
            flow,
            algorithm: 0,
            info: &info,
        },
        &mut sink,
    );
    assert!(sink.0[0].1.withdraw);
    let notice = plane.drain_notices().next().unwrap();
    assert_eq!(notice.reason, Reason::TooManyFlows(MAX_FLOWS));
}

#[test]
fn handles_are_resolved_with_a_suggestion() {
    let mut plane = Plane::new();
    let error = plane.add(|p: &mut Programs| -> Result<Scripted, _> {
        p.add("count", COUNT)?
            .field("akced")
            .map(|_| unreachable!())
    });
    let error = error.err().unwrap().to_string();
    assert_eq!(
        error,
        "program `count` has no report field `akced`; did you mean `acked`?"
    );
    let error = plane.add(|p: &mut Programs| -> Result<Scripted, _> {
        p.add("count", COUNT)?
            .variable("acked")
            .map(|_| unreachable!())
    });
    assert!(
        error
            .err()
            .unwrap()
            .to_string()
            .contains("no control variable `acked`")
    );
}

#[test]
fn a_program_that_does_not_compile_shows_every_error() {
    let mut plane = Plane::new();
    let error = plane.add(|p: &mut Programs| -> Result<Scripted, _> {
        p.add("bad", "(def (Report (a 0)))\n(when true (:= b 1) (:= c 2))")
            .map(|_| unreachable!())
    });
    let text = error.err().unwrap().to_string();
    assert!(
        text.contains('b') && text.contains('c') && text.contains("bad"),
        "{text}"
    );
    assert!(plane.algorithms().is_empty());
}

#[test]
fn what_a_datapath_lacks_is_named() {
    let mut plane = Plane::new();
    plane
        .add(Scripted::build("scripted", Log::default(), |_, _, _| ()))
        .unwrap();
    let requirements = *plane.algorithms()[0].requirements();
    assert_eq!(requirements.unmet(&Capabilities::ALL), []);
    let signals = Capabilities::ALL.signals;
    let degraded = Capabilities {
        signals: signals.with(Signal::BytesAcked, SignalQuality::Degraded),
        ..Capabilities::ALL
    };
    assert_eq!(requirements.unmet(&degraded), []);
    let inexact: Vec<_> = requirements.inexact(&degraded).collect();
    assert_eq!(inexact, [(Signal::BytesAcked, SignalQuality::Degraded)]);
    let poor = Capabilities {
        signals: signals.with(Signal::BytesAcked, SignalQuality::Absent),
        abilities: Abilities {
            rate: false,
            ecn: false,
            ..Abilities::ALL
        },
        ..Capabilities::ALL
    };
    let demanding = Requirements {
        rate: true,
        ecn: Ecn::Required,
        ..requirements
    };
    let unmet: Vec<_> = demanding
        .unmet(&poor)
        .iter()
        .map(Unmet::to_string)
        .collect();
    let expected = [
        "it has no signal Ack.bytes_acked",
        "it enforces no pacing rate",
        "its flows cannot negotiate ECN",
    ];
    assert_eq!(unmet, expected);
}

/// A flow goes from one algorithm to another at the datapath's word, or at the algorithm's own.
#[test]
fn a_flow_that_is_handed_over_is_the_other_algorithms() {
    let mut plane = Plane::new();
    let (first, second) = (Log::default(), Log::default());
    plane
        .add(Scripted::build("first", first.clone(), |_, _, control| {
            control.set_cwnd(5_000);
            control.hand_over("second");
        }))
        .unwrap();
    plane
        .add(Scripted::build(
            "second",
            second.clone(),
            |h, report, control| {
                control.set_cwnd(report[h.acked]);
            },
        ))
        .unwrap();
    let mut sink = Commands::default();
    let info = info();
    let flow = id(0, 1);
    plane.on_event(
        Event::Created {
            flow,
            algorithm: 0,
            info: &info,
        },
        &mut sink,
    );
    sink.0.clear();
    deliver(&mut plane, &mut sink, report(0, &[1, 0]));
    let asked = Command {
        cwnd: Some(5_000),
        hand_over: Some(1),
        ..Command::default()
    };
    assert_eq!(sink.0, [(flow, asked)]);
    // Until the datapath answers, the flow is the first algorithm's.
    assert_eq!(plane.flow(flow).unwrap().algorithm, 0);
    sink.0.clear();
    plane.on_event(
        Event::Resumed {
            flow,
            algorithm: 1,
            info: &info,
        },
        &mut sink,
    );
    let start = Command {
        switch: Some(ProgramId::new(1, 0)),
        ..Command::default()
    };
    assert_eq!(sink.0, [(flow, start)]);
    assert_eq!(*first.lock().unwrap(), ["new", "close"]);
    assert_eq!(*second.lock().unwrap(), ["new"]);
    // A report of the first algorithm's that was under way is nobody's.
    sink.0.clear();
    deliver(&mut plane, &mut sink, report(0, &[1, 0]));
    assert_eq!(sink.0, []);
    assert_eq!(plane.algorithms()[1].statistics().superseded, 1);
    let of_second = RawReport {
        program: ProgramId::new(1, 0),
        ..report(0, &[7_000, 0])
    };
    plane.on_event(
        Event::Reported {
            flow,
            report: of_second,
        },
        &mut sink,
    );
    assert_eq!(sink.0[0].1.cwnd, Some(7_000));
    let flows: Vec<_> = plane
        .algorithms()
        .iter()
        .map(|a| a.statistics().flows)
        .collect();
    assert_eq!(flows, [0, 1]);
}

/// Two algorithms that hand each new flow to the other do not keep the plane busy for ever.
#[test]
fn a_hand_over_in_new_flow_withdraws_the_flow() {
    struct Hasty;
    impl Algorithm for Hasty {
        fn name(&self) -> &str {
            "hasty"
        }
        fn new_flow(&self, _: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
            control.hand_over("hasty");
            Box::new(Idle)
        }
    }
    struct Idle;
    impl Flow for Idle {
        fn on_report(&mut self, _: &Report, _: &mut Control) {}
    }
    let mut plane = Plane::new();
    plane
        .add(|programs| {
            programs.add("p", "(def (Report (n 0))) (when true (report))")?;
            Ok(Hasty)
        })
        .unwrap();
    let mut sink = Commands::default();
    let info = info();
    let event = Event::Created {
        flow: id(0, 1),
        algorithm: 0,
        info: &info,
    };
    plane.on_event(event, &mut sink);
    assert!(sink.0[0].1.withdraw && sink.0[0].1.hand_over.is_none());
    let notice = plane.drain_notices().next().unwrap().to_string();
    assert!(notice.contains("before its first report"), "{notice}");
}

#[test]
fn a_hand_over_to_an_unknown_algorithm_withdraws_the_flow() {
    let (mut plane, mut sink, _) = plane_with(|_, _, control| control.hand_over("nobody"));
    deliver(&mut plane, &mut sink, report(0, &[1, 0]));
    assert!(sink.0[0].1.withdraw);
    let notice = plane.drain_notices().next().unwrap().to_string();
    assert!(notice.contains("`nobody`"), "{notice}");
}

#[test]
fn an_algorithm_without_programs_is_refused() {
    struct Empty;
    impl Algorithm for Empty {
        fn name(&self) -> &str {
            "empty"
        }
        fn new_flow(&self, _: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
            unreachable!()
        }
    }
    let mut plane = Plane::new();
    let error = plane.add(|_: &mut Programs| Ok(Empty)).unwrap_err();
    assert!(matches!(error, PlaneError::NoProgram { .. }));
}
