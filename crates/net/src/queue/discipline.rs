//! Queue disciplines by name, with their parameters: what links and scenarios are read with.
//!
//! Each discipline describes itself once, by [`Configuration`]; [`Discipline`] is that description
//! without the type, and [`QueueSpec`] a discipline with the parameters that somebody gave.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use super::field::Field;
use super::{Limit, QueueConfig};
use crate::quantity::QuantityError;
use crate::{Buffer, Rate};

/// The link that a queue stands before, as far as the queue's parameters follow from the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueContext {
    /// Rate of the link.
    pub rate: Rate,
    /// Longest round-trip time, without queues, of the flows that cross the link.
    pub rtt: Duration,
    /// The link's buffer, if one was given; otherwise the discipline's usual limit holds.
    pub buffer: Option<Buffer>,
}

impl QueueContext {
    /// The limit that the link's buffer gives; one bandwidth-delay product without a buffer.
    pub(super) fn buffer_or_bdp(&self) -> Limit {
        self.buffer.unwrap_or_default().limit(self.rate, self.rtt)
    }
}

/// The configuration of one discipline, described for those who read and write text.
pub(super) trait Configuration: Sized + 'static {
    /// Name in links and scenarios.
    const NAME: &'static str;
    /// What the discipline does, in one sentence.
    const SUMMARY: &'static str;
    /// All parameters but the limit, which is the link's buffer.
    const PARAMETERS: &'static [Parameter<Self>];

    /// The configuration before a link, when no parameter is given.
    fn usual(context: &QueueContext) -> Self;

    /// Sets how much the queue holds.
    fn set_limit(&mut self, limit: Limit);

    /// Refuses values that the discipline cannot work with.
    fn check(&self) -> Result<(), QueueError>;

    /// Whether the queue marks ECN-capable packets.
    fn marks(&self) -> bool {
        false
    }
}

/// One parameter of a discipline with the configuration `C`.
pub(super) struct Parameter<C> {
    pub(super) name: &'static str,
    pub(super) default: DefaultValue,
    pub(super) help: &'static str,
    /// The parameter's field, whose type says what is accepted.
    pub(super) field: fn(&mut C) -> Field<'_>,
}

/// What holds when a parameter is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultValue {
    /// The field's value in [`Configuration::usual`].
    Usual,
    /// The value follows from the link: how, in words.
    Derived(&'static str),
    /// The parameter must be given.
    Required,
}

/// A queue discipline that links and scenarios can name; [`Discipline::all`] lists them.
pub struct Discipline {
    name: &'static str,
    summary: &'static str,
    parameters: fn() -> Vec<ParameterDescription>,
    usual: fn(&QueueContext) -> QueueConfig,
    set: fn(&mut QueueConfig, usize, &str, &QueueContext) -> Result<(), QuantityError>,
    set_classes: fn(&mut QueueConfig, Vec<QueueConfig>),
    set_limit: fn(&mut QueueConfig, Limit),
}

/// One parameter of a discipline, for documentation and messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterDescription {
    /// Name.
    pub name: &'static str,
    /// What the parameter does.
    pub help: &'static str,
    /// What is accepted.
    pub expected: &'static str,
    /// The value that holds when none is given, or how it follows from the link; `None` if the
    /// parameter must be given.
    pub default: Option<String>,
}

/// A configuration that is one of [`QueueConfig`]'s.
pub(super) trait Variant: Configuration {
    fn into_queue_config(self) -> QueueConfig;
    fn of(config: &mut QueueConfig) -> Option<&mut Self>;
}

impl Discipline {
    /// The description of the discipline with the configuration `C`.
    pub(super) const fn of<C: Variant>() -> Self {
        Discipline {
            name: C::NAME,
            summary: C::SUMMARY,
            parameters: describe::<C>,
            usual: |context| C::usual(context).into_queue_config(),
            set: |config, index, text, context| {
                let field = C::of(config).zip(C::PARAMETERS.get(index));
                field.map_or(Ok(()), |(config, parameter)| {
                    (parameter.field)(config).set(text, context)
                })
            },
            set_classes: |config, classes| {
                if let Some(config) = C::of(config) {
                    for parameter in C::PARAMETERS {
                        if let Field::Classes(field) = (parameter.field)(config) {
                            *field = classes;
                            return;
                        }
                    }
                }
            },
            set_limit: |config, limit| {
                if let Some(config) = C::of(config) {
                    config.set_limit(limit);
                }
            },
        }
    }

    /// All disciplines.
    pub fn all() -> &'static [Discipline] {
        super::DISCIPLINES
    }

    /// The discipline of this name.
    pub fn named(name: &str) -> Option<&'static Discipline> {
        Discipline::all().iter().find(|known| known.name == name)
    }

    /// The name in links and scenarios.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the discipline does, in one sentence.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// All parameters but the limit, which is the link's buffer.
    pub fn parameters(&self) -> Vec<ParameterDescription> {
        (self.parameters)()
    }
}

