//! Observers of invocations: what each one read, was told, and did.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

use fairwater_exec::frame::Fault;
use fairwater_lang::{Program, Signals, VarId};
use fairwater_proto::{FlowId, FlowInfo};

use crate::program::Compiled;
use crate::{Controls, Datapath};

/// Observes the invocations of the flows that it asks for. A flow that is not observed costs what it
/// costs without an observer.
pub trait InvocationObserver: Debug + Send {
    /// A flow starts, or is there already when the observer comes; `info` is as in
    /// [`FlowStatus::info`](crate::FlowStatus::info). Whether to observe the flow.
    fn begins(&mut self, flow: FlowId, algorithm: &str, info: &FlowInfo) -> bool;

    /// An observed flow was invoked.
    fn invoked(&mut self, invocation: &Invocation<'_>);

    /// An observed flow ended.
    fn ended(&mut self, flow: FlowId);
}

/// One invocation of a flow's program, or of the fallback.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// The flow.
    pub flow: FlowId,
    /// What the transport measured.
    pub signals: &'a Signals,
    /// Window and rate before it: what the last invocation left, or the transport set since then.
    pub before: Controls,
    /// What the plane had staged, if this invocation applied it.
    pub stage: Option<&'a AppliedStage>,
    /// The program that ran; `None` if the fallback did.
    pub program: Option<InvokedProgram<'a>>,
    /// The report variables, if the program reported.
    pub report: Option<&'a [u64]>,
    /// Why the program was stopped; the fallback has then set the controls.
    pub fault: Option<Fault>,
    /// Window and rate afterwards, as program or fallback set them.
    pub after: Controls,
    /// The variables afterwards; empty without a program.
    pub variables: &'a [u64],
    /// `Ack.now` at which `Micros` would read 0, µs, wrapping; afterwards.
    pub timer_zero_us: u64,
}

/// The program of an invocation.
#[derive(Debug, Clone, Copy)]
pub struct InvokedProgram<'a> {
    /// The number under which the plane installed it.
    pub number: u32,
    /// The program.
    pub program: &'a Program,
}

/// What an invocation applied of the plane's commands, merged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppliedStage {
    /// The program that the flow was switched to, by its number.
    pub switch: Option<u32>,
    /// The window, bytes.
    pub cwnd: Option<u64>,
    /// The pacing rate, bytes/s.
    pub rate: Option<u64>,
    /// Control variables, each at most once.
    pub updates: Vec<(VarId, u64)>,
}

/// The observer, and what is known of the invocation under way.
#[derive(Debug)]
pub(crate) struct Observation {
    observer: Box<dyn InvocationObserver>,
    stage: AppliedStage,
    is_staged: bool,
    report: Vec<u64>,
    has_reported: bool,
    fault: Option<Fault>,
    ran: Option<(u32, Arc<Compiled>)>,
}

impl Observation {
    /// The invocation applies this stage.
    pub(crate) fn applies(&mut self) -> &mut AppliedStage {
        self.is_staged = true;
        &mut self.stage
    }

    /// The invocation runs this program.
    pub(crate) fn runs(&mut self, number: u32, program: &Arc<Compiled>) {
        self.ran = Some((number, Arc::clone(program)));
    }

    /// The program reported these values.
    pub(crate) fn reports(&mut self, fields: &[u64]) {
        self.has_reported = true;
        self.report.extend_from_slice(fields);
    }

    /// The program was stopped.
    pub(crate) fn faults(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// Begins anew.
    fn clear(&mut self) {
        self.stage.switch = None;
        self.stage.cwnd = None;
        self.stage.rate = None;
        self.stage.updates.clear();
        self.is_staged = false;
        self.report.clear();
        self.has_reported = false;
        self.fault = None;
        self.ran = None;
    }
}

impl Datapath {
    /// Lets an observer see the invocations of the flows that it asks for, in place of the former
    /// observer; asks it for each flow that there is.
    pub fn set_observer(&mut self, mut observer: Box<dyn InvocationObserver>) {
        for slot in 0..self.flows.hot.len() {
            let flow = self.flows.name(slot);
            let cold = &mut self.flows.cold[slot];
            let is_observed = cold.is_open && observer.begins(flow, &cold.algorithm, &cold.info);
            cold.is_observed = is_observed;
            self.flows.hot[slot].attention |= is_observed;
        }
        self.observation = Some(Box::new(Observation {
            observer,
            stage: AppliedStage::default(),
            is_staged: false,
            report: Vec::new(),
            has_reported: false,
            fault: None,
            ran: None,
        }));
    }

    /// A flow starts.
    pub(crate) fn observe_start(&mut self, slot: usize) {
        let flow = self.flows.name(slot);
        let cold = &mut self.flows.cold[slot];
        cold.is_observed = self
            .observation
            .as_mut()
            .is_some_and(|o| o.observer.begins(flow, &cold.algorithm, &cold.info));
    }

    /// A flow ends.
    pub(crate) fn observe_end(&mut self, flow: FlowId, slot: usize) {
        if core::mem::take(&mut self.flows.cold[slot].is_observed)
            && let Some(observation) = &mut self.observation
        {
            observation.observer.ended(flow);
        }
    }

    /// What is known of the invocation of a flow that is observed.
    pub(crate) fn observed(&mut self, slot: usize) -> Option<&mut Observation> {
        let is_observed = self.flows.cold[slot].is_observed;
        self.observation.as_deref_mut().filter(|_| is_observed)
    }

    /// Tells the observer of the invocation that has ended.
    pub(crate) fn tell_observer(&mut self, slot: usize, before: (u64, u64), signals: &Signals) {
        if !self.flows.cold[slot].is_observed {
            return;
        }
        let flow = self.flows.name(slot);
        let hot = &self.flows.hot[slot];
        let Some(observation) = self.observation.as_deref_mut() else {
            return;
        };
        let ran = observation.ran.as_ref();
        let invocation = Invocation {
            flow,
            signals,
            before: Controls {
                cwnd: before.0,
                rate: before.1,
            },
            stage: observation.is_staged.then_some(&observation.stage),
            program: ran.map(|(number, program)| InvokedProgram {
                number: *number,
                program: program.program(),
            }),
            report: observation.has_reported.then_some(&*observation.report),
            fault: observation.fault,
            after: Controls {
                cwnd: hot.registers.cwnd,
                rate: hot.registers.rate,
            },
            variables: &hot.variables,
            timer_zero_us: hot.registers.timer_zero,
        };
        observation.observer.invoked(&invocation);
        observation.clear();
    }
}
