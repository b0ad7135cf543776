//! An algorithm whose flows may begin with what was remembered, and such a flow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Claim, Due, Endpoint, Observation, Shared};
use crate::{
    Aggregate, Algorithm, AlgorithmError, Control, Ecn, Field, Flow, FlowInfo, Key, LoadedProgram,
    ProgramHandle, ProgramId, Programs, Report, Var,
};

/// The phases, as the program numbers them.
const UNVALIDATED: u64 = 1;
const VALIDATING: u64 = 2;
const SAFE_RETREAT: u64 = 3;

/// What the program reports as the reason that Careful Resume is over, as far as it matters here.
const VALIDATED: [u64; 2] = [5, 8];
const TIMED_OUT: u64 = 7;

/// An algorithm in a plane that resumes carefully.
pub(crate) struct Resuming<A> {
    name: String,
    hosted: Arc<Hosted<A>>,
}

/// What the flows of an algorithm share.
struct Hosted<A> {
    /// Flows begin under it when Careful Resume is over. It need not be `Sync`.
    algorithm: Mutex<A>,
    /// The program that the algorithm's flows begin with.
    first: ProgramId,
    program: Handles,
    /// By program: whether its reports end with what it delivered.
    counting: Vec<bool>,
    shared: Shared,
}

struct Handles {
    id: ProgramId,
    phase: Field,
    ended: Field,
    ssthresh: Field,
    srtt_us: Field,
    mss: Var,
    initial: Var,
    jump: Var,
    saved: Var,
    saved_rtt_us: Var,
}

impl Handles {
    fn load(programs: &mut Programs) -> Result<Self, AlgorithmError> {
        let p: ProgramHandle = programs.add("careful_resume", include_str!("program.ccp"))?;
        Ok(Self {
            id: p.id(),
            phase: p.field("phase")?,
            ended: p.field("ended")?,
            ssthresh: p.field("ssthresh")?,
            srtt_us: p.field("srtt_us")?,
            mss: p.variable("mss")?,
            initial: p.variable("initial")?,
            jump: p.variable("jump")?,
            saved: p.variable("saved")?,
            saved_rtt_us: p.variable("saved_rtt_us")?,
        })
    }
}

impl<A: Algorithm + 'static> Resuming<A> {
    /// The algorithm, whose programs are loaded, with the program of Careful Resume behind them.
    pub(crate) fn new(
        algorithm: A,
        programs: &mut Programs,
        shared: Shared,
    ) -> Result<Self, AlgorithmError> {
        let program = Handles::load(programs)?;
        let loaded = programs.loaded();
        Ok(Self {
            name: algorithm.name().to_owned(),
            hosted: Arc::new(Hosted {
                program,
                counting: loaded.iter().map(LoadedProgram::counts).collect(),
                first: programs.first(),
                algorithm: Mutex::new(algorithm),
                shared,
            }),
        })
    }

    fn algorithm(&self) -> MutexGuard<'_, A> {
        self.hosted.algorithm()
    }
}

impl<A> Hosted<A> {
    fn algorithm(&self) -> MutexGuard<'_, A> {
        self.algorithm
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Algorithm + 'static> Algorithm for Resuming<A> {
    fn name(&self) -> &str {
        &self.name
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control<'_>) -> Box<dyn Flow> {
        let hosted = &self.hosted;
        let known = hosted.shared.lock().endpoint(info);
        let Some(endpoint) = known else {
            return hosted.algorithm().new_flow(info, control);
        };
        let begun = hosted.begin(endpoint, info, control);
        let (stage, claim) = match begun {
            Some(claim) => {
                let info = Box::new(info.clone());
                (Stage::Resuming { info, phase: 0 }, Some(claim))
            }
            None => {
                let flow = hosted.algorithm().new_flow(info, control);
                (Stage::Normal(flow), None)
            }
        };
        Box::new(ResumingFlow {
            hosted: Arc::clone(hosted),
            endpoint,
            claim,
            initial: info.cwnd.max(10 * u64::from(info.mss)),
            observation: Observation::new(info.now_us),
            stage,
        })
    }

    fn idle_restart(&self) -> bool {
        self.algorithm().idle_restart()
    }

    fn needs_rate(&self) -> bool {
        self.algorithm().needs_rate()
    }

    fn ecn(&self) -> Ecn {
        self.algorithm().ecn()
    }

    fn resumes_carefully(&self) -> bool {
        true
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        self.algorithm().aggregate_by(info)
    }

    fn new_aggregate(&self, key: &Key, info: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        self.algorithm().new_aggregate(key, info)
    }
}