impl fmt::Debug for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Discipline").field(&self.name).finish()
    }
}

impl PartialEq for Discipline {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Discipline {}

fn describe<C: Configuration>() -> Vec<ParameterDescription> {
    let mut usual = C::usual(&EXAMPLE);
    let describe = |parameter: &Parameter<C>| {
        let field = (parameter.field)(&mut usual);
        ParameterDescription {
            name: parameter.name,
            help: parameter.help,
            expected: field.expected(),
            default: match parameter.default {
                DefaultValue::Usual => Some(field.to_string()),
                DefaultValue::Derived(how) => Some(how.to_owned()),
                DefaultValue::Required => None,
            },
        }
    };
    C::PARAMETERS.iter().map(describe).collect()
}

/// A link to try parameters on while the real link is not known.
const EXAMPLE: QueueContext = QueueContext {
    rate: Rate::at_least_one(10_000_000),
    rtt: Duration::from_millis(100),
    buffer: None,
};

/// A queue discipline with the parameters that were given, before the link is known.
///
/// As text, in a link: `fq_codel`, or `codel:target=2ms,ecn=true`. [`fmt::Display`] gives that
/// text; parameters of the classes of a queue that has classes can be given by [`QueueSpec::set_classes`]
/// alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    discipline: &'static Discipline,
    /// Parameters by index, with their text.
    arguments: Vec<(usize, String)>,
    classes: Vec<QueueSpec>,
}

/// Why the description of a queue was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueueSpecError {
    /// No discipline has this name.
    #[error("there is no queue discipline `{0}`")]
    UnknownDiscipline(String),
    /// The discipline has no such parameter.
    #[error("`{discipline}` has no parameter `{parameter}`")]
    UnknownParameter {
        /// The discipline.
        discipline: &'static str,
        /// The parameter.
        parameter: String,
    },
    /// A parameter was given twice.
    #[error("`{0}` is given twice")]
    Repeated(&'static str),
    /// A parameter without which the discipline cannot be.
    #[error("`{discipline}` needs `{parameter}`")]
    Missing {
        /// The discipline.
        discipline: &'static str,
        /// The parameter.
        parameter: &'static str,
    },
    /// A parameter's value was refused.
    #[error("`{parameter}`: {error}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// What is wrong with the value.
        error: QuantityError,
    },
    /// The values do not go together.
    #[error(transparent)]
    Config(#[from] QueueError),
}

/// Why a queue's configuration was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QueueError {
    /// A value that must be above zero is zero.
    #[error("`{parameter}` of a `{discipline}` queue must be more than zero")]
    Zero {
        /// The discipline.
        discipline: &'static str,
        /// The parameter; `buffer` for the limit.
        parameter: &'static str,
    },
    /// RED's thresholds are in the wrong order.
    #[error("`max` of a `red` queue, {max_bytes} bytes, is not above `min`, {min_bytes} bytes")]
    RedThresholds {
        /// The lower threshold.
        min_bytes: u64,
        /// The upper threshold.
        max_bytes: u64,
    },
    /// A discipline between classes has no class, or more than [`MAX_CLASSES`].
    #[error("a `{discipline}` queue has {classes} classes; it takes 1 to 256")]
    Classes {
        /// The discipline.
        discipline: &'static str,
        /// Number of its classes.
        classes: usize,
    },
    /// There are not as many weights as classes.
    #[error("a `wdrr` queue has {weights} weights for {classes} classes")]
    Weights {
        /// Number of weights.
        weights: usize,
        /// Number of classes.
        classes: usize,
    },
}

/// Most classes of a queue: as many as [`crate::Packet::priority`] can name.
pub const MAX_CLASSES: usize = 256;

