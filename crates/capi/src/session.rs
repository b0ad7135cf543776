//! One datapath as a transport in C uses it: the flows' user data, the callbacks, and the way of
//! packets to and from the plane.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::ffi::CString;

use fairwater_datapath::{
    Backend, Config, Controls, ControlsError, Datapath, FlowState, PeerId, StartError,
};
use fairwater_lang::Signal;
use fairwater_proto::{Dialect, FlowId, FlowInfo};

use crate::datapath::fw_statistics;
use crate::error::fw_error::{
    self, FW_ERROR_ARGUMENT, FW_ERROR_FULL, FW_ERROR_IO, FW_ERROR_NO_PLANE, FW_ERROR_STATE,
    FW_ERROR_UNKNOWN_FLOW,
};
use crate::flow::{fw_flow_state, fw_governor};
use crate::joined::Joined;
use crate::options::{fw_backend, fw_callbacks, fw_link, fw_log_level, fw_options};
use crate::signals::signal_set;

/// The bound on a packet that is given to `send`, bytes: libccp's bound on a message.
const MAX_PACKET: usize = 32_678;

/// The bound on a socket's path, bytes: `sun_path` less its terminating zero.
const MAX_PATH: usize = 107;

#[derive(Debug)]
pub(crate) struct Session {
    way: Way,
    callbacks: fw_callbacks,
    user_data: *mut c_void,
    /// By slot.
    tenants: Vec<Tenant>,
}

/// The way to the plane.
#[derive(Debug)]
enum Way {
    /// Not chosen yet.
    None(Box<Config>),
    /// The transport carries packets.
    Transport(Box<Datapath>, PeerId, Send),
    /// A link of the library's does.
    Link(Box<Joined>),
}

type Send = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;

/// What is kept for a flow beside the datapath's own state.
#[derive(Debug, Clone, Copy)]
struct Tenant {
    user_data: *mut c_void,
    /// What the transport was last told, bytes and bytes/s.
    cwnd: u64,
    rate: u64,
}

impl Tenant {
    const VACANT: Self = Self {
        user_data: ptr::null_mut(),
        cwnd: 0,
        rate: 0,
    };
}

impl Session {
    pub(crate) fn new(options: &fw_options, name: &str) -> Result<Self, fw_error> {
        if options.callbacks.set_cwnd.is_none() {
            return Err(FW_ERROR_ARGUMENT);
        }
        let backend = match options.backend {
            x if x == fw_backend::FW_BACKEND_NATIVE as u32 => Backend::default(),
            x if x == fw_backend::FW_BACKEND_INTERPRETER as u32 => Backend::Interpreter,
            _ => return Err(FW_ERROR_ARGUMENT),
        };
        let default = Config::default();
        let config = Config {
            name: name.to_owned(),
            signals: signal_set(options.signals)?,
            instance: or(options.instance, instance),
            backend,
            silence_us: or(options.silence_us, || default.silence_us),
            max_flows: or(options.max_flows, || default.max_flows),
            max_programs: or(options.max_programs, || default.max_programs),
            queue_bytes: default.queue_bytes,
        };
        if config.max_flows > fairwater_datapath::MAX_FLOWS {
            return Err(FW_ERROR_ARGUMENT);
        }
        Ok(Self {
            way: Way::None(Box::new(config)),
            callbacks: options.callbacks,
            user_data: options.user_data,
            tenants: Vec::new(),
        })
    }

    /// Leaves the plane's messages to the transport.
    pub(crate) fn attach(&mut self, dialect: Dialect, now_us: u64) -> Result<(), fw_error> {
        let Some(send) = self.callbacks.send else {
            return Err(FW_ERROR_ARGUMENT);
        };
        let Way::None(config) = &mut self.way else {
            return Err(FW_ERROR_STATE);
        };
        let mut datapath = Datapath::new(core::mem::take(config));
        let plane = datapath.add_peer(dialect, now_us);
        self.way = Way::Transport(Box::new(datapath), plane, send);
        self.transmit(now_us);
        Ok(())
    }

