//! An algorithm that only listens: its reports are left for whoever steps the simulation, who
//! decides.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Flow, FlowInfo, Plane, PlaneError, Programs, Report,
};

use crate::report::Handles;
use crate::{PROGRAM, Reported};

/// Its name.
pub(crate) const NAME: &str = "collector";

/// Where its reports lie until they are taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inbox(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_full: AtomicBool,
    reports: Mutex<VecDeque<Reported>>,
}

impl Inbox {
    /// Whether there is something: asked after each event.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Option<Reported> {
        let mut reports = self
            .0
            .reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let first = reports.pop_front();
        self.0.is_full.store(!reports.is_empty(), Ordering::Relaxed);
        first
    }

    fn put(&self, report: Reported) {
        let mut reports = self
            .0
            .reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        reports.push_back(report);
        self.0.is_full.store(true, Ordering::Relaxed);
    }
}

/// A plane that hosts it.
pub(crate) fn plane(inbox: &Inbox) -> Result<Plane, PlaneError> {
    let mut plane = Plane::new();
    plane.add(|programs| ReportCollector::new(programs, inbox.clone()))?;
    Ok(plane)
}

#[derive(Clone)]
struct ReportCollector {
    handles: Handles,
    inbox: Inbox,
}

impl ReportCollector {
    fn new(programs: &mut Programs, inbox: Inbox) -> Result<Self, AlgorithmError> {
        let program = programs.add(NAME, PROGRAM)?;
        Ok(Self {
            handles: Handles::resolve(&program)?,
            inbox,
        })
    }
}

impl Algorithm for ReportCollector {
    fn name(&self) -> &str {
        NAME
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control<'_>) -> Box<dyn Flow> {
        Box::new(self.clone())
    }
}

impl Flow for ReportCollector {
    fn on_report(&mut self, report: &Report<'_>, _: &mut Control<'_>) {
        self.inbox.put(self.handles.read(report));
    }
}
