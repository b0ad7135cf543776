//! What an algorithm needs of a datapath, and whether a datapath has it.

use fairwater_lang::SignalSet;
use fairwater_proto::{Capabilities, SignalQuality};
use thiserror::Error;

use crate::{Ecn, Signal};

/// What an algorithm needs of a datapath.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirements {
    /// The signals that its programs read (CCP §5.3).
    pub signals: SignalSet,
    /// Whether it controls its flows by a pacing rate that no window can stand for.
    pub rate: bool,
    /// What it needs of explicit congestion notification.
    pub ecn: Ecn,
    /// Whether its flows restart from a smaller window after an idle period (RFC 5681 §4.1).
    pub idle_restart: bool,
}

/// A requirement that a datapath does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unmet {
    /// The datapath does not have a signal.
    #[error("it has no signal {}", .0.name())]
    Signal(Signal),
    /// The datapath enforces no pacing rate.
    #[error("it enforces no pacing rate")]
    Rate,
    /// The datapath's flows cannot negotiate ECN.
    #[error("its flows cannot negotiate ECN")]
    Ecn,
}

impl Requirements {
    /// What the datapath lacks; nothing if it can run the algorithm.
    #[must_use]
    pub fn unmet(&self, capabilities: &Capabilities) -> Vec<Unmet> {
        let missing = self.signals.minus(capabilities.signals.present());
        let mut unmet: Vec<_> = missing.iter().map(Unmet::Signal).collect();
        if self.rate && !capabilities.abilities.rate {
            unmet.push(Unmet::Rate);
        }
        if self.ecn == Ecn::Required && !capabilities.abilities.ecn {
            unmet.push(Unmet::Ecn);
        }
        unmet
    }

    /// The signals that the algorithm reads and the datapath does not measure exactly, with their
    /// quality.
    pub fn inexact(
        &self,
        capabilities: &Capabilities,
    ) -> impl Iterator<Item = (Signal, SignalQuality)> {
        let qualities = capabilities.signals;
        let read = self.signals;
        Signal::ALL
            .into_iter()
            .filter(move |signal| read.contains(*signal))
            .map(move |signal| (signal, qualities.of(signal)))
            .filter(|(_, quality)| *quality != SignalQuality::Exact)
    }
}
