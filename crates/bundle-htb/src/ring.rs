//! Boundary packets out of a program's ring.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use fairwater_kernel::KernelError;
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::Boundary;

/// The ring of one program.
pub(crate) struct Ring {
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Vec<Boundary>>>,
}

impl Ring {
    pub(crate) fn new(map: &MapHandle) -> Result<Self, KernelError> {
        let read: Rc<RefCell<Vec<Boundary>>> = Rc::default();
        let into = Rc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        let added = builder.add(map, move |bytes| {
            into.borrow_mut().extend(Boundary::parse(bytes));
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
    pub(crate) fn drain(&self) -> Result<Vec<Boundary>, KernelError> {
        self.ring
            .consume()
            .map_err(KernelError::bpf("read boundary packets"))?;
        Ok(std::mem::take(&mut *self.read.borrow_mut()))
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}
