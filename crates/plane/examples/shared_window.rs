//! Flows to one host share a window, whatever happens: each has an equal part of it.

use fairwater_plane::{
    Aggregate, Algorithm, AlgorithmError, By, Control, Flow, FlowInfo, Group, Key, Member, Plane,
    Programs, Report,
};

/// Bytes.
const WINDOW: u64 = 90_000;

struct SharedWindow;

impl SharedWindow {
    fn new(programs: &mut Programs) -> Result<Self, AlgorithmError> {
        programs.add("rest", "(def (Report (unused 0))) (when false (report))")?;
        Ok(Self)
    }
}

impl Algorithm for SharedWindow {
    fn name(&self) -> &str {
        "shared_window"
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        By::Host.key(info)
    }

    fn new_aggregate(&self, _: &Key, _: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        Some(Box::new(Shared))
    }

    /// For flows of which no address is known: they have no key.
    fn new_flow(&self, _: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        control.set_cwnd(WINDOW);
        Box::new(SingleFlow)
    }
}

struct Shared;

impl Shared {
    fn divide(&self, group: &mut Group) {
        let share = WINDOW / (group.len() as u64).max(1);
        group.each(|_, control| control.set_cwnd(share.max(1)));
    }
}

impl Aggregate for Shared {
    fn create_subflow(&mut self, _: Member, _: &FlowInfo, group: &mut Group) {
        self.divide(group);
    }

    fn on_report(&mut self, _: Member, _: &Report, _: &mut Group) {}

    fn on_close(&mut self, _: Member, group: &mut Group) {
        self.divide(group);
    }
}

struct SingleFlow;

impl Flow for SingleFlow {
    fn on_report(&mut self, _: &Report, _: &mut Control) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut plane = Plane::new();
    plane.add(SharedWindow::new)?;
    Ok(())
}
