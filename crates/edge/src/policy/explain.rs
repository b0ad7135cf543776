//! Why a connection is treated as it is, in sentences.

use super::rule::{Action, EdgePolicy, Rule, WhenStarved};
use super::{Mode, OnPlaneLoss, Treatment};
use crate::FlowKey;

impl EdgePolicy {
    /// Why a connection at a port of that name is treated as it is: the rules that were tried, why each did not
    /// match, which did, and what follows.
    #[must_use]
    pub fn explain(&self, key: &FlowKey, port: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let name = format!("rule {} (line {})", index + 1, rule.line);
            match rule.mismatch(key, port) {
                Some(mismatch) => sentences.push(format!("{name} does not match: {mismatch}")),
                None => {
                    sentences.push(format!("{name} matches: {rule}"));
                    sentences.extend(self.consequences(rule));
                    return sentences;
                }
            }
        }
        sentences.push("no rule matches: the connection passes untouched".to_owned());
        sentences
    }

    fn consequences(&self, rule: &Rule) -> Vec<String> {
        let mut sentences = Vec::new();
        match &rule.action {
            Action::Pass => {
                sentences.push("the connection passes untouched".to_owned());
                if rule.when_starved.is_some() || self.defaults.propose {
                    let text = "if it starves beside marked traffic, control is proposed for it";
                    sentences.push(text.to_owned());
                }
            }
            Action::Control(treatment) => {
                if rule.when_starved == Some(WhenStarved::Control) {
                    let text = "the connection passes untouched until one of the same guest and peer was \
                                found starving beside marked traffic; for those after it:";
                    sentences.push(text.to_owned());
                }
                sentences.extend(treatment.sentences());
                let text = match self.defaults.on_plane_loss {
                    OnPlaneLoss::Release => {
                        "without a plane the guest keeps to its own congestion control"
                    }
                    OnPlaneLoss::Hold => "without a plane Cubic in the datapath limits the guest",
                };
                sentences.push(text.to_owned());
                let exempt = "exempt, and measured only: connections with TCP-MD5, TCP-AO or MPTCP; guests \
                              that negotiate ECN themselves; connections met midway";
                sentences.push(exempt.to_owned());
            }
        }
        sentences
    }
}

impl Treatment {
    /// What is done, in sentences.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let by = match self.mode {
            Mode::Window => "by the receive window",
            Mode::Buffer => {
                "by a buffer: the edge holds the guest's data, paces it, and sends again what is lost"
            }
        };
        let control = match &self.selector {
            None => format!("algorithm `{}` limits the guest {by}", self.algorithm),
            Some(selector) => format!(
                "selector `{}` chooses the algorithm, `{}` at first, which limits the guest {by}",
                selector.name, self.algorithm
            ),
        };
        let ecn = self
            .ecn
            .then(|| "ECN is spoken for a guest that opens the connection without it".to_owned());
        let police = self
            .police
            .then(|| "data beyond the window that the guest was told is dropped".to_owned());
        let scale = self
            .max_scale
            .map(|scale| format!("the guest is told of a window scale of {scale} at most"));
        let share = self.share.as_ref().map(|share| {
            let group = if share.group.is_empty() {
                "its group".to_owned()
            } else {
                format!("group `{}`", share.group)
            };
            format!("weight {} when {group} divides its windows", share.weight)
        });
        let all = [Some(control), ecn, police, scale, share];
        all.into_iter().flatten().collect()
    }
}
