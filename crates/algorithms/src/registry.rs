//! The algorithms by name.

use std::fmt;
use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Programs};

use crate::parameter::{Configuration, Parameter, ParameterSpec};
use crate::spec::{SpecError, did_you_mean, read};
use crate::{
    BasicDelayConfig, Bbr3Config, BbrConfig, CongestionManagerConfig, ConstantConfig, CopaConfig,
    CubicConfig, DctcpConfig, HyblaConfig, IllinoisConfig, LedbatPpConfig, NimbusConfig,
    RenoConfig, SproutConfig, VegasConfig, VivaceConfig,
};

/// An algorithm that this crate has.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    parameters: fn() -> Vec<Parameter>,
    parse: fn(&str) -> Result<Build, SpecError>,
}

impl Entry {
    const fn of<C: Configuration>() -> Self {
        Self {
            name: C::NAME,
            summary: C::SUMMARY,
            parameters: || C::PARAMETERS.iter().map(ParameterSpec::describe).collect(),
            parse: |text| {
                let config: C = read(text)?;
                Ok(Arc::new(move |programs| config.clone().build(programs)))
            },
        }
    }

    /// What can be set.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        (self.parameters)()
    }
}

/// By name.
const ALL: &[Entry] = &[
    Entry::of::<BasicDelayConfig>(),
    Entry::of::<BbrConfig>(),
    Entry::of::<Bbr3Config>(),
    Entry::of::<CongestionManagerConfig>(),
    Entry::of::<ConstantConfig>(),
    Entry::of::<CopaConfig>(),
    Entry::of::<CubicConfig>(),
    Entry::of::<DctcpConfig>(),
    Entry::of::<HyblaConfig>(),
    Entry::of::<IllinoisConfig>(),
    Entry::of::<LedbatPpConfig>(),
    Entry::of::<NimbusConfig>(),
    Entry::of::<RenoConfig>(),
    Entry::of::<SproutConfig>(),
    Entry::of::<VegasConfig>(),
    Entry::of::<VivaceConfig>(),
];

/// Every algorithm, by name.
#[must_use]
pub fn all() -> &'static [Entry] {
    ALL
}

/// Builds an algorithm, any number of times.
pub(crate) type Build =
    Arc<dyn Fn(&mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> + Send + Sync>;

/// An algorithm and its parameters, checked and ready to be built.
#[derive(Clone)]
pub struct Choice {
    name: Arc<str>,
    build: Build,
}

impl Choice {
    /// An algorithm that is not of this crate.
    pub fn new(
        name: &str,
        build: impl Fn(&mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            build: Arc::new(build),
        }
    }

    /// The algorithm's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Builds it, for [`Plane::add`](fairwater_plane::Plane::add):
    ///
    /// ```
    /// use fairwater_plane::{Plane, SignalSet};
    ///
    /// let mut plane = Plane::new();
    /// let reno = fairwater_algorithms::by_spec("reno:report=10ms")?;
    /// assert_eq!(plane.add(|programs| reno.build(programs))?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// For an algorithm of this crate, none that [`by_spec`] has not found before.
    pub fn build(&self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        (self.build)(programs)
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The algorithm that `name` or `name:key=value,key=value` stands for.
///
/// # Errors
/// Every fault of the text: an unknown name or key with the nearest known one, a value out of its
/// range with the range.
pub fn by_spec(spec: &str) -> Result<Choice, SpecError> {
    let (name, settings) = spec.split_once(':').unwrap_or((spec, ""));
    let name = name.trim();
    let Some(entry) = ALL.iter().find(|e| e.name == name) else {
        let names: Vec<_> = ALL.iter().map(|e| e.name).collect();
        let hint = did_you_mean(name, &names, "there are");
        return Err(SpecError::one(format!(
            "there is no algorithm `{name}`{hint}"
        )));
    };
    Ok(Choice {
        name: entry.name.into(),
        build: (entry.parse)(settings)?,
    })
}
