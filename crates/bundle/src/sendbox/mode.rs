//! The modes of a bundle, and why it changes between them (Bundler §5).

use std::fmt;
use std::time::Duration;

use fairwater_net::Time;

use crate::IdentityFields;
use crate::elasticity::Evidence;
use crate::estimate::Estimates;

/// What a sendbox does with a bundle's traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// It measures and never shapes.
    Observe,
    /// It measures, before an algorithm takes over.
    Measure,
    /// It holds its own queue short and leaves the network's to the end hosts, since buffer-filling traffic competes.
    PassThrough,
    /// An algorithm sets window and rate.
    Control,
    /// It steps aside.
    Released(Cause),
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Observe => "observe",
            Self::Measure => "measure",
            Self::PassThrough => "pass-through",
            Self::Control => "control",
            Self::Released(_) => "released",
        })
    }
}

/// Why a sendbox steps aside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cause {
    /// This share of the boundary packets arrived out of order: parallel paths (Bundler §5.2).
    Reordering(f64),
    /// No feedback for so long, with boundary packets under way.
    Silence(Duration),
    /// Only this share of the marks was matched; most of the unmatched ones were of packets with these fields.
    Unmatched(f64, IdentityFields),
    /// Only this share of the packets passes the receivebox.
    Coverage(f64),
    /// So many packets in a row without a boundary: the traffic has no identity, or its packets are all equal.
    NoIdentity(u64),
    /// The plane has no program for the bundle, or took it back.
    Plane,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reordering(share) => write!(
                f,
                "{:.1} % of its boundary packets arrived out of order (more than {:.0} %)",
                share * 100.0,
                MAX_OUT_OF_ORDER * 100.0
            ),
            Self::Silence(time) => write!(f, "no feedback came for {} ms", time.as_millis()),
            Self::Unmatched(share, fields) => write!(
                f,
                "{:.0} % of its boundary packets were found at the receivebox (less than {:.0} %); the path may \
                 change one of {fields}",
                share * 100.0,
                MIN_MATCH_RATIO * 100.0
            ),
            Self::Coverage(share) => write!(
                f,
                "{:.0} % of its packets pass the receivebox (less than {:.0} %)",
                share * 100.0,
                MIN_COVERAGE * 100.0
            ),
            Self::NoIdentity(packets) => write!(
                f,
                "none of {packets} packets in a row could be a boundary: fragments, protocols without identity, or \
                 packets that are all equal"
            ),
            Self::Plane => f.write_str("no algorithm controls it"),
        }
    }
}

/// Why a mode was entered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// Enough was measured: rate in bytes/s, and mean RTT.
    Measured(f64, Duration),
    /// Buffer-filling cross traffic was detected; without evidence if another detector said so.
    Elastic(Option<Evidence>),
    /// It is gone.
    Inelastic(Option<Evidence>),
    /// The box steps aside, and tries again after this time at the earliest.
    Fault(Cause, Duration),
    /// The cause has been gone for this time.
    Recovered(Duration),
    /// The operator changed the bundle's parameters.
    Reconfigured,
}

/// A change of a bundle's mode: its display is one sentence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModeChange {
    /// When.
    pub at: Time,
    /// The bundle's number.
    pub bundle: u32,
    /// The mode before.
    pub from: Mode,
    /// The mode since.
    pub to: Mode,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for ModeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bundle {}: {} to {}, ", self.bundle, self.from, self.to)?;
        match self.reason {
            Reason::Measured(rate, rtt) => write!(
                f,
                "since {:.1} Mbit/s at an RTT of {:.1} ms were measured",
                rate * 8e-6,
                rtt.as_secs_f64() * 1e3
            ),
            Reason::Elastic(evidence) => {
                f.write_str("since buffer-filling traffic competes")?;
                evidence.map_or(Ok(()), |evidence| write!(f, ": {evidence}"))
            }
            Reason::Inelastic(evidence) => {
                f.write_str("since no buffer-filling traffic competes any more")?;
                evidence.map_or(Ok(()), |evidence| write!(f, ": {evidence}"))
            }
            Reason::Fault(cause, hold) => {
                write!(
                    f,
                    "since {cause}; tries again after {} ms",
                    hold.as_millis()
                )
            }
            Reason::Reconfigured => f.write_str("since its parameters were changed"),
            Reason::Recovered(time) => {
                write!(
                    f,
                    "since the cause has been gone for {} ms",
                    time.as_millis()
                )
            }
        }
    }
}

