//! What a peer's messages do.

use std::net::{Ipv4Addr, SocketAddr};

use fairwater_exec::frame::Fault;
use fairwater_lang::SignalSet;
use fairwater_proto::{Dialect, Fields, Hello, Malformed, Refusal, RefusalReason, ToPlane, ccp};

use super::desk::Desk;
use super::notice::Notice;
use super::peer::{Installed, Introduction, Peer};
use super::seats::{Seat, Tenant};
use super::service::Shared;
use crate::{Event, FlowId, FlowInfo, RawReport};

/// What is assumed of a flow that is known by its reports alone: Ethernet's MSS, and the initial
/// window of RFC 6928 §2.
const ASSUMED_MSS: u32 = 1460;
const ASSUMED_CWND: u64 = 10 * ASSUMED_MSS as u64;

/// Why a message is refused.
struct Refused {
    reason: RefusalReason,
    flow: Option<FlowId>,
    program: u32,
}

impl Refused {
    fn flow(reason: RefusalReason, flow: FlowId) -> Self {
        Self {
            reason,
            flow: Some(flow),
            program: 0,
        }
    }

    fn program(reason: RefusalReason, flow: FlowId, program: u32) -> Self {
        Self {
            reason,
            flow: Some(flow),
            program,
        }
    }
}

/// A report as it came.
struct Arrived<'a> {
    flow: FlowId,
    program: u32,
    time_us: Option<u64>,
    cwnd: u64,
    rate: u64,
    fields: Fields<'a>,
}

impl Shared {
    /// Every message of a packet, the good ones among bad ones too.
    pub(super) fn packet(&mut self, peer: &mut Peer, packet: &[u8], now_us: u64) {
        self.statistics.packets += 1;
        peer.heard_us = now_us;
        let dialect = match (&peer.met, peer.dialect) {
            (Some(_), Some(dialect)) => dialect,
            _ => match Dialect::of(packet) {
                Some(dialect) => *peer.dialect.insert(dialect),
                None => return self.statistics.refuse(RefusalReason::Malformed),
            },
        };
        for message in dialect.to_plane(packet) {
            match message {
                Ok(message) => self.message(peer, dialect, &message, now_us),
                Err(malformed) => self.malformed(peer, malformed),
            }
        }
    }

    fn malformed(&mut self, peer: &mut Peer, malformed: Malformed) {
        self.refuse(
            peer,
            malformed.message,
            &Refused {
                reason: malformed.reason(),
                flow: None,
                program: 0,
            },
        );
    }

    fn refuse(&mut self, peer: &mut Peer, message: u8, refused: &Refused) {
        self.statistics.refuse(refused.reason);
        if peer.dialect == Some(Dialect::Own) {
            let refusal = Refusal {
                message,
                reason: refused.reason,
                flow: refused.flow,
                program: refused.program,
            };
            peer.outgoing.refuse(refusal, &mut self.statistics);
        }
    }

    fn message(&mut self, peer: &mut Peer, dialect: Dialect, message: &ToPlane<'_>, now_us: u64) {
        let done = match *message {
            ToPlane::Reported {
                flow,
                program,
                time_us,
                cwnd,
                rate,
                fields,
            } => {
                let arrived = Arrived {
                    flow,
                    program,
                    time_us,
                    cwnd,
                    rate,
                    fields,
                };
                self.reported(peer, dialect, &arrived, now_us)
            }
            ToPlane::Hello(hello) => {
                self.hello(peer, dialect, &hello, false, now_us);
                Ok(())
            }
            ToPlane::Created {
                flow,
                algorithm,
                ref info,
            } => self.created(peer, dialect, flow, algorithm, info, now_us),
            ToPlane::Resumed {
                flow,
                algorithm,
                ref info,
            } => self.resumed(peer, dialect, flow, algorithm, info, now_us),
            ToPlane::Faulted { flow, fault } => self.faulted(peer, flow, fault),
            ToPlane::Closed { flow } => self.closed(peer, flow),
            ToPlane::Refused(refusal) => {
                self.refused(peer, &refusal);
                Ok(())
            }
        };
        if let Err(refused) = done {
            self.refuse(peer, message.kind(), &refused);
        }
    }

