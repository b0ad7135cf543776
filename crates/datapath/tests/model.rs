//! The datapath against a model that is as plain as can be: each flow is an interpreter's
//! machine, and what was staged for it is kept as the plane said it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fairwater_datapath::fallback::{Controller, Path, Takeover};
use fairwater_datapath::{Backend, Config, Controls, Datapath, Fallback, PeerId};
use fairwater_exec::interp::{Input, Machine, Stage};
use fairwater_lang::{
    MAX_RATE, Program, Scope, Signal, SignalSet, Signals, VarId, arbitrary, binary, compile,
};
use fairwater_proto::{
    Dialect, FlowId, FlowInfo, SignalQualities, ToDatapath, ToPlane, Update, Welcome,
};
use proptest::prelude::*;

const FLOWS: usize = 4;
const PROGRAMS: usize = 3;
const MSS: u64 = 1000;
const SILENCE_US: u64 = 100_000;

#[derive(Debug, Clone)]
enum Step {
    Start(usize),
    Close(usize),
    /// An ACK or a timeout, so many µs after the last step.
    Invoke(usize, u64, Signals),
    Command {
        flow: usize,
        switch: Option<usize>,
        cwnd: Option<u64>,
        rate: Option<u64>,
        /// The variables are taken modulo those that there are.
        updates: Vec<(usize, u64)>,
    },
    Withdraw(usize),
    /// A new life of the plane, which installs the programs again.
    Restart,
    Alive,
    /// All that waits is sent.
    Drain,
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..50_u64, 0..200_000_u64, any::<u64>()]
}

fn step() -> impl Strategy<Value = Step> {
    let flow = 0..FLOWS;
    let signals = arbitrary::signals(number());
    let elapsed = prop_oneof![20 => 0..20_000_u64, 1 => 0..2 * SILENCE_US];
    prop_oneof![
        2 => flow.clone().prop_map(Step::Start),
        1 => flow.clone().prop_map(Step::Close),
        12 => (flow.clone(), elapsed, signals).prop_map(|(f, e, s)| Step::Invoke(f, e, s)),
        6 => (
            flow.clone(),
            proptest::option::of(0..PROGRAMS),
            proptest::option::of(1..1_000_000_u64),
            proptest::option::of(0..MAX_RATE),
            proptest::collection::vec((any::<usize>(), number()), 0..4),
        ).prop_map(|(flow, switch, cwnd, rate, updates)| Step::Command {
            flow, switch, cwnd, rate, updates,
        }),
        1 => flow.prop_map(Step::Withdraw),
        1 => Just(Step::Restart),
        3 => Just(Step::Alive),
        4 => Just(Step::Drain),
    ]
}

/// What the model knows of a flow.
struct ModelFlow<'p> {
    flow: FlowId,
    controls: Controls,
    machine: Option<Machine<'p>>,
    fallback: Option<Controller>,
    srtt_us: u64,
    is_lossless: bool,
    /// 0 for none.
    timeout_ssthresh: u64,
    stage: Option<Stage<'p>>,
    /// The plane knows it and may command it.
    known: bool,
    /// It is to be announced.
    announce: bool,
    silent: bool,
    over: bool,
}

struct Model<'p> {
    programs: &'p [Program],
    flows: [Option<ModelFlow<'p>>; FLOWS],
    heard_us: u64,
    now_us: u64,
    reports: Vec<(FlowId, Vec<u64>)>,
}

impl<'p> Model<'p> {
    fn is_silent(&self) -> bool {
        self.now_us >= self.heard_us + SILENCE_US
    }

