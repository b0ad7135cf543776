//! The boxes of bundles: their configuration, their keys, and what they tell.

mod key;
mod read;
mod receive;
mod status;

use std::net::SocketAddr;
use std::time::Duration;

use fairwater_bundle::{ReceiveBundleConfig, SendBundleConfig};

pub use key::{KeyError, create_key, read_key};
pub(crate) use read::{read_receivebox, read_sendbox};
pub(crate) use receive::RunningReceivebox;
pub use receive::{ReceiveFailure, ReceiveHost};
pub use status::{
    BoxRows, BundleRow, ChangeRow, ReceiveBundleRow, ReceiveboxStatus, SendboxRow, read_refusals,
};
pub(crate) use status::{ModeHistory, sendbox_row};

/// Name of a bundle, and the algorithm that controls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleNames {
    /// The bundle's name.
    pub name: String,
    /// The algorithm, as `fairwater algorithms` names it, with parameters.
    pub algorithm: String,
    /// The scheduler.
    pub scheduler: &'static str,
}

/// Where a sendbox schedules packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendboxPlane {
    /// In this process, which packets reach by a TAP device: any queue discipline.
    #[default]
    Tap,
    /// In the kernel, by HTB: for fast links.
    Kernel,
}

/// A sendbox and its bundles.
#[derive(Debug, Clone)]
pub struct SendboxConfig {
    /// Where packets are scheduled.
    pub plane: SendboxPlane,
    /// Interfaces from which the site's packets come; with [`SendboxPlane::Kernel`] the one by which they leave.
    pub ports: Vec<String>,
    /// Where messages of receiveboxes are received.
    pub listen: SocketAddr,
    /// Port of messages between boxes.
    pub message_port: u16,
    /// Most bytes in all queues.
    pub memory_bytes: u64,
    /// Packets pass the box when it has not shown for so long that it lives.
    pub silent_after: Duration,
    /// The bundles, and their names.
    pub bundles: Vec<(BundleNames, SendBundleConfig)>,
}

/// A receivebox and its bundles.
#[derive(Debug, Clone)]
pub struct ReceiveboxConfig {
    /// Interfaces at which packets come from the network.
    pub ports: Vec<String>,
    /// Where messages of sendboxes are received.
    pub listen: SocketAddr,
    /// The bundles, and their names.
    pub bundles: Vec<(String, ReceiveBundleConfig)>,
}

/// The configuration of one box.
#[derive(Debug, Clone)]
pub enum BoxConfig {
    /// A file with `[sendbox]`.
    Send(SendboxConfig),
    /// A file with `[receivebox]`.
    Receive(ReceiveboxConfig),
}

impl SendboxConfig {
    /// The algorithms of the bundles, each once.
    #[must_use]
    pub fn algorithms(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for (names, _) in &self.bundles {
            if !all.contains(&names.algorithm) {
                all.push(names.algorithm.clone());
            }
        }
        all
    }

    /// The name of a bundle, by its number.
    #[must_use]
    pub fn name(&self, number: u32) -> String {
        let mut all = self.bundles.iter();
        let found = all.find(|(_, bundle)| bundle.channel.bundle == number);
        found.map_or_else(|| number.to_string(), |(names, _)| names.name.clone())
    }
}

impl SendboxConfig {
    /// What takes effect only at a restart.
    pub(crate) fn fixed(&self) -> impl PartialEq + use<> {
        (
            self.plane,
            self.ports.clone(),
            self.listen,
            self.message_port,
            self.memory_bytes,
            self.silent_after,
        )
    }
}

impl ReceiveboxConfig {
    /// What takes effect only at a restart: all of it.
    pub(crate) fn fixed(&self) -> impl PartialEq + use<> {
        let bundle = |(name, bundle): &(String, ReceiveBundleConfig)| {
            let ReceiveBundleConfig {
                channel,
                sources,
                destinations,
            } = bundle;
            let prefixes = (sources.clone(), destinations.clone());
            // Instances differ each time that the file is read.
            (
                name.clone(),
                channel.bundle,
                channel.secret.clone(),
                prefixes,
            )
        };
        let bundles: Vec<_> = self.bundles.iter().map(bundle).collect();
        (self.ports.clone(), self.listen, bundles)
    }
}