    fn hello(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        hello: &Hello<'_>,
        implied: bool,
        now_us: u64,
    ) {
        // libccp's READY is sent once, when its state is fresh.
        let same = |met: &Introduction| met.instance == hello.instance && dialect == Dialect::Own;
        let known = peer.met.as_ref().is_some_and(same);
        if !known {
            self.end_flows(peer);
            peer.forget();
            peer.met = Some(Introduction {
                name: hello.name.to_owned(),
                instance: hello.instance,
                signals: hello.signals,
                max_programs: hello.max_programs,
                implied,
            });
            self.notice(Notice::Came {
                peer: hello.name.to_owned(),
                dialect,
            });
        }
        peer.welcomed_us = now_us;
        peer.outgoing.welcome = dialect == Dialect::Own;
    }

    /// A libccp that began before the plane did says no READY again.
    fn introduced(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        flow: FlowId,
        now_us: u64,
    ) -> Result<(), Refused> {
        match (&peer.met, dialect) {
            (Some(_), _) => Ok(()),
            (None, Dialect::Own) => Err(Refused::flow(RefusalReason::UnknownPeer, flow)),
            (None, Dialect::Ccp) => {
                let hello = Hello {
                    name: "libccp",
                    instance: 0,
                    signals: SignalSet::ALL,
                    max_programs: ccp::MAX_PROGRAMS,
                };
                self.hello(peer, dialect, &hello, true, now_us);
                Ok(())
            }
        }
    }

    fn created(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        flow: FlowId,
        algorithm: &str,
        info: &FlowInfo,
        now_us: u64,
    ) -> Result<(), Refused> {
        self.introduced(peer, dialect, flow, now_us)?;
        // libccp repeats CREATE when it is not sure that it was heard.
        if peer.tenant(flow).is_some() && dialect == Dialect::Own {
            return Err(Refused::flow(RefusalReason::OutOfOrder, flow));
        }
        self.start(peer, dialect, flow, algorithm, info, now_us)
    }

    fn resumed(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        flow: FlowId,
        algorithm: &str,
        info: &FlowInfo,
        now_us: u64,
    ) -> Result<(), Refused> {
        self.introduced(peer, dialect, flow, now_us)?;
        let Some(tenant) = peer.tenant(flow).copied() else {
            return self.start(peer, dialect, flow, algorithm, info, now_us);
        };
        if let Some(seat) = peer.seats.get_mut(flow.slot as usize) {
            peer.outgoing.forget(seat);
        }
        let event = Event::Resumed {
            flow: tenant.flow,
            info,
        };
        self.tell(peer, dialect, flow.slot, event);
        Ok(())
    }

    /// Seats a flow, in the place of a former one of the slot.
    fn start(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        flow: FlowId,
        algorithm: &str,
        info: &FlowInfo,
        now_us: u64,
    ) -> Result<(), Refused> {
        let full = Refused::flow(RefusalReason::Full, flow);
        let hosted = self.plane.algorithms();
        if flow.slot >= self.config.max_flows || hosted.is_empty() {
            return Err(full);
        }
        let named = hosted.iter().position(|a| a.name() == algorithm);
        if named.is_none() && !algorithm.is_empty() {
            self.statistics.unknown_algorithm += 1;
        }
        let algorithm = named.unwrap_or(0);
        let index = flow.slot as usize;
        if index >= peer.seats.len() {
            peer.seats.resize_with(index + 1, Seat::default);
        }
        self.end_flow(peer, flow.slot);
        let Some(place) = self.slots.take(self.config.max_flows) else {
            return Err(full);
        };
        if let Some(seat) = peer.seats.get_mut(index) {
            let algorithm = u32::try_from(algorithm).unwrap_or(u32::MAX);
            seat.tenant = Some(Tenant {
                generation: flow.generation,
                flow: place,
                algorithm,
                program: self.catalogue.place(algorithm, 0),
            });
        }
        peer.flows += 1;
        self.statistics.flows_total += 1;
        // Where the encoding has no time, it is the plane's.
        let mut info = info.clone();
        if dialect == Dialect::Ccp {
            info.now_us = now_us;
        }
        let event = Event::Created {
            flow: place,
            algorithm,
            info: &info,
        };
        self.tell(peer, dialect, flow.slot, event);
        Ok(())
    }

