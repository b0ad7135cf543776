//! The codes that functions return.

use core::ffi::{CStr, c_char, c_int};

/// What a function of this library returns: FW_OK, or why it did nothing. Unless its description
/// says otherwise, a function that fails has changed nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fw_error {
    /// It worked.
    FW_OK = 0,
    /// An argument is NULL that may not be, or has a value outside of what is documented for it.
    FW_ERROR_ARGUMENT = -1,
    /// A structure is smaller than its first version, or larger than the library knows and not
    /// zero there: set `size` to `sizeof`, and zero what you do not use.
    FW_ERROR_SIZE = -2,
    /// No such flow: it is closed, or it is another datapath's.
    FW_ERROR_UNKNOWN_FLOW = -3,
    /// The datapath keeps no more flows (`max_flows`).
    FW_ERROR_FULL = -4,
    /// The call does not fit the state of the datapath: fw_datapath_connect or
    /// fw_datapath_attach a second time, a flow before either, bytes received by a datapath that
    /// has a link of its own.
    FW_ERROR_STATE = -5,
    /// The datapath is in use: a callback called a function of its own datapath, or two threads
    /// share a datapath.
    FW_ERROR_BUSY = -6,
    /// No plane answers at the path. It is tried again by fw_datapath_service, and flows run under
    /// the fallback meanwhile.
    FW_ERROR_NO_PLANE = -7,
    /// The operating system refused what the call needs.
    FW_ERROR_IO = -8,
    /// A defect of this library. The datapath does nothing any more but to be freed.
    FW_ERROR_INTERNAL = -9,
    /// The plane takes no more datapaths (`fairwater serve --max-peers`). It is asked again by
    /// fw_datapath_service, and flows run under the fallback meanwhile.
    FW_ERROR_PLANE_FULL = -10,
}

use fw_error::*;

const ALL: [fw_error; 11] = [
    FW_OK,
    FW_ERROR_ARGUMENT,
    FW_ERROR_SIZE,
    FW_ERROR_UNKNOWN_FLOW,
    FW_ERROR_FULL,
    FW_ERROR_STATE,
    FW_ERROR_BUSY,
    FW_ERROR_NO_PLANE,
    FW_ERROR_IO,
    FW_ERROR_INTERNAL,
    FW_ERROR_PLANE_FULL,
];

/// The meaning of a code in one English clause; never NULL, never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn fw_strerror(code: c_int) -> *const c_char {
    let known = ALL.into_iter().find(|known| *known as c_int == code);
    known.map_or(c"no such error code", meaning).as_ptr()
}

const fn meaning(code: fw_error) -> &'static CStr {
    match code {
        FW_OK => c"no error",
        FW_ERROR_ARGUMENT => c"an argument is NULL or outside of its range",
        FW_ERROR_SIZE => c"a structure's size is not one of this library's",
        FW_ERROR_UNKNOWN_FLOW => c"no such flow in this datapath",
        FW_ERROR_FULL => c"the datapath keeps no more flows",
        FW_ERROR_STATE => c"the call does not fit the state of the datapath",
        FW_ERROR_BUSY => c"the datapath is in use by a callback or another thread",
        FW_ERROR_NO_PLANE => c"no plane answers at the path",
        FW_ERROR_IO => c"the operating system refused",
        FW_ERROR_INTERNAL => c"a defect of libfairwater",
        FW_ERROR_PLANE_FULL => c"the plane takes no more datapaths (fairwater serve --max-peers)",
    }
}
