//! Runs an algorithm of a plane as a sender's congestion control, through the reference
//! interpreter, as a datapath would.

use fairwater_exec::interp::{Input, Machine, Stage};
use fairwater_lang::{Program, Signal, Signals, VarId};
use fairwater_plane::{Command, CommandSink, Event, FlowId, FlowInfo, Plane, ProgramId, RawReport};

use super::path::{Ack, Controller, INITIAL_WINDOW, MSS};

const FLOW: FlowId = FlowId {
    slot: 0,
    generation: 1,
};

pub(crate) struct Driver {
    plane: Plane,
    programs: &'static [Program],
    machine: Machine<'static>,
    running: u32,
    staged: Staged,
    cwnd: u64,
    rate: u64,
    deaf: bool,
}

#[derive(Default)]
struct Staged(Option<Command>);

impl CommandSink for Staged {
    fn command(&mut self, _: FlowId, command: &Command) {
        assert!(!command.withdraw, "the flow was withdrawn");
        assert!(self.0.is_none(), "an invocation carries out each command");
        self.0 = Some(command.clone());
    }
}

impl Driver {
    /// A flow of the algorithm that the text stands for.
    pub(crate) fn new(spec: &str) -> Self {
        Self::with_ssthresh(spec, None)
    }

    /// A flow that another algorithm controlled before, with its slow start threshold, bytes.
    pub(crate) fn with_ssthresh(spec: &str, ssthresh: Option<u64>) -> Self {
        let info = FlowInfo {
            local: "192.0.2.1:1".parse().unwrap(),
            remote: "192.0.2.2:2".parse().unwrap(),
            mss: MSS as u32,
            cwnd: INITIAL_WINDOW,
            ssthresh,
            ..FlowInfo::default()
        };
        Self::with_info(spec, &info)
    }

    /// A bundle, which has its receivebox's address alone.
    pub(crate) fn of_bundle(spec: &str) -> Self {
        let info = FlowInfo {
            remote: "192.0.2.2:2".parse().unwrap(),
            mss: MSS as u32,
            cwnd: INITIAL_WINDOW,
            ..FlowInfo::default()
        };
        Self::with_info(spec, &info)
    }

    fn with_info(spec: &str, info: &FlowInfo) -> Self {
        let choice = fairwater_algorithms::by_spec(spec).unwrap();
        let mut plane = Plane::new();
        plane.add(|programs| choice.build(programs)).unwrap();
        let programs = plane.algorithms()[0].programs();
        let programs: Vec<_> = programs.iter().map(|p| p.program().clone()).collect();
        let programs: &'static [Program] = programs.leak();
        let mut staged = Staged::default();
        plane.on_event(
            Event::Created {
                flow: FLOW,
                algorithm: 0,
                info,
            },
            &mut staged,
        );
        let machine = Machine::new(&programs[0], 0);
        Self {
            plane,
            programs,
            machine,
            running: 0,
            staged,
            cwnd: INITIAL_WINDOW,
            rate: 0,
            deaf: false,
        }
    }
}

impl Driver {
    /// From now on the plane's answers to reports are lost; what it said first is kept.
    pub(crate) fn deafen(&mut self) {
        self.deaf = true;
    }
}

impl Controller for Driver {
    fn invoke(&mut self, ack: &Ack, cwnd_packets: u64) -> (u64, u64) {
        // Fractions of a packet are kept as long as the sender's window is the one that was set.
        if (self.cwnd / MSS).max(1) != cwnd_packets {
            self.cwnd = cwnd_packets * MSS;
        }
        let mut signals = Signals::default();
        for (signal, value) in [
            (Signal::BytesAcked, ack.acked),
            (Signal::PacketsAcked, ack.acked_packets),
            (Signal::BytesMisordered, ack.misordered),
            (Signal::PacketsMisordered, ack.misordered / MSS),
            (Signal::LostPkts, ack.lost_packets),
            (Signal::EcnPackets, ack.marked_packets),
            (Signal::EcnBytes, ack.marked_packets.saturating_mul(MSS)),
            (Signal::Now, ack.now_us),
            (Signal::BytesInFlight, ack.in_flight),
            (Signal::PacketsInFlight, ack.in_flight / MSS),
            (Signal::BytesPending, ack.pending),
            (Signal::RttSampleUs, ack.rtt_us),
            (Signal::RateIncoming, ack.rate_incoming),
            (Signal::RateOutgoing, ack.rate_outgoing),
            (Signal::WasTimeout, u64::from(ack.timeout)),
        ] {
            signals[signal] = value;
        }
        let stage = self.staged.0.take().map(|c| {
            self.running = c.switch.map_or(self.running, ProgramId::index);
            Stage {
                switch: c.switch.map(|p| &self.programs[p.index() as usize]),
                cwnd: c.cwnd,
                rate: c.rate,
                updates: c
                    .updates
                    .iter()
                    .map(|(v, value)| (VarId(*v), *value))
                    .collect(),
            }
        });
        let input = Input {
            signals,
            cwnd: self.cwnd,
            rate: self.rate,
            stage: stage.as_ref(),
        };
        let outcome = self.machine.invoke(&input);
        assert_eq!(outcome.fault, None);
        (self.cwnd, self.rate) = (outcome.cwnd, outcome.rate);
        if let Some(fields) = outcome.report {
            let report = RawReport {
                program: ProgramId::new(0, self.running),
                time_us: ack.now_us,
                cwnd: self.cwnd,
                rate: self.rate,
                fields: &fields,
            };
            self.plane
                .on_event(Event::Reported { flow: FLOW, report }, &mut self.staged);
            if self.deaf {
                self.staged.0 = None;
            }
        }
        ((self.cwnd / MSS).max(1), self.rate)
    }
}
