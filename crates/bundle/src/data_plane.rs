//! What a sendbox asks of the machine it runs on.

use crate::{ModeChange, RefusalCounts, SendBundleConfig, SendBundleStatus};

/// The data plane of a sendbox: it brings the bundles' packets from the site's ports into queues, releases them at the
/// bundles' rates, carries messages, and lets packets pass when it cannot. One data plane schedules in a process, another
/// in the kernel; whoever runs a sendbox needs no more of either than this.
pub trait SendboxDataPlane: Send {
    /// Name of the data plane: `tap` or `kernel`.
    fn name(&self) -> &'static str;

    /// The state of its bundles; `None` if it does not answer in time.
    fn status(&mut self) -> Option<SendboxStatus>;

    /// Changes of bundles' modes since the last call, the oldest first.
    fn drain_changes(&mut self) -> Vec<ModeChange>;

    /// What else an operator should know since the last call, as sentences.
    fn drain_notices(&mut self) -> Vec<String>;

    /// Takes other parameters of the bundles that it has, in the order of its configuration, and keeps their queues.
    ///
    /// # Errors
    /// What would need a restart, as a clause; nothing is changed then.
    fn reconfigure(&mut self, bundles: &[SendBundleConfig]) -> Result<(), String>;
}

/// The state of a sendbox.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SendboxStatus {
    /// Its bundles by number, in the order of the configuration.
    pub bundles: Vec<(u32, SendBundleStatus)>,
    /// Messages refused, by reason.
    pub refusals: RefusalCounts,
    /// Packets that came from the site.
    pub received: u64,
    /// Packets that went on.
    pub written: u64,
    /// Packets that queues dropped.
    pub dropped: u64,
    /// Packets that passed by the box, as the box was late or gone.
    pub passed: u64,
    /// Times that the box was late, so that packets passed.
    pub stalls: u64,
    /// Times that the clock jumped, or the box stood still.
    pub clock_jumps: u64,
}