    /// Joins the plane at a path, now or as soon as it is there.
    pub(crate) fn connect(
        &mut self,
        link: fw_link,
        path: &str,
        now_us: u64,
    ) -> Result<(), fw_error> {
        if path.is_empty() || path.len() > MAX_PATH {
            return Err(FW_ERROR_ARGUMENT);
        }
        let Way::None(config) = &mut self.way else {
            return Err(FW_ERROR_STATE);
        };
        let joined = Joined::new(link, path, config, now_us).map_err(|_| FW_ERROR_IO)?;
        self.way = Way::Link(Box::new(joined));
        self.service(now_us)?;
        match &self.way {
            Way::Link(joined) if !joined.is_connected() => {
                self.log(fw_log_level::FW_LOG_WARNING, &joined.to_string());
                Err(FW_ERROR_NO_PLANE)
            }
            _ => Ok(()),
        }
    }

    fn datapath(&self) -> Option<&Datapath> {
        match &self.way {
            Way::None(_) => None,
            Way::Transport(datapath, ..) => Some(datapath),
            Way::Link(joined) => Some(joined.datapath()),
        }
    }

    fn datapath_mut(&mut self) -> Option<&mut Datapath> {
        match &mut self.way {
            Way::None(_) => None,
            Way::Transport(datapath, ..) => Some(datapath),
            Way::Link(joined) => Some(joined.datapath_mut()),
        }
    }

    pub(crate) fn start(
        &mut self,
        algorithm: &str,
        info: &FlowInfo,
        user_data: *mut c_void,
    ) -> Result<FlowId, fw_error> {
        let started = match &mut self.way {
            Way::None(_) => return Err(FW_ERROR_STATE),
            Way::Transport(datapath, plane, _) => datapath.start(*plane, algorithm, info),
            Way::Link(joined) => joined.start(algorithm, info),
        };
        let flow = started.map_err(|error| match error {
            StartError::Full(_) => FW_ERROR_FULL,
            _ => FW_ERROR_ARGUMENT,
        })?;
        let slot = flow.slot as usize;
        if slot >= self.tenants.len() {
            self.tenants.resize(slot + 1, Tenant::VACANT);
        }
        self.tenants[slot] = Tenant {
            user_data,
            cwnd: info.cwnd,
            rate: 0,
        };
        self.transmit(info.now_us);
        Ok(flow)
    }

    pub(crate) fn ack(
        &mut self,
        flow: FlowId,
        signals: &[u64; Signal::ALL.len()],
    ) -> Result<(), fw_error> {
        let datapath = self.datapath_mut().ok_or(FW_ERROR_UNKNOWN_FLOW)?;
        let invoked = datapath.invoke(flow, signals);
        let changed = invoked.map_err(|_| FW_ERROR_UNKNOWN_FLOW)?;
        if let (Some(controls), Some(tenant)) = (changed, self.tenants.get_mut(flow.slot as usize))
        {
            let before = *tenant;
            (tenant.cwnd, tenant.rate) = (controls.cwnd, controls.rate);
            if let (true, Some(set)) = (controls.cwnd != before.cwnd, self.callbacks.set_cwnd) {
                // SAFETY: the transport's own callback, with the pointer that it gave for this.
                unsafe { set(before.user_data, controls.cwnd) };
            }
            if let (true, Some(set)) = (controls.rate != before.rate, self.callbacks.set_rate) {
                // SAFETY: as above.
                unsafe { set(before.user_data, controls.rate) };
            }
        }
        self.transmit(signals[Signal::Now as usize]);
        Ok(())
    }

    pub(crate) fn state(&self, flow: FlowId) -> Result<fw_flow_state, fw_error> {
        let view = self.datapath().and_then(|datapath| datapath.flow(flow));
        let view = view.ok_or(FW_ERROR_UNKNOWN_FLOW)?;
        let governor = match view.state {
            FlowState::Waiting => fw_governor::FW_GOVERNOR_WAITING,
            FlowState::Running => fw_governor::FW_GOVERNOR_PROGRAM,
            FlowState::Silent => fw_governor::FW_GOVERNOR_SILENT,
            FlowState::Faulted(_) => fw_governor::FW_GOVERNOR_FAULTED,
            FlowState::Withdrawn | FlowState::Orphaned => fw_governor::FW_GOVERNOR_WITHDRAWN,
        };
        Ok(fw_flow_state {
            size: size_of::<fw_flow_state>(),
            cwnd: view.controls.cwnd,
            rate: view.controls.rate,
            governor: governor as u32,
            program: view.program.unwrap_or(0),
        })
    }

