//! Flows that share a bottleneck share one congestion controller: the Congestion Manager
//! (Balakrishnan et al., SIGCOMM 1999) as an aggregate of CCP §6.3.
//!
//! An algorithm of any kind runs once for all members, on signals summed over them, in the plane;
//! its window and rate are divided among the members.

mod collect;
mod config;
mod controls;
mod pool;

use std::sync::Arc;

use fairwater_plane::{
    Aggregate, Algorithm, AlgorithmError, Control, Ecn, Flow, FlowInfo, Group, Key, Member, Nested,
    Programs, Reason, Report,
};

pub use config::{CongestionManagerConfig, Share};

use crate::parameter::Configuration;
use collect::Collector;
use pool::Pool;

/// Divides what one inner algorithm allows among all flows of a key.
pub struct CongestionManager {
    config: Arc<CongestionManagerConfig>,
    collector: Collector,
    inner: Nested,
}

impl std::fmt::Debug for CongestionManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CongestionManager")
            .field("config", &self.config)
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl CongestionManager {
    /// Compiles the members' program and those of the inner algorithm.
    ///
    /// # Errors
    /// What the inner algorithm's build returns, and [`AlgorithmError::OutOfRange`] for
    /// `reports` or a prefix out of its range.
    pub fn new(
        programs: &mut Programs,
        config: CongestionManagerConfig,
    ) -> Result<Self, AlgorithmError> {
        config.check()?;
        let inner = Nested::build(|programs| config.algorithm.build(programs))?;
        Ok(Self {
            collector: Collector::load(programs, inner.signals(), &config)?,
            config: Arc::new(config),
            inner,
        })
    }

    /// A pool without members, for flows like this one.
    fn pool(&self, info: &FlowInfo) -> Result<Pool, Reason> {
        let inner = self.inner.start(info)?;
        Ok(Pool::new(Arc::clone(&self.config), inner, info))
    }
}

impl Algorithm for CongestionManager {
    fn name(&self) -> &str {
        "congestion_manager"
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        self.config.by.key(info)
    }

    fn new_aggregate(&self, _: &Key, info: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        Some(Box::new(ManagedFlows {
            collector: self.collector.clone(),
            pool: self.pool(info),
        }))
    }

    /// A flow without a key is managed by itself.
    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.collector.begin(info, control);
        let mut single = SingleFlow {
            collector: self.collector.clone(),
            pool: self.pool(info),
        };
        single.work(control, |pool| {
            pool.join(0, info);
            Ok(())
        });
        Box::new(single)
    }

    fn idle_restart(&self) -> bool {
        self.inner.algorithm().idle_restart()
    }

    fn needs_rate(&self) -> bool {
        self.inner.algorithm().needs_rate()
    }

    fn ecn(&self) -> Ecn {
        self.inner.algorithm().ecn()
    }
}

/// The flows of one key.
struct ManagedFlows {
    collector: Collector,
    /// The pool, or why the inner algorithm did not start.
    pool: Result<Pool, Reason>,
}

impl ManagedFlows {
    /// Changes the pool, and applies the controls that follow to the members.
    fn work(&mut self, group: &mut Group, work: impl FnOnce(&mut Pool) -> Result<(), Reason>) {
        let done = match &mut self.pool {
            Ok(pool) => work(pool).map(|()| {
                pool.changed_controls(|at, controls| {
                    let control = group.member(at).and_then(|m| group.control(m));
                    if let Some(mut control) = control {
                        controls.apply(&mut control);
                    }
                });
            }),
            Err(reason) => Err(reason.clone()),
        };
        if let Err(reason) = done {
            group.withdraw(reason.to_string());
        }
    }
}

impl Aggregate for ManagedFlows {
    fn create_subflow(&mut self, member: Member, info: &FlowInfo, group: &mut Group) {
        if let Some(mut control) = group.control(member) {
            self.collector.begin(info, &mut control);
        }
        self.work(group, |pool| {
            pool.join(member.index(), info);
            Ok(())
        });
    }

    fn on_report(&mut self, member: Member, report: &Report, group: &mut Group) {
        let sample = self.collector.read(report);
        self.work(group, |pool| pool.report(member.index(), &sample));
    }

    fn on_mss(&mut self, member: Member, mss: u32, group: &mut Group) {
        if let Some(mut control) = group.control(member) {
            self.collector.set_mss(mss, &mut control);
        }
        self.work(group, |pool| pool.set_mss(mss));
    }

    fn on_close(&mut self, member: Member, group: &mut Group) {
        let last = group.is_empty();
        self.work(group, |pool| {
            pool.leave(member.index());
            if last {
                pool.close();
            }
            Ok(())
        });
    }
}

/// A flow without a key, in a pool of its own.
struct SingleFlow {
    collector: Collector,
    pool: Result<Pool, Reason>,
}

impl SingleFlow {
    fn work(&mut self, control: &mut Control, work: impl FnOnce(&mut Pool) -> Result<(), Reason>) {
        let done = match &mut self.pool {
            Ok(pool) => {
                work(pool).map(|()| pool.changed_controls(|_, controls| controls.apply(control)))
            }
            Err(reason) => Err(reason.clone()),
        };
        if let Err(reason) = done {
            control.withdraw(reason.to_string());
        }
    }
}

impl Flow for SingleFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let sample = self.collector.read(report);
        self.work(control, |pool| pool.report(0, &sample));
    }

    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.collector.set_mss(mss, control);
        self.work(control, |pool| pool.set_mss(mss));
    }

    fn on_close(&mut self) {
        if let Ok(pool) = &mut self.pool {
            pool.close();
        }
    }
}
