//! Configuration of a datapath.

use alloc::borrow::ToOwned;
use alloc::string::String;

use fairwater_lang::SignalSet;
use fairwater_proto::{Abilities, Capabilities, Fallback, SignalQualities};

/// The highest [`Config::max_flows`]: libccp's dialect names slots below 2²⁰ (see
/// [`fairwater_proto::ccp`]), of which the last is kept for probes.
pub const MAX_FLOWS: u32 = (1 << 20) - 1;

/// What a datapath is and how much it keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its name, for people who watch the plane.
    pub name: String,
    /// The signals that the transport fills in, and how well it knows them: by default those of CCP
    /// Table 2, exactly. Programs that read others are refused (CCP §5.3).
    pub signals: SignalQualities,
    /// What the transport can do for a flow. One that enforces a window alone is given windows of
    /// at most rate × minimum RTT (of the last 5 to 10 s), and never below a segment for want of a
    /// rate; one that enforces a rate alone, rates of at most cwnd / SRTT. Programs see `Cwnd` and
    /// `Rate` as they set them.
    pub abilities: Abilities,
    /// Tells its successive lives apart. A new life has no flow of the former, so take a number
    /// that changes with each start: the time of the start, for instance.
    pub instance: u64,
    /// What controls a flow while no plane does.
    pub fallback: Fallback,
    /// What runs programs.
    pub backend: Backend,
    /// A plane that owes a sign of life for this long is silent, µs: its flows go on under the
    /// fallback.
    pub silence_us: u64,
    /// The most flows at a time, at most [`MAX_FLOWS`].
    pub max_flows: u32,
    /// The most programs that one peer may have installed at a time.
    pub max_programs: u32,
    /// How many bytes of reports wait for one peer before new ones are dropped.
    pub queue_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "fairwater".to_owned(),
            signals: SignalQualities::exact(SignalSet::CCP),
            abilities: Abilities::ALL,
            instance: 0,
            fallback: Fallback::default(),
            backend: Backend::default(),
            silence_us: 500_000,
            max_flows: 1 << 17,
            max_programs: 1024,
            queue_bytes: 1 << 18,
        }
    }
}

impl Config {
    /// What planes are told.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        Capabilities {
            signals: self.signals,
            abilities: self.abilities,
            fallback: self.fallback,
            max_programs: self.max_programs,
        }
    }
}

/// What runs programs. All backends give the same results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The reference interpreter, on any machine.
    Interpreter,
    /// Machine code. A program that cannot be compiled is interpreted and counted
    /// ([`crate::DatapathStatistics::not_native`]).
    #[cfg(feature = "native")]
    Native,
}

impl Default for Backend {
    /// The fastest there is.
    fn default() -> Self {
        #[cfg(feature = "native")]
        return Self::Native;
        #[cfg(not(feature = "native"))]
        return Self::Interpreter;
    }
}
