//! Boxes of bundles.

use fairwater_net::QueueError;
use thiserror::Error;

use super::ConfigError;
use crate::routes::Finder;
use crate::{BundleConfig, EdgeId, Experiment, FlowConfig, Path};

/// An error of the boxes of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BoxError {
    /// The edge does not exist.
    #[error("the sendbox is in front of edge {}, which does not exist", .0.0)]
    UnknownEdge(EdgeId),
    /// Another bundle has this name.
    #[error("another bundle has this name")]
    Twice,
    /// No flow is in the bundle.
    #[error("no flow is in it")]
    NoFlow,
    /// Packets of a flow take a path on which there is no sendbox.
    #[error("packets of flow `{0}` do not pass the sendbox")]
    Bypass(String),
    /// The plane hosts no algorithm of this name.
    #[error("the plane has no algorithm `{0}`")]
    UnknownAlgorithm(String),
    /// The queue cannot work with its values.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The queue holds packets for no time.
    #[error("a packet may stay in the queue for 0 s")]
    NoTime,
}

pub(super) fn error(index: usize, bundle: &BundleConfig, error: BoxError) -> ConfigError {
    ConfigError::Bundle {
        bundle: index,
        name: bundle.name.clone(),
        error,
    }
}

/// All errors but the names of algorithms.
pub(super) fn check(config: &Experiment, finder: &mut Finder<'_>) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    for (index, bundle) in config.bundles.iter().enumerate() {
        let mut add = |found| errors.push(error(index, bundle, found));
        if config.bundles[..index]
            .iter()
            .any(|b| b.name == bundle.name)
        {
            add(BoxError::Twice);
        }
        if let Err(error) = bundle.queue.check() {
            add(BoxError::Queue(error));
        }
        if bundle.queue_time.is_zero() {
            add(BoxError::NoTime);
        }
        if bundle.at.0 as usize >= config.edges.len() {
            add(BoxError::UnknownEdge(bundle.at));
            continue;
        }
        let in_it = |flow: &&FlowConfig| flow.bundle.as_ref() == Some(&bundle.name);
        let mut flows = config.flows.iter().filter(in_it).peekable();
        if flows.peek().is_none() {
            add(BoxError::NoFlow);
        }
        // Flows without a path are named already.
        let mut bypasses = |flow: &&FlowConfig| match &flow.path {
            Path::Along { forward, .. } => forward.iter().any(|path| !path.contains(&bundle.at)),
            Path::Shortest => {
                let path = finder.shortest(flow.from, flow.to);
                path.is_some_and(|path| !path.contains(&bundle.at))
            }
        };
        if let Some(flow) = flows.find(|flow| bypasses(flow)) {
            add(BoxError::Bypass(flow.name.clone()));
        }
    }
    errors
}
