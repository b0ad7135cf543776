//! Flows: started, fed with ACKs, closed.

use core::ffi::{CStr, c_char, c_void};
use core::mem::offset_of;

use fairwater_datapath::Controls;
use fairwater_proto::{FlowId, FlowInfo};

use crate::fw_error::FW_ERROR_ARGUMENT;
use crate::handle::{enter, fw_datapath};
use crate::sized::{Versioned, read, write};
use crate::{fw_address, fw_error, fw_signals};

/// A flow of one datapath: a value, to be copied as you like. 0 is never a flow. A closed flow's
/// value is not given out again for a long time, so that its late use is FW_ERROR_UNKNOWN_FLOW
/// rather than another flow's business.
pub type fw_flow = u64;

/// Description of a flow that starts. Set `size` to sizeof(fw_flow_info).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fw_flow_info {
    /// sizeof(fw_flow_info).
    pub size: usize,
    /// This end.
    pub local: fw_address,
    /// The other end.
    pub remote: fw_address,
    /// The algorithm that the plane is asked for, UTF-8; NULL for the plane's first. Copied.
    pub algorithm: *const c_char,
    /// Maximum segment size, bytes of payload; at least 1.
    pub mss: u32,
    /// The initial window, bytes; at least 1.
    pub cwnd: u64,
    /// Smoothed RTT so far, microseconds; 0 when none was measured.
    pub srtt_us: u64,
    /// The time on the transport's clock, microseconds.
    pub now_us: u64,
    /// Tag of the transport or its application, for algorithms that control flows together; 0 is none.
    pub tag: u32,
}

// SAFETY: `repr(C)`, `size` first; a NULL pointer and zeros are values of theirs.
unsafe impl Versioned for fw_flow_info {
    const FIRST: usize = offset_of!(Self, tag);
}

/// What controls a flow: a program of the plane, or the fallback (an fw_fallback).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fw_controller {
    /// The fallback, until the plane has chosen a program.
    FW_CONTROLLER_WAITING = 0,
    /// A program of the plane's.
    FW_CONTROLLER_PROGRAM = 1,
    /// The fallback, while the plane is silent.
    FW_CONTROLLER_SILENT = 2,
    /// The fallback for good: the program or the plane set a window of 0 or an absurd rate.
    FW_CONTROLLER_FAULTED = 3,
    /// The fallback for good: the plane gave the flow up.
    FW_CONTROLLER_WITHDRAWN = 4,
}

/// The live state of a flow. Set `size` to sizeof(fw_flow_state) before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fw_flow_state {
    /// sizeof(fw_flow_state).
    pub size: usize,
    /// The congestion window in force, bytes; UINT64_MAX when the fallback has released the flow.
    pub cwnd: u64,
    /// The pacing rate in force, bytes per second; 0 is none.
    pub rate: u64,
    /// An fw_controller.
    pub controller: u32,
    /// The number of the program that runs; 0 for none.
    pub program: u32,
    /// The last delivery rate that fw_flow_ack was told (Flow.rate_incoming), bytes per second, for the
    /// program that owns the connection: the window over the RTT is no rate. 0 before the first.
    pub delivery_rate: u64,
    /// Whether the application had less to send than the path takes: the path may carry more. 0 or 1.
    pub app_limited: u32,
    /// How many of the last 16 ACKs that delivered something were not application-limited: 0 says
    /// nothing about what the path could carry.
    pub confidence: u32,
}

// SAFETY: `repr(C)`, `size` first, and integers all the way.
unsafe impl Versioned for fw_flow_state {
    const FIRST: usize = offset_of!(Self, delivery_rate);
}

/// The value of a flow in C.
pub(crate) const fn to_value(id: FlowId) -> fw_flow {
    // The slot plus 1, so that 0 is no flow: slots are far below 2³² − 1.
    (id.generation as u64) << 32 | (id.slot as u64 + 1)
}

/// The flow of a value from C.
pub(crate) fn from_value(flow: fw_flow) -> Result<FlowId, fw_error> {
    let (generation, at) = ((flow >> 32) as u32, flow as u32);
    let slot = at.checked_sub(1).ok_or(fw_error::FW_ERROR_UNKNOWN_FLOW)?;
    Ok(FlowId { slot, generation })
}

