//! What a plane answers at its control socket.

use std::time::{Duration, Instant};

use fairwater_service::switching::{Plan, Side, Step, Trial};

use super::{Asked, ControlListener, Request, Response};
use crate::bundle::BoxRows;
use crate::host::{Host, HostConfig, count};
use crate::metrics;

/// Time between two samples of a trial's flows.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);

/// Samples take at most one part in so many of the plane's time.
const SAMPLE_SHARE: u32 = 20;

/// Time between two reports of a trial's progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Answers what is asked at a control socket, and carries out switches.
#[derive(Debug)]
pub struct Control {
    listener: ControlListener,
    start: Instant,
    switch: Option<Switch>,
}

/// A switch at work.
#[derive(Debug)]
struct Switch {
    trial: Trial,
    plan: Plan,
    asker: Asked,
    next_sample: Instant,
    next_progress: Instant,
}

impl Control {
    /// Answers at this socket.
    #[must_use]
    pub fn new(listener: ControlListener) -> Self {
        Self {
            listener,
            start: Instant::now(),
            switch: None,
        }
    }

    /// Carries out what was asked since the last call. `read` reads the configuration again. Returns
    /// what an operator should know.
    pub fn turn(
        &mut self,
        host: &mut Host,
        read: &dyn Fn() -> Result<HostConfig, String>,
    ) -> Vec<String> {
        let mut notices = Vec::new();
        let all: Vec<_> = self.listener.asked().collect();
        for asked in all {
            self.answer(asked, host, read, &mut notices);
        }
        self.turn_switch(host, &mut notices);
        notices
    }

    /// Takes a configuration that was read again. Returns what is different.
    ///
    /// # Errors
    /// Why it was not taken, as a sentence.
    pub fn reload(&self, host: &mut Host, config: HostConfig) -> Result<Vec<String>, String> {
        let groups = config
            .control
            .as_ref()
            .map(|control| control.groups.clone());
        let notices = host.reload(config).map_err(|error| error.to_string())?;
        self.listener.set_groups(groups.unwrap_or_default());
        Ok(notices)
    }

    /// Takes a switch back before the plane ends.
    pub fn finish(mut self, host: &mut Host) {
        let now_us = self.now_us();
        if let Some(mut switch) = self.switch.take() {
            let step = switch.trial.abort("the plane ends", now_us);
            carry_out(&step, &switch.plan, host);
            conclude(&switch, step);
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn answer(
        &mut self,
        asked: Asked,
        host: &mut Host,
        read: &dyn Fn() -> Result<HostConfig, String>,
        notices: &mut Vec<String>,
    ) {
        let response = match asked.request.clone() {
            Request::Status => Response::Status(host.status()),
            Request::Flows => Response::Flows(host.flows()),
            Request::Incidents => Response::Incidents(host.incidents().cloned().collect()),
            Request::Metrics => {
                // A box that does not answer now is asked again at the next scrape.
                let boxes = host.boxes().unwrap_or_default();
                Response::Metrics(metrics::text(&host.status(), &boxes))
            }
            Request::Edge => match host.edge_status() {
                Some(Ok(status)) => Response::Edge(status),
                Some(Err(why)) => Response::Failed(why),
                None => Response::Failed("this plane has no edge".to_owned()),
            },
            Request::Bundles => match host.boxes() {
                Ok(boxes) if boxes == BoxRows::default() => {
                    Response::Failed("this plane has no sendbox and no receivebox".to_owned())
                }
                Ok(boxes) => Response::Boxes(boxes),
                Err(why) => Response::Failed(why),
            },
            Request::Reload => match read().and_then(|config| self.reload(host, config)) {
                Ok(different) => {
                    notices.extend(different.iter().cloned());
                    Response::Reloaded(different)
                }
                Err(why) => Response::Failed(why),
            },
            Request::Switch(plan) => return self.begin_switch(plan, asked, host, notices),
        };
        asked.answer(response);
    }

    fn begin_switch(
        &mut self,
        plan: Plan,
        asked: Asked,
        host: &mut Host,
        notices: &mut Vec<String>,
    ) {
        if self.switch.is_some() {
            let why = "another switch is at work; wait for its end, or end it".to_owned();
            asked.answer(Response::Failed(why));
            return;
        }
        let flows = host.flows();
        let begun = host.can_switch(&plan).and_then(|()| {
            Trial::begin(plan.clone(), &flows, self.now_us()).map_err(|e| e.to_string())
        });
        match begun {
            Ok((trial, step)) => {
                carry_out(&step, &plan, host);
                notices.push(format!(
                    "Switching {} from {} to {}, back and forth.",
                    count(trial.progress(0).flows as u64, "flow"),
                    plan.from,
                    plan.to
                ));
                self.switch = Some(Switch {
                    trial,
                    plan,
                    asker: asked,
                    next_sample: Instant::now() + SAMPLE_EVERY,
                    next_progress: Instant::now(),
                });
            }
            Err(why) => {
                asked.answer(Response::Failed(why));
            }
        }
    }

    /// When the next turn must be, at the latest.
    #[must_use]
    pub fn next_turn(&self) -> Option<Duration> {
        let switch = self.switch.as_ref()?;
        Some(switch.next_sample.saturating_duration_since(Instant::now()))
    }

    fn turn_switch(&mut self, host: &mut Host, notices: &mut Vec<String>) {
        let now_us = self.now_us();
        let Some(switch) = &mut self.switch else {
            return;
        };
        let begun = Instant::now();
        if begun < switch.next_sample {
            return;
        }
        let flows = host.flows();
        let mut step = switch.trial.sample(&flows, now_us);
        // With many flows a sample takes its time.
        switch.next_sample = begun + SAMPLE_EVERY.max(begun.elapsed() * SAMPLE_SHARE);
        if step.verdict.is_none() && begun >= switch.next_progress {
            switch.next_progress = begun + PROGRESS_EVERY;
            let progress = Response::Progress(switch.trial.progress(now_us));
            if !switch.asker.answer(progress) {
                let aborted = switch.trial.abort("whoever asked for it has left", now_us);
                step.hand_overs.extend(aborted.hand_overs);
                step.verdict = aborted.verdict;
            }
        }
        carry_out(&step, &switch.plan, host);
        if step.verdict.is_some()
            && let Some(switch) = self.switch.take()
        {
            notices.extend(conclude(&switch, step));
        }
    }
}

fn carry_out(step: &Step, plan: &Plan, host: &mut Host) {
    for (flow, side) in &step.hand_overs {
        let name = match side {
            Side::From => &plan.from,
            Side::To => &plan.to,
        };
        // A flow that ended meanwhile is no error.
        let _ = host.hand_over(*flow, name);
    }
}

/// Tells the asker how it ended; returns that as a sentence.
fn conclude(switch: &Switch, step: Step) -> Option<String> {
    let verdict = step.verdict?;
    let sentence = verdict.to_string();
    switch.asker.answer(Response::Verdict(verdict));
    Some(sentence)
}
