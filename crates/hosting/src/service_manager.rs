//! What a service manager such as systemd is told (`sd_notify(3)`). Without one, nothing happens.

use std::time::{Duration, Instant};

use sd_notify::{NotifyState, notify};

/// Tells the service manager of this process's state.
#[derive(Debug)]
pub struct ServiceManager {
    /// How often a sign of life is due, if at all.
    period: Option<Duration>,
    last: Instant,
}

impl Default for ServiceManager {
    fn default() -> Self {
        Self::new()
    }
}

impl ServiceManager {
    /// Finds the service manager in this process's environment.
    #[must_use]
    pub fn new() -> Self {
        Self {
            // Twice in each period (`WatchdogSec=` of systemd.service(5)).
            period: sd_notify::watchdog_enabled().map(|limit| limit / 2),
            last: Instant::now(),
        }
    }

    /// The plane serves.
    pub fn ready(&self, status: &str) {
        let _ = notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// The plane reads its configuration again; [`ServiceManager::ready`] follows.
    pub fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            let _ = notify(&[NotifyState::Reloading, now]);
        }
    }

    /// The plane ends.
    pub fn stopping(&self) {
        let _ = notify(&[NotifyState::Stopping]);
    }

    /// To be called at each turn of the plane: gives the sign of life when it is due.
    pub fn turn(&mut self) {
        if self
            .period
            .is_some_and(|period| self.last.elapsed() >= period)
        {
            self.last = Instant::now();
            let _ = notify(&[NotifyState::Watchdog]);
        }
    }
}
