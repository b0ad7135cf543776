//! The algorithms by name.

use fairwater_plane::{Algorithm, AlgorithmError, Programs};

use crate::spec::{Parameter, Settings, SpecError, nearest};
use crate::{
    Constant, ConstantConfig, Cubic, CubicConfig, Reno, RenoConfig, constant, cubic, reno,
};

/// An algorithm that this crate has.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    parse: fn(&mut Settings<'_>) -> Config,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Config {
    Constant(ConstantConfig),
    Cubic(CubicConfig),
    Reno(RenoConfig),
}

const ALL: &[Entry] = &[
    Entry {
        name: "constant",
        summary: "a fixed congestion window, a fixed rate, or both",
        parameters: constant::PARAMETERS,
        parse: |s| Config::Constant(ConstantConfig::from_settings(s)),
    },
    Entry {
        name: "cubic",
        summary: "CUBIC (RFC 9438), with HyStart",
        parameters: cubic::PARAMETERS,
        parse: |s| Config::Cubic(CubicConfig::from_settings(s)),
    },
    Entry {
        name: "reno",
        summary: "NewReno (RFC 5681, RFC 6582)",
        parameters: reno::PARAMETERS,
        parse: |s| Config::Reno(RenoConfig::from_settings(s)),
    },
];

/// Every algorithm, by name.
#[must_use]
pub fn all() -> &'static [Entry] {
    ALL
}

/// An algorithm and its parameters, checked and ready to be built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    name: &'static str,
    config: Config,
}

impl Choice {
    /// The algorithm's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Builds it, for [`Plane::add`](fairwater_plane::Plane::add):
    ///
    /// ```
    /// use fairwater_plane::{Plane, SignalSet};
    ///
    /// let mut plane = Plane::new("demo", SignalSet::ALL);
    /// let reno = fairwater_algorithms::by_spec("reno:report=10ms")?;
    /// assert_eq!(plane.add(|programs| reno.build(programs))?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// None that [`by_spec`] has not found before.
    pub fn build(&self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(match self.config {
            Config::Constant(config) => Box::new(Constant::new(programs, config)?),
            Config::Cubic(config) => Box::new(Cubic::new(programs, config)?),
            Config::Reno(config) => Box::new(Reno::new(programs, config)?),
        })
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
        let hint = nearest(name, ALL.iter().map(|e| e.name)).map_or_else(
            || {
                let names: Vec<_> = ALL.iter().map(|e| e.name).collect();
                format!("; there are {}", names.join(", "))
            },
            |n| format!("; did you mean `{n}`?"),
        );
        return Err(SpecError::one(format!(
            "there is no algorithm `{name}`{hint}"
        )));
    };
    let mut settings = Settings::parse(entry.name, settings, entry.parameters);
    let config = (entry.parse)(&mut settings);
    settings.finish()?;
    Ok(Choice {
        name: entry.name,
        config,
    })
}
