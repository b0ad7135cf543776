//! One datapath as a transport in C uses it: the flows' user data, the callbacks, and the way of
//! packets to and from the plane.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::ffi::CString;
use std::io;
use std::path::Path;

use fairwater_datapath::{
    Backend, Config, Controls, ControlsError, Datapath, FlowState, PeerId, StartError,
};
use fairwater_lang::Signal;
use fairwater_proto::{Dialect, FlowId, FlowInfo};

use crate::carrier::{Carrier, Change, Linked};
use crate::datapath::fw_statistics;
use crate::error::fw_error::{
    self, FW_ERROR_ARGUMENT, FW_ERROR_FULL, FW_ERROR_IO, FW_ERROR_NO_PLANE, FW_ERROR_STATE,
    FW_ERROR_UNKNOWN_FLOW,
};
use crate::flow::{fw_flow_state, fw_governor};
use crate::options::{fw_backend, fw_callbacks, fw_link, fw_log_level, fw_options};
use crate::signals::signal_set;

/// The bound on a packet that is given to `send`, bytes: libccp's bound on a message.
const MAX_PACKET: usize = 32_678;

/// The bound on a socket's path, bytes: `sun_path` less its terminating zero.
const MAX_PATH: usize = 107;

/// How many packets one call of `service` takes in, so that it ends.
const MAX_PACKETS: usize = 1024;

#[derive(Debug)]
pub(crate) struct Session {
    datapath: Datapath,
    plane: Option<PeerId>,
    carrier: Carrier,
    callbacks: fw_callbacks,
    user_data: *mut c_void,
    /// The latest time that is known, µs.
    now_us: u64,
    /// By slot.
    tenants: Vec<Tenant>,
}

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
            x if x == fw_backend::FW_BACKEND_NATIVE as u32 => Backend::Native,
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
            datapath: Datapath::new(config),
            plane: None,
            carrier: Carrier::None,
            callbacks: options.callbacks,
            user_data: options.user_data,
            now_us: 0,
            tenants: Vec::new(),
        })
    }

    pub(crate) fn attach(&mut self, dialect: Dialect, now_us: u64) -> Result<(), fw_error> {
        let Some(send) = self.callbacks.send else {
            return Err(FW_ERROR_ARGUMENT);
        };
        if self.plane.is_some() {
            return Err(FW_ERROR_STATE);
        }
        self.carrier = Carrier::Transport {
            send,
            user_data: self.user_data,
        };
        self.plane = Some(self.datapath.add_peer(dialect, now_us));
        self.transmit();
        Ok(())
    }

    pub(crate) fn start(
        &mut self,
        algorithm: &str,
        info: &FlowInfo,
        user_data: *mut c_void,
    ) -> Result<FlowId, fw_error> {
        let plane = self.plane.ok_or(FW_ERROR_STATE)?;
        let started = self.datapath.start(plane, algorithm, info);
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
        self.transmit();
        Ok(flow)
    }

    pub(crate) fn ack(
        &mut self,
        flow: FlowId,
        signals: &[u64; Signal::ALL.len()],
    ) -> Result<(), fw_error> {
        self.now_us = self.now_us.max(signals[Signal::Now as usize]);
        let invoked = self.datapath.invoke(flow, signals);
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
        self.transmit();
        Ok(())
    }

    pub(crate) fn state(&self, flow: FlowId) -> Result<fw_flow_state, fw_error> {
        let view = self.datapath.flow(flow).ok_or(FW_ERROR_UNKNOWN_FLOW)?;
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
        let set = self.datapath.set_controls(flow, controls);
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
        let closed = self.datapath.close(flow);
        closed.map_err(|_| FW_ERROR_UNKNOWN_FLOW)?;
        if let Some(tenant) = self.tenants.get_mut(flow.slot as usize) {
            *tenant = Tenant::VACANT;
        }
        self.transmit();
        Ok(())
    }

    pub(crate) fn receive(&mut self, packet: &[u8], now_us: u64) -> Result<(), fw_error> {
        let (Some(plane), Carrier::Transport { .. }) = (self.plane, &self.carrier) else {
            return Err(FW_ERROR_STATE);
        };
        self.datapath.on_message(plane, packet, now_us);
        self.transmit();
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
        if self.plane.is_some() {
            return Err(FW_ERROR_STATE);
        }
        let mut linked = Linked::new(link, Path::new(path)).map_err(|_| FW_ERROR_IO)?;
        let made = linked.connect(now_us);
        self.plane = Some(self.datapath.add_peer(linked.dialect(), now_us));
        self.carrier = Carrier::Link(linked);
        match made {
            Ok(_) => {
                self.tell(Change::Made);
                self.transmit();
                Ok(())
            }
            Err(error) => Err(match error.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::WouldBlock => FW_ERROR_NO_PLANE,
                _ => FW_ERROR_IO,
            }),
        }
    }

    pub(crate) fn fd(&self) -> c_int {
        match &self.carrier {
            Carrier::Link(linked) => linked.fd(),
            Carrier::None | Carrier::Transport { .. } => -1,
        }
    }

    pub(crate) fn service(&mut self, now_us: u64) -> Result<(), fw_error> {
        let plane = self.plane.ok_or(FW_ERROR_STATE)?;
        self.now_us = self.now_us.max(now_us);
        if let Carrier::Link(linked) = &mut self.carrier {
            // That the plane is not there yet was told when it was lost, or by `connect`.
            if let Ok(Some(change)) = linked.connect(now_us) {
                self.tell(change);
            }
        }
        let mut lost = None;
        if let Carrier::Link(linked) = &mut self.carrier {
            for _ in 0..MAX_PACKETS {
                match linked.receive() {
                    Ok(Some(packet)) => self.datapath.on_message(plane, packet, now_us),
                    Ok(None) => break,
                    Err(change) => {
                        lost = Some(change);
                        break;
                    }
                }
            }
        }
        if let Some(change) = lost {
            self.tell(change);
        }
        self.datapath.tick(now_us);
        self.transmit();
        Ok(())
    }

    pub(crate) fn statistics(&self) -> fw_statistics {
        let counts = self.datapath.statistics();
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
    fn transmit(&mut self) {
        let mut lost = None;
        match &mut self.carrier {
            Carrier::None => {}
            Carrier::Transport { send, user_data } => {
                while let Some((_, packet)) = self.datapath.poll_transmit(MAX_PACKET) {
                    // SAFETY: the transport's own callback, with the pointer that it gave for
                    // this. What it does not take is dropped.
                    let _ = unsafe { send(*user_data, packet.as_ptr().cast(), packet.len()) };
                }
            }
            Carrier::Link(linked) => loop {
                match linked.is_ready() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(change) => {
                        lost = Some(change);
                        break;
                    }
                }
                let Some((_, packet)) = self.datapath.poll_transmit(MAX_PACKET) else {
                    break;
                };
                if let Err(change) = linked.send(packet) {
                    lost = Some(change);
                    break;
                }
            },
        }
        if let Some(change) = lost {
            self.tell(change);
        }
    }

    /// Acts on what became of the link: whoever is there next is to be told of everything.
    fn tell(&mut self, change: Change) {
        let (level, what) = match change {
            Change::Made => (fw_log_level::FW_LOG_INFO, "joined the plane at"),
            Change::Lost => (fw_log_level::FW_LOG_WARNING, "lost the plane at"),
        };
        if let (Change::Lost, Some(plane)) = (change, self.plane) {
            self.datapath.reset_peer(plane, self.now_us);
        }
        if let Carrier::Link(linked) = &self.carrier {
            self.log(level, &format!("{what} {}", linked.path().display()));
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