    #[inline]
    fn reported(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        arrived: &Arrived<'_>,
        now_us: u64,
    ) -> Result<(), Refused> {
        let &Arrived {
            flow,
            program,
            fields,
            ..
        } = arrived;
        let Some(&tenant) = peer.tenant(flow) else {
            return self.found(peer, dialect, flow, now_us);
        };
        let unknown = Refused::program(RefusalReason::UnknownProgram, flow, program);
        let numbered = self.catalogue.numbered(program);
        let Some((place, entry)) = numbered.filter(|(_, e)| e.algorithm == tenant.algorithm) else {
            // A libccp that was told of the plane's programs still runs a former plane's.
            let implied = peer.met.as_ref().is_some_and(|met| met.implied);
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
        let (time_us, cwnd, rate) = match *beyond {
            [time_us, cwnd, rate, ..] if appended > 0 => (time_us, cwnd, rate),
            _ => (
                arrived.time_us.unwrap_or(now_us),
                arrived.cwnd,
                arrived.rate,
            ),
        };
        let report = RawReport {
            program: entry.index,
            time_us,
            cwnd,
            rate,
            fields: values,
        };
        self.statistics.reports += 1;
        peer.reports += 1;
        let mut desk = Desk::new(
            &self.catalogue,
            &mut self.statistics,
            peer,
            dialect,
            flow.slot,
        );
        let event = Event::Reported {
            flow: tenant.flow,
            report,
        };
        self.plane.on_event(event, &mut desk);
        let trouble = desk.into_trouble();
        if trouble.is_some() {
            self.trouble(peer, dialect, flow.slot, trouble);
        }
        Ok(())
    }

    /// A report of a flow that is not known. Of a libccp that never introduced itself to this
    /// plane it is one of a former plane's, which goes on under ours.
    fn found(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        flow: FlowId,
        now_us: u64,
    ) -> Result<(), Refused> {
        self.introduced(peer, dialect, flow, now_us)?;
        if !peer.met.as_ref().is_some_and(|met| met.implied) {
            return Err(Refused::flow(RefusalReason::UnknownFlow, flow));
        }
        let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let info = FlowInfo {
            local: unknown,
            remote: unknown,
            mss: ASSUMED_MSS,
            cwnd: ASSUMED_CWND,
            srtt_us: 0,
            now_us,
        };
        self.start(peer, dialect, flow, "", &info, now_us)?;
        self.statistics.found_again += 1;
        Ok(())
    }

    fn faulted(&mut self, peer: &mut Peer, flow: FlowId, fault: u32) -> Result<(), Refused> {
        let tenant = known(peer, flow)?;
        let event = Event::Faulted {
            flow: tenant.flow,
            reason: fault_reason(fault),
        };
        self.plane.on_event(event, &mut Ignored);
        Ok(())
    }

    fn closed(&mut self, peer: &mut Peer, flow: FlowId) -> Result<(), Refused> {
        known(peer, flow)?;
        self.end_flow(peer, flow.slot);
        Ok(())
    }

    /// The peer refused something of ours. It is never answered.
    fn refused(&mut self, peer: &mut Peer, refusal: &Refusal) {
        let Some(dialect) = peer.dialect.filter(|_| peer.met.is_some()) else {
            return;
        };
        match refusal.flow {
            None => {
                let Some((place, _)) = self.catalogue.numbered(refusal.program) else {
                    return;
                };
                if let Some(state @ Installed::Yes) = peer.programs.get_mut(place as usize) {
                    *state = Installed::Refused;
                    let why = format!("it says {:?}", refusal.reason);
                    self.program_refused(peer.name(), place, why);
                }
            }
            // It ended meanwhile, and its end is on the way.
            Some(_) if refusal.reason == RefusalReason::UnknownFlow => {}
            Some(flow) if peer.tenant(flow).is_some() => {
                let why = format!("it refused a command: {:?}", refusal.reason);
                self.trouble(peer, dialect, flow.slot, Some((None, why)));
            }
            Some(_) => {}
        }
    }

    /// Hands the plane an event of the slot's flow and takes what comes of it.
    fn tell(&mut self, peer: &mut Peer, dialect: Dialect, slot: u32, event: Event<'_>) {
        let mut desk = Desk::new(&self.catalogue, &mut self.statistics, peer, dialect, slot);
        self.plane.on_event(event, &mut desk);
        let trouble = desk.into_trouble();
        self.trouble(peer, dialect, slot, trouble);
    }

    /// The flow cannot have what its algorithm wants: it goes under the datapath's fallback.
    fn trouble(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        slot: u32,
        trouble: Option<(Option<u32>, String)>,
    ) {
        let Some((program, why)) = trouble else {
            return;
        };
        if let Some(place) = program {
            self.program_refused(peer.name(), place, why.clone());
        }
        let tenant = peer.seats.get(slot as usize).and_then(|seat| seat.tenant);
        let Some(tenant) = tenant else {
            return;
        };
        let event = Event::Faulted {
            flow: tenant.flow,
            reason: &why,
        };
        let mut desk = Desk::new(&self.catalogue, &mut self.statistics, peer, dialect, slot);
        desk.withdraw();
        self.plane.on_event(event, &mut Ignored);
    }

    fn program_refused(&mut self, peer: &str, place: u32, why: String) {
        let Some(entry) = self.catalogue.entry(place) else {
            return;
        };
        let algorithm = self.plane.algorithms().get(entry.algorithm as usize);
        let notice = Notice::ProgramRefused {
            peer: peer.to_owned(),
            algorithm: algorithm.map_or("the service", |a| a.name()).to_owned(),
            program: entry.name().to_owned(),
            why,
        };
        self.notice(notice);
    }

    /// Ends the slot's flow, if it has one.
    fn end_flow(&mut self, peer: &mut Peer, slot: u32) {
        let Some(seat) = peer.seats.get_mut(slot as usize) else {
            return;
        };
        peer.outgoing.forget(seat);
        if let Some(tenant) = seat.tenant.take() {
            peer.flows -= 1;
            let event = Event::Closed { flow: tenant.flow };
            self.plane.on_event(event, &mut Ignored);
            self.slots.give_back(tenant.flow);
        }
    }

    pub(super) fn end_flows(&mut self, peer: &mut Peer) {
        for slot in 0..u32::try_from(peer.seats.len()).unwrap_or(u32::MAX) {
            self.end_flow(peer, slot);
        }
    }
}

fn known(peer: &Peer, flow: FlowId) -> Result<Tenant, Refused> {
    let unknown = match peer.met {
        Some(_) => RefusalReason::UnknownFlow,
        None => RefusalReason::UnknownPeer,
    };
    let tenant = peer.tenant(flow).copied();
    tenant.ok_or_else(|| Refused::flow(unknown, flow))
}

/// Where commands go that are of no use.
struct Ignored;

impl crate::CommandSink for Ignored {
    fn command(&mut self, _: FlowId, _: &crate::Command) {}
}

fn fault_reason(bits: u32) -> &'static str {
    let has = |fault: Fault| bits & fault as u32 != 0;
    if has(Fault::CwndZero) {
        "its program set Cwnd to 0"
    } else if has(Fault::RateAbsurd) {
        "a rate above 2^40 bytes/s was set"
    } else {
        "it was withdrawn"
    }
}
