//! Stopping cleanly on a signal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// How long a process that was asked to end may be stuck in an algorithm.
const STUCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Set by Ctrl-C, SIGTERM and SIGHUP. A Ctrl-C after any of them ends the process at once.
#[derive(Debug)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Handles the signals from now on.
    ///
    /// # Errors
    /// The signals cannot be handled.
    pub fn on_signals() -> io::Result<Self> {
        Self::on(&[SIGINT, SIGTERM, SIGHUP])
    }

    /// The same, but for SIGHUP, which sets the flag that comes with it: a daemon then reads its
    /// configuration again.
    ///
    /// # Errors
    /// The signals cannot be handled.
    pub fn on_signals_but_hangup() -> io::Result<(Self, Arc<AtomicBool>)> {
        let hangup = Arc::default();
        flag::register(SIGHUP, Arc::clone(&hangup))?;
        Ok((Self::on(&[SIGINT, SIGTERM])?, hangup))
    }

    fn on(signals: &[i32]) -> io::Result<Self> {
        let stop = Self {
            asked: Arc::default(),
            signal: Arc::default(),
        };
        // The second Ctrl-C ends the process even where something blocks.
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&stop.asked))?;
        for signal in signals.iter().copied() {
            let number = signal.unsigned_abs() as usize;
            flag::register_usize(signal, Arc::clone(&stop.signal), number)?;
            flag::register(signal, Arc::clone(&stop.asked))?;
        }
        Ok(stop)
    }

    /// Ends the process soon after SIGTERM or SIGHUP even where it is stuck, after `clean_up`. For
    /// processes in which an algorithm in Python runs, which may block for ever.
    ///
    /// # Errors
    /// The signals cannot be handled.
    pub fn exit_if_stuck(&self, clean_up: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut signals = Signals::new([SIGTERM, SIGHUP])?;
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    thread::sleep(STUCK_TIMEOUT);
                    clean_up();
                    signal_hook::low_level::exit(128 + signal);
                }
            })?;
        Ok(())
    }

    /// Set once a signal has come.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.asked
    }

    /// Whether a signal has come.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(SeqCst)
    }

    /// Whether the last signal was Ctrl-C. SIGTERM and SIGHUP end a daemon in good order.
    #[must_use]
    pub fn was_interrupted(&self) -> bool {
        self.signal.load(Relaxed) == SIGINT.unsigned_abs() as usize
    }
}
