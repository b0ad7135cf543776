//! Reports of programs.

use fairwater_proto::{Fields, RefusalReason};

use super::{Arrival, Refused};
use crate::catalogue::{Catalogue, Entry};
use crate::command_queue::CommandQueue;
use crate::conformance::{Conformance, Watch};
use crate::notice::ServiceNotice;
use crate::peer::{Installed, Peer};
use crate::service::Shared;
use fairwater_plane::{Capabilities, Event, FlowId, ProgramId, RawReport, Signal};

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
        let Some((position, entry)) = reporting(&self.catalogue, peer, flow, program)? else {
            return Ok(());
        };
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
            program: ProgramId::new(entry.algorithm, entry.index),
            time_us: stamp.time_us,
            cwnd: stamp.cwnd,
            rate: stamp.rate,
            fields: values,
        };
        if stamp.cwnd > 0
            && let Some(record) = peer.slots.get_mut(flow.slot as usize)
            && let Some(peer_flow) = &mut record.peer_flow
        {
            peer_flow.cwnd = stamp.cwnd;
            peer_flow.rate = stamp.rate;
        }
        self.log.push(peer_flow.flow, &report);
        let watched =
            peer.conformance
                .on_report(position, peer_flow.flow, report.time_us, report.fields);
        self.statistics.reports += 1;
        peer.reports += 1;
        let mut commands = CommandQueue::new(
            (&self.catalogue, &self.slots),
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
        let outcome = commands.into_outcome();
        self.conclude(peer, dialect, outcome);
        if let (Some(watch), Some(introduction)) = (watched, &peer.introduction) {
            let (name, capabilities) = (&introduction.name, &introduction.capabilities);
            self.judge(
                &mut peer.conformance,
                (name, capabilities),
                position,
                &watch,
            );
        }
        Ok(())
    }

    /// Tells the operator of signals that a datapath calls exact and that did not move.
    #[cold]
    pub(crate) fn judge(
        &mut self,
        conformance: &mut Conformance,
        (datapath, capabilities): (&str, &Capabilities),
        position: u32,
        watch: &Watch,
    ) {
        let Some(entry) = self.catalogue.entry(position) else {
            return;
        };
        let unmoved = conformance.judge(watch, entry.witnesses(), capabilities);
        let algorithm = self.plane.algorithms().get(entry.algorithm as usize);
        let algorithm = algorithm.map_or_else(String::new, |hosted| hosted.name().to_owned());
        for signals in unmoved {
            let names: Vec<_> = signals.into_iter().map(Signal::name).collect();
            self.notice(ServiceNotice::SignalUnmoved {
                datapath: datapath.to_owned(),
                signal: names.join(" or "),
                algorithm: algorithm.clone(),
                reports: watch.reports(),
            });
        }
    }
}

/// The catalogue's entry of the program that reports; `None` when the report is ignored.
#[inline]
fn reporting<'c>(
    catalogue: &'c Catalogue,
    peer: &Peer,
    flow: FlowId,
    program: u32,
) -> Result<Option<(u32, &'c Entry)>, Refused> {
    let unknown = Refused::program(RefusalReason::UnknownProgram, flow, program);
    let numbered = catalogue.numbered(program);
    let Some((position, entry)) = numbered.filter(|(_, e)| e.algorithm != u32::MAX) else {
        // A libccp that was told of the plane's programs still runs a former plane's.
        let implied = peer
            .introduction
            .as_ref()
            .is_some_and(|introduction| introduction.implied);
        return if implied { Ok(None) } else { Err(unknown) };
    };
    match peer.programs.get(position as usize) {
        Some(Installed::Yes) => Ok(Some((position, entry))),
        _ => Err(unknown),
    }
}
