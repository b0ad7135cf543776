//! Direct datapaths in the server's loop.

use std::any::Any;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fairwater_plane::{Capabilities, Command, CommandSink, Event, FlowId, FlowSnapshot};

use super::{FIRST_DIRECT, HEARTBEAT, Server};
use crate::direct::{DatapathId, NotServed};
use crate::flow_status::{FlowMeasures, FlowStatus};
use crate::incident::Incident;
use crate::policy::{Policy, PolicyKey};
use crate::server::heartbeat::Heartbeat;
use crate::service::Service;

/// A datapath in the server's process, or in memory that it maps.
///
/// The server calls [`DirectDatapath::turn`] when the datapath's descriptor is readable and at each
/// heartbeat, and [`DirectDatapath::command`] for what events of other datapaths bring about.
pub trait DirectDatapath: Any + Send {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// What it has and can do.
    fn capabilities(&self) -> Capabilities;

    /// A descriptor that is readable while events wait; `None` if events are only looked for at
    /// heartbeats.
    fn readable(&self) -> Option<BorrowedFd<'_>>;

    /// The longest time between two turns.
    fn heartbeat(&self) -> Duration;

    /// The longest time until the next turn, where events may wait whose arrival
    /// [`DirectDatapath::readable`] does not tell.
    fn next_turn(&self) -> Option<Duration> {
        None
    }

    /// What it knows of a flow now, by its own name; `None` for a flow that is gone, and where it
    /// tells nothing.
    fn measure(&self, _flow: FlowId) -> Option<FlowMeasures> {
        None
    }

    /// Hands over the events that wait.
    fn turn(&mut self, port: &mut Port<'_>);

    /// Carries out a command for a flow, by the datapath's own name. A hand-over is answered by
    /// [`Event::Resumed`] at the next turn, or by [`Port::refuse_hand_over`].
    fn command(&mut self, flow: FlowId, command: &Command);
}

/// Where a direct datapath hands its events over.
#[derive(Debug)]
pub struct Port<'a> {
    service: &'a mut Service,
    id: DatapathId,
}

impl Port<'_> {
    /// Hands the plane an event of a flow, by the datapath's own name. Commands for the datapath's
    /// flows go to `sink` at once.
    #[inline]
    pub fn event(&mut self, event: Event<'_>, sink: &mut dyn CommandSink) {
        self.service.on_event(self.id, event, sink);
    }

    /// Tells the operator that a flow cannot be handed over to the algorithm of this index, by the
    /// datapath's own name: the flow goes on as before. `why` is a clause.
    pub fn refuse_hand_over(&mut self, flow: FlowId, algorithm: usize, why: &str) {
        self.service.refuse_hand_over(self.id, flow, algorithm, why);
    }

    /// Index of the algorithm that a new flow gets, which asked for that of index `asked`.
    #[must_use]
    pub fn assign(&self, asked: usize, key: &PolicyKey<'_>) -> usize {
        self.service.assign(self.id, asked, key)
    }

    /// Which algorithm flows get that ask for another.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.service.policy()
    }

    /// What the plane knows of a flow.
    #[must_use]
    pub fn flow(&self, flow: FlowId) -> Option<FlowSnapshot<'_>> {
        self.service.flow_of(self.id, flow)
    }
}

/// A direct datapath of a server.
pub(super) struct Attached {
    id: DatapathId,
    datapath: Box<dyn DirectDatapath>,
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached")
            .field("id", &self.id)
            .field("name", &self.datapath.name())
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Takes a datapath into the loop. Returns its identity, and the algorithms that it cannot run.
    ///
    /// # Errors
    /// Of the system: no timer, or the datapath's descriptor cannot be waited for.
    pub fn add(
        &mut self,
        datapath: impl DirectDatapath,
    ) -> io::Result<(DatapathId, Vec<NotServed>)> {
        let period = datapath.heartbeat();
        if period < self.heartbeat.period() {
            let heartbeat = Heartbeat::new(period)?;
            self.poller.remove(&self.heartbeat)?;
            self.poller.add(&heartbeat, HEARTBEAT)?;
            self.heartbeat = heartbeat;
        }
        if let Some(fd) = datapath.readable() {
            self.poller
                .add(&fd, FIRST_DIRECT + self.direct.len() as u64)?;
        }
        let (id, not_served) = self
            .service
            .register(datapath.name(), datapath.capabilities());
        self.direct.push(Attached {
            id,
            datapath: Box::new(datapath),
        });
        Ok((id, not_served))
    }

    /// A direct datapath of this type, for what it alone can say or do.
    #[must_use]
    pub fn datapath<D: DirectDatapath>(&self, id: DatapathId) -> Option<&D> {
        let attached = self.direct.iter().find(|attached| attached.id == id)?;
        (&*attached.datapath as &dyn Any).downcast_ref()
    }

    /// The same, to change it.
    pub fn datapath_mut<D: DirectDatapath>(&mut self, id: DatapathId) -> Option<&mut D> {
        let attached = self.direct.iter_mut().find(|attached| attached.id == id)?;
        (&mut *attached.datapath as &mut dyn Any).downcast_mut()
    }

    /// What is known of the flows of all datapaths.
    #[must_use]
    pub fn flows(&self) -> Vec<FlowStatus> {
        let Self {
            service, direct, ..
        } = self;
        let status = |flow| service.flow_status(flow, &mut |id, flow| measure(direct, id, flow));
        service.flows().filter_map(status).collect()
    }

    /// What is known of a flow, by the plane's name.
    #[must_use]
    pub fn flow(&self, flow: FlowId) -> Option<FlowStatus> {
        let direct = &self.direct;
        let measure = &mut |id, flow| measure(direct, id, flow);
        self.service.flow_status(flow, measure)
    }

    /// Flows that left their algorithm since the last call. Called after each turn, it still finds
    /// what their datapaths know of them.
    pub fn incidents(&mut self) -> Vec<Incident> {
        let Self {
            service, direct, ..
        } = self;
        service.collect_incidents(&mut |id, flow| measure(direct, id, flow))
    }

    /// One direct datapath hands over its events.
    pub(super) fn turn_direct(&mut self, index: usize) {
        let Self {
            service, direct, ..
        } = self;
        if let Some(Attached { id, datapath }) = direct.get_mut(index) {
            datapath.turn(&mut Port { service, id: *id });
        }
    }

    /// Turns direct datapaths whose events may wait untold.
    pub(super) fn turn_due_direct(&mut self) {
        for index in 0..self.direct.len() {
            let due = self.direct.get(index);
            if due.is_some_and(|attached| attached.datapath.next_turn().is_some()) {
                self.turn_direct(index);
            }
        }
    }

    /// Hands direct datapaths the commands that events of others brought about.
    pub(super) fn command_direct(&mut self) {
        for index in 0..self.direct.len() {
            let mut commanded = false;
            let Some(Attached { id, datapath }) = self.direct.get_mut(index) else {
                return;
            };
            while let Some((flow, command)) = self.service.poll_command(*id) {
                datapath.command(flow, &command);
                commanded = true;
            }
            if commanded {
                self.turn_direct(index);
            }
        }
    }

    /// The longest that the server may wait, for the sake of direct datapaths.
    pub(super) fn next_direct_turn(&self) -> Option<Duration> {
        let direct = self.direct.iter();
        direct
            .filter_map(|attached| attached.datapath.next_turn())
            .min()
    }
}

fn measure(direct: &[Attached], id: DatapathId, flow: FlowId) -> Option<FlowMeasures> {
    let attached = direct.iter().find(|attached| attached.id == id)?;
    attached.datapath.measure(flow)
}
