//! The opaque datapath, and what every function does on its way in.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::fw_error;
use crate::fw_error::{FW_ERROR_ARGUMENT, FW_ERROR_BUSY, FW_ERROR_INTERNAL, FW_OK};
use crate::session::Session;

const IDLE: u8 = 0;
const BUSY: u8 = 1;
const BROKEN: u8 = 2;

/// A datapath: some flows of one transport, and the way to their plane.
///
/// One thread at a time may use a datapath; it need not be always the same. Datapaths are
/// independent of each other: a transport with several threads makes one for each.
#[derive(Debug)]
pub struct fw_datapath {
    state: AtomicU8,
    session: UnsafeCell<Session>,
}

impl fw_datapath {
    pub(crate) const fn new(session: Session) -> Self {
        Self {
            state: AtomicU8::new(IDLE),
            session: UnsafeCell::new(session),
        }
    }
}

/// Runs the body; a panic does not cross into C.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), fw_error>) -> fw_error {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => FW_OK,
        Ok(Err(code)) => code,
        Err(payload) => {
            // Its destructor may panic again.
            core::mem::forget(payload);
            FW_ERROR_INTERNAL
        }
    }
}

/// Runs the body on the datapath, unless a callback of the datapath's is under way. After a panic
/// its state is not to be relied on, and no other body runs.
///
/// # Safety
/// `datapath` is NULL or comes from `fw_datapath_new` and is not freed, and no other thread uses
/// it during the call.
pub(crate) unsafe fn enter(
    datapath: *const fw_datapath,
    body: impl FnOnce(&mut Session) -> Result<(), fw_error>,
) -> fw_error {
    // SAFETY: not freed, by the caller's promise, when it is not NULL.
    let Some(datapath) = (unsafe { datapath.as_ref() }) else {
        return FW_ERROR_ARGUMENT;
    };
    match datapath.state.load(Ordering::Relaxed) {
        IDLE => {}
        BUSY => return FW_ERROR_BUSY,
        _ => return FW_ERROR_INTERNAL,
    }
    datapath.state.store(BUSY, Ordering::Relaxed);
    let code = guard(|| {
        // SAFETY: the state was idle, so no body that has the session is under way on this thread,
        // nor on another by the caller's promise.
        body(unsafe { &mut *datapath.session.get() })
    });
    let after = if code == FW_ERROR_INTERNAL {
        BROKEN
    } else {
        IDLE
    };
    datapath.state.store(after, Ordering::Relaxed);
    code
}

/// Whether a body is under way.
pub(crate) fn is_busy(datapath: &fw_datapath) -> bool {
    datapath.state.load(Ordering::Relaxed) == BUSY
}