    pub(crate) fn set_controls(
        &mut self,
        flow: FlowId,
        controls: Controls,
    ) -> Result<(), fw_error> {
        let datapath = self.datapath_mut().ok_or(FW_ERROR_UNKNOWN_FLOW)?;
        let set = datapath.set_controls(flow, controls);
        set.map_err(|error| match error {
            ControlsError::UnknownFlow(_) => FW_ERROR_UNKNOWN_FLOW,
            ControlsError::OutOfRange => FW_ERROR_ARGUMENT,
        })?;
        if let Some(tenant) = self.tenants.get_mut(flow.slot as usize) {
            (tenant.cwnd, tenant.rate) = (controls.cwnd, controls.rate);
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, flow: FlowId) -> Result<(), fw_error> {
        let datapath = self.datapath_mut().ok_or(FW_ERROR_UNKNOWN_FLOW)?;
        let closed = datapath.close(flow);
        closed.map_err(|_| FW_ERROR_UNKNOWN_FLOW)?;
        if let Some(tenant) = self.tenants.get_mut(flow.slot as usize) {
            *tenant = Tenant::VACANT;
        }
        // The time says no more than when a link that is lost may be tried again: at once.
        self.transmit(0);
        Ok(())
    }

    pub(crate) fn receive(&mut self, packet: &[u8], now_us: u64) -> Result<(), fw_error> {
        let Way::Transport(datapath, plane, _) = &mut self.way else {
            return Err(FW_ERROR_STATE);
        };
        datapath.on_message(*plane, packet, now_us);
        self.transmit(now_us);
        Ok(())
    }

    pub(crate) fn fd(&self) -> c_int {
        match &self.way {
            Way::Link(joined) => joined.fd(),
            Way::None(_) | Way::Transport(..) => -1,
        }
    }

    pub(crate) fn next_timeout(&self) -> u64 {
        let next = match &self.way {
            Way::None(_) => None,
            Way::Transport(datapath, ..) => datapath.next_timeout(),
            Way::Link(joined) => joined.next_timeout(),
        };
        next.unwrap_or(u64::MAX)
    }

    pub(crate) fn service(&mut self, now_us: u64) -> Result<(), fw_error> {
        let changed = match &mut self.way {
            Way::None(_) => return Err(FW_ERROR_STATE),
            Way::Transport(datapath, ..) => {
                datapath.tick(now_us);
                false
            }
            Way::Link(joined) => joined.service(now_us),
        };
        self.log_change(changed);
        self.transmit(now_us);
        Ok(())
    }

    pub(crate) fn statistics(&self) -> fw_statistics {
        let counts = self.datapath().map(Datapath::statistics);
        let counts = counts.unwrap_or_default();
        fw_statistics {
            size: size_of::<fw_statistics>(),
            flows: counts.flows.into(),
            programs: counts.programs.into(),
            reports: counts.reports,
            reports_dropped: counts.reports_dropped,
            refused: counts.refused_total(),
            fallbacks: counts.fallbacks,
            faults: counts.faults,
        }
    }

    /// Sends what the datapath has for the plane, as far as there is room.
    fn transmit(&mut self, now_us: u64) {
        let changed = match &mut self.way {
            Way::None(_) => false,
            Way::Transport(datapath, _, send) => {
                while let Some((_, packet)) = datapath.poll_transmit(MAX_PACKET) {
                    // SAFETY: the transport's own callback, with the pointer that it gave for
                    // this. What it does not take is dropped.
                    let _ = unsafe { send(self.user_data, packet.as_ptr().cast(), packet.len()) };
                }
                false
            }
            Way::Link(joined) => joined.flush(now_us),
        };
        self.log_change(changed);
    }

    fn log_change(&self, changed: bool) {
        if let (true, Way::Link(joined)) = (changed, &self.way) {
            self.log(fw_log_level::FW_LOG_INFO, &joined.to_string());
        }
    }

    fn log(&self, level: fw_log_level, line: &str) {
        if let (Some(log), Ok(line)) = (self.callbacks.log, CString::new(line)) {
            // SAFETY: the transport's own callback, with the pointer that it gave for this.
            unsafe { log(self.user_data, level, line.as_ptr()) };
        }
    }
}

fn or<T: PartialEq + Default>(given: T, default: impl FnOnce() -> T) -> T {
    if given == T::default() {
        default()
    } else {
        given
    }
}

/// A number that differs between the lives of a datapath: the nanosecond of its start, mixed with
/// the process.
fn instance() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let nanoseconds = since.map_or(0, |d| d.as_nanos() as u64);
    (nanoseconds ^ u64::from(std::process::id()).rotate_left(40)).max(1)
}
