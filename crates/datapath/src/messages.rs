//! What peers say. Each message is judged as a whole before anything of it is done, so that one
//! that is refused has changed nothing.

use alloc::sync::Arc;
use alloc::vec::Vec;

use fairwater_lang::{MAX_RATE, VarId};
use fairwater_proto::own::{self, REFUSED_TO_DATAPATH};
use fairwater_proto::{
    Dialect, FlowId, Refusal, RefusalReason, ToDatapath, ToPlane, Updates, Welcome,
};

use crate::flow::Arrival;
use crate::peer::Probe;
use crate::program::Compiled;
use crate::stage::Numbered;
use crate::{Datapath, FlowState, PeerId};

/// A message that is not obeyed, and what it was about.
type Refused = (RefusalReason, Subject);

#[derive(Debug, Clone, Copy, Default)]
struct Subject {
    flow: Option<FlowId>,
    program: u32,
}

/// A Command, but for its flow.
struct Command<'a> {
    switch: Option<u32>,
    cwnd: Option<u64>,
    rate: Option<u64>,
    updates: Updates<'a>,
    withdraw: bool,
}

impl Datapath {
    /// Obeys one packet of a peer's, of any number of messages. A message that is malformed, out
    /// of order, about what is not the peer's, or out of bounds is refused as a whole, counted
    /// by reason ([`crate::DatapathStatistics::refused`]) and, in our dialect, answered.
    pub fn on_message(&mut self, peer: PeerId, packet: &[u8], now_us: u64) {
        self.unsent = true;
        self.now_us = self.now_us.max(now_us);
        let Some(index) = self.peers.index(peer) else {
            self.statistics.refuse(RefusalReason::UnknownPeer);
            return;
        };
        let Some(dialect) = self.peers.at(index).map(|peer| peer.dialect) else {
            return;
        };
        for message in dialect.to_datapath(packet) {
            let (kind, outcome) = match message {
                Ok(message) => (message.kind(), self.obey(index, message, now_us)),
                Err(malformed) => (
                    malformed.message,
                    Err((malformed.reason(), Subject::default())),
                ),
            };
            if let Err((reason, subject)) = outcome {
                self.refuse(index, kind, reason, subject);
            }
        }
    }

    /// Any message but an Install that is refused is a sign of life.
    fn obey(&mut self, index: usize, message: ToDatapath<'_>, now_us: u64) -> Result<(), Refused> {
        if !matches!(message, ToDatapath::Install { .. }) {
            self.on_sign_of_life(index, now_us);
        }
        match message {
            ToDatapath::Welcome(welcome) => {
                self.welcome(index, welcome, now_us);
                Ok(())
            }
            ToDatapath::Install {
                program,
                idle_restart,
                body,
            } => {
                self.install(index, program, idle_restart, body)
                    .map_err(|reason| {
                        (
                            reason,
                            Subject {
                                flow: None,
                                program,
                            },
                        )
                    })?;
                self.heard_install(index, now_us);
                Ok(())
            }
            ToDatapath::Uninstall { program } => self.uninstall(index, program).map_err(|reason| {
                (
                    reason,
                    Subject {
                        flow: None,
                        program,
                    },
                )
            }),
            ToDatapath::Command {
                flow,
                switch,
                cwnd,
                rate,
                updates,
                withdraw,
            } => {
                let subject = Subject {
                    flow: Some(flow),
                    program: switch.unwrap_or(0),
                };
                let command = Command {
                    switch,
                    cwnd,
                    rate,
                    updates,
                    withdraw,
                };
                self.command(index, flow, &command)
                    .map_err(|reason| (reason, subject))
            }
            ToDatapath::HandOver { flow, algorithm } => {
                self.hand_over(index, flow, algorithm).map_err(|reason| {
                    (
                        reason,
                        Subject {
                            flow: Some(flow),
                            program: 0,
                        },
                    )
                })
            }
            ToDatapath::Refused(refusal) => {
                self.statistics.refused_by_peer += 1;
                if (refusal.message, refusal.reason) == (own::HELLO, RefusalReason::Full)
                    && let Some(peer) = self.peers.at_mut(index)
                {
                    peer.is_full = true;
                }
                Ok(())
            }
        }
    }

