//! What a datapath says of itself, so that a plane can match algorithms with it.

use fairwater_lang::{Signal, SignalSet};

/// How well a datapath knows a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SignalQuality {
    /// The datapath has no such signal.
    Absent,
    /// The signal is there, but coarser, later or rarer than its definition says.
    Degraded,
    /// The datapath derives the signal from what it sees of others' packets.
    Inferred,
    /// The datapath measures the signal itself.
    Exact,
}

impl SignalQuality {
    /// One word for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Degraded => "degraded",
            Self::Inferred => "inferred",
            Self::Exact => "exact",
        }
    }
}

/// The quality of each signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignalQualities {
    present: SignalSet,
    inferred: SignalSet,
    degraded: SignalSet,
}

impl SignalQualities {
    /// These signals, exact; the others are absent.
    #[must_use]
    pub const fn exact(signals: SignalSet) -> Self {
        Self {
            present: signals,
            inferred: SignalSet::EMPTY,
            degraded: SignalSet::EMPTY,
        }
    }

    /// The same, but for this signal.
    #[must_use]
    pub fn with(self, signal: Signal, quality: SignalQuality) -> Self {
        let only: SignalSet = [signal].into_iter().collect();
        let set = |set: SignalSet, member| {
            if member {
                set.union(only)
            } else {
                set.minus(only)
            }
        };
        Self {
            present: set(self.present, quality != SignalQuality::Absent),
            inferred: set(self.inferred, quality == SignalQuality::Inferred),
            degraded: set(self.degraded, quality == SignalQuality::Degraded),
        }
    }

    /// The quality of a signal.
    #[must_use]
    pub const fn of(self, signal: Signal) -> SignalQuality {
        if !self.present.contains(signal) {
            SignalQuality::Absent
        } else if self.degraded.contains(signal) {
            SignalQuality::Degraded
        } else if self.inferred.contains(signal) {
            SignalQuality::Inferred
        } else {
            SignalQuality::Exact
        }
    }

    /// The signals that are there, in whatever quality.
    #[must_use]
    pub const fn present(self) -> SignalSet {
        self.present
    }

    pub(crate) const fn inferred(self) -> SignalSet {
        self.inferred
    }

    pub(crate) const fn degraded(self) -> SignalSet {
        self.degraded
    }

    /// `None` where a signal is inferred or degraded but not there, or both.
    pub(crate) fn from_sets(
        present: SignalSet,
        inferred: SignalSet,
        degraded: SignalSet,
    ) -> Option<Self> {
        let marked = inferred.union(degraded);
        let twice = inferred.minus(inferred.minus(degraded));
        (marked.minus(present).is_empty() && twice.is_empty()).then_some(Self {
            present,
            inferred,
            degraded,
        })
    }
}

/// The congestion control of a datapath while no plane controls a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fallback {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582).
    Reno,
    /// The datapath steps aside: for boxes that carry other people's traffic.
    Release,
}

impl Fallback {
    /// Every fallback; the index is its number in our encoding.
    pub(crate) const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Release];

    /// The name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "Cubic",
            Self::Reno => "Reno",
            Self::Release => "release",
        }
    }
}

/// What a datapath has and can do: what algorithms are matched with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// The quality of each signal (CCP §5.3).
    pub signals: SignalQualities,
    /// What it can do for a flow.
    pub abilities: Abilities,
    /// Its congestion control while no plane controls a flow.
    pub fallback: Fallback,
    /// How many programs it keeps.
    pub max_programs: u32,
}

impl Capabilities {
    /// All signals, exact, and all abilities, with Cubic as the fallback.
    pub const ALL: Self = Self {
        signals: SignalQualities::exact(SignalSet::ALL),
        abilities: Abilities::ALL,
        fallback: Fallback::Cubic,
        max_programs: 1024,
    };
}

/// What a datapath can do for a flow.
///
/// A datapath with only one of window and rate derives it from what an algorithm sets: the window
/// is then at most rate × minimum RTT, the rate is cwnd / SRTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent abilities")]
pub struct Abilities {
    /// It enforces a window.
    pub window: bool,
    /// It enforces a pacing rate.
    pub rate: bool,
    /// Its flows can negotiate ECN where an algorithm requires it, and their receivers echo marks
    /// packet by packet (RFC 8257 §3.2).
    pub ecn: bool,
    /// It restarts idle flows as their algorithm asks (RFC 5681 §4.1), or not at all.
    pub idle_restart: bool,
}

impl Abilities {
    /// Everything.
    pub const ALL: Self = Self {
        window: true,
        rate: true,
        ecn: true,
        idle_restart: true,
    };

    const WINDOW: u32 = 1;
    const RATE: u32 = 2;
    const ECN: u32 = 4;
    const IDLE_RESTART: u32 = 8;

    pub(crate) fn bits(self) -> u32 {
        let bit = |there, bit| if there { bit } else { 0 };
        bit(self.window, Self::WINDOW)
            | bit(self.rate, Self::RATE)
            | bit(self.ecn, Self::ECN)
            | bit(self.idle_restart, Self::IDLE_RESTART)
    }

    /// `None` for bits that mean nothing.
    pub(crate) fn from_bits(bits: u32) -> Option<Self> {
        let has = |bit| bits & bit != 0;
        (bits & !Self::ALL.bits() == 0).then_some(Self {
            window: has(Self::WINDOW),
            rate: has(Self::RATE),
            ecn: has(Self::ECN),
            idle_restart: has(Self::IDLE_RESTART),
        })
    }
}
