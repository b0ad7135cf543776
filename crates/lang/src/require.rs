//! Whether a datapath has the signals that a program reads.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::program::Program;
use crate::signal::{Signal, SignalSet};

/// A datapath lacks signals that a program reads; it must not run it (CCP §5.3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the program reads {}, which the {datapath} datapath does not have (CCP §5.3)", names(*.missing))]
pub struct MissingSignals {
    /// The datapath's name.
    pub datapath: String,
    /// What it lacks; not empty.
    pub missing: SignalSet,
}

fn names(signals: SignalSet) -> String {
    let names: Vec<_> = signals.iter().map(Signal::name).collect();
    names.join(", ")
}

impl Program {
    /// Refuses the program unless every signal that it reads is among those that the datapath of
    /// that name has available (CCP §5.3).
    ///
    /// # Errors
    /// [`MissingSignals`] names each signal that the datapath lacks.
    pub fn require(&self, available: SignalSet, datapath: &str) -> Result<(), MissingSignals> {
        let missing = self.signals.minus(available);
        if missing.is_empty() {
            Ok(())
        } else {
            Err(MissingSignals {
                datapath: datapath.to_owned(),
                missing,
            })
        }
    }
}
