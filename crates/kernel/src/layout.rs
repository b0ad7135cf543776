//! Offsets and constants of the memory that the kernel side shares with the plane, taken from the
//! types of `bpf/flow.h`. The compiler compares them with [`fairwater_exec::frame`] and
//! [`fairwater_lang::Signal`], which generated programs follow.

use std::mem::{offset_of, size_of};

use fairwater_exec::frame as exec;
use fairwater_lang::Signal;

use crate::skeleton::types;

/// `program` of a flow that has none yet.
pub(crate) const NO_PROGRAM: u32 = types::absent::NO_PROGRAM.0;
/// Most programs of all algorithms of a plane.
pub const MAX_PROGRAMS: usize =
    (size_of::<types::plane>() - plane::PROGRAMS) / plane::PROGRAM_NAME_BYTES;
/// Most algorithms of one plane.
pub const MAX_ALGORITHMS: usize = (plane::PROGRAMS - plane::ALGORITHMS) / plane::NAME_BYTES;

/// Offset in a frame of the window as the kernel side last applied it, packets.
pub const CWND_PACKETS: usize = offset_of!(types::frame, cwnd_packets);
/// Bytes of the plane's page, a multiple of the machine's pages.
pub const PAGE_BYTES: usize = size_of::<types::plane>().next_multiple_of(4096);

/// Kinds of events.
pub(crate) mod event_kind {
    use crate::skeleton::types::event_kind as c;

    pub(crate) const CREATED: u32 = c::EVENT_CREATED.0;
    pub(crate) const REPORT: u32 = c::EVENT_REPORT.0;
    pub(crate) const CLOSED: u32 = c::EVENT_CLOSED.0;
    pub(crate) const FAULT: u32 = c::EVENT_FAULT.0;
}

/// States of a frame.
pub(crate) mod flow_state {
    use crate::skeleton::types::flow_state as c;

    pub(crate) const STARTING: u32 = c::FLOW_STARTING.0;
    pub(crate) const RUNNING: u32 = c::FLOW_RUNNING.0;
    pub(crate) const FALLBACK: u32 = c::FLOW_FALLBACK.0;
    pub(crate) const FAULTED: u32 = c::FLOW_FAULTED.0;
}

/// Offsets in a frame, bytes; those that programs use too are in [`fairwater_exec::frame`].
pub(crate) mod frame {
    use std::mem::offset_of;

    use crate::skeleton::types::{event, frame, stage};

    pub(crate) const PROGRAM: usize = offset_of!(frame, program);
    pub(crate) const MSS: usize = offset_of!(frame, mss);
    pub(crate) const STATE: usize = offset_of!(frame, state);
    pub(crate) const STAGE_GENERATION: usize =
        offset_of!(frame, stage) + offset_of!(stage, generation);
    pub(crate) const PART: usize = offset_of!(frame, stage) + offset_of!(stage, part);
    pub(crate) const PART_OF: usize = offset_of!(frame, stage) + offset_of!(stage, part_of);
    pub(crate) const SLOT: usize = offset_of!(frame, report) + offset_of!(event, slot);
    pub(crate) const LOCAL: usize = offset_of!(frame, local);
    pub(crate) const REMOTE: usize = offset_of!(frame, remote);
    pub(crate) const LOCAL_PORT: usize = offset_of!(frame, local_port);
    pub(crate) const FAMILY: usize = offset_of!(frame, family);
    pub(crate) const FALLBACKS: usize = offset_of!(frame, fallbacks);
    pub(crate) const SRTT_US: usize = offset_of!(frame, srtt_us);
    pub(crate) const BYTES_ACKED: usize = offset_of!(frame, bytes_acked);
    pub(crate) const BORN_US: usize = offset_of!(frame, born_us);
    pub(crate) const RETRANSMITTED: usize = offset_of!(frame, retransmitted);
    pub(crate) const RTT_US: usize = offset_of!(frame, rtt_us);
    pub(crate) const CGROUP: usize = offset_of!(frame, cgroup);
    pub(crate) const MARK: usize = offset_of!(frame, mark);
    pub(crate) const AGGREGATE: usize = offset_of!(frame, aggregate);
    pub(crate) const AGGREGATE_KEY: usize = offset_of!(frame, aggregate_key);
    pub(crate) const GENERATION: usize = offset_of!(frame, report) + offset_of!(event, generation);
    pub(crate) const REPORT_PROGRAM: usize = offset_of!(frame, report) + offset_of!(event, program);
    /// Size of `aggregate_key`.
    pub(crate) const KEY_BYTES: usize = 56;
    pub(crate) const SSTHRESH: usize = offset_of!(frame, report) + offset_of!(event, ssthresh);

    // `Frame` reads both ports as one word, and the family as another.
    const _: () = assert!(offset_of!(frame, remote_port) == LOCAL_PORT + 2);
    const _: () = assert!(offset_of!(frame, algorithm) == FAMILY + 2);
    const _: () = assert!(LOCAL_PORT.is_multiple_of(4) && FAMILY.is_multiple_of(4));
}

/// Offsets in the plane's page, bytes.
pub(crate) mod plane {
    use std::mem::offset_of;

    use crate::skeleton::types::plane;