    fn invoke(&mut self, at: usize, signals: &Signals) -> Option<Controls> {
        let is_silent = self.is_silent();
        let modelled = self.flows[at].as_mut().unwrap();
        let before = modelled.controls;
        modelled.watch(signals);
        if !modelled.over {
            if is_silent && modelled.known {
                modelled.end_program();
                modelled.silent = true;
            } else if !is_silent && modelled.silent {
                modelled.silent = false;
                modelled.announce = true;
            }
        }
        let stage = modelled.stage.take();
        if modelled.machine.is_none()
            && let Some(first) = stage.as_ref().and_then(|stage| stage.switch)
        {
            modelled.machine = Some(Machine::new(first, signals[Signal::Now]));
            modelled.fallback = None;
        }
        if let Some(machine) = &mut modelled.machine {
            let outcome = machine.invoke(&Input {
                signals: *signals,
                cwnd: before.cwnd,
                rate: before.rate,
                stage: stage.as_ref(),
            });
            if outcome.fault.is_none() {
                modelled.controls = Controls {
                    cwnd: outcome.cwnd,
                    rate: outcome.rate,
                };
                if let Some(report) = outcome.report {
                    modelled.measure(signals);
                    self.reports.push((modelled.flow, report));
                }
                return modelled.changed(before);
            }
            modelled.end_program();
            modelled.over = true;
        }
        modelled.measure(signals);
        let path = Path {
            mss: MSS,
            srtt_us: modelled.srtt_us,
            available: SignalSet::ALL,
            signals,
        };
        let takeover = Takeover {
            cwnd: before.cwnd,
            rate: before.rate,
            is_lossless: modelled.is_lossless,
            timeout_ssthresh: modelled.timeout_ssthresh,
        };
        let (mut controller, cwnd) = match modelled.fallback.take() {
            Some(controller) => (controller, before.cwnd),
            None => Controller::take_over(Fallback::Cubic, &takeover, &path),
        };
        modelled.controls = Controls {
            cwnd: controller.on_signals(cwnd, &path),
            rate: 0,
        };
        modelled.fallback = Some(controller);
        modelled.changed(before)
    }

    fn flow(&self, at: usize) -> Option<FlowId> {
        self.flows[at].as_ref().map(|modelled| modelled.flow)
    }

    /// The plane gives a flow up.
    fn withdraw(&mut self, at: usize) {
        self.heard_us = self.now_us;
        if let Some(modelled) = &mut self.flows[at]
            && modelled.known
            && !modelled.announce
            && !modelled.over
        {
            modelled.end_program();
            modelled.over = true;
        }
    }

    /// The plane begins a new life, without the flows of its last.
    fn restart(&mut self) {
        self.heard_us = self.now_us;
        for modelled in self.flows.iter_mut().flatten() {
            if modelled.known && !modelled.over {
                modelled.end_program();
                modelled.silent = false;
                modelled.announce = true;
            }
            modelled.known = false;
        }
    }

    /// The plane reads every announcement.
    fn drain(&mut self) {
        for modelled in self.flows.iter_mut().flatten() {
            modelled.known |= modelled.announce;
            modelled.announce = false;
        }
    }

    /// What a command comes to: refused or staged.
    fn command(
        &mut self,
        at: usize,
        switch: Option<usize>,
        controls: (Option<u64>, Option<u64>),
        updates: &[(usize, u64)],
    ) -> Vec<Update> {
        let programs = self.programs;
        let Some(modelled) = &mut self.flows[at] else {
            return Vec::new();
        };
        let staged = modelled.stage.as_ref().and_then(|stage| stage.switch);
        let running = modelled.machine.as_ref().map(Machine::program);
        let runs = switch.map(|s| &programs[s]).or(staged).or(running);
        let Some(runs) = runs else {
            return Vec::new();
        };
        let updates: Vec<_> = updates
            .iter()
            .filter(|_| !runs.variables.is_empty())
            .map(|(i, value)| ((i % runs.variables.len()) as u16, *value))
            .collect();
        let valid = updates
            .iter()
            .all(|(i, _)| runs.variables[usize::from(*i)].scope == Scope::Control);
        if modelled.known && !modelled.announce && !modelled.over && !modelled.silent && valid {
            let stage = modelled.stage.get_or_insert_default();
            if let Some(switch) = switch {
                stage.switch = Some(&programs[switch]);
                stage.updates.clear();
            }
            stage
                .updates
                .extend(updates.iter().map(|(i, value)| (VarId(*i), *value)));
            stage.cwnd = controls.0.or(stage.cwnd);
            stage.rate = controls.1.or(stage.rate);
        }
        updates
            .iter()
            .map(|&(variable, value)| Update { variable, value })
            .collect()
    }
}