    /// A Refused is never answered by one, and answers are few.
    fn refuse(&mut self, index: usize, message: u8, reason: RefusalReason, subject: Subject) {
        self.statistics.refuse(reason);
        let now_us = self.now_us;
        let Some(peer) = self.peers.at_mut(index) else {
            return;
        };
        if peer.dialect == Dialect::Own
            && message != REFUSED_TO_DATAPATH
            && peer.may_answer_refusal(now_us)
        {
            let refusal = Refusal {
                message,
                reason,
                flow: subject.flow,
                program: subject.program,
            };
            // Word of a refusal may be lost.
            let _ = peer.outgoing.push(peer.dialect, &ToPlane::Refused(refusal));
        }
    }

    fn welcome(&mut self, index: usize, welcome: Welcome, now_us: u64) {
        let silence_us = self.config.silence_us;
        let Some(peer) = self.peers.at_mut(index) else {
            return;
        };
        peer.is_full = false;
        let former = peer.instance.replace(welcome.instance);
        peer.silence_us = silence_us.max(2 * u64::from(welcome.alive_us));
        self.wake[index] = now_us.saturating_add(peer.silence_us);
        if former.is_some_and(|former| former != welcome.instance) {
            peer.programs.clear();
            self.statistics.restarts += 1;
            self.statistics.programs = self.count_programs();
            self.forget(index);
        }
    }

    /// Whether the peer has said what comes before anything else.
    fn is_introduced(&self, index: usize) -> bool {
        self.peers
            .at(index)
            .is_some_and(|peer| peer.dialect == Dialect::Ccp || peer.instance.is_some())
    }

    fn install(
        &mut self,
        index: usize,
        number: u32,
        idle_restart: bool,
        body: &[u8],
    ) -> Result<(), RefusalReason> {
        if !self.is_introduced(index) {
            return Err(RefusalReason::OutOfOrder);
        }
        let (available, backend) = (self.config.signals.present(), self.config.backend);
        let max_programs = self.config.max_programs as usize;
        let peer = self.peers.at_mut(index).ok_or(RefusalReason::UnknownPeer)?;
        let known = peer.programs.get(&number);
        if known.is_none() && peer.programs.len() >= max_programs && !wipes(peer.dialect, number) {
            return Err(RefusalReason::Full);
        }
        let program = Compiled::decode(peer.dialect, body, idle_restart, available)?;
        if let Some(known) = known {
            if known.is_same(&program) {
                return Ok(());
            }
            if peer.dialect == Dialect::Own {
                return Err(RefusalReason::ProgramInUse);
            }
        }
        if max_programs == 0 {
            return Err(RefusalReason::Full);
        }
        if wipes(peer.dialect, number) {
            peer.programs.clear();
        }
        let program = program.compile(backend);
        self.statistics.not_native +=
            u64::from(backend != crate::Backend::Interpreter && !program.is_native());
        self.statistics.installs += 1;
        peer.programs.insert(number, Arc::new(program));
        self.statistics.programs = self.count_programs();
        Ok(())
    }

    /// An agent of libccp's dialect that installs while it is probed gives itself away as a new one.
    fn heard_install(&mut self, index: usize, now_us: u64) {
        let peer = self.peers.at(index);
        let probed = peer.is_some_and(|p| p.dialect == Dialect::Ccp && p.probe == Probe::Sent);
        self.on_sign_of_life(index, now_us);
        if probed {
            self.statistics.restarts += 1;
            self.forget(index);
        }
    }

    fn uninstall(&mut self, index: usize, number: u32) -> Result<(), RefusalReason> {
        let peer = self.peers.at_mut(index).ok_or(RefusalReason::UnknownPeer)?;
        let known = peer.programs.remove(&number);
        known.ok_or(RefusalReason::UnknownProgram)?;
        self.statistics.programs = self.count_programs();
        Ok(())
    }

