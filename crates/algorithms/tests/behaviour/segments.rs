//! Segments whose size changes in a flow's life: each algorithm goes on with the new size.

use std::collections::HashMap;

use fairwater_algorithms::{all, by_spec};
use fairwater_plane::{Command, CommandSink, Event, FlowId, FlowInfo, Plane, ProgramId, RawReport};

const FLOW: FlowId = FlowId {
    slot: 0,
    generation: 1,
};
const OLD: u32 = 1_448;
const NEW: u32 = 1_188;

#[derive(Default)]
struct Commands(Vec<Command>);

impl CommandSink for Commands {
    fn command(&mut self, _: FlowId, command: &Command) {
        assert!(!command.withdraw, "the flow was withdrawn");
        self.0.push(command.clone());
    }
}

impl Commands {
    /// The variables that were set since the last call, by name.
    fn updates(&mut self, plane: &Plane, running: u32) -> HashMap<String, u64> {
        let program = plane.algorithms()[0].programs()[running as usize].program();
        let commands = self.0.drain(..);
        let updates = commands.flat_map(|command| command.updates);
        let named =
            updates.map(|(at, value)| (program.variables[usize::from(at)].name.clone(), value));
        named.collect()
    }
}

/// A plane of one algorithm with one flow.
fn plane(spec: &str) -> (Plane, Commands) {
    let choice = by_spec(spec).unwrap();
    let mut plane = Plane::new();
    plane.add(|programs| choice.build(programs)).unwrap();
    let info = FlowInfo {
        mss: OLD,
        cwnd: u64::from(10 * OLD),
        srtt_us: 20_000,
        ..FlowInfo::default()
    };
    let mut commands = Commands::default();
    let event = Event::Created {
        flow: FLOW,
        algorithm: 0,
        info: &info,
    };
    plane.on_event(event, &mut commands);
    (plane, commands)
}

/// A program that counts in segments has their new size, whichever the algorithm.
#[test]
fn every_program_has_the_new_size() {
    let mut counted = 0;
    for entry in all() {
        let (mut plane, mut commands) = plane(entry.name);
        let programs = plane.algorithms()[0].programs();
        let counts = |index: usize| {
            let variables = &programs[index].program().variables;
            variables.iter().any(|variable| variable.name == "mss")
        };
        let running = 0;
        let is_counting = counts(running as usize);
        assert_eq!(
            commands.updates(&plane, running).get("mss").copied(),
            is_counting.then_some(OLD.into()),
            "{}",
            entry.name
        );
        let event = Event::MssChanged {
            flow: FLOW,
            mss: NEW,
        };
        plane.on_event(event, &mut commands);
        assert_eq!(
            commands.updates(&plane, running).get("mss").copied(),
            is_counting.then_some(NEW.into()),
            "{}",
            entry.name
        );
        counted += usize::from(is_counting);
    }
    assert!(counted >= 14, "{counted}");
}

/// cwnd of a constant number of segments is of the new ones.
#[test]
fn a_window_in_segments_follows() {
    let (mut plane, mut commands) = plane("constant:cwnd=20");
    commands.0.clear();
    let event = Event::MssChanged {
        flow: FLOW,
        mss: NEW,
    };
    plane.on_event(event, &mut commands);
    let set: Vec<_> = commands.0.iter().map(|command| command.cwnd).collect();
    assert_eq!(set, [Some(u64::from(20 * NEW))]);
}

/// CUBIC's plateau is the window of the last loss in bytes, whatever the segments' size.
#[test]
fn the_plateau_of_cubic_stays_where_it_was() {
    let ceiling = |changes: bool| {
        let (mut plane, mut commands) = plane("cubic:reno_friendly=false");
        let program = plane.algorithms()[0].programs()[0].program().clone();
        let report =
            |plane: &mut Plane, commands: &mut Commands, time_us, values: &[(&str, u64)]| {
                let reported = program
                    .variables
                    .iter()
                    .filter(|v| v.scope == fairwater_lang::Scope::Report);
                let fields: Vec<u64> = reported
                    .map(|variable| {
                        let value = values.iter().find(|(name, _)| *name == variable.name);
                        value.map_or(0, |(_, value)| *value)
                    })
                    .collect();
                let report = RawReport {
                    program: ProgramId::new(0, 0),
                    time_us,
                    cwnd: 700_000,
                    rate: 0,
                    fields: &fields,
                };
                plane.on_event(Event::Reported { flow: FLOW, report }, commands);
            };
        let path = [
            ("rtt_us", 20_000),
            ("min_rtt_us", 20_000),
            ("ssthresh", 700_000),
        ];
        let loss = [("congested", 1), ("before", 1_000_000)];
        report(
            &mut plane,
            &mut commands,
            1_000_000,
            &[&path[..], &loss].concat(),
        );
        if changes {
            let event = Event::MssChanged {
                flow: FLOW,
                mss: NEW,
            };
            plane.on_event(event, &mut commands);
        }
        commands.0.clear();
        // The curve is at its plateau K after the stage began (RFC 9438 §4.2). A full window is
        // acknowledged in each round trip until then.
        let mss = if changes { NEW } else { OLD };
        let k_us = (300_000.0 / f64::from(mss) / 0.4).cbrt() * 1e6;
        let acked = [("acked", 700_000)];
        let path = [&path[..], &acked].concat();
        for round in 0..(k_us / 20_000.0) as u64 {
            let time_us = 1_020_000 + round * 20_000;
            report(&mut plane, &mut commands, time_us, &path);
        }
        commands.updates(&plane, 0)["ceiling"]
    };
    let (before, after) = (ceiling(false), ceiling(true));
    // A loss counts in whole segments, and the curve is flat there.
    assert!(before.abs_diff(1_000_000) < 3_000, "{before}");
    assert!(after.abs_diff(1_000_000) < 3_000, "{after}");
}
