//! Another configuration for a plane that runs: all of it, or nothing.

use fairwater_service::PolicyKey;

use super::{Host, HostConfig, HostFailure, LinuxConfig, count};
use crate::bundle::{ReceiveboxConfig, SendboxConfig};
use crate::changed_default::Places;

/// Why a configuration was not taken; the former stays in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// What changed takes effect only at a restart. Flows go on meanwhile under the fallback of
    /// their datapath, and come back.
    #[error("{} cannot change while the plane runs: restart the plane; nothing is changed", .0.join(" and "))]
    NeedsRestart(Vec<String>),
    /// The new default could not be set.
    #[error("{0}; nothing is changed")]
    Default(HostFailure),
    /// The bundles' parameters were not taken.
    #[error("{0}: restart the sendbox; nothing is changed")]
    Sendbox(String),
    /// The edge's policy was not taken.
    #[error("{0}; nothing is changed")]
    Edge(String),
}

impl Host {
    /// Takes another configuration. Returns what is different, one sentence each.
    ///
    /// # Errors
    /// See [`ReloadError`].
    pub fn reload(&mut self, config: HostConfig) -> Result<Vec<String>, ReloadError> {
        let fixed = self.fixed_differences(&config);
        if !fixed.is_empty() {
            return Err(ReloadError::NeedsRestart(fixed));
        }
        let mut notices = Vec::new();
        if let Some(sendbox) = &config.sendbox {
            notices.extend(self.reload_sendbox(sendbox).map_err(ReloadError::Sendbox)?);
        }
        if let Some(edge) = &config.edge {
            notices.extend(self.reload_edge(edge).map_err(ReloadError::Edge)?);
        }
        if let Err(error) = self.reload_default(&config, &mut notices) {
            if let Some(former) = self.config.edge.clone() {
                // It was in force a moment ago, and the kernel takes it again.
                let _ = self.reload_edge(&former);
            }
            return Err(error);
        }
        if config.policy != self.config.policy {
            notices.push(format!(
                "The policy has {} now, and had {}.",
                count(config.policy.rules.len() as u64, "rule"),
                self.config.policy.rules.len()
            ));
            self.server.service_mut().set_policy(config.policy.clone());
            let moved = self.follow_policy();
            if moved > 0 {
                notices.push(format!("Handed over: {}.", count(moved, "flow")));
            }
        }
        if config.control != self.config.control {
            notices.push("The groups that may use the control socket have changed.".to_owned());
        }
        self.config = config;
        Ok(notices)
    }

    /// What is different and takes effect only at a restart.
    fn fixed_differences(&self, config: &HostConfig) -> Vec<String> {
        let specs = |config: &HostConfig| -> Vec<(String, String)> {
            let named = config.algorithms.iter();
            named
                .map(|(name, algorithm)| (name.clone(), algorithm.spec.clone()))
                .collect()
        };
        let options = |config: &HostConfig| {
            let linux = config.linux.as_ref();
            linux.map(|linux| (linux.options, linux.move_existing, linux.optional))
        };
        let edge = |config: &HostConfig| {
            let edge = config.edge.as_ref();
            edge.map(|edge| (edge.on.clone(), edge.policy_file.clone(), edge.options))
        };
        let socket = |config: &HostConfig| config.control.as_ref().map(|c| c.socket.clone());
        let old = &self.config;
        let differences = [
            (specs(old) != specs(config), "`algorithms`"),
            (
                old.max_instructions != config.max_instructions,
                "`max_instructions`",
            ),
            (
                options(old) != options(config),
                "`[linux]` except `default`",
            ),
            (
                edge(old) != edge(config),
                "`[edge]` except what its policy says",
            ),
            (
                old.sendbox.as_ref().map(SendboxConfig::fixed)
                    != config.sendbox.as_ref().map(SendboxConfig::fixed),
                "`[sendbox]`",
            ),
            (
                old.receivebox.as_ref().map(ReceiveboxConfig::fixed)
                    != config.receivebox.as_ref().map(ReceiveboxConfig::fixed),
                "`[receivebox]`",
            ),
            (old.links != config.links, "`[links]`"),
            (socket(old) != socket(config), "the control socket"),
            (old.metrics != config.metrics, "`[metrics]`"),
            (
                old.careful_resume != config.careful_resume,
                "`[careful_resume]`",
            ),
        ];
        let different = differences.into_iter().filter(|(different, _)| *different);
        different.map(|(_, what)| what.to_owned()).collect()
    }

    fn reload_default(
        &mut self,
        config: &HostConfig,
        notices: &mut Vec<String>,
    ) -> Result<(), ReloadError> {
        let default = |config: &HostConfig| config.linux.as_ref().and_then(|l| l.default.clone());
        let (old, new) = (default(&self.config), default(config));
        if old == new {
            return Ok(());
        }
        let unknown = new.as_ref().filter(|name| self.kernel_name(name).is_none());
        if let Some(name) = unknown {
            return Err(ReloadError::Default(HostFailure::NotOnLinux(name.clone())));
        }
        if let Some(former) = self.default.take() {
            // Whatever keeps it from being restored, the next default replaces it.
            if let Ok(Some(restored)) = former.restore() {
                notices.push(format!("Default: {restored}."));
            }
        }
        let set = self.renew_default(new);
        notices.append(&mut self.notices);
        set.map_err(|error| {
            // The lock on the default is free: nobody else can have taken it meanwhile but on
            // purpose, and then it is theirs.
            let _ = self.renew_default(old);
            ReloadError::Default(error)
        })
    }

    /// Makes an algorithm the default of new connections from now on, if one is to be.
    fn renew_default(&mut self, algorithm: Option<String>) -> Result<(), HostFailure> {
        if algorithm.is_none() {
            return Ok(());
        }
        let linux = LinuxConfig {
            default: algorithm,
            ..LinuxConfig::default()
        };
        let places = Places::of_this_namespace().map_err(HostFailure::Namespace)?;
        self.set_default(&linux, places)
    }

    /// Hands over the flows for which the policy has another algorithm than theirs. Returns how many.
    fn follow_policy(&mut self) -> u64 {
        let mut handed_over = 0;
        for status in self.server.flows() {
            let measures = &status.measures;
            let key = PolicyKey {
                datapath: &status.datapath,
                local: measures.local,
                remote: measures.remote,
                tag: measures.tag,
                cgroup: measures.cgroup.as_deref(),
            };
            let service = self.server.service_mut();
            let Some(chosen) = service.policy().choose(&key).map(str::to_owned) else {
                continue;
            };
            let hosted = service.plane().algorithms();
            let to = hosted.iter().position(|hosted| hosted.name() == chosen);
            if chosen != status.algorithm
                && let Some(to) = to
                // A flow whose datapath cannot run it stays where it is.
                && service.hand_over(status.id(), to).is_ok()
            {
                handed_over += 1;
            }
        }
        handed_over
    }
}
