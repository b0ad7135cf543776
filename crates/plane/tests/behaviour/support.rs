//! A datapath that only writes down what it is told, and an algorithm that does as it is told.

use fairwater_plane::ProgramId;
use std::sync::{Arc, Mutex};

use fairwater_plane::*;

/// The commands of a plane, in order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Commands(pub(crate) Vec<(FlowId, Command)>);

impl CommandSink for Commands {
    fn command(&mut self, flow: FlowId, command: &Command) {
        self.0.push((flow, command.clone()));
    }
}

pub(crate) const COUNT: &str = "
(def (Report (volatile acked 0) (marked false)) (gain 1) (armed false))
(when true
  (:= Report.acked (+ Report.acked (* gain Ack.bytes_acked)))
  (:= Report.marked armed)
  (report))";

pub(crate) const IDLE: &str = "
(def (Report (beat 0)) (pace 0))
(when (> Micros pace) (:= Report.beat (+ Report.beat 1)) (report) (reset))";

/// The handles that a [`Scripted`] algorithm has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handles {
    pub(crate) count: ProgramId,
    pub(crate) idle: ProgramId,
    pub(crate) acked: Field,
    pub(crate) marked: Field,
    pub(crate) beat: Field,
    pub(crate) gain: Var,
    pub(crate) armed: Var,
    pub(crate) pace: Var,
}

type OnReport = dyn Fn(&Handles, &Report, &mut Control) + Send + Sync;

/// Runs a closure on each report, and keeps a log of begins and ends.
pub(crate) struct Scripted {
    name: &'static str,
    handles: Handles,
    script: Arc<OnReport>,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Scripted {
    pub(crate) fn build(
        name: &'static str,
        log: Arc<Mutex<Vec<&'static str>>>,
        script: impl Fn(&Handles, &Report, &mut Control) + Send + Sync + 'static,
    ) -> impl FnOnce(&mut Programs) -> Result<Self, AlgorithmError> {
        move |programs| {
            let count = programs.add("count", COUNT)?;
            let idle = programs.add("idle", IDLE)?;
            let handles = Handles {
                count: count.id(),
                idle: idle.id(),
                acked: count.field("acked")?,
                marked: count.field("Report.marked")?,
                beat: idle.field("beat")?,
                gain: count.variable("gain")?,
                armed: count.variable("armed")?,
                pace: idle.variable("pace")?,
            };
            Ok(Self {
                name,
                handles,
                script: Arc::new(script),
                log,
            })
        }
    }
}

impl Algorithm for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        self.log.lock().unwrap().push("new");
        Box::new(ScriptedFlow {
            handles: self.handles,
            script: self.script.clone(),
            log: self.log.clone(),
        })
    }
}

struct ScriptedFlow {
    handles: Handles,
    script: Arc<OnReport>,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Flow for ScriptedFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        (self.script)(&self.handles, report, control);
    }

    fn on_close(&mut self) {
        self.log.lock().unwrap().push("close");
    }
}

/// What is known of any test flow.
pub(crate) fn info() -> FlowInfo {
    FlowInfo {
        local: "[2001:db8::1]:5000".parse().unwrap(),
        remote: "192.0.2.1:80".parse().unwrap(),
        mss: 1000,
        cwnd: 10_000,
        srtt_us: 0,
        now_us: 7,
        tag: 0,
        ..FlowInfo::default()
    }
}

pub(crate) fn id(slot: u32, generation: u32) -> FlowId {
    FlowId { slot, generation }
}

/// A report of the program of that index.
pub(crate) fn report(program: u32, fields: &[u64]) -> RawReport<'_> {
    RawReport {
        program: ProgramId::new(0, program),
        time_us: 1_000,
        cwnd: 10_000,
        rate: 0,
        fields,
    }
}