    fn command(
        &mut self,
        index: usize,
        flow: FlowId,
        command: &Command<'_>,
    ) -> Result<(), RefusalReason> {
        let peer = self.peers.at(index).ok_or(RefusalReason::UnknownPeer)?;
        if peer.dialect == Dialect::Ccp && flow.slot == self.config.max_flows {
            // The answer to a probe.
            return Ok(());
        }
        let slot = self.slot_on_wire(index, peer.dialect, flow)?;
        let cold = &self.flows.cold[slot];
        // The plane cannot mean a flow that was never announced to it.
        if !cold.announcements.known
            || cold.announcements.arrival.is_some()
            || !cold.state.may_switch()
        {
            return Err(RefusalReason::OutOfOrder);
        }
        if command.withdraw {
            self.flows.drop_program(slot, FlowState::Withdrawn);
            return Ok(());
        }
        if command.cwnd == Some(0) || command.rate.is_some_and(|rate| rate > MAX_RATE) {
            return Err(RefusalReason::BadControl);
        }
        let to = match command.switch {
            None => None,
            Some(number) => {
                let program = peer.programs.get(&number).map(Arc::clone);
                let program = program.ok_or(RefusalReason::UnknownProgram)?;
                Some(Numbered { number, program })
            }
        };
        let hot = &self.flows.hot[slot];
        let staged = cold.stage.as_ref().and_then(|stage| stage.switch.as_ref());
        let runs = to.as_ref().or(staged).map(|to| &to.program);
        let runs = runs.or(hot.program.as_ref());
        if cold.state == FlowState::Silent {
            return Err(RefusalReason::OutOfOrder);
        }
        let runs = runs.ok_or(RefusalReason::OutOfOrder)?;
        let updates: Option<Vec<(VarId, u64)>> = command
            .updates
            .iter()
            .map(|update| runs.update(update))
            .collect();
        let updates = updates.ok_or(RefusalReason::BadUpdate)?;

        let stages = &mut self.stages;
        let stage = self.flows.cold[slot]
            .stage
            .get_or_insert_with(|| stages.get());
        if let Some(to) = to {
            stage.switch(to);
        }
        for (variable, value) in updates {
            stage.update(variable, value);
        }
        stage.set_controls(command.cwnd, command.rate);
        self.flows.hot[slot].attention = true;
        self.statistics.commands += 1;
        Ok(())
    }

    /// The flow asks for another algorithm from now on; the present program runs until the plane
    /// switches it.
    fn hand_over(
        &mut self,
        index: usize,
        flow: FlowId,
        algorithm: &str,
    ) -> Result<(), RefusalReason> {
        let slot = self.slot_on_wire(index, Dialect::Own, flow)?;
        let cold = &self.flows.cold[slot];
        if !cold.announcements.known || !cold.state.may_switch() {
            return Err(RefusalReason::OutOfOrder);
        }
        self.flows.cold[slot].algorithm = self.intern(algorithm);
        self.announce(slot, Arrival::Resumed);
        Ok(())
    }

    /// The slot of a flow of that peer, by the name that its dialect has for it.
    fn slot_on_wire(
        &self,
        index: usize,
        dialect: Dialect,
        flow: FlowId,
    ) -> Result<usize, RefusalReason> {
        let slot = flow.slot as usize;
        let hot = self.flows.hot.get(slot).ok_or(RefusalReason::UnknownFlow)?;
        let own = hot.peer as usize == index && self.flows.cold[slot].is_open;
        let named = dialect.name_on_wire(self.flows.name(slot)) == Some(flow);
        (own && named)
            .then_some(slot)
            .ok_or(RefusalReason::UnknownFlow)
    }
}

/// An agent's program 1 is the first that it installs in its life (libccp empties its table), so
/// what it installed before is not installed any more. Flows that run it go on.
fn wipes(dialect: Dialect, number: u32) -> bool {
    dialect == Dialect::Ccp && number == 1
}
