//! libccp's interface (`include/ccp.h`), source-compatible, over our datapath.
//!
//! The structures are the transport's, and other threads and callbacks of its own may touch them
//! during a call: no reference to one is kept while a callback runs.

mod layout;
mod refusal;
mod state;

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU16, Ordering};
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use layout::*;
use refusal::{BUFSIZE_NEGATIVE, MISSING_ARG, NULL_ARG, OK, PROG_IS_NULL, UNKNOWN_CONNECTION};
use state::{Effects, State};

/// The level of `enum ccp_log_level` for what is lost.
const WARN: c_int = 3;

/// Takes a datapath into use and sends READY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_init(dp: *mut ccp_datapath, id: u32) -> c_int {
    contain(MISSING_ARG, || {
        // SAFETY: NULL, or a datapath by the caller's promise.
        let Some(filled) = (unsafe { dp.as_ref() }) else {
            return MISSING_ARG;
        };
        let Some(now) = filled.now else {
            return MISSING_ARG;
        };
        if filled.set_cwnd.is_none()
            || filled.set_rate_abs.is_none()
            || filled.send_msg.is_none()
            || filled.since_usecs.is_none()
            || filled.after_usecs.is_none()
            || filled.ccp_active_connections.is_null()
            || filled.max_connections == 0
            || filled.max_programs == 0
            || filled.fto_us == 0
        {
            return MISSING_ARG;
        }
        let connections = u16::try_from(filled.max_connections).unwrap_or(u16::MAX);
        let programs = u32::try_from(filled.max_programs).unwrap_or(u32::MAX);
        let (state, effects) = State::new(id, connections, programs, filled.fto_us);
        let state = Box::into_raw(Box::new(state));
        // SAFETY: `dp` is a datapath, and `now` is one of its callbacks.
        unsafe {
            (*dp).time_zero = now();
            (*dp).programs = state.cast();
            perform(dp, ptr::null_mut(), effects);
        }
        OK
    })
}

/// Takes a datapath out of use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_free(datapath: *mut ccp_datapath) {
    contain((), || {
        if datapath.is_null() {
            return;
        }
        // SAFETY: `programs` is NULL or comes from `ccp_init`, and is given back once.
        unsafe {
            let state = ptr::replace(&raw mut (*datapath).programs, ptr::null_mut());
            if !state.is_null() {
                drop(Box::from_raw(state.cast::<State>()));
            }
        }
    });
}

/// Starts a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_connection_start(
    datapath: *mut ccp_datapath,
    impl_: *mut c_void,
    flow_info: *mut ccp_datapath_info,
) -> *mut ccp_connection {
    contain(ptr::null_mut(), || {
        // SAFETY: a datapath in use, its array and an info, by the caller's promise.
        unsafe {
            let (Some(state), false) = (state_of(datapath), flow_info.is_null()) else {
                return ptr::null_mut();
            };
            let info = *flow_info;
            let mut taken = ptr::null_mut();
            let take = |at| {
                let conn: *mut ccp_connection = (*datapath).ccp_active_connections.add(at);
                if index(conn).load(Ordering::Acquire) != 0 {
                    return false;
                }
                (*conn).impl_ = impl_;
                (*conn).flow_info = info;
                (*conn).datapath = datapath;
                // Places are below the 65,535 of `ccp_init`.
                index(conn).store(at as u16 + 1, Ordering::Release);
                taken = conn;
                true
            };
            match state.start(&info, elapsed(datapath), take) {
                Ok(effects) => {
                    perform(datapath, taken, effects);
                    taken
                }
                Err(_) => {
                    if !taken.is_null() {
                        index(taken).store(0, Ordering::Release);
                    }
                    ptr::null_mut()
                }
            }
        }
    })
}

/// Ends a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_connection_free(datapath: *mut ccp_datapath, sid: u16) {
    contain((), || {
        // SAFETY: a datapath in use, by the caller's promise.
        unsafe {
            let conn = ccp_connection_lookup(datapath, sid);
            let (Some(state), false) = (state_of(datapath), conn.is_null()) else {
                return;
            };
            let effects = state.free(usize::from(sid) - 1);
            index(conn).store(0, Ordering::Release);
            perform(datapath, conn, effects);
        }
    });
}

/// The connection of an index, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_connection_lookup(
    datapath: *mut ccp_datapath,
    sid: u16,
) -> *mut ccp_connection {
    if datapath.is_null() || sid == 0 {
        return ptr::null_mut();
    }
    // SAFETY: a datapath and its array, by the caller's promise; the place is within the array.
    unsafe {
        if usize::from(sid) > (*datapath).max_connections {
            return ptr::null_mut();
        }
        let array = (*datapath).ccp_active_connections;
        if array.is_null() {
            return ptr::null_mut();
        }
        let conn = array.add(usize::from(sid) - 1);
        if index(conn).load(Ordering::Acquire) == sid {
            conn
        } else {
            ptr::null_mut()
        }
    }
}