/// Refuses the first value that is zero.
pub(super) fn refuse_zeros(
    discipline: &'static str,
    values: &[(&'static str, bool)],
) -> Result<(), QueueError> {
    match values.iter().find(|(_, is_zero)| *is_zero) {
        Some(&(parameter, _)) => Err(QueueError::Zero {
            discipline,
            parameter,
        }),
        None => Ok(()),
    }
}

impl QueueSpec {
    /// A discipline without parameters.
    pub fn new(discipline: &'static Discipline) -> Self {
        QueueSpec {
            discipline,
            arguments: Vec::new(),
            classes: Vec::new(),
        }
    }

    /// The discipline.
    pub fn discipline(&self) -> &'static Discipline {
        self.discipline
    }

    /// Gives a parameter, such as `target` and `5ms`.
    ///
    /// # Errors
    /// [`QueueSpecError`] if the discipline has no such parameter, or not with this value, or the
    /// parameter was given before.
    pub fn set(&mut self, parameter: &str, value: &str) -> Result<(), QueueSpecError> {
        let (index, name) = self.parameter(parameter)?;
        if self.is_given(index, name) {
            return Err(QueueSpecError::Repeated(name));
        }
        let mut scratch = (self.discipline.usual)(&EXAMPLE);
        (self.discipline.set)(&mut scratch, index, value, &EXAMPLE).map_err(|error| {
            QueueSpecError::Value {
                parameter: name,
                error,
            }
        })?;
        self.arguments.push((index, value.trim().to_owned()));
        Ok(())
    }

    /// Gives the classes of a queue that has classes, by their numbers.
    ///
    /// # Errors
    /// [`QueueSpecError`] if the discipline has no classes, they were given before, or there are
    /// too many or none.
    pub fn set_classes(&mut self, classes: Vec<QueueSpec>) -> Result<(), QueueSpecError> {
        let (index, name) = self.parameter(CLASSES_PARAMETER)?;
        if self.is_given(index, name) {
            return Err(QueueSpecError::Repeated(name));
        }
        if !(1..=MAX_CLASSES).contains(&classes.len()) {
            let error = QueueError::Classes {
                discipline: self.discipline.name,
                classes: classes.len(),
            };
            return Err(error.into());
        }
        self.classes = classes;
        Ok(())
    }

    fn is_given(&self, index: usize, name: &str) -> bool {
        let classes = name == CLASSES_PARAMETER && !self.classes.is_empty();
        classes || self.arguments.iter().any(|(given, _)| *given == index)
    }

    fn parameter(&self, name: &str) -> Result<(usize, &'static str), QueueSpecError> {
        let parameters = self.discipline.parameters().into_iter().enumerate();
        let mut names = parameters.map(|(index, known)| (index, known.name));
        names
            .find(|(_, known)| *known == name)
            .ok_or_else(|| QueueSpecError::UnknownParameter {
                discipline: self.discipline.name,
                parameter: name.to_owned(),
            })
    }

    /// Whether all parameters that the discipline cannot be without are there.
    ///
    /// # Errors
    /// [`QueueSpecError::Missing`] with the first that is not.
    pub fn check_complete(&self) -> Result<(), QueueSpecError> {
        for (index, parameter) in self.discipline.parameters().into_iter().enumerate() {
            if parameter.default.is_none() && !self.is_given(index, parameter.name) {
                return Err(QueueSpecError::Missing {
                    discipline: self.discipline.name,
                    parameter: parameter.name,
                });
            }
        }
        self.classes.iter().try_for_each(QueueSpec::check_complete)
    }

    /// The queue's configuration before a link.
    ///
    /// # Errors
    /// [`QueueSpecError`] if a parameter is missing, or the values do not go together.
    pub fn config(&self, context: &QueueContext) -> Result<QueueConfig, QueueSpecError> {
        self.check_complete()?;
        let mut config = (self.discipline.usual)(context);
        let parameters = self.discipline.parameters();
        // In the order of the description: a preset comes before the values that it is changed by.
        for (index, parameter) in parameters.iter().enumerate() {
            for (_, value) in self.arguments.iter().filter(|(given, _)| *given == index) {
                (self.discipline.set)(&mut config, index, value, context).map_err(|error| {
                    QueueSpecError::Value {
                        parameter: parameter.name,
                        error,
                    }
                })?;
            }
        }
        if !self.classes.is_empty() {
            let classes = self.classes.iter().map(|class| class.config(context));
            let classes = classes.collect::<Result<_, _>>()?;
            (self.discipline.set_classes)(&mut config, classes);
        }
        if let Some(buffer) = context.buffer {
            let limit = buffer.limit(context.rate, context.rtt);
            (self.discipline.set_limit)(&mut config, limit);
        }
        config.check()?;
        Ok(config)
    }
}

/// Name of the parameter that lists a queue's classes.
pub(super) const CLASSES_PARAMETER: &str = "classes";

/// Drop-tail.
impl Default for QueueSpec {
    fn default() -> Self {
        QueueSpec::new(&super::DISCIPLINES[0])
    }
}

impl FromStr for QueueSpec {
    type Err = QueueSpecError;

    fn from_str(text: &str) -> Result<Self, QueueSpecError> {
        let (name, arguments) = match text.split_once(':') {
            Some((name, arguments)) => (name, Some(arguments)),
            None => (text, None),
        };
        let discipline = Discipline::named(name)
            .ok_or_else(|| QueueSpecError::UnknownDiscipline(name.to_owned()))?;
        let mut spec = QueueSpec::new(discipline);
        for argument in arguments.into_iter().flat_map(|list| list.split(',')) {
            let (parameter, value) = argument.split_once('=').unwrap_or((argument, ""));
            spec.set(parameter, value)?;
        }
        spec.check_complete()?;
        Ok(spec)
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.discipline.name)?;
        let parameters = self.discipline.parameters();
        let mut separator = ':';
        for (index, value) in &self.arguments {
            if let Some(parameter) = parameters.get(*index) {
                write!(f, "{separator}{}={value}", parameter.name)?;
                separator = ',';
            }
        }
        for (index, class) in self.classes.iter().enumerate() {
            match index {
                0 => write!(f, "{separator}{CLASSES_PARAMETER}={class}")?,
                _ => write!(f, "+{class}")?,
            }
        }
        Ok(())
    }
}
