//! Errors of the kernel's data plane.

use std::io;

use fairwater_bundle::BundleError;
use fairwater_kernel::KernelError;

/// Why the kernel's data plane cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HtbError {
    /// The programs or their maps are refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The bundles cannot be.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// There is no such interface.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// The interface has a queueing discipline that somebody chose.
    #[error(
        "{interface} has the queueing discipline {kind} {handle:x}: as its root, which is not the bundle's; remove it \
         first (tc qdisc del dev {interface} root)"
    )]
    ForeignQdisc {
        /// The interface.
        interface: String,
        /// Kind of the queueing discipline.
        kind: String,
        /// Its major number.
        handle: u32,
    },
    /// Another process has bundles at the interface.
    #[error("another process has bundles at {0}")]
    InUse(String),
    /// There are more bundles than classes.
    #[error("{0} bundles are too many for classes at one interface; at most {max} are allowed", max = crate::MAX_BUNDLES)]
    TooManyBundles(usize),
    /// The kernel has no such scheduler.
    #[error("this kernel has no queueing discipline {0}")]
    NoScheduler(&'static str),
    /// A call failed.
    #[error("cannot {what}: {source}")]
    Call {
        /// What was being done.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl HtbError {
    /// Wraps an I/O error of what was being done.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Call { what, source }
    }
}