impl ModelFlow<'_> {
    fn new(flow: FlowId) -> Self {
        Self {
            flow,
            controls: Controls {
                cwnd: 10 * MSS,
                rate: 0,
            },
            machine: None,
            fallback: Some(Controller::new(Fallback::Cubic, None)),
            srtt_us: 0,
            is_lossless: true,
            timeout_ssthresh: 0,
            stage: None,
            known: false,
            announce: true,
            silent: false,
            over: false,
        }
    }

    /// Losses, marks and timeouts, whatever controls the flow.
    fn watch(&mut self, signals: &Signals) {
        let lost = signals[Signal::LostPkts];
        let marks = signals[Signal::EcnPackets].max(signals[Signal::EcnBytes]);
        if signals[Signal::WasTimeout] != 0 {
            self.is_lossless = false;
            if self.timeout_ssthresh == 0 {
                let packets = signals[Signal::PacketsInFlight].saturating_mul(MSS);
                let in_flight = signals[Signal::BytesInFlight].max(packets);
                let flight = match (in_flight, lost) {
                    (0, 0) => self.controls.cwnd,
                    _ => in_flight
                        .saturating_add(lost.saturating_mul(MSS))
                        .saturating_add(signals[Signal::BytesMisordered]),
                };
                self.timeout_ssthresh = (flight / 2).max(2 * MSS);
            }
        } else if lost > 0 || marks > 0 {
            self.is_lossless = false;
            self.timeout_ssthresh = 0;
        }
    }

    fn measure(&mut self, signals: &Signals) {
        let sample = signals[Signal::RttSampleUs];
        if sample > 0 && sample < u64::MAX {
            self.srtt_us = match self.srtt_us {
                0 => sample,
                old => old - old / 8 + sample / 8,
            };
        }
    }

    /// What changed of the controls.
    fn changed(&mut self, before: Controls) -> Option<Controls> {
        if self.controls == before {
            return None;
        }
        if self.controls.cwnd >= self.timeout_ssthresh {
            self.timeout_ssthresh = 0;
        }
        Some(self.controls)
    }

    fn end_program(&mut self) {
        if self.machine.take().is_some() {
            self.fallback = None;
        }
        self.stage = None;
    }
}

/// The datapath under test.
struct Real {
    datapath: Datapath,
    peer: PeerId,
    instance: u64,
    reports: Vec<(FlowId, Vec<u64>)>,
}

impl Real {
    fn new(backend: Backend) -> Self {
        let mut datapath = Datapath::new(Config {
            backend,
            signals: SignalQualities::exact(SignalSet::ALL),
            silence_us: SILENCE_US,
            queue_bytes: 1 << 24,
            ..Config::default()
        });
        let peer = datapath.add_peer(Dialect::Own, 0);
        Self {
            datapath,
            peer,
            instance: 0,
            reports: Vec::new(),
        }
    }

    fn send(&mut self, message: &ToDatapath<'_>, now_us: u64) {
        let mut packet = Vec::new();
        Dialect::Own
            .encode_to_datapath(message, &mut packet)
            .unwrap();
        self.datapath.on_message(self.peer, &packet, now_us);
    }

    fn live(&mut self, bodies: &[Vec<u8>], now_us: u64) {
        self.instance += 1;
        self.alive(now_us);
        for (number, body) in (1..).zip(bodies) {
            let program = number;
            self.send(
                &ToDatapath::Install {
                    idle_restart: true,
                    program,
                    body,
                },
                now_us,
            );
        }
    }

    fn alive(&mut self, now_us: u64) {
        let welcome = Welcome {
            instance: self.instance,
            alive_us: 0,
        };
        self.send(&ToDatapath::Welcome(welcome), now_us);
    }

    fn withdraw(&mut self, flow: FlowId, now_us: u64) {
        let command = ToDatapath::Command {
            flow,
            switch: None,
            cwnd: None,
            rate: None,
            updates: (&[]).into(),
            withdraw: true,
        };
        self.send(&command, now_us);
    }

    fn drain(&mut self) {
        while let Some((_, packet)) = self.datapath.poll_transmit(1 << 14) {
            for message in Dialect::Own.to_plane(packet) {
                if let ToPlane::Reported { flow, fields, .. } = message.unwrap() {
                    self.reports.push((flow, fields.iter().collect()));
                }
            }
        }
    }
}

