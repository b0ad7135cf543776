//! The programs of every algorithm, by one number each, as each dialect installs them.

use std::sync::{Arc, OnceLock};

use fairwater_lang::{Program, Scope, Signal, binary};
use fairwater_proto::Dialect;

use super::conformance::{self, Witnesses};
use super::libccp_programs::{self, Portable};
use fairwater_plane::{Ecn, HostedAlgorithm, LoadedProgram, Requirements};

pub(super) use super::libccp_programs::APPENDED;

/// Places that numbers leave between one instance of the plane and the next.
const NUMBERS: u32 = 1 << 12;

/// Every program that a peer may be switched to. Its position here is what peers' tables go by; its
/// number is what the messages say.
#[derive(Debug)]
pub(super) struct Catalogue {
    first: u32,
    /// Where each algorithm's programs begin.
    begins: Vec<u32>,
    entries: Vec<Entry>,
    fallback: Option<Fallback>,
}

/// What stands for the datapath's own fallback in libccp's dialect, where there is none to withdraw
/// a flow to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fallback {
    /// Where it is.
    pub(super) position: u32,
    /// Its variable that is to be the flow's MSS, bytes, as the dialect numbers it.
    pub(super) segment: Option<u16>,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// The index of its algorithm; that of the fallback is no algorithm's.
    pub(super) algorithm: u32,
    /// Its index among the algorithm's programs.
    pub(super) index: u32,
    pub(super) report_len: usize,
    /// What its algorithm needs of a datapath.
    requirements: Requirements,
    name: String,
    program: Arc<Program>,
    /// Fields that tell of signals, found when first asked for.
    witnesses: OnceLock<Vec<(Signal, Witnesses)>>,
    own: Vec<u8>,
    libccp: Result<Portable, String>,
}

impl Catalogue {
    pub(super) fn new(algorithms: &[HostedAlgorithm], instance: u64) -> Self {
        let mut catalogue = Self {
            first: first_number(instance),
            begins: Vec::new(),
            entries: Vec::new(),
            fallback: None,
        };
        for (algorithm, hosted) in algorithms.iter().enumerate() {
            catalogue.begins.push(position(catalogue.entries.len()));
            for (index, program) in hosted.programs().iter().enumerate() {
                catalogue
                    .entries
                    .push(Entry::new((algorithm, hosted), position(index), program));
            }
        }
        if let Some(fallback) = Entry::fallback() {
            let segment = fallback
                .program
                .variable(Scope::Control, libccp_programs::SEGMENT);
            catalogue.fallback = Some(Fallback {
                position: position(catalogue.entries.len()),
                segment: segment.and_then(|id| fallback.variable(Dialect::Ccp, id.0)),
            });
            catalogue.entries.push(fallback);
        }
        catalogue
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn fallback(&self) -> Option<Fallback> {
        self.fallback
    }

    /// Where an algorithm's program is.
    #[inline]
    pub(super) fn position(&self, algorithm: u32, index: u32) -> u32 {
        let begin = self.begins.get(algorithm as usize).copied();
        begin.unwrap_or(u32::MAX).saturating_add(index)
    }

    #[inline]
    pub(super) fn entry(&self, position: u32) -> Option<&Entry> {
        self.entries.get(position as usize)
    }

    /// The number that messages have for a position.
    #[inline]
    pub(super) fn number(&self, position: u32) -> u32 {
        self.first.wrapping_add(position)
    }

    /// The position of a number, and what is there.
    #[inline]
    pub(super) fn numbered(&self, number: u32) -> Option<(u32, &Entry)> {
        let position = number.wrapping_sub(self.first);
        Some((position, self.entry(position)?))
    }

    /// What an Install carries.
    pub(super) fn body(&self, position: u32, dialect: Dialect) -> &[u8] {
        let Some(entry) = self.entry(position) else {
            return &[];
        };
        match dialect {
            Dialect::Own => &entry.own,
            Dialect::Ccp => entry.libccp.as_ref().map_or(&[], |p| &p.body),
        }
    }
}

impl Entry {
    fn new(
        (algorithm, hosted): (usize, &HostedAlgorithm),
        index: u32,
        loaded: &LoadedProgram,
    ) -> Self {
        let requirements = *hosted.requirements();
        let algorithm = position(algorithm);
        Self::of(
            (algorithm, requirements),
            index,
            loaded.name(),
            loaded.shared(),
        )
    }

    /// `None` never: the source is a constant that compiles.
    fn fallback() -> Option<Self> {
        let compiled = fairwater_lang::compile("fallback", libccp_programs::FALLBACK).ok()?;
        let program = Arc::new(compiled.program);
        let requirements = Requirements {
            signals: program.signals,
            rate: false,
            ecn: Ecn::AsConfigured,
            idle_restart: true,
        };
        Some(Self::of((u32::MAX, requirements), 0, "fallback", program))
    }

    fn of(
        (algorithm, requirements): (u32, Requirements),
        index: u32,
        name: &str,
        program: Arc<Program>,
    ) -> Self {
        Self {
            algorithm,
            index,
            requirements,
            report_len: program.report_len(),
            name: name.to_owned(),
            own: binary::encode(&program),
            libccp: Portable::of(&program).map_err(|bound| bound.to_string()),
            witnesses: OnceLock::new(),
            program,
        }
    }

    /// The fields of its reports that tell of signals.
    pub(super) fn witnesses(&self) -> &[(Signal, Witnesses)] {
        self.witnesses
            .get_or_init(|| conformance::witnesses(&self.program))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// Why the dialect cannot express it.
    pub(super) fn inexpressible(&self, dialect: Dialect) -> Option<&str> {
        match dialect {
            Dialect::Own => None,
            Dialect::Ccp => self.libccp.as_ref().err().map(String::as_str),
        }
    }

    /// What a switch to the program has to set, by the number of each variable in the dialect.
    pub(super) fn presets(&self, dialect: Dialect) -> &[(u16, u64)] {
        match (dialect, &self.libccp) {
            (Dialect::Ccp, Ok(portable)) => &portable.presets,
            _ => &[],
        }
    }

    /// How many values a report ends with behind the program's own.
    #[inline]
    pub(super) fn appended(&self, dialect: Dialect) -> usize {
        match (dialect, &self.libccp) {
            (Dialect::Ccp, Ok(portable)) if portable.is_appended => APPENDED,
            _ => 0,
        }
    }

    /// How the dialect numbers a variable of the program, if it can be updated there.
    #[inline]
    pub(super) fn variable(&self, dialect: Dialect, variable: u16) -> Option<u16> {
        match dialect {
            Dialect::Own => Some(variable),
            Dialect::Ccp => self.libccp.as_ref().ok()?.control(variable),
        }
    }
}

fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// libccp keeps programs of planes that are gone, looks a number up by the first that has it,
/// and forgets every program at number 1: so each instance of the plane has numbers of its own,
/// far from 0 and 1.
fn first_number(instance: u64) -> u32 {
    // Fibonacci hashing: instances that follow each other lie far apart.
    let spread = instance.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    let blocks = (u32::MAX >> 1) / NUMBERS;
    (u32::try_from(spread).unwrap_or(0) % blocks + 1) * NUMBERS
}