/// The transport's own pointer of a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_get_impl(conn: *mut ccp_connection) -> *mut c_void {
    if conn.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: a connection, by the caller's promise.
    unsafe { (*conn).impl_ }
}

/// Sets the transport's own pointer of a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_set_impl(conn: *mut ccp_connection, ptr: *mut c_void) {
    if !conn.is_null() {
        // SAFETY: a connection, by the caller's promise.
        unsafe { (*conn).impl_ = ptr };
    }
}

/// Takes in bytes from the agent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_read_msg(
    datapath: *mut ccp_datapath,
    buf: *mut c_char,
    bufsize: c_int,
) -> c_int {
    contain(PROG_IS_NULL, || {
        if datapath.is_null() || buf.is_null() {
            return NULL_ARG;
        }
        // SAFETY: a datapath and as many bytes, by the caller's promise.
        unsafe {
            let Some(state) = state_of(datapath) else {
                return PROG_IS_NULL;
            };
            let Ok(size) = usize::try_from(bufsize) else {
                return BUFSIZE_NEGATIVE;
            };
            let bytes = core::slice::from_raw_parts(buf.cast::<u8>(), size);
            let (code, effects) = state.read(bytes, elapsed(datapath));
            perform(datapath, ptr::null_mut(), effects);
            code
        }
    })
}

/// Runs the connection's program on its primitives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_invoke(conn: *mut ccp_connection) -> c_int {
    contain(PROG_IS_NULL, || {
        if conn.is_null() {
            return NULL_ARG;
        }
        // SAFETY: a connection of a datapath in use, by the caller's promise.
        unsafe {
            let Some(at) = index(conn).load(Ordering::Acquire).checked_sub(1) else {
                return UNKNOWN_CONNECTION;
            };
            let datapath = (*conn).datapath;
            let Some(state) = state_of(datapath) else {
                return PROG_IS_NULL;
            };
            let prims = (*conn).prims;
            match state.invoke(at.into(), &prims, elapsed(datapath)) {
                Some(effects) => {
                    perform(datapath, conn, effects);
                    OK
                }
                None => UNKNOWN_CONNECTION,
            }
        }
    })
}

/// Runs the body; a panic does not cross into C.
fn contain<R>(broken: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        // Its destructor may panic again.
        core::mem::forget(payload);
        broken
    })
}

/// A connection's index, which other threads look at while a place is given out.
///
/// # Safety
/// `conn` is a place of a datapath's array.
unsafe fn index<'a>(conn: *mut ccp_connection) -> &'a AtomicU16 {
    // SAFETY: aligned and alive as part of the array; the library writes it in no other way.
    unsafe { AtomicU16::from_ptr(&raw mut (*conn).index) }
}

/// What the library keeps for the datapath, while it is in use.
///
/// # Safety
/// `datapath` is NULL or a datapath, whose `programs` is NULL or comes from `ccp_init`.
unsafe fn state_of<'a>(datapath: *mut ccp_datapath) -> Option<&'a State> {
    if datapath.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { (*datapath).programs.cast::<State>().as_ref() }
}

/// Microseconds since `ccp_init`: the time of this datapath.
///
/// # Safety
/// `datapath` is a datapath in use.
unsafe fn elapsed(datapath: *mut ccp_datapath) -> u64 {
    // SAFETY: the caller's promise; the callback is the transport's own.
    unsafe {
        let since = (*datapath).since_usecs;
        since.map_or(0, |since| since((*datapath).time_zero))
    }
}

/// Calls the transport. `conn` is the one that the controls are for, if there are any.
///
/// # Safety
/// `datapath` is a datapath in use, and `conn` one of its connections, or NULL without controls.
unsafe fn perform(datapath: *mut ccp_datapath, conn: *mut ccp_connection, effects: Effects) {
    // SAFETY: the caller's promise; the callbacks are the transport's own.
    unsafe {
        if let (Some(cwnd), Some(set_cwnd)) = (effects.cwnd, (*datapath).set_cwnd) {
            set_cwnd(conn, cwnd);
        }
        if let (Some(rate), Some(set_rate)) = (effects.rate, (*datapath).set_rate_abs) {
            set_rate(conn, rate);
        }
        let Some(send) = (*datapath).send_msg else {
            return;
        };
        for mut message in effects.messages {
            // Messages are shorter than 2¹⁶ bytes.
            let size = message.len() as c_int;
            let sent = send(datapath, message.as_mut_ptr().cast(), size);
            if sent < 0 {
                log(
                    datapath,
                    &format!("a message to the agent was not sent: {sent}"),
                );
            }
        }
    }
}

/// # Safety
/// `datapath` is a datapath.
unsafe fn log(datapath: *mut ccp_datapath, line: &str) {
    // SAFETY: the caller's promise; the callback is the transport's own.
    unsafe {
        if let (Some(log), Ok(line)) = ((*datapath).log, CString::new(line)) {
            log(datapath, WARN, line.as_ptr(), line.count_bytes() as c_int);
        }
    }
}
