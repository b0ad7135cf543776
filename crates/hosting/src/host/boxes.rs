//! The boxes of this site.

use fairwater_bundle::{SendBundleConfig, SendboxDataPlane};
use fairwater_bundle_linux::{
    BoxError, HtbDataPlane, HtbDataPlaneConfig, HtbOptions, TapSendbox, TapSendboxConfig,
};
use fairwater_proto::link::in_process::InProcess;

use super::{Host, HostFailure, count};
use crate::bundle::{
    BoxRows, BundleNames, ModeHistory, RunningReceivebox, SendboxConfig, SendboxPlane, SendboxRow,
    sendbox_row,
};

/// A sendbox at work.
pub(super) struct RunningSendbox {
    data_plane: Box<dyn SendboxDataPlane>,
    history: ModeHistory,
}

impl RunningSendbox {
    /// Ends it; what is queued is sent first.
    pub(super) fn finish(self) -> String {
        drop(self.data_plane);
        "Stopped: the site's packets pass, and nothing of the sendbox is left.".to_owned()
    }
}

impl std::fmt::Debug for RunningSendbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RunningSendbox")
            .field(&self.data_plane.name())
            .finish()
    }
}

impl Host {
    pub(super) fn start_sendbox(&mut self, config: &SendboxConfig) -> Result<(), HostFailure> {
        let (data_plane, link) = start(config)?;
        if let Some(link) = link {
            self.server.add_link(Box::new(link));
        }
        self.sendbox = Some(RunningSendbox {
            data_plane,
            history: ModeHistory::default(),
        });
        Ok(())
    }

    /// Tells of bundles whose mode has changed.
    pub(super) fn tell_mode_changes(&mut self) {
        let (Some(sendbox), Some(config)) = (&mut self.sendbox, &self.config.sendbox) else {
            return;
        };
        for change in sendbox.data_plane.drain_changes() {
            let sentence = sendbox.history.keep(&change, &config.name(change.bundle));
            self.notices.push(sentence);
        }
        self.notices.extend(sendbox.data_plane.drain_notices());
    }

    /// What the boxes of bundles do now.
    ///
    /// # Errors
    /// One of them does not answer, as a sentence.
    pub fn boxes(&mut self) -> Result<BoxRows, String> {
        let receivebox = self.receivebox.as_ref().map(RunningReceivebox::status);
        Ok(BoxRows {
            sendbox: self.sendbox_row().transpose()?,
            receivebox: receivebox.transpose()?,
        })
    }

    fn sendbox_row(&mut self) -> Option<Result<SendboxRow, String>> {
        let sendbox = self.sendbox.as_mut()?;
        let config = self.config.sendbox.as_ref()?;
        let name = sendbox.data_plane.name();
        let status = sendbox.data_plane.status();
        let row = status.map(|status| sendbox_row(config, name, &status, &sendbox.history));
        Some(row.ok_or_else(|| "the sendbox does not answer".to_owned()))
    }

    /// Takes other parameters of the bundles. Returns what is different, one sentence each.
    pub(super) fn reload_sendbox(&mut self, to: &SendboxConfig) -> Result<Vec<String>, String> {
        let (Some(sendbox), Some(from)) = (&mut self.sendbox, &self.config.sendbox) else {
            return Ok(Vec::new());
        };
        let hosted = self.server.service().plane().algorithms();
        let is_known = |name: &String| hosted.iter().any(|hosted| hosted.name() == name);
        let algorithms = to.algorithms();
        if let Some(unknown) = algorithms.iter().find(|name| !is_known(name)) {
            return Err(format!("the plane does not have the algorithm {unknown}"));
        }
        let different: Vec<_> = from
            .bundles
            .iter()
            .zip(&to.bundles)
            .filter(|(from, to)| is_different(from, to))
            .map(|(_, (names, _))| names.name.clone())
            .collect();
        sendbox.data_plane.reconfigure(&bundles(to))?;
        Ok(match different.len() {
            0 => Vec::new(),
            number => vec![format!(
                "{} changed: {}.",
                count(number as u64, "bundle"),
                different.join(", ")
            )],
        })
    }
}

/// Starts the data plane; beside it, the plane's end of its link.
fn start(
    config: &SendboxConfig,
) -> Result<(Box<dyn SendboxDataPlane>, Option<InProcess>), BoxError> {
    match config.plane {
        SendboxPlane::Tap => {
            let mut sendbox = TapSendbox::start(&TapSendboxConfig {
                ports: config.ports.clone(),
                listen: config.listen,
                message_port: config.message_port,
                max_queued_bytes: config.memory_bytes,
                stale: config.silent_after,
                bundles: bundles(config),
            })?;
            let link = sendbox.take_link();
            Ok((Box::new(sendbox), link))
        }
        SendboxPlane::Kernel => {
            let mut sendbox = HtbDataPlane::start(&HtbDataPlaneConfig {
                port: config.ports.first().cloned().unwrap_or_default(),
                listen: config.listen,
                options: HtbOptions {
                    stale_after: config.silent_after,
                    message_port: config.message_port,
                    ..HtbOptions::default()
                },
                bundles: bundles(config),
            })?;
            let link = sendbox.take_link();
            Ok((Box::new(sendbox), link))
        }
    }
}

fn bundles(config: &SendboxConfig) -> Vec<SendBundleConfig> {
    let bundles = config.bundles.iter();
    bundles.map(|(_, bundle)| bundle.clone()).collect()
}

fn is_different(
    (old, from): &(BundleNames, SendBundleConfig),
    (new, to): &(BundleNames, SendBundleConfig),
) -> bool {
    let limits = |bundle: &SendBundleConfig| {
        let queue = (bundle.queue_bytes, bundle.queue_time);
        (queue, bundle.min_rate, bundle.assured_rate, bundle.observe)
    };
    old != new || limits(from) != limits(to)
}
