//! Several algorithms on this machine's TCP, for an experiment.

use std::collections::HashMap;

use fairwater_linux::Options;
use fairwater_plane::{Ecn, PlaneError};

use crate::plane::plane_of_named;
use crate::process::finish_all;
use crate::{AlgorithmProcess, AttachError, AttachedPlane, NamedAlgorithm, ProcessError};

/// Algorithms at work; they end when this is finished or dropped.
#[derive(Debug)]
pub struct HostedAlgorithms {
    names: Vec<String>,
    /// The plane's names of the algorithms.
    algorithms: Vec<String>,
    /// By algorithm, whether its flows need ECN.
    need_ecn: Vec<bool>,
    own: Option<AttachedPlane>,
    processes: Vec<AlgorithmProcess>,
}

/// Why algorithms could not be hosted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The plane refused an algorithm.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// The Linux datapath refused.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A worker process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl HostedAlgorithms {
    /// Attaches the algorithms: those in Rust in a thread of this process, each of those in Python
    /// in a worker process.
    ///
    /// # Errors
    /// What keeps them from being hosted; nothing is left attached then.
    pub fn start(algorithms: &[NamedAlgorithm], options: Options) -> Result<Self, HostError> {
        let all = plane_of_named(algorithms)?;
        let need_ecn = all
            .algorithms()
            .iter()
            .map(|a| a.requirements().ecn == Ecn::Required);
        let in_rust: Vec<_> = algorithms
            .iter()
            .filter(|(_, algorithm)| !algorithm.is_python)
            .cloned()
            .collect();
        let attached = if in_rust.is_empty() {
            None
        } else {
            let plane = plane_of_named(&in_rust)?;
            Some(AttachedPlane::start(plane, options)?)
        };
        let mut names = attached.iter().flat_map(AttachedPlane::names);
        let mut hosted = Self {
            names: Vec::new(),
            algorithms: algorithms.iter().map(|(name, _)| name.clone()).collect(),
            need_ecn: need_ecn.collect(),
            own: None,
            processes: Vec::new(),
        };
        for each in algorithms {
            if each.1.is_python {
                let process = AlgorithmProcess::start(std::slice::from_ref(each), &options)?;
                hosted.names.extend_from_slice(process.names());
                hosted.processes.push(process);
            } else {
                hosted.names.extend(names.next().cloned());
            }
        }
        hosted.own = attached;
        Ok(hosted)
    }

    /// The kernel's names of the algorithms, in their order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The plane's name of an algorithm, by the kernel's name, for each.
    #[must_use]
    pub fn algorithms(&self) -> HashMap<String, String> {
        let names = self.names.iter().cloned();
        names.zip(self.algorithms.iter().cloned()).collect()
    }

    /// The kernel's names of the algorithms that receivers need too, for ECN.
    #[must_use]
    pub fn at_both_ends(&self) -> Vec<String> {
        let named = self.names.iter().zip(&self.need_ecn);
        let named = named.filter(|(_, needs_ecn)| **needs_ecn);
        named.map(|(name, _)| name.clone()).collect()
    }

    /// What went wrong with flows and processes since the last call, one notice each.
    pub fn notices(&mut self) -> Vec<String> {
        let mut notices = self.own.iter().flat_map(AttachedPlane::notices).collect();
        for process in &mut self.processes {
            process.drain_notices(&mut notices);
        }
        notices
    }

    /// Detaches; returns the notices since the last call of [`HostedAlgorithms::notices`].
    pub fn finish(self) -> Vec<String> {
        let mut notices = self.own.map(AttachedPlane::finish).unwrap_or_default();
        notices.extend(finish_all(self.processes).notices);
        notices
    }
}
