//! What a recording states once: its format, its algorithms and its programs.

use std::fmt::Write;

use fairwater_lang::{ConstantValue, Program, Signal, binary};
use fairwater_plane::{HostedAlgorithm, LoadedProgram};
use serde::{Deserialize, Serialize};

/// The format's version.
pub const VERSION: u32 = 1;

/// Name of the format, which the head begins with.
pub const FORMAT: &str = "fairwater recording";

/// The head of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Version of the software that recorded.
    pub software: String,
    /// What was recorded: a scenario, or the name of a host's plane.
    pub of: String,
    /// Which flows were asked for; empty for all.
    pub filter: String,
    /// When the recording began, µs since 1970; `None` of a simulation.
    pub started_unix_us: Option<u64>,
    /// The plane's algorithms.
    pub algorithms: Vec<RecordedAlgorithm>,
    /// Names of the signals, in the order of their columns.
    pub signals: Vec<String>,
}

/// An algorithm of the plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedAlgorithm {
    /// The name that it is hosted under.
    pub name: String,
    /// What a user types for it: its name and its parameters.
    pub spec: String,
}

impl Head {
    /// The head of a recording of this software.
    #[must_use]
    pub fn new(of: String, filter: String, algorithms: Vec<RecordedAlgorithm>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            software: env!("CARGO_PKG_VERSION").to_owned(),
            of,
            filter,
            started_unix_us: None,
            algorithms,
            signals: signal_names(),
        }
    }
}

/// The signals that this software knows, by index.
pub(crate) fn signal_names() -> Vec<String> {
    let all = Signal::ALL.into_iter();
    all.map(|signal| signal.name().to_owned()).collect()
}

/// A program of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedProgram {
    /// The name that its algorithm gave it.
    pub name: String,
    /// Its algorithm, an index of [`Head::algorithms`]; `None` of a program that is none of the plane's.
    pub algorithm: Option<u32>,
    /// Its place among the algorithm's programs.
    pub index: u32,
    /// The source, if it is known.
    pub source: Option<String>,
    /// Values for compile-time constants of the source.
    pub constants: Vec<(String, Constant)>,
    /// The program, in hexadecimal digits of [`fairwater_lang::binary`].
    pub code: String,
    /// BLAKE3 of the program's bytes, in hexadecimal digits.
    pub hash: String,
}

/// The value of a compile-time constant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Constant {
    /// A whole number.
    Number(u64),
    /// A decimal.
    Decimal(f64),
    /// A boolean.
    Boolean(bool),
}

impl From<ConstantValue> for Constant {
    fn from(value: ConstantValue) -> Self {
        match value {
            ConstantValue::Number(value) => Self::Number(value),
            ConstantValue::Decimal(value) => Self::Decimal(value),
            ConstantValue::Boolean(value) => Self::Boolean(value),
        }
    }
}

impl From<Constant> for ConstantValue {
    fn from(value: Constant) -> Self {
        match value {
            Constant::Number(value) => Self::Number(value),
            Constant::Decimal(value) => Self::Decimal(value),
            Constant::Boolean(value) => Self::Boolean(value),
        }
    }
}

impl RecordedProgram {
    /// All programs of a plane's algorithms.
    #[must_use]
    pub fn of_algorithms(algorithms: &[HostedAlgorithm]) -> Vec<Self> {
        let each = (0..).zip(algorithms).flat_map(|(algorithm, hosted)| {
            let programs = (0..).zip(hosted.programs());
            programs.map(move |(index, loaded)| Self::of_loaded(algorithm, index, loaded))
        });
        each.collect()
    }

    fn of_loaded(algorithm: u32, index: u32, loaded: &LoadedProgram) -> Self {
        let source = loaded.source();
        let constants = source.map_or(&[][..], |source| &source.constants);
        Self {
            algorithm: Some(algorithm),
            index,
            source: source.map(|source| source.text.clone()),
            constants: constants
                .iter()
                .map(|(name, value)| (name.clone(), (*value).into()))
                .collect(),
            ..Self::of_program(loaded.name(), loaded.program())
        }
    }

    /// A program that is none of the plane's algorithms'.
    #[must_use]
    pub fn of_program(name: &str, program: &Program) -> Self {
        let bytes = binary::encode(program);
        Self {
            name: name.to_owned(),
            algorithm: None,
            index: 0,
            source: None,
            constants: Vec::new(),
            hash: blake3::hash(&bytes).to_hex().to_string(),
            code: to_hex(&bytes),
        }
    }

    /// The checked program; `None` if the code or its hash is damaged.
    #[must_use]
    pub fn decode(&self) -> Option<Program> {
        let bytes = from_hex(&self.code)?;
        if blake3::hash(&bytes).to_hex().as_str() != self.hash {
            return None;
        }
        binary::decode(&bytes).ok()
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}
