//! One invocation: what happens at each ACK.

use core::mem;

use fairwater_exec::frame::Fault;
use fairwater_exec::invocation::control_fault;
use fairwater_lang::{Signal, Signals};
use fairwater_proto::{Dialect, Fallback, FlowId, ToPlane};

use crate::enforced::OnlyControl;
use crate::fallback::{Controller, Takeover};
use crate::flow::Arrival;
use crate::peer::Liveness;
use crate::{Controls, Datapath, FlowState, UnknownFlow};

impl Datapath {
    /// Runs the flow's program, or the fallback, on the signals of an ACK or of a retransmission
    /// timeout, by [`Signal`] index. `Ack.now` is the datapath's time, µs; `Flow.was_timeout` is
    /// 0 or 1; a missing RTT sample is [`u64::MAX`]. Signals that [`crate::Config::signals`] does
    /// not have are not read.
    ///
    /// Returns what the transport is to enforce from now on, when that has changed.
    ///
    /// # Errors
    /// There is no such flow.
    #[inline]
    pub fn invoke(
        &mut self,
        flow: FlowId,
        signals: &Signals,
    ) -> Result<Option<Controls>, UnknownFlow> {
        let slot = flow.slot as usize;
        let Some(hot) = self.flows.hot.get_mut(slot) else {
            return Err(UnknownFlow(flow));
        };
        if hot.generation != flow.generation {
            return Err(UnknownFlow(flow));
        }
        // A peer's entry of `wake` says when an invocation has to look after the peer.
        let wake = self.wake.get(hot.peer as usize);
        let calm = !hot.attention && wake.is_some_and(|at| signals[Signal::Now] < *at);
        if !calm {
            return self.invoke_attentively(flow, signals);
        }
        self.watch_congestion(slot, signals);
        Ok(self.run(slot, signals))
    }

    /// Runs the flow's program.
    #[inline]
    fn run(&mut self, slot: usize, signals: &Signals) -> Option<Controls> {
        let hot = &mut self.flows.hot[slot];
        let before = (hot.registers.cwnd, hot.registers.rate);
        let program = hot.program.as_deref()?;
        let reported = program.run(&mut hot.registers, &mut hot.variables, signals);
        let changed = before != (hot.registers.cwnd, hot.registers.rate);
        if !(changed || reported) {
            return None;
        }
        self.settle(slot, before, reported, signals)
    }

    /// Judges what the invocation set, and sends the report.
    fn settle(
        &mut self,
        slot: usize,
        before: (u64, u64),
        reported: bool,
        signals: &Signals,
    ) -> Option<Controls> {
        let registers = &mut self.flows.hot[slot].registers;
        if let Some(fault) = control_fault(before, registers) {
            (registers.cwnd, registers.rate) = before;
            self.fault(slot, fault);
            return self.fall_back(slot, before, signals);
        }
        if reported {
            self.report(slot, signals);
        }
        self.changed(slot, before)
    }

    /// Keeps what the fallback, or another algorithm, must know when the program ends.
    #[inline]
    fn watch_congestion(&mut self, slot: usize, signals: &Signals) {
        let hot = &self.flows.hot[slot];
        let congestion =
            signals[Signal::LostPkts] | signals[Signal::EcnPackets] | signals[Signal::EcnBytes];
        let is_news = congestion != 0 && (hot.is_lossless || hot.is_after_timeout);
        if is_news || signals[Signal::WasTimeout] != 0 {
            self.note_congestion(slot, signals);
        }
    }

    #[cold]
    fn note_congestion(&mut self, slot: usize, signals: &Signals) {
        let hot = &mut self.flows.hot[slot];
        let cold = &mut self.flows.cold[slot];
        let path = cold.path(&self.config, signals);
        if path.is_timeout() {
            // RFC 5681 §3.1: the threshold is held when the same window times out again.
            if !hot.is_after_timeout {
                let flight = path.flight(hot.registers.cwnd);
                cold.timeout_ssthresh = (flight / 2).max(2 * path.mss);
            }
            hot.is_after_timeout = true;
            hot.is_lossless = false;
        } else if path.is_congested() {
            hot.is_after_timeout = false;
            hot.is_lossless = false;
        }
    }

    /// Window and rate in force, if the transport does not know them yet.
    fn changed(&mut self, slot: usize, before: (u64, u64)) -> Option<Controls> {
        let hot = &mut self.flows.hot[slot];
        let registers = &hot.registers;
        let now = (registers.cwnd, registers.rate);
        if now == before {
            return None;
        }
        if hot.is_after_timeout {
            hot.is_after_timeout = now.0 < self.flows.cold[slot].timeout_ssthresh;
        }
        Some(Controls {
            cwnd: now.0,
            rate: now.1,
        })
    }