fn info() -> FlowInfo {
    FlowInfo {
        local: ([10, 0, 0, 1], 1).into(),
        remote: ([10, 0, 0, 2], 2).into(),
        mss: MSS as u32,
        cwnd: 10 * MSS,
        srtt_us: 0,
        now_us: 0,
        tag: 0,
        ..FlowInfo::default()
    }
}

fn follow(programs: &[Program], steps: &[Step], backend: Backend) -> Result<(), TestCaseError> {
    let bodies: Vec<_> = programs.iter().map(binary::encode).collect();
    let mut real = Real::new(backend);
    real.live(&bodies, 0);
    let mut model = Model {
        programs,
        flows: [const { None }; FLOWS],
        heard_us: 0,
        now_us: 0,
        reports: Vec::new(),
    };
    for step in steps {
        match step {
            Step::Start(at) if model.flows[*at].is_none() => {
                let flow = real.datapath.start(real.peer, "x", &info()).unwrap();
                model.flows[*at] = Some(ModelFlow::new(flow));
            }
            Step::Start(_) => {}
            Step::Close(at) => {
                if let Some(modelled) = model.flows[*at].take() {
                    real.datapath.close(modelled.flow).unwrap();
                }
            }
            Step::Invoke(at, elapsed, signals) => {
                invoke(&mut real, &mut model, *at, *elapsed, *signals)?;
            }
            Step::Command {
                flow: at,
                switch,
                cwnd,
                rate,
                updates,
            } => {
                let Some(flow) = model.flow(*at) else {
                    continue;
                };
                model.heard_us = model.now_us;
                let updates = model.command(*at, *switch, (*cwnd, *rate), updates);
                let command = ToDatapath::Command {
                    flow,
                    switch: switch.map(|s| s as u32 + 1),
                    cwnd: *cwnd,
                    rate: *rate,
                    updates: updates[..].into(),
                    withdraw: false,
                };
                real.send(&command, model.now_us);
            }
            Step::Withdraw(at) => {
                let Some(flow) = model.flow(*at) else {
                    continue;
                };
                model.withdraw(*at);
                real.withdraw(flow, model.now_us);
            }
            Step::Restart => {
                model.restart();
                real.live(&bodies, model.now_us);
            }
            Step::Alive => {
                model.heard_us = model.now_us;
                real.alive(model.now_us);
            }
            Step::Drain => {
                model.drain();
                real.drain();
            }
        }
    }
    real.drain();
    prop_assert_eq!(real.reports, model.reports);
    prop_assert_eq!(real.datapath.statistics().unsendable, 0);
    Ok(())
}

/// Both get the same signals; afterwards the flow is the same in both.
fn invoke(
    real: &mut Real,
    model: &mut Model<'_>,
    at: usize,
    elapsed: u64,
    mut signals: Signals,
) -> Result<(), TestCaseError> {
    model.now_us += elapsed;
    signals[Signal::Now] = model.now_us;
    signals[Signal::WasTimeout] %= 2;
    let Some(flow) = model.flow(at) else {
        return Ok(());
    };
    let expected = model.invoke(at, &signals);
    prop_assert_eq!(real.datapath.invoke(flow, &signals), Ok(expected));
    let view = real.datapath.flow(flow).unwrap();
    let modelled = model.flows[at].as_ref().unwrap();
    let variables = modelled.machine.as_ref().map_or(&[][..], |m| m.variables());
    prop_assert_eq!(view.variables, variables);
    prop_assert_eq!(view.controls, modelled.controls);
    Ok(())
}

fn programs() -> impl Strategy<Value = Vec<Program>> {
    let program =
        arbitrary::source().prop_map(|source| compile("model.ccp", &source).unwrap().program);
    proptest::collection::vec(program, PROGRAMS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_interpreter_does_what_the_model_does(
        programs in programs(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        follow(&programs, &steps, Backend::Interpreter)?;
    }

    #[test]
    #[cfg(feature = "native")]
    fn machine_code_does_what_the_model_does(
        programs in programs(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        follow(&programs, &steps, Backend::Native)?;
    }
}
