//! Whatever happens to other flows, a flow's commands are what they would be alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use fairwater_plane::*;
use proptest::prelude::*;

use crate::support::*;

const GOOD: usize = 0;
const EVIL: usize = 1;
const SLOTS: u32 = 6;

#[derive(Debug, Clone)]
enum Step {
    Create {
        slot: u32,
        generation: u32,
    },
    CreateUnderNothing {
        slot: u32,
        generation: u32,
    },
    Report {
        slot: u32,
        generation: u32,
        program: u32,
        fields: Vec<u64>,
    },
    Resume {
        slot: u32,
        generation: u32,
    },
    Fault {
        slot: u32,
        generation: u32,
    },
    Close {
        slot: u32,
        generation: u32,
    },
}

impl Step {
    fn slot(&self) -> u32 {
        match self {
            Self::Create { slot, .. }
            | Self::CreateUnderNothing { slot, .. }
            | Self::Report { slot, .. }
            | Self::Resume { slot, .. }
            | Self::Fault { slot, .. }
            | Self::Close { slot, .. } => *slot,
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || (0..SLOTS, 0_u32..3);
    let step = prop_oneof![
        4 => id().prop_map(|(slot, generation)| Step::Create { slot, generation }),
        1 => id().prop_map(|(slot, generation)| Step::CreateUnderNothing { slot, generation }),
        20 => (id(), 0_u32..3, prop::collection::vec(0_u64..12, 0..4))
            .prop_map(|((slot, generation), program, fields)| Step::Report { slot, generation, program, fields }),
        2 => id().prop_map(|(slot, generation)| Step::Resume { slot, generation }),
        1 => id().prop_map(|(slot, generation)| Step::Fault { slot, generation }),
        2 => id().prop_map(|(slot, generation)| Step::Close { slot, generation }),
    ];
    prop::collection::vec(step, 0..300)
}

/// Even slots belong to the good algorithm, odd ones to the evil one.
fn algorithm_of(slot: u32) -> usize {
    if slot.is_multiple_of(2) { GOOD } else { EVIL }
}

fn good(handles: &Handles, report: &Report, control: &mut Control) {
    match report.get(handles.acked) {
        Some(0) => control.switch(handles.idle),
        Some(acked) => {
            control.set_cwnd(acked * 1_000);
            control.update(handles.gain, acked);
        }
        None if report[handles.beat] > 5 => control.switch(handles.count),
        None => control.set_rate(report[handles.beat]),
    }
}

fn evil(handles: &Handles, report: &Report, control: &mut Control) {
    let acked = report.get(handles.acked).unwrap_or(11);
    control.set_cwnd(1 + acked);
    match acked {
        // A panic that no hook prints.
        1 => std::panic::resume_unwind(Box::new("evil")),
        2 => control.set_cwnd(0),
        3 => control.set_rate(u64::MAX),
        4 => control.update(handles.pace, 1_u64),
        5 => control.update(handles.armed, 7_u64),
        6 => control.set_rate(report[handles.beat]),
        7 => control.switch(handles.idle),
        _ => {}
    }
}

struct Ran {
    plane: Plane,
    commands: Commands,
}

fn run<'s>(steps: impl Iterator<Item = &'s Step>) -> Ran {
    let mut plane = Plane::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    plane
        .add(Scripted::build("good", log.clone(), good))
        .unwrap();
    plane.add(Scripted::build("evil", log, evil)).unwrap();
    let mut commands = Commands::default();
    let info = info();
    for step in steps {
        let event = match step {
            Step::Create { slot, generation } => Event::Created {
                flow: id(*slot, *generation),
                algorithm: algorithm_of(*slot),
                info: &info,
            },
            Step::CreateUnderNothing { slot, generation } => Event::Created {
                flow: id(*slot, *generation),
                algorithm: 2,
                info: &info,
            },
            Step::Report {
                slot,
                generation,
                program,
                fields,
            } => Event::Reported {
                flow: id(*slot, *generation),
                report: report(*program, fields),
            },
            Step::Resume { slot, generation } => Event::Resumed {
                flow: id(*slot, *generation),
                algorithm: 0,
                info: &info,
            },
            Step::Fault { slot, generation } => Event::Faulted {
                flow: id(*slot, *generation),
                reason: "of the test",
            },
            Step::Close { slot, generation } => Event::Closed {
                flow: id(*slot, *generation),
            },
        };
        plane.on_event(event, &mut commands);
    }
    Ran { plane, commands }
}

proptest! {
    #[test]
    fn a_flow_gets_the_commands_that_it_would_get_alone(steps in steps()) {
        let together = run(steps.iter());
        for slot in 0..SLOTS {
            let alone = run(steps.iter().filter(|s| s.slot() == slot));
            let of_slot = |c: &Commands| -> Vec<_> {
                c.0.iter().filter(|(flow, _)| flow.slot == slot).cloned().collect()
            };
            prop_assert_eq!(of_slot(&together.commands), of_slot(&alone.commands));
            for generation in 0..3 {
                let flow = id(slot, generation);
                prop_assert_eq!(together.plane.flow(flow), alone.plane.flow(flow));
            }
        }
    }

    #[test]
    fn the_good_are_never_withdrawn_and_the_counts_add_up(steps in steps()) {
        let Ran { mut plane, commands } = run(steps.iter());
        prop_assert!(commands.0.iter().all(|(_, c)| *c != Command::default()), "an empty command");
        for (flow, command) in &commands.0 {
            prop_assert!(!command.withdraw || algorithm_of(flow.slot) == EVIL);
            prop_assert!(command.cwnd != Some(0) && command.rate.is_none_or(|r| r <= MAX_RATE));
        }
        let mut running = HashMap::new();
        for slot in 0..SLOTS {
            for view in (0..3).filter_map(|g| plane.flow(id(slot, g))) {
                *running.entry(view.algorithm).or_insert(0) += u64::from(view.controller == Controller::Algorithm);
            }
        }
        let withdrawals = commands.0.iter().filter(|(_, c)| c.withdraw).count();
        let notices: Vec<_> = plane.drain_notices().collect();
        let faults = notices.iter().filter(|n| matches!(n.reason, Reason::Datapath(_))).count();
        prop_assert_eq!(notices.len(), withdrawals + faults);
        for (index, hosted) in plane.algorithms().iter().enumerate() {
            let statistics = hosted.statistics();
            prop_assert_eq!(statistics.flows, running.get(&index).copied().unwrap_or(0));
            let of_it = notices.iter().filter(|n| n.algorithm == hosted.name()).count();
            prop_assert_eq!(statistics.withdrawn, of_it as u64);
        }
        let reports = steps.iter().filter(|s| matches!(s, Step::Report { .. })).count() as u64;
        let counted: u64 = plane
            .algorithms()
            .iter()
            .map(|a| a.statistics().reports + a.statistics().superseded)
            .sum::<u64>()
            + plane.statistics().malformed;
        prop_assert!(counted <= reports && reports <= counted + plane.statistics().stray);
    }
}
