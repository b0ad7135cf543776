//! An algorithm's programs, and the handles that are resolved when they are compiled.

use std::fmt::Display;
use std::sync::Arc;

use fairwater_lang::{ConstantValue, Diagnostics, Program, Scope, SignalSet, Type};
use thiserror::Error;

use crate::careful_resume::counting;

/// One program of one algorithm of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramId {
    pub(crate) algorithm: u32,
    pub(crate) index: u32,
}

impl ProgramId {
    /// The program of this index of the algorithm of that index, in the order of
    /// [`Plane::add`](crate::Plane::add).
    #[must_use]
    pub const fn new(algorithm: u32, index: u32) -> Self {
        Self { algorithm, index }
    }

    /// Index of the algorithm in its plane.
    #[must_use]
    pub const fn algorithm(self) -> u32 {
        self.algorithm
    }

    /// Index among the algorithm's programs.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }
}

/// A report field of one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    pub(crate) program: ProgramId,
    pub(crate) index: u16,
}

/// A control variable of one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Var {
    pub(crate) program: ProgramId,
    pub(crate) index: u16,
    pub(crate) ty: Type,
}

/// Why an algorithm could not be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// A program does not compile.
    #[error("program `{program}` does not compile\n{diagnostics}")]
    Program {
        /// The program's name.
        program: String,
        /// Every error in it.
        diagnostics: Diagnostics,
    },
    /// A program reports no such field.
    #[error("program `{program}` has no report field `{field}`{}", did_you_mean(.nearest))]
    UnknownField {
        /// The program's name.
        program: String,
        /// The name that was asked for, without its `Report.` prefix.
        field: String,
        /// A field of a similar name.
        nearest: Option<String>,
    },
    /// A program has no such control variable.
    #[error("program `{program}` has no control variable `{variable}`{}", did_you_mean(.nearest))]
    UnknownVariable {
        /// The program's name.
        program: String,
        /// The name that was asked for.
        variable: String,
        /// A variable of a similar name.
        nearest: Option<String>,
    },
    /// A parameter of the algorithm is out of its range.
    #[error("{parameter} is {value}: it must be {range}")]
    OutOfRange {
        /// The parameter's name.
        parameter: &'static str,
        /// What it was set to.
        value: String,
        /// What it may be, with its unit.
        range: String,
    },
}

impl AlgorithmError {
    /// A parameter that is `value`, where it must be `range`: both with their unit, if any.
    pub fn out_of_range(
        parameter: &'static str,
        value: impl Display,
        range: impl Into<String>,
    ) -> Self {
        Self::OutOfRange {
            parameter,
            value: value.to_string(),
            range: range.into(),
        }
    }
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |n| format!("; did you mean `{n}`?"))
}

/// A program that an algorithm brought, compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedProgram {
    name: String,
    program: Arc<Program>,
    report_len: usize,
    /// The signals that the algorithm's own source reads.
    signals: SignalSet,
    /// Whether its reports end with what it delivered.
    counts: bool,
    source: Option<Arc<ProgramSource>>,
}

/// The text of a program, as its algorithm gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramSource {
    /// The source.
    pub text: String,
    /// Values for compile-time constants, by name; the text states the others.
    pub constants: Vec<(String, ConstantValue)>,
}

impl LoadedProgram {
    /// The name that the algorithm gave it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The checked program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The checked program, to be kept beside the plane.
    #[must_use]
    pub fn shared(&self) -> Arc<Program> {
        Arc::clone(&self.program)
    }

    /// The signals that the algorithm reads in it: what the plane itself counts is not among them.
    pub(crate) const fn signals(&self) -> SignalSet {
        self.signals
    }

    /// Whether its reports end with what it delivered, for Careful Resume.
    pub(crate) const fn counts(&self) -> bool {
        self.counts
    }

    /// The text that it was compiled from; `None` of a program that was built by other means, or that
    /// counts for Careful Resume.
    #[must_use]
    pub fn source(&self) -> Option<&ProgramSource> {
        self.source.as_deref()
    }

    /// How many fields its reports have.
    #[must_use]
    pub fn report_len(&self) -> usize {
        self.report_len
    }
}

/// Collects the programs of an algorithm while it is built.
#[derive(Debug)]
pub struct Programs {
    algorithm: u32,
    /// Whether programs count what they deliver, for Careful Resume.
    counting: bool,
    loaded: Vec<LoadedProgram>,
}

impl Programs {
    pub(crate) fn new(algorithm: u32) -> Self {
        Self {
            algorithm,
            counting: false,
            loaded: Vec::new(),
        }
    }

    /// As [`Programs::new`], for a plane that resumes carefully.
    pub(crate) fn counting(algorithm: u32) -> Self {
        Self {
            counting: true,
            ..Self::new(algorithm)
        }
    }