    /// An invocation that may have more to do than to run the program.
    #[cold]
    fn invoke_attentively(
        &mut self,
        flow: FlowId,
        signals: &Signals,
    ) -> Result<Option<Controls>, UnknownFlow> {
        let slot = self.flows.slot(flow).ok_or(UnknownFlow(flow))?;
        let now_us = signals[Signal::Now];
        self.now_us = self.now_us.max(now_us);
        self.unsent = true;
        let registers = &self.flows.hot[slot].registers;
        let before = (registers.cwnd, registers.rate);
        let was_released = self.flows.cold[slot].is_released();
        self.watch_congestion(slot, signals);
        if self.flows.cold[slot].state.may_switch() {
            self.attend_to_plane(slot, now_us);
            if self.is_staged(slot) {
                self.apply_stage(slot, now_us);
            }
        }
        let changed = if self.flows.cold[slot].state == FlowState::Running {
            self.observe_program(slot);
            let hot = &mut self.flows.hot[slot];
            let reported = hot
                .program
                .as_deref()
                .is_some_and(|p| p.run(&mut hot.registers, &mut hot.variables, signals));
            self.settle(slot, before, reported, signals)
        } else {
            self.fall_back(slot, before, signals)
        };
        self.tell_observer(slot, before, signals);
        Ok(match self.only_control() {
            None if was_released && self.flows.cold[slot].state == FlowState::Running => {
                Some(self.in_force(slot))
            }
            None => changed,
            Some(only) => self.derive(slot, only, signals),
        })
    }

    /// What a transport with one control is to enforce, if that has changed.
    fn derive(&mut self, slot: usize, only: OnlyControl, signals: &Signals) -> Option<Controls> {
        let rtt_us = self.rtt_sample(signals);
        if let Some(rtt_us) = rtt_us {
            self.measure_rtt(slot, rtt_us);
        }
        let registers = &self.flows.hot[slot].registers;
        let set = Controls {
            cwnd: registers.cwnd,
            rate: registers.rate,
        };
        let cold = &mut self.flows.cold[slot];
        let path = (u64::from(cold.info.mss), cold.info.srtt_us);
        let is_released = cold.is_released();
        let enforced = cold.enforced.as_mut()?;
        if let Some(rtt_us) = rtt_us {
            enforced.on_rtt(signals[Signal::Now], rtt_us);
        }
        let controls = if is_released {
            Controls::RELEASED
        } else {
            enforced.of(only, set, path)
        };
        let before = mem::replace(&mut enforced.controls, controls);
        (before != controls).then_some(controls)
    }

    /// Follows the plane from alive to silent and back.
    fn attend_to_plane(&mut self, slot: usize, now_us: u64) {
        let peer = self.flows.hot[slot].peer as usize;
        self.check_silence(peer, now_us);
        let is_silent = self.is_silent(peer);
        let cold = &mut self.flows.cold[slot];
        match cold.state {
            FlowState::Running | FlowState::Waiting if is_silent && cold.announcements.known => {
                if cold.state == FlowState::Running {
                    self.statistics.fallbacks += 1;
                }
                self.flows.drop_program(slot, FlowState::Silent);
            }
            FlowState::Silent if !is_silent => {
                cold.state = FlowState::Waiting;
                self.announce(slot, Arrival::Resumed);
            }
            _ => {}
        }
    }

    /// Notes the flow's program for the observer.
    fn observe_program(&mut self, slot: usize) {
        let (hot, cold) = (&self.flows.hot[slot], &self.flows.cold[slot]);
        if cold.is_observed
            && let (Some(observation), Some(program)) = (&mut self.observation, &hot.program)
        {
            observation.runs(cold.number, program);
        }
    }

    fn is_silent(&self, peer: usize) -> bool {
        let peer = self.peers.at(peer);
        peer.is_none_or(|peer| peer.liveness == Liveness::Silent)
    }

    fn is_staged(&self, slot: usize) -> bool {
        self.flows.cold[slot].stage.is_some()
    }

