//! Boundary packets out of a program's ring.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use fairwater_kernel::KernelError;
use libbpf_rs::{MapMut, RingBuffer, RingBufferBuilder};

use crate::ObservedBoundary;

/// The ring of one program.
pub(crate) struct Ring {
    ring: RingBuffer<'static>,
    read: Arc<Mutex<Vec<ObservedBoundary>>>,
}

impl Ring {
    pub(crate) fn new(map: &MapMut<'_>) -> Result<Self, KernelError> {
        let read: Arc<Mutex<Vec<ObservedBoundary>>> = Arc::default();
        let into = Arc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        let added = builder.add(map, move |bytes| {
            let mut read = into.lock().unwrap_or_else(PoisonError::into_inner);
            read.extend(ObservedBoundary::parse(bytes));
            0
        });
        let ring = added.map(|_| ()).and_then(|()| builder.build());
        Ok(Self {
            ring: ring.map_err(KernelError::bpf("open the ring of boundary packets"))?,
            read,
        })
    }

    /// A descriptor that is readable when boundary packets wait.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        let fd = self.ring.epoll_fd();
        #[expect(unsafe_code, reason = "libbpf-rs gives a number")]
        // SAFETY: the ring owns the descriptor, and outlives the borrow.
        unsafe {
            BorrowedFd::borrow_raw(fd)
        }
    }

    /// Takes all that wait, in the order of the ring.
    pub(crate) fn drain(&self) -> Result<Vec<ObservedBoundary>, KernelError> {
        self.ring
            .consume()
            .map_err(KernelError::bpf("read boundary packets"))?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *read))
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}