impl<A> Hosted<A> {
    /// The flow begins in the Reconnaissance Phase, if there is a set for it.
    fn begin(
        &self,
        endpoint: Endpoint,
        info: &FlowInfo,
        control: &mut Control<'_>,
    ) -> Option<Claim> {
        let mut memory = self.shared.lock();
        // A flow that has left slow start knows its path.
        if info.ssthresh.is_some() || !memory.may_resume {
            return None;
        }
        let (set, user) = memory.claim(&endpoint)?;
        memory.status.started += 1;
        // RFC 9959 §3.3: at most half of what was saved.
        let jump = memory.config().max_jump.min(set.cwnd / 2);
        let program = &self.program;
        control.switch(program.id);
        control.update(program.mss, info.mss.max(1));
        control.update(program.initial, info.cwnd.max(1));
        control.update(program.jump, jump);
        control.update(program.saved, set.cwnd);
        control.update(program.saved_rtt_us, set.rtt_us);
        Some(Claim::new(self.shared.clone(), endpoint, user))
    }
}

enum Stage {
    /// The program of Careful Resume controls the flow, which began so.
    Resuming { info: Box<FlowInfo>, phase: u64 },
    /// The algorithm does.
    Normal(Box<dyn Flow>),
}

/// A flow of a known path.
struct ResumingFlow<A> {
    hosted: Arc<Hosted<A>>,
    endpoint: Endpoint,
    /// Of the set that the flow began with.
    claim: Option<Claim>,
    /// The initial window, bytes.
    initial: u64,
    observation: Observation,
    stage: Stage,
}

impl<A: Algorithm + 'static> ResumingFlow<A> {
    /// What the program of Careful Resume tells. Returns whether Careful Resume is over.
    fn on_phase(&mut self, report: &Report<'_>) -> bool {
        let Stage::Resuming { phase, .. } = &mut self.stage else {
            return false;
        };
        let program = &self.hosted.program;
        let (now, ended) = (report[program.phase], report[program.ended]);
        let has_jumped = |phase| phase >= UNVALIDATED;
        let retreats = (now == SAFE_RETREAT && *phase != SAFE_RETREAT)
            || (ended == TIMED_OUT && matches!(now, UNVALIDATED | VALIDATING));
        {
            let mut memory = self.hosted.shared.lock();
            let status = &mut memory.status;
            status.jumped += u64::from(has_jumped(now) && !has_jumped(*phase));
            status.validated += u64::from(VALIDATED.contains(&ended));
            status.retreated += u64::from(retreats);
        }
        *phase = now;
        if retreats && let Some(claim) = self.claim.take() {
            claim.delete();
        }
        ended != 0
    }

    /// RFC 9959 §3.7: the flow goes on under its algorithm.
    fn return_to_normal(&mut self, report: &Report<'_>, control: &mut Control<'_>) {
        let Stage::Resuming { info, .. } = &self.stage else {
            return;
        };
        let program = &self.hosted.program;
        let ssthresh = report[program.ssthresh];
        let info = FlowInfo {
            cwnd: report.cwnd(),
            rate: 0,
            ssthresh: (ssthresh > 0).then_some(ssthresh),
            srtt_us: report[program.srtt_us],
            now_us: report.time_us(),
            ..(**info).clone()
        };
        control.switch(self.hosted.first);
        control.set_rate(0);
        let flow = self.hosted.algorithm().new_flow(&info, control);
        self.stage = Stage::Normal(flow);
        // A sender that no longer resumes may observe (RFC 9959 §4.6).
        self.observation = Observation::new(report.time_us());
    }

    /// Saves what was observed. The flow has used its set, and gives it back.
    fn save(&mut self) {
        if let Some((set, converged)) = self.observation.outcome(self.initial) {
            let mut memory = self.hosted.shared.lock();
            memory.save(self.endpoint, set, converged);
            drop(memory);
            self.claim = None;
        }
    }
}

impl<A: Algorithm + 'static> Flow for ResumingFlow<A> {
    fn on_report(&mut self, report: &Report<'_>, control: &mut Control<'_>) {
        let reporter = report.program().index() as usize;
        let counts = self.hosted.counting.get(reporter) == Some(&true);
        let due = match counts {
            true => self.observation.on_report(report),
            false => Due::No,
        };
        if let Stage::Normal(flow) = &mut self.stage {
            flow.on_report(report, control);
            // A flow that has a set gives it back with a whole observation.
            if due == Due::Half || (due == Due::Grown && self.claim.is_none()) {
                self.save();
            }
        } else if self.on_phase(report) {
            self.return_to_normal(report, control);
        }
    }

    fn on_mss(&mut self, mss: u32, control: &mut Control<'_>) {
        match &mut self.stage {
            Stage::Normal(flow) => flow.on_mss(mss, control),
            Stage::Resuming { info, .. } => {
                info.mss = mss;
                control.update(self.hosted.program.mss, mss.max(1));
            }
        }
    }

    fn on_close(&mut self) {
        if let Stage::Normal(flow) = &mut self.stage {
            flow.on_close();
            self.save();
        }
    }
}
