//! Boxes that hold guests' data: what they send themselves, and their timers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use fairwater_edge::buffer::Outgoing;
use fairwater_edge::{Direction, FlowKey};
use fairwater_tcp::Receiver;

use super::Simulation;
use crate::events::{Alarm, Event};
use crate::plane_link::Host;
use crate::{Experiment, Observer};

/// Boxes that send packets of their own, and whose those are.
#[derive(Debug, Default)]
pub(super) struct Boxes {
    alarms: BTreeMap<Host, Alarm>,
    /// Those that may have packets to send.
    due: BTreeSet<Host>,
    /// The slots of guests' connections, by interface and the sender's port.
    slots: BTreeMap<(u32, u16), u32>,
    faults: BTreeMap<Host, Faults>,
}

/// What no box may do.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// ACKs that guests got of what the receiver did not have.
    pub(super) early_acks: u64,
    /// Packets that nobody can read, or with other data than the guest's.
    pub(super) altered: u64,
}

impl Boxes {
    /// A guest gets an ACK: it must not be of what the receiver has not.
    pub(super) fn check_ack(&mut self, host: Host, ack: u64, receiver: &Receiver) {
        if ack > receiver.delivered() + u64::from(receiver.is_finished()) {
            self.faults.entry(host).or_default().early_acks += 1;
        }
    }

    /// What a box has done wrong.
    pub(super) fn faults(&self, host: Host) -> Faults {
        self.faults.get(&host).copied().unwrap_or_default()
    }

    /// A box may have something to send, or another timer.
    pub(super) fn wake(&mut self, host: Host) {
        self.due.insert(host);
    }

    /// A guest's connection begins in that slot.
    pub(super) fn open(&mut self, key: &FlowKey, slot: u32) {
        self.slots.insert((key.interface, key.guest.port()), slot);
    }

    /// A guest's connection has ended.
    pub(super) fn close(&mut self, key: &FlowKey) {
        self.slots.remove(&(key.interface, key.guest.port()));
    }
}

impl<C: Deref<Target = Experiment>, O: Observer> Simulation<C, O> {
    /// A box's timer.
    pub(super) fn box_timer(&mut self, host: Host) {
        let now = self.now;
        let alarm = self.boxes.alarms.entry(host).or_default();
        if alarm.rings(now) {
            self.plane.edge_timer(host, now);
            self.wake_plane();
            self.boxes.wake(host);
        }
    }

    /// Boxes send what they have to send: to the network and to guests, who may answer at once.
    pub(super) fn serve_boxes(&mut self) {
        while let Some(host) = self.boxes.due.pop_first() {
            while let Some(outgoing) = self.plane.poll_edge(host, self.now) {
                self.leave_box(&outgoing);
            }
            let at = self.plane.next_edge_timer(host);
            let alarm = self.boxes.alarms.entry(host).or_default();
            alarm.set(at, Event::Box(host), &mut self.events);
        }
    }

    /// A packet leaves a box that is no packet of an end.
    fn leave_box(&mut self, outgoing: &Outgoing) {
        let now = self.now;
        let Some(port) = crate::guest::port_of(outgoing) else {
            return;
        };
        let Some(&slot) = self.boxes.slots.get(&(outgoing.interface, port)) else {
            return;
        };
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let Some(guest) = &mut connection.guest else {
            return;
        };
        let Some((segment, ecn)) = guest.read_outgoing(now, outgoing, &mut self.wire) else {
            self.boxes.faults.entry(guest.host).or_default().altered += 1;
            return;
        };
        match outgoing.direction {
            Direction::FromGuest => self.launch(slot, true, segment, ecn),
            Direction::ToGuest => {
                self.boxes
                    .check_ack(guest.host, segment.ack, &connection.receiver);
                connection.sender.on_segment(now, &segment);
                self.after_sender(slot);
            }
        }
    }
}
