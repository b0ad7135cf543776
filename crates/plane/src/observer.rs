//! Observers of a plane: its events and the commands that they lead to.

use crate::{Command, CommandSink, Event, FlowId};

/// Observes a plane; see [`Plane::set_observer`](crate::Plane::set_observer).
pub trait PlaneObserver: Send {
    /// An event is about to be carried out. The commands that it leads to follow.
    fn event(&mut self, event: &Event<'_>);

    /// The plane commands a flow.
    fn command(&mut self, flow: FlowId, command: &Command);
}

impl std::fmt::Debug for dyn PlaneObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlaneObserver")
    }
}

/// Tells an observer of each command on its way.
pub(crate) struct Observed<'a> {
    pub(crate) observer: &'a mut dyn PlaneObserver,
    pub(crate) sink: &'a mut dyn CommandSink,
}

impl CommandSink for Observed<'_> {
    fn command(&mut self, flow: FlowId, command: &Command) {
        self.observer.command(flow, command);
        self.sink.command(flow, command);
    }
}
