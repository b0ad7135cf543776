//! Errors of the boxes.

use std::io;

use fairwater_bundle::BundleError;
use fairwater_kernel::KernelError;

/// Why a box cannot start, or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoxError {
    /// The configuration of the bundles.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The kernel's part of the box.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// There is no such interface.
    #[error("there is no interface `{0}`")]
    NoPort(String),
    /// An interface does not carry Ethernet frames.
    #[error("the interface `{0}` is no Ethernet, and packets of a site come from an Ethernet port")]
    NotEthernet(String),
    /// Some ports of a receivebox carry Ethernet frames, and others do not.
    #[error(
        "the interface `{0}` is no Ethernet or the only one: a receivebox has ports of one kind"
    )]
    MixedPorts(String),
    /// Another sendbox is at the interface.
    #[error("another sendbox is at the interface `{0}`; stop it first")]
    Taken(String),
    /// The socket for messages between the boxes.
    #[error("cannot listen at {0} for messages of the other box: {1}")]
    Listen(std::net::SocketAddr, io::Error),
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
    /// There are more bundles than classes.
    #[error("{0} bundles are too many for classes at one interface; at most {max} are allowed", max = crate::MAX_BUNDLES)]
    TooManyBundles(usize),
    /// The kernel has no such scheduler.
    #[error("this kernel has no queueing discipline {0}")]
    NoScheduler(&'static str),
}

impl BoxError {
    pub(crate) fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |error| KernelError::bpf(what)(error).into()
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| KernelError::io(what)(error).into()
    }

    /// Whether the process lacks rights.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Kernel(KernelError::Call { source, .. }) => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}