    /// Steps 2 of an invocation (`fairwater_lang::Program`'s module).
    fn apply_stage(&mut self, slot: usize, now_us: u64) {
        let hot = &mut self.flows.hot[slot];
        let cold = &mut self.flows.cold[slot];
        let Some(mut stage) = cold.stage.take() else {
            return;
        };
        if cold.is_observed
            && let Some(observation) = &mut self.observation
        {
            let switch = stage.switch.as_ref().map(|to| to.number);
            stage.copy_to(switch, observation.applies());
        }
        if let Some(to) = stage.switch.take() {
            to.program.initialize(&mut hot.variables);
            hot.registers.timer_zero = now_us;
            hot.program = Some(to.program);
            cold.number = to.number;
            cold.state = FlowState::Running;
            cold.fallback = None;
        }
        stage.apply(&mut hot.registers, &mut hot.variables);
        // A transport with one control is looked after at each ACK, and so is a flow that is observed.
        hot.attention = hot.program.is_none() || cold.enforced.is_some() || cold.is_observed;
        self.stages.put(stage);
    }

    /// Runs the fallback. `before` is what the transport enforces.
    fn fall_back(
        &mut self,
        slot: usize,
        before: (u64, u64),
        signals: &Signals,
    ) -> Option<Controls> {
        let in_force = self.in_force(slot).cwnd;
        self.follow_rtt(slot, signals);
        let hot = &mut self.flows.hot[slot];
        let cold = &mut self.flows.cold[slot];
        if self.config.fallback == Fallback::Release {
            let is_known = cold.fallback.replace(Controller::Released).is_some();
            return (!is_known).then_some(Controls::RELEASED);
        }
        let path = cold.path(&self.config, signals);
        let (mut controller, cwnd) = match cold.fallback.take() {
            Some(controller) => (controller, hot.registers.cwnd),
            None => {
                let takeover = hot.takeover(cold);
                let takeover = Takeover {
                    cwnd: takeover.cwnd.min(in_force),
                    ..takeover
                };
                Controller::take_over(self.config.fallback, &takeover, &path)
            }
        };
        hot.registers.cwnd = controller.on_signals(cwnd, &path);
        hot.registers.rate = 0;
        cold.fallback = Some(controller);
        self.changed(slot, before)
    }

    /// Stops the flow's program for good.
    fn fault(&mut self, slot: usize, fault: Fault) {
        self.statistics.faults += 1;
        if let Some(observation) = self.observed(slot) {
            observation.faults(fault);
        }
        self.flows.drop_program(slot, FlowState::Faulted(fault));
        self.flows.cold[slot].announcements.fault = true;
        self.list_announcement(slot);
    }

    /// Writes a report into what goes to the peer. Whatever becomes of it, the volatile variables
    /// take their initial values again: what a program computes does not depend on the link.
    fn report(&mut self, slot: usize, signals: &Signals) {
        self.unsent = true;
        self.follow_rtt(slot, signals);
        let now_us = signals[Signal::Now];
        let flow = self.flows.name(slot);
        let hot = &mut self.flows.hot[slot];
        let Some(program) = hot.program.as_deref() else {
            return;
        };
        if self.flows.cold[slot].is_observed
            && let Some(observation) = &mut self.observation
        {
            observation.reports(program.report(&hot.variables));
        }
        if let Some(peer) = self.peers.at_mut(hot.peer as usize) {
            let message = ToPlane::Reported {
                flow,
                program: self.flows.cold[slot].number,
                time_us: Some(now_us),
                cwnd: hot.registers.cwnd,
                rate: hot.registers.rate,
                fields: program.report(&hot.variables).into(),
            };
            self.statistics
                .count_report(peer.outgoing.push(peer.dialect, &message));
            if peer.dialect == Dialect::Ccp {
                peer.expect_answer(&mut self.wake[hot.peer as usize], now_us);
            }
        }
        program.reset_volatile(&mut hot.variables);
    }

    /// Takes in the RTT sample, unless that is done at each ACK anyway.
    fn follow_rtt(&mut self, slot: usize, signals: &Signals) {
        if self.only_control().is_none()
            && let Some(sample) = self.rtt_sample(signals)
        {
            self.measure_rtt(slot, sample);
        }
    }

    /// The RTT sample, µs, if the transport measures RTTs and has one.
    fn rtt_sample(&self, signals: &Signals) -> Option<u64> {
        let sample = signals[Signal::RttSampleUs];
        let measured = self.config.signals.present().contains(Signal::RttSampleUs);
        (measured && sample != u64::MAX && sample != 0).then_some(sample)
    }

    /// RFC 6298 §2: SRTT by a gain of 1/8.
    fn measure_rtt(&mut self, slot: usize, sample: u64) {
        let srtt = &mut self.flows.cold[slot].info.srtt_us;
        *srtt = match mem::take(srtt) {
            0 => sample,
            old => old - old / 8 + sample / 8,
        };
    }
}