/// A string of C's, or `default` for NULL.
///
/// # Safety
/// `text` is NULL or points to a string that ends in a zero byte and lives as long as is said.
pub(crate) unsafe fn string(text: *const c_char, default: &str) -> Result<&str, fw_error> {
    if text.is_null() {
        return Ok(default);
    }
    // SAFETY: not NULL, and a string by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| FW_ERROR_ARGUMENT)
}

/// Starts a flow: tells the plane, and puts the flow under the fallback until the plane answers.
/// `user_data` is what the callbacks get; it must stay valid until fw_flow_close. The flow's
/// value goes to `out`.
///
/// FW_ERROR_ARGUMENT, FW_ERROR_SIZE; FW_ERROR_FULL when there are `max_flows` already;
/// FW_ERROR_STATE before fw_datapath_connect or fw_datapath_attach. It does not fail for want of a
/// plane.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_flow_start(
    datapath: *mut fw_datapath,
    info: *const fw_flow_info,
    user_data: *mut c_void,
    out: *mut fw_flow,
) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            let info = read(info)?;
            if out.is_null() || info.mss == 0 || info.cwnd == 0 {
                return Err(FW_ERROR_ARGUMENT);
            }
            let algorithm = string(info.algorithm, "")?;
            let known = FlowInfo {
                local: info.local.try_into()?,
                remote: info.remote.try_into()?,
                mss: info.mss,
                cwnd: info.cwnd,
                srtt_us: info.srtt_us,
                now_us: info.now_us,
                tag: info.tag,
                ..FlowInfo::default()
            };
            let id = session.start(algorithm, &known, user_data)?;
            out.write(to_value(id));
            Ok(())
        })
    }
}

/// Processes one ACK, or a retransmission timeout: runs the flow's program, or the fallback.
/// set_cwnd and set_rate are called from here when the window or the rate changed, and reports
/// leave for the plane from here. To call it once for several ACKs taken together is allowed.
///
/// FW_ERROR_ARGUMENT, FW_ERROR_SIZE, FW_ERROR_UNKNOWN_FLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_flow_ack(
    datapath: *mut fw_datapath,
    flow: fw_flow,
    signals: *const fw_signals,
) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            let signals = read(signals)?;
            session.ack(from_value(flow)?, &signals.values())
        })
    }
}

/// Writes the live state of a flow to `out`.
///
/// FW_ERROR_ARGUMENT, FW_ERROR_SIZE, FW_ERROR_UNKNOWN_FLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_flow_status(
    datapath: *mut fw_datapath,
    flow: fw_flow,
    out: *mut fw_flow_state,
) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            let state = session.state(from_value(flow)?)?;
            write(out, &state)
        })
    }
}

/// Sets the window and rate that the transport enforces, when it has changed them by itself: a
/// restart after idle, for instance, or a limit of its own. `cwnd` in bytes, at least 1; `rate` in
/// bytes per second, 0 for none. Programs see it from the next fw_flow_ack on.
///
/// FW_ERROR_ARGUMENT, FW_ERROR_UNKNOWN_FLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_flow_set_controls(
    datapath: *mut fw_datapath,
    flow: fw_flow,
    cwnd: u64,
    rate: u64,
) -> fw_error {
    let controls = Controls { cwnd, rate };
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            session.set_controls(from_value(flow)?, controls)
        })
    }
}

/// Tells that the flow's segments are of `mss` bytes of payload from now on, at least 1: the path's
/// MTU was found to be another (RFC 4821, RFC 8899). The window, in bytes, stays as it was.
///
/// FW_ERROR_ARGUMENT, FW_ERROR_UNKNOWN_FLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_flow_set_mss(
    datapath: *mut fw_datapath,
    flow: fw_flow,
    mss: u32,
) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe { enter(datapath, |session| session.set_mss(from_value(flow)?, mss)) }
}

/// Ends a flow and announces that to the plane. The value is no longer valid, and the flow's callbacks
/// are not called again.
///
/// FW_ERROR_ARGUMENT, FW_ERROR_UNKNOWN_FLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_flow_close(datapath: *mut fw_datapath, flow: fw_flow) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe { enter(datapath, |session| session.close(from_value(flow)?)) }
}
