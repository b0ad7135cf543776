//! Which schedulers this kernel has, found out by trying: a kernel's version does not tell.

use std::io;

use fairwater_netlink::{Namespace, index_of};

use super::tc::Tc;

/// A fair scheduler of the kernel, which a leaf class may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KernelScheduler {
    /// Flow queues with `CoDel` (RFC 8290).
    FqCodel,
    /// Common applications kept enhanced.
    Cake,
    /// Stochastic fairness queueing.
    Sfq,
}

impl KernelScheduler {
    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FqCodel => "fq_codel",
            Self::Cake => "cake",
            Self::Sfq => "sfq",
        }
    }

    /// Whether this kernel has the scheduler: tries in a namespace of its own, which is gone afterwards.
    ///
    /// # Errors
    /// Namespaces cannot be made, or the kernel could not be asked.
    pub fn is_available(self) -> io::Result<bool> {
        Namespace::new()?.inside(|| {
            let mut tc = Tc::new(index_of("lo")?)?;
            match tc.add_plain_root(self.name()) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        })?
    }
}
