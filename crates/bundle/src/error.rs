//! Configurations that cannot be.

use thiserror::Error;

use crate::Prefix;

/// Why a box cannot have these bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum BundleError {
    /// Two bundles have one number.
    #[error("two bundles have the number {0}")]
    Number(u32),
    /// Two bundles have one prefix.
    #[error("the prefix {0} belongs to two bundles")]
    Prefix(Prefix),
    /// An instance is 0, which stands for an unknown one.
    #[error("the instance of bundle {0} is 0")]
    Instance(u32),
    /// The queue's configuration is refused.
    #[error("the queue of bundle {0} cannot hold anything")]
    Queue(u32),
}
