//! Stopping cleanly when asked to by a signal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// Set by Ctrl-C, SIGTERM and SIGHUP from when it is made. A Ctrl-C after any of them ends the
/// process where it is.
#[derive(Debug)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        let stop = Self {
            asked: Arc::default(),
            signal: Arc::default(),
        };
        stop.register().map_err(Failure::io("handling signals"))?;
        Ok(stop)
    }

    fn register(&self) -> io::Result<()> {
        // What is asked for twice is done at once, though something blocks.
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&self.asked))?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = signal.unsigned_abs() as usize;
            flag::register_usize(signal, Arc::clone(&self.signal), number)?;
            flag::register(signal, Arc::clone(&self.asked))?;
        }
        Ok(())
    }

    /// Set once a signal has come.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.asked
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(SeqCst)
    }

    /// [`Failure::Interrupted`] after Ctrl-C. SIGTERM and SIGHUP end a daemon in good order.
    pub(crate) fn check_interrupt(&self) -> Result<(), Failure> {
        if self.signal.load(Relaxed) == SIGINT.unsigned_abs() as usize {
            Err(Failure::Interrupted)
        } else {
            Ok(())
        }
    }
}
