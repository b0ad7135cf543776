//! What each stack tells a controller of its paths, and what it lets a controller do.

use std::fmt;

use fairwater_algorithms::{Choice, SpecError, by_spec};
use fairwater_datapath::{Config, Signal};
use fairwater_lang::SignalSet;
use fairwater_plane::Plane;
use fairwater_proto::{Abilities, Dialect, SignalQualities, SignalQuality};
use fairwater_service::obstacles;

use crate::QuicError;

/// A QUIC stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stack {
    /// noq, by `noq-proto`.
    Noq,
    /// quinn, by `quinn-proto`: it enforces a window alone.
    Quinn,
    /// s2n-quic.
    S2n,
}

impl Stack {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noq => "noq",
            Self::Quinn => "quinn",
            Self::S2n => "s2n-quic",
        }
    }

    /// How well a controller of the stack knows each signal; `docs/quic.md` says why.
    #[must_use]
    pub fn signals(self) -> SignalQualities {
        let degraded: &[Signal] = match self {
            Self::Noq => &[
                Signal::EcnBytes,
                Signal::EcnPackets,
                Signal::BytesPending,
                Signal::WasTimeout,
                Signal::AppLimited,
            ],
            Self::Quinn => &[
                Signal::BytesMisordered,
                Signal::PacketsMisordered,
                Signal::EcnBytes,
                Signal::EcnPackets,
                Signal::LostPkts,
                Signal::BytesPending,
                Signal::PacketsInFlight,
                Signal::WasTimeout,
                Signal::AppLimited,
            ],
            Self::S2n => &[
                Signal::BytesMisordered,
                Signal::PacketsMisordered,
                Signal::EcnBytes,
                Signal::PacketsAcked,
                Signal::BytesPending,
                Signal::PacketsInFlight,
                Signal::WasTimeout,
            ],
        };
        let undo: SignalSet = [Signal::Undo].into_iter().collect();
        let present = SignalQualities::exact(SignalSet::ALL.minus(undo));
        degraded.iter().fold(present, |signals, signal| {
            signals.with(*signal, SignalQuality::Degraded)
        })
    }

    /// What the stack enforces. `degraded_ecn` claims the ability to echo marks packet by packet,
    /// which none of these stacks shows its controllers.
    pub(crate) const fn abilities(self, degraded_ecn: bool) -> Abilities {
        Abilities {
            window: true,
            rate: !matches!(self, Self::Quinn),
            ecn: degraded_ecn,
            idle_restart: false,
        }
    }

    /// The algorithm of this name and parameters: the caller's own, or one of Fairwater's; `None` for
    /// a name that only a plane can know.
    ///
    /// # Errors
    /// A parameter is wrong, or the stack cannot run the algorithm.
    pub(crate) fn check(
        self,
        algorithm: &str,
        own: Option<&Choice>,
        config: &Config,
    ) -> Result<Option<Choice>, QuicError> {
        let name = algorithm.split(':').next().unwrap_or_default();
        let is_known = fairwater_algorithms::all()
            .iter()
            .any(|entry| entry.name == name);
        let choice = match own {
            Some(own) => own.clone(),
            None if is_known => by_spec(algorithm)?,
            None => return Ok(None),
        };
        let mut plane = Plane::new();
        let added = plane.add(|programs| choice.build(programs));
        added.map_err(|error| QuicError::Plane(error.to_string()))?;
        let capabilities = config.capabilities();
        let mut hosted = plane.algorithms().iter();
        let reasons = hosted
            .next()
            .map(|hosted| obstacles(hosted, &capabilities, Dialect::Own));
        let reasons: Vec<_> = reasons.into_iter().flatten().collect();
        if reasons.is_empty() {
            return Ok(Some(choice));
        }
        let reasons: Vec<_> = reasons.iter().map(ToString::to_string).collect();
        Err(QuicError::Unsupported {
            algorithm: name.to_owned(),
            stack: self,
            reasons: reasons.join(", "),
        })
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<SpecError> for QuicError {
    fn from(error: SpecError) -> Self {
        Self::Algorithm(error.to_string())
    }
}
