//! The structures of `ccp.h`, which the transport allocates.

#![expect(missing_docs, reason = "the header describes the members")]

use core::ffi::{c_char, c_int, c_void};

/// What the transport measured; units and meanings are in the header.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ccp_primitives {
    pub bytes_acked: u32,
    pub packets_acked: u32,
    pub bytes_misordered: u32,
    pub packets_misordered: u32,
    pub ecn_bytes: u32,
    pub ecn_packets: u32,
    pub lost_pkts_sample: u32,
    pub was_timeout: bool,
    pub rtt_sample_us: u64,
    pub rate_outgoing: u64,
    pub rate_incoming: u64,
    pub bytes_in_flight: u32,
    pub packets_in_flight: u32,
    pub snd_cwnd: u32,
    pub snd_rate: u64,
    pub bytes_pending: u32,
}

/// What is known of a connection when it starts.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ccp_datapath_info {
    pub init_cwnd: u32,
    pub mss: u32,
    pub src_ip: u32,
    pub src_port: u32,
    pub dst_ip: u32,
    pub dst_port: u32,
    pub cong_alg: [c_char; 64],
}

/// One place of the transport's array of connections.
#[repr(C)]
#[derive(Debug)]
pub struct ccp_connection {
    pub index: u16,
    pub last_create_msg_sent: u64,
    pub prims: ccp_primitives,
    pub flow_info: ccp_datapath_info,
    pub state: *mut c_void,
    pub impl_: *mut c_void,
    pub datapath: *mut ccp_datapath,
}

/// Applies a window, bytes, or a rate, bytes/s.
pub type SetControl = unsafe extern "C" fn(conn: *mut ccp_connection, value: u32);
/// Sends one message to the agent.
pub type SendMessage =
    unsafe extern "C" fn(dp: *mut ccp_datapath, msg: *mut c_char, msg_size: c_int) -> c_int;
/// Takes a line of the log; the level is an `enum ccp_log_level`.
pub type Log =
    unsafe extern "C" fn(dp: *mut ccp_datapath, level: c_int, msg: *const c_char, msg_size: c_int);

/// A datapath.
#[repr(C)]
#[derive(Debug)]
pub struct ccp_datapath {
    pub set_cwnd: Option<SetControl>,
    pub set_rate_abs: Option<SetControl>,
    pub send_msg: Option<SendMessage>,
    pub log: Option<Log>,
    pub time_zero: u64,
    pub now: Option<unsafe extern "C" fn() -> u64>,
    pub since_usecs: Option<unsafe extern "C" fn(then: u64) -> u64>,
    pub after_usecs: Option<unsafe extern "C" fn(usecs: u64) -> u64>,
    pub max_connections: usize,
    pub ccp_active_connections: *mut ccp_connection,
    pub fto_us: u64,
    pub last_msg_sent: u64,
    pub _in_fallback: bool,
    pub max_programs: usize,
    pub programs: *mut c_void,
    pub impl_: *mut c_void,
}