    pub(crate) const HEARTBEAT_US: usize = offset_of!(plane, heartbeat_us);
    pub(crate) const WAKEUPS_UNTIL_US: usize = offset_of!(plane, wakeups_until_us);
    pub(crate) const SILENT_AFTER_US: usize = offset_of!(plane, silent_after_us);
    pub(crate) const PID: usize = offset_of!(plane, pid);
    pub(crate) const FRAME_SIZE: usize = offset_of!(plane, frame_size);
    pub(crate) const MAX_FLOWS: usize = offset_of!(plane, max_flows);
    pub(crate) const NEXT_SLOT: usize = offset_of!(plane, next_slot);
    pub(crate) const NO_SLOT: usize = offset_of!(plane, no_slot);
    pub(crate) const LOST_EVENTS: usize = offset_of!(plane, lost_events);
    pub(crate) const FALLBACKS: usize = offset_of!(plane, fallbacks);
    pub(crate) const FRAMES_ID: usize = offset_of!(plane, frames_id);
    pub(crate) const ALGORITHMS: usize = offset_of!(plane, algorithms);
    /// Size of a congestion control's name, TCP_CA_NAME_MAX.
    pub(crate) const NAME_BYTES: usize = 16;
    pub(crate) const PROGRAMS: usize = offset_of!(plane, programs);
    /// Size of one program's name.
    pub(crate) const PROGRAM_NAME_BYTES: usize = 32;
}

/// Offset of `wakeups_until_us` in the plane's page, bytes, as an instruction has it.
#[expect(clippy::cast_possible_truncation, reason = "a page has 4096 bytes")]
pub(crate) const WAKEUPS_UNTIL_US: u32 = plane::WAKEUPS_UNTIL_US as u32;

/// Asserts at compile time that a member of a C struct lies where fairwater-exec says.
macro_rules! agree {
    ($($member:ident $(. $inner:ident of $type:ident)? = $offset:expr),* $(,)?) => {
        $(const _: () = assert!(
            offset_of!(types::frame, $member) $(+ offset_of!(types::$type, $inner))?
                == $offset as usize
        );)*
    };
}

agree!(
    cwnd = exec::CWND,
    rate = exec::RATE,
    timer_zero = exec::TIMER_ZERO,
    pending = exec::PENDING,
    applied = exec::APPLIED,
    installed = exec::INSTALLED,
    fault = exec::FAULT,
    stage_sequence = exec::STAGE_SEQUENCE,
    signals = exec::SIGNALS,
    report_asked = exec::REPORT_ASKED,
    fallthrough_asked = exec::FALLTHROUGH_ASKED,
    stage = exec::STAGE,
    stage.program of stage = exec::STAGE_PROGRAM,
    stage.install of stage = exec::STAGE_INSTALL,
    stage.set of stage = exec::STAGE_SET,
    stage.cwnd of stage = exec::STAGE_CWND,
    stage.rate of stage = exec::STAGE_RATE,
    report = exec::REPORT,
    report.time_us of event = exec::REPORT_TIME,
    report.cwnd of event = exec::REPORT_CWND,
    report.rate of event = exec::REPORT_RATE,
    report.count of event = exec::REPORT_COUNT,
);
// The parts of a frame that fairwater-exec leaves to the datapath (44 to 63, 240 to 255, 320 to 447).
const _: () = assert!(offset_of!(types::frame, program) == 44);
const _: () = assert!(offset_of!(types::frame, retransmitted) == 240);
const _: () = assert!(offset_of!(types::frame, local) == exec::DATAPATH as usize);
const _: fn(&types::frame) -> &[i8; frame::KEY_BYTES] = |frame| &frame.aggregate_key;
const _: fn(&types::plane) -> &[types::name; MAX_ALGORITHMS] = |plane| &plane.algorithms;
const _: fn(&types::name) -> &[i8; plane::NAME_BYTES] = |name| &name.bytes;
const _: fn(&types::plane) -> &[[i8; plane::PROGRAM_NAME_BYTES]; MAX_PROGRAMS] =
    |plane| &plane.programs;
const _: () = assert!(size_of::<types::event>() == exec::REPORT_HEADER_LEN);
const _: () = assert!(size_of::<types::frame>() == exec::VARIABLES as usize);
const _: () = assert!(types::stage_set::SET_CWND.0 == exec::SET_CWND);
const _: () = assert!(types::stage_set::SET_RATE.0 == exec::SET_RATE);
// What `Batch` takes apart: two halves of a word, twice, then whole words.
const _: () = assert!(offset_of!(types::event, kind) == 0);
const _: () = assert!(offset_of!(types::event, slot) == 4);
const _: () = assert!(offset_of!(types::event, generation) == 8);
const _: () = assert!(offset_of!(types::event, program) == 12);
const _: () = assert!(offset_of!(types::event, time_us) == 16);

/// Asserts at compile time that C numbers the signals as fairwater-lang does.
macro_rules! same_signals {
    ($($signal:ident = $constant:ident),* $(,)?) => {
        $(const _: () = assert!(Signal::$signal as u32 == types::signal::$constant.0);)*
    };
}

same_signals!(
    BytesAcked = BYTES_ACKED,
    BytesMisordered = BYTES_MISORDERED,
    EcnBytes = ECN_BYTES,
    EcnPackets = ECN_PACKETS,
    LostPkts = LOST_PKTS,
    Now = NOW,
    PacketsAcked = PACKETS_ACKED,
    PacketsMisordered = PACKETS_MISORDERED,
    BytesInFlight = BYTES_IN_FLIGHT,
    BytesPending = BYTES_PENDING,
    PacketsInFlight = PACKETS_IN_FLIGHT,
    RateIncoming = RATE_INCOMING,
    RateOutgoing = RATE_OUTGOING,
    RttSampleUs = RTT_SAMPLE_US,
    WasTimeout = WAS_TIMEOUT,
    AppLimited = APP_LIMITED,
    Undo = UNDO,
);
const _: () = assert!(Signal::COUNT == types::signal::SIGNALS.0 as usize);
const _: fn(&types::frame) -> &[u64; exec::SIGNAL_ROOM] = |frame| &frame.signals;