/// Out-of-order share above which the box steps aside (Bundler §5.2).
pub const MAX_OUT_OF_ORDER: f64 = 0.05;
/// Share of matched marks below which the box steps aside.
pub const MIN_MATCH_RATIO: f64 = 0.5;
/// Coverage below which the box steps aside.
pub const MIN_COVERAGE: f64 = 0.5;
/// Epochs of packets without a boundary after which the box steps aside: by chance once in 10¹³ epochs.
const MAX_EPOCHS_WITHOUT_BOUNDARY: f64 = 32.0;
/// Silence beyond two RTTs that releases a bundle.
const SILENCE: Duration = Duration::from_millis(100);
/// The RTT before one was measured.
const NOMINAL_RTT: Duration = Duration::from_secs(1);

/// What of a bundle can be a reason to step aside.
#[derive(Debug, Clone, Copy)]
pub struct Health {
    /// The estimates.
    pub estimates: Estimates,
    /// How long boundary packets have waited without any feedback.
    pub silent_for: Option<Duration>,
    /// Packets since the last boundary, and how many boundaries as many packets have on average.
    pub since_mark: (u64, f64),
    /// Fields of the packets whose marks went unmatched most often.
    pub worst_fields: IdentityFields,
}

impl Health {
    /// The first reason to step aside. `is_released` asks for better values to return than to stay: half the
    /// out-of-order share, and half way to the full ratios.
    #[must_use]
    pub fn fault(&self, is_released: bool) -> Option<Cause> {
        let estimates = &self.estimates;
        let (disorder, margin) = if is_released {
            (MAX_OUT_OF_ORDER / 2.0, 0.15)
        } else {
            (MAX_OUT_OF_ORDER, 0.0)
        };
        let rtt = estimates.rtt.unwrap_or(NOMINAL_RTT);
        if let Some(silent) = self.silent_for.filter(|&time| time > rtt * 2 + SILENCE) {
            return Some(Cause::Silence(silent));
        }
        if let Some(share) = estimates.out_of_order.filter(|&share| share > disorder) {
            return Some(Cause::Reordering(share));
        }
        let low = |share: &f64| *share < MIN_MATCH_RATIO + margin;
        if let Some(share) = estimates.match_ratio.filter(low) {
            return Some(Cause::Unmatched(share, self.worst_fields));
        }
        if estimates.coverage < MIN_COVERAGE + margin {
            return Some(Cause::Coverage(estimates.coverage));
        }
        let (packets, epochs) = self.since_mark;
        (epochs > MAX_EPOCHS_WITHOUT_BOUNDARY).then_some(Cause::NoIdentity(packets))
    }
}

/// How long a released bundle waits before it is measured again: twice as long after each relapse.
#[derive(Debug, Clone)]
pub struct BackOff {
    hold: Duration,
    /// Since when no cause holds any more.
    clear_since: Option<Time>,
    returned_at: Option<Time>,
}

impl BackOff {
    const FIRST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(300);

    /// Before the first fault.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            hold: Self::FIRST,
            clear_since: None,
            returned_at: None,
        }
    }

    /// A fault; returns how long the bundle stays released at least.
    pub fn on_fault(&mut self, now: Time) -> Duration {
        let lasted = self.returned_at.map(|at| now.since(at));
        self.hold = match lasted {
            Some(lasted) if lasted < self.hold * 10 => (self.hold * 2).min(Self::LONGEST),
            _ => Self::FIRST,
        };
        self.clear_since = None;
        self.hold
    }

    /// Whether the bundle may return; call while it is released.
    pub fn may_return(&mut self, now: Time, is_clear: bool) -> Option<Duration> {
        if !is_clear {
            self.clear_since = None;
            return None;
        }
        let since = *self.clear_since.get_or_insert(now);
        if now.since(since) < self.hold {
            return None;
        }
        self.returned_at = Some(now);
        Some(self.hold)
    }
}

impl Default for BackOff {
    fn default() -> Self {
        Self::new()
    }
}
