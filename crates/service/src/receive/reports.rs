//! Reports of programs.

use fairwater_proto::{Fields, RefusalReason};

use super::{Arrival, Refused};
use crate::command_queue::CommandQueue;
use crate::peer::{Installed, Peer};
use crate::service::Shared;
use fairwater_plane::{Event, FlowId, RawReport};

/// What a report says beside its fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    /// The datapath's time; where the encoding has none, that of the arrival.
    pub(super) time_us: u64,
    /// Bytes.
    pub(super) cwnd: u64,
    /// Bytes/s.
    pub(super) rate: u64,
}

impl Shared {
    #[inline]
    pub(super) fn reported(
        &mut self,
        peer: &mut Peer,
        arrival: Arrival,
        (flow, program): (FlowId, u32),
        stamp: Stamp,
        fields: Fields<'_>,
    ) -> Result<(), Refused> {
        let Some(&peer_flow) = peer.peer_flow(flow) else {
            return self.found(peer, arrival, flow);
        };
        let dialect = arrival.dialect;
        let unknown = Refused::program(RefusalReason::UnknownProgram, flow, program);
        let numbered = self.catalogue.numbered(program);
        let Some((place, entry)) = numbered.filter(|(_, e)| e.algorithm == peer_flow.algorithm)
        else {
            // A libccp that was told of the plane's programs still runs a former plane's.
            let implied = peer
                .introduction
                .as_ref()
                .is_some_and(|introduction| introduction.implied);
            return if implied { Ok(()) } else { Err(unknown) };
        };
        if peer.programs.get(place as usize) != Some(&Installed::Yes) {
            return Err(unknown);
        }
        let appended = entry.appended(dialect);
        let count = entry.report_len;
        let copied = fields.copy_to(&mut self.fields);
        if fields.len() != copied || copied != count + appended {
            return Err(Refused::program(RefusalReason::BadReport, flow, program));
        }
        let (values, beyond) = self.fields.split_at(count);
        let stamp = match *beyond {
            [time_us, cwnd, rate, ..] if appended > 0 => Stamp {
                time_us,
                cwnd,
                rate,
            },
            _ => stamp,
        };
        let report = RawReport {
            program: entry.index,
            time_us: stamp.time_us,
            cwnd: stamp.cwnd,
            rate: stamp.rate,
            fields: values,
        };
        self.statistics.reports += 1;
        peer.reports += 1;
        let mut commands = CommandQueue::new(
            &self.catalogue,
            &mut self.statistics,
            &mut self.deferred,
            peer,
            dialect,
            (peer_flow.flow, flow.slot),
        );
        let event = Event::Reported {
            flow: peer_flow.flow,
            report,
        };
        self.plane.on_event(event, &mut commands);
        for (slot, command_error) in commands.into_errors() {
            self.command_error(peer, dialect, slot, command_error);
        }
        Ok(())
    }
}