    /// The program that flows begin with.
    pub(crate) const fn first(&self) -> ProgramId {
        ProgramId {
            algorithm: self.algorithm,
            index: 0,
        }
    }

    /// Compiles a program. `name` stands for it in diagnostics and in views of flows. The first
    /// program is the one that flows begin with.
    ///
    /// # Errors
    /// [`AlgorithmError::Program`] with every diagnostic when the source does not compile.
    pub fn add(&mut self, name: &str, source: &str) -> Result<ProgramHandle, AlgorithmError> {
        self.add_with(name, source, &[])
    }

    /// Compiles a program with these values for its compile-time constants, by name; the source
    /// states the others.
    ///
    /// # Errors
    /// [`AlgorithmError::Program`] with every diagnostic when the source does not compile.
    pub fn add_with(
        &mut self,
        name: &str,
        source: &str,
        constants: &[(&str, ConstantValue)],
    ) -> Result<ProgramHandle, AlgorithmError> {
        let compiled =
            fairwater_lang::compile_with(name, source, constants).map_err(|diagnostics| {
                AlgorithmError::Program {
                    program: name.to_owned(),
                    diagnostics,
                }
            })?;
        let source = ProgramSource {
            text: source.to_owned(),
            constants: constants
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
        };
        Ok(self.load(name, compiled.program, Some(Arc::new(source))))
    }

    /// Adds a program that is already checked, one built by other means than source text.
    pub fn add_checked(&mut self, name: &str, program: Program) -> ProgramHandle {
        self.load(name, program, None)
    }

    fn load(
        &mut self,
        name: &str,
        program: Program,
        source: Option<Arc<ProgramSource>>,
    ) -> ProgramHandle {
        let id = ProgramId {
            algorithm: self.algorithm,
            index: u32::try_from(self.loaded.len()).unwrap_or(u32::MAX),
        };
        let signals = program.signals;
        let counting = self.counting.then(|| counting(&program)).flatten();
        let counts = counting.is_some();
        let program = counting.unwrap_or(program);
        let loaded = LoadedProgram {
            name: name.to_owned(),
            report_len: program.report_len(),
            program: Arc::new(program),
            signals,
            counts,
            // With counters of the plane's own it is not what its text says.
            source: source.filter(|_| !counts),
        };
        self.loaded.push(loaded.clone());
        ProgramHandle { id, loaded }
    }

    pub(crate) fn loaded(&self) -> &[LoadedProgram] {
        &self.loaded
    }

    pub(crate) fn into_loaded(self) -> Vec<LoadedProgram> {
        self.loaded
    }
}

/// A compiled program, from which an algorithm takes the handles that it keeps.
#[derive(Debug, Clone)]
pub struct ProgramHandle {
    id: ProgramId,
    loaded: LoadedProgram,
}

impl ProgramHandle {
    /// What [`Control::switch`](crate::Control::switch) takes and
    /// [`Report::program`](crate::Report::program) yields.
    #[must_use]
    pub fn id(&self) -> ProgramId {
        self.id
    }

    /// The report field of that name; a `Report.` prefix may be left out.
    ///
    /// # Errors
    /// [`AlgorithmError::UnknownField`] names the nearest field.
    pub fn field(&self, name: &str) -> Result<Field, AlgorithmError> {
        let name = name.strip_prefix("Report.").unwrap_or(name);
        match self.loaded.program.variable(Scope::Report, name) {
            Some(index) => Ok(Field {
                program: self.id,
                index: index.0,
            }),
            None => Err(AlgorithmError::UnknownField {
                program: self.loaded.name.clone(),
                field: name.to_owned(),
                nearest: self.nearest(Scope::Report, name),
            }),
        }
    }

    /// The control variable of that name.
    ///
    /// # Errors
    /// [`AlgorithmError::UnknownVariable`] names the nearest control variable.
    pub fn variable(&self, name: &str) -> Result<Var, AlgorithmError> {
        let program = &self.loaded.program;
        let found = program
            .variable(Scope::Control, name)
            .and_then(|id| program.variables.get(usize::from(id.0)).map(|v| (id, v.ty)));
        match found {
            Some((id, ty)) => Ok(Var {
                program: self.id,
                index: id.0,
                ty,
            }),
            None => Err(AlgorithmError::UnknownVariable {
                program: self.loaded.name.clone(),
                variable: name.to_owned(),
                nearest: self.nearest(Scope::Control, name),
            }),
        }
    }

    fn nearest(&self, scope: Scope, name: &str) -> Option<String> {
        let variables = self.loaded.program.variables.iter();
        let known = variables.filter(|v| v.scope == scope);
        fairwater_lang::nearest(name, known.map(|v| v.name.as_str())).map(str::to_owned)
    }
}
