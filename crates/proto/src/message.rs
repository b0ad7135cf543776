//! The messages, whatever encoding carries them. They borrow from the bytes received.

use crate::refusal::Refusal;
use crate::{Capabilities, Fields, FlowId, FlowInfo, Updates};

/// What a datapath says to a plane.
#[derive(Debug, Clone, PartialEq)]
pub enum ToPlane<'a> {
    /// The datapath is there: the first message of a link, and again when it suspects that the
    /// plane was restarted. libccp's READY.
    Hello(Hello<'a>),
    /// A flow started. libccp's CREATE.
    Created {
        /// The flow.
        flow: FlowId,
        /// The algorithm that it asks for; empty for the plane's first.
        algorithm: &'a str,
        /// What is known of it.
        info: FlowInfo,
    },
    /// The flow runs already, under the fallback: the plane was silent, or is a new one that has
    /// not heard of it. Its algorithm starts afresh from the flow's present state.
    Resumed {
        /// The flow.
        flow: FlowId,
        /// The algorithm that it asks for; empty for the plane's first.
        algorithm: &'a str,
        /// What is known of it now.
        info: FlowInfo,
    },
    /// A program reported. libccp's MEASURE.
    Reported {
        /// The flow.
        flow: FlowId,
        /// The program, as it was installed.
        program: u32,
        /// The datapath's time, µs. `None` where the encoding does not carry it.
        time_us: Option<u64>,
        /// cwnd after the invocation, bytes; 0 where the encoding does not carry it.
        cwnd: u64,
        /// Pacing rate after the invocation, bytes/s; 0 is none.
        rate: u64,
        /// The report variables, in declaration order.
        fields: Fields<'a>,
    },
    /// The flow's segments have another size from now on. libccp's encoding has no such message.
    MssChanged {
        /// The flow.
        flow: FlowId,
        /// Maximum segment size, bytes of payload; at least 1.
        mss: u32,
    },
    /// The datapath stopped the flow's program for good: it goes on under the fallback.
    Faulted {
        /// The flow.
        flow: FlowId,
        /// Why: `fairwater_exec::frame::Fault` bits.
        fault: u32,
    },
    /// The flow ended. libccp's MEASURE without fields.
    Closed {
        /// The flow.
        flow: FlowId,
    },
    /// A message of the plane's was refused; nothing was changed by it.
    Refused(Refusal),
}

/// What a plane says to a datapath.
#[derive(Debug, Clone, PartialEq)]
pub enum ToDatapath<'a> {
    /// The answer to a Hello, and from then on the sign of life while there is nothing else to
    /// say.
    Welcome(Welcome),
    /// A program, to be verified and kept under this number. libccp's INSTALL.
    Install {
        /// Its number, the plane's choice. Not 0.
        program: u32,
        /// Whether flows that run it restart from a smaller window after an idle period
        /// (RFC 5681 §4.1). libccp's encoding does not carry it: there they may.
        idle_restart: bool,
        /// The program: `fairwater_lang::binary` in our encoding, libccp's events and
        /// instructions (from the counts on, offset 12 of INSTALL) in libccp's.
        body: &'a [u8],
    },
    /// Flows will not be switched to this program any more; those that run it go on.
    Uninstall {
        /// Its number.
        program: u32,
    },
    /// What to do with one flow. libccp's UPDATE_FIELDS and CHANGE_PROG.
    Command {
        /// The flow.
        flow: FlowId,
        /// Switch to this program, of those installed.
        switch: Option<u32>,
        /// Set cwnd, bytes; at least 1.
        cwnd: Option<u64>,
        /// Set the pacing rate, bytes/s; 0 is no rate.
        rate: Option<u64>,
        /// Set control variables of the program that then runs.
        updates: Updates<'a>,
        /// Put the flow under the datapath's fallback for good.
        withdraw: bool,
    },
    /// A flow is to have another algorithm: the datapath asks for that algorithm from now on, and
    /// answers with a Resumed. The flow's present program runs until a Command switches it.
    HandOver {
        /// The flow.
        flow: FlowId,
        /// The algorithm's name.
        algorithm: &'a str,
    },
    /// A message of the datapath's was refused; nothing was changed by it.
    Refused(Refusal),
}

/// Who a datapath is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Its name, for people.
    pub name: &'a str,
    /// Tells its successive lives apart: a new one has no flow of the former.
    pub instance: u64,
    /// What it has and can do.
    pub capabilities: Capabilities,
}

/// Who a plane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// Tells its successive lives apart: a new one knows no flow and has installed no program.
    pub instance: u64,
    /// The plane speaks at least this often, µs; the datapath falls back after some multiple.
    pub alive_us: u32,
}
