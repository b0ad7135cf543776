//! What a datapath is made with.

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;

use crate::sized::Versioned;

/// What runs the programs that the plane installs.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fw_backend {
    /// Machine code, compiled when a program is installed. The default.
    FW_BACKEND_NATIVE = 0,
    /// The interpreter: slower, and never makes memory executable.
    FW_BACKEND_INTERPRETER = 1,
}

/// What controls a flow while no program of a plane does.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fw_fallback {
    /// CUBIC (RFC 9438). The default.
    FW_FALLBACK_CUBIC = 0,
    /// Reno (RFC 5681).
    FW_FALLBACK_RENO = 1,
    /// Nothing: for boxes that carry other people's traffic. The flow is released: set_cwnd is called
    /// with UINT64_MAX and set_rate with 0, until a program takes the flow (again).
    FW_FALLBACK_RELEASE = 2,
}

/// How a datapath reaches its plane.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fw_link {
    /// A Unix socket of sequenced packets: Fairwater's own.
    FW_LINK_SEQPACKET = 0,
    /// Rings in shared memory, agreed on over such a socket: the fastest.
    FW_LINK_SHARED_MEMORY = 1,
    /// Unix datagrams in the encoding of libccp, to whatever agent binds the path: the CCP agents
    /// that use portus, or Fairwater.
    FW_LINK_CCP_DATAGRAM = 2,
}

/// The encoding that a datapath speaks when the transport carries the messages itself.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fw_dialect {
    /// Fairwater's own.
    FW_DIALECT_FAIRWATER = 0,
    /// libccp's: 32-bit windows and rates, IPv4 only.
    FW_DIALECT_CCP = 1,
}

/// How much a line of the log matters.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fw_log_level {
    /// Something is lost or refused.
    FW_LOG_WARNING = 0,
    /// The state of the link to the plane changed.
    FW_LOG_INFO = 1,
}

/// What the library calls. Each is called from within a function of this library that was called
/// for the same datapath, on the same thread; none may call a function of that datapath (it would
/// return FW_ERROR_BUSY), throw a C++ exception or longjmp.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fw_callbacks {
    /// Apply a congestion window, bytes, to the flow that was started with `flow_user_data`.
    /// Called when the window differs from the one before, only from fw_flow_ack of that flow.
    /// From 1 to UINT64_MAX, as a program's arithmetic saturates and a flow that is released has no
    /// window: compare with it, do not add to it. NULL for a transport that paces and has no window, if
    /// set_rate is there: programs' windows then bound the rate, which is at most cwnd / SRTT.
    pub set_cwnd: Option<unsafe extern "C" fn(flow_user_data: *mut c_void, bytes: u64)>,
    /// Pace the flow at this rate, bytes per second, at most 2^40; 0 is no rate: the window alone
    /// limits. Called as set_cwnd is. NULL for a transport that does not pace, if set_cwnd is there:
    /// programs' rates then bound the window, which is at most rate times minimum RTT. Algorithms
    /// for whose rates no window can stand are refused.
    pub set_rate: Option<unsafe extern "C" fn(flow_user_data: *mut c_void, bytes_per_second: u64)>,
    /// Send one packet of `len` bytes to the plane; returns 0 when it was taken, anything else
    /// when it was not and is dropped. Used after fw_datapath_attach only, and not NULL then.
    pub send: Option<
        unsafe extern "C" fn(user_data: *mut c_void, packet: *const c_void, len: usize) -> c_int,
    >,
    /// A line for whoever operates the transport, without a line feed. May be NULL.
    pub log: Option<
        unsafe extern "C" fn(user_data: *mut c_void, level: fw_log_level, line: *const c_char),
    >,
}

/// What a datapath is made with. Set `size` to sizeof(fw_options) and leave at zero what has no
/// need to differ from its default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fw_options {
    /// sizeof(fw_options).
    pub size: usize,
    /// What the library calls.
    pub callbacks: fw_callbacks,
    /// Handed to `send` and `log`.
    pub user_data: *mut c_void,
    /// The datapath's name, for people: UTF-8; NULL for "libfairwater". Copied.
    pub name: *const c_char,
    /// The signals that the transport fills in: the sum of FW_SIGNAL_…, 0 for all up to
    /// FW_SIGNAL_WAS_TIMEOUT. A program that reads others is refused.
    pub signals: u32,
    /// An fw_backend.
    pub backend: u32,
    /// Flows kept at once; 0 for the default.
    pub max_flows: u32,
    /// Programs kept at once; 0 for the default.
    pub max_programs: u32,
    /// The plane is taken for dead when nothing came from it for this long although something was
    /// due, microseconds; 0 for the default. Flows then run under the fallback.
    pub silence_us: u64,
    /// Tells the successive lives of this datapath apart; 0 to have one made from the clock and
    /// the process. In libccp's encoding, the low 32 bits are the id in READY.
    pub instance: u64,
    /// An fw_fallback.
    pub fallback: u32,
}

// SAFETY: `repr(C)`, `size` first; NULL pointers, absent functions and zeros are values of theirs.
unsafe impl Versioned for fw_options {
    const FIRST: usize = offset_of!(Self, fallback);
}
