//! What an author writes.

use crate::{Aggregate, Control, FlowInfo, Key, Report};

/// A congestion control algorithm: programs for the datapath, and what to do with their reports
/// (CCP §4.2).
///
/// It is built from [`Programs`](crate::Programs) by the function given to
/// [`Plane::add`](crate::Plane::add), which compiles its programs and resolves its handles once.
pub trait Algorithm: Send {
    /// The name under which datapaths offer it: letters, digits and `_`, `cubic` for instance.
    fn name(&self) -> &str;

    /// A flow started, or came back from the datapath's fallback. The flow begins with the
    /// algorithm's first program unless `control` [switches](Control::switch) to another.
    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow>;

    /// Whether the datapath reduces cwnd to the restart window after an idle period
    /// (RFC 5681 §4.1). Yes unless the algorithm says otherwise, as one that paces may.
    fn idle_restart(&self) -> bool {
        true
    }

    /// Whether the algorithm controls its flows by a pacing rate that no window can stand for.
    /// Datapaths that enforce no rate are then not served. No unless the algorithm says otherwise.
    fn needs_rate(&self) -> bool {
        false
    }

    /// What the algorithm needs of explicit congestion notification.
    fn ecn(&self) -> Ecn {
        Ecn::default()
    }

    /// Whether a flow may begin with part of the capacity that an earlier flow observed, in a plane that
    /// resumes carefully ([`Plane::resume_carefully`](crate::Plane::resume_carefully)): the algorithm
    /// then begins later, with the window that was validated. Yes unless the algorithm says otherwise,
    /// as one whose window or rate does not depend on the path.
    fn resumes_carefully(&self) -> bool {
        true
    }

    /// Which flows are controlled together (CCP §6.3): those of the same key. `None`, as long as
    /// the algorithm does not say otherwise: the flow runs alone, by
    /// [`new_flow`](Algorithm::new_flow). So does one for which this panics. [`By`](crate::By)
    /// makes the usual keys.
    fn aggregate_by(&self, _info: &FlowInfo) -> Option<Key> {
        None
    }

    /// The first flow of a key starts; [`Aggregate::create_subflow`] follows, for it and for
    /// each other. `None`: it runs alone.
    fn new_aggregate(&self, _key: &Key, _info: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        None
    }
}

/// What an algorithm needs of explicit congestion notification (ECN).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Ecn {
    /// Nothing: whether a flow negotiates ECN, and how, is as the machine or the scenario has it.
    #[default]
    AsConfigured,
    /// Its flows negotiate ECN, and their receivers echo the marks packet by packet (RFC 8257
    /// §3.2).
    Required,
}

impl<A: Algorithm + ?Sized> Algorithm for Box<A> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        (**self).new_flow(info, control)
    }

    fn idle_restart(&self) -> bool {
        (**self).idle_restart()
    }

    fn needs_rate(&self) -> bool {
        (**self).needs_rate()
    }

    fn ecn(&self) -> Ecn {
        (**self).ecn()
    }

    fn resumes_carefully(&self) -> bool {
        (**self).resumes_carefully()
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        (**self).aggregate_by(info)
    }

    fn new_aggregate(&self, key: &Key, info: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        (**self).new_aggregate(key, info)
    }
}

/// One flow of an algorithm: the state that outlives a report.
pub trait Flow: Send {
    /// A report of the program that the flow last switched to. A report that a former program
    /// had under way when the flow switched is not delivered.
    fn on_report(&mut self, report: &Report, control: &mut Control);

    /// The flow's segments are of `mss` bytes of payload from now on, at least 1: the path's MTU was
    /// found to be another (RFC 4821, RFC 8899). An algorithm whose program counts in segments gives it
    /// the new size. cwnd, in bytes, stays as it was.
    fn on_mss(&mut self, _mss: u32, _control: &mut Control) {}

    /// The flow ended or left the algorithm. Called at most once, and never after a panic.
    fn on_close(&mut self) {}
}
