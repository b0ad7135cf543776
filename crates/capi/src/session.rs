//! One datapath as a transport in C uses it: the flows' user data, the callbacks, and the link to the
//! plane.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::ffi::CString;

use fairwater_datapath::{
    Backend, Config, Controls, ControlsError, Datapath, Fallback, FlowState, MssError, PeerId,
    StartError,
};
use fairwater_lang::{Signal, Signals};
use fairwater_proto::{Abilities, Dialect, FlowId, FlowInfo, SignalQualities};

use crate::datapath::fw_statistics;
use crate::error::fw_error::{
    self, FW_ERROR_ARGUMENT, FW_ERROR_FULL, FW_ERROR_IO, FW_ERROR_NO_PLANE, FW_ERROR_PLANE_FULL,
    FW_ERROR_STATE, FW_ERROR_UNKNOWN_FLOW,
};
use crate::flow::{fw_controller, fw_flow_state};
use crate::library_link::LibraryLink;
use crate::options::{fw_backend, fw_callbacks, fw_fallback, fw_link, fw_log_level, fw_options};
use crate::signals::signal_set;

/// The bound on a packet that is given to `send`, bytes: libccp's bound on a message.
const MAX_PACKET: usize = 32_678;

/// The bound on a socket's path, bytes: `sun_path` less its terminating zero.
const MAX_PATH: usize = 107;

#[derive(Debug)]
pub(crate) struct Session {
    link: PlaneLink,
    callbacks: fw_callbacks,
    user_data: *mut c_void,
    /// By slot.
    flows: Vec<TransportFlow>,
}

/// The link to the plane.
#[derive(Debug)]
enum PlaneLink {
    /// Not chosen yet.
    None(Box<Config>),
    /// The transport carries packets.
    Transport(Box<Datapath>, PeerId, Send),
    /// A link of the library's does.
    Link(Box<LibraryLink>),
}

type Send = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;

/// What the C interface keeps of a flow, besides the datapath's own state.
#[derive(Debug, Clone, Copy)]
struct TransportFlow {
    user_data: *mut c_void,
    /// Window and rate that the transport was last given, bytes and bytes/s.
    cwnd: u64,
    rate: u64,
    /// The last delivery rate, bytes/s.
    delivery_rate: u64,
    app_limited: bool,
    /// One bit an ACK that delivered something, the last in the lowest: it was not
    /// application-limited.
    history: u16,
}

impl TransportFlow {
    const VACANT: Self = Self {
        user_data: ptr::null_mut(),
        cwnd: 0,
        rate: 0,
        delivery_rate: 0,
        app_limited: false,
        history: 0,
    };

    /// Takes in what an ACK tells of the delivery rate.
    fn measure(&mut self, signals: &Signals) {
        self.app_limited = signals[Signal::AppLimited] != 0;
        if signals[Signal::BytesAcked] | signals[Signal::BytesMisordered] != 0 {
            self.history = self.history << 1 | u16::from(!self.app_limited);
        }
        self.delivery_rate = signals[Signal::RateIncoming];
    }
}

impl Session {
    pub(crate) fn new(options: &fw_options, name: &str) -> Result<Self, fw_error> {
        if options.callbacks.set_cwnd.is_none() && options.callbacks.set_rate.is_none() {
            return Err(FW_ERROR_ARGUMENT);
        }
        let backend = match options.backend {
            x if x == fw_backend::FW_BACKEND_NATIVE as u32 => Backend::default(),
            x if x == fw_backend::FW_BACKEND_INTERPRETER as u32 => Backend::Interpreter,
            _ => return Err(FW_ERROR_ARGUMENT),
        };
        let fallback = match options.fallback {
            x if x == fw_fallback::FW_FALLBACK_CUBIC as u32 => Fallback::Cubic,
            x if x == fw_fallback::FW_FALLBACK_RENO as u32 => Fallback::Reno,
            x if x == fw_fallback::FW_FALLBACK_RELEASE as u32 => Fallback::Release,
            _ => return Err(FW_ERROR_ARGUMENT),
        };
        let default = Config::default();
        let config = Config {
            name: name.to_owned(),
            signals: SignalQualities::exact(signal_set(options.signals)?),
            abilities: Abilities {
                window: options.callbacks.set_cwnd.is_some(),
                rate: options.callbacks.set_rate.is_some(),
                ..default.abilities
            },
            instance: or(options.instance, instance),
            fallback,
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
            link: PlaneLink::None(Box::new(config)),
            callbacks: options.callbacks,
            user_data: options.user_data,
            flows: Vec::new(),
        })
    }

    /// Leaves the plane's messages to the transport.
    pub(crate) fn attach(&mut self, dialect: Dialect, now_us: u64) -> Result<(), fw_error> {
        let Some(send) = self.callbacks.send else {
            return Err(FW_ERROR_ARGUMENT);
        };
        let PlaneLink::None(config) = &mut self.link else {
            return Err(FW_ERROR_STATE);
        };
        let mut datapath = Datapath::new(core::mem::take(config));
        let plane = datapath.add_peer(dialect, now_us);
        self.link = PlaneLink::Transport(Box::new(datapath), plane, send);
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
        let PlaneLink::None(config) = &mut self.link else {
            return Err(FW_ERROR_STATE);
        };
        let library_link = LibraryLink::new(link, path, config, now_us).map_err(|_| FW_ERROR_IO)?;
        self.link = PlaneLink::Link(Box::new(library_link));
        self.service(now_us)?;
        match &self.link {
            PlaneLink::Link(library_link) if !library_link.is_connected() => {
                self.log(fw_log_level::FW_LOG_WARNING, &library_link.to_string());
                Err(FW_ERROR_NO_PLANE)
            }
            _ => Ok(()),
        }
    }

    fn datapath(&self) -> Option<&Datapath> {
        match &self.link {
            PlaneLink::None(_) => None,
            PlaneLink::Transport(datapath, ..) => Some(datapath),
            PlaneLink::Link(library_link) => Some(library_link.datapath()),
        }
    }

    fn datapath_mut(&mut self) -> Option<&mut Datapath> {
        match &mut self.link {
            PlaneLink::None(_) => None,
            PlaneLink::Transport(datapath, ..) => Some(datapath),
            PlaneLink::Link(library_link) => Some(library_link.datapath_mut()),
        }
    }

    pub(crate) fn start(
        &mut self,
        algorithm: &str,
        info: &FlowInfo,
        user_data: *mut c_void,
    ) -> Result<FlowId, fw_error> {
        let started = match &mut self.link {
            PlaneLink::None(_) => return Err(FW_ERROR_STATE),
            PlaneLink::Transport(datapath, plane, _) => datapath.start(*plane, algorithm, info),
            PlaneLink::Link(library_link) => library_link.start(algorithm, info),
        };
        let flow = started.map_err(|error| match error {
            StartError::Full(_) => FW_ERROR_FULL,
            _ => FW_ERROR_ARGUMENT,
        })?;
        let slot = flow.slot as usize;
        if slot >= self.flows.len() {
            self.flows.resize(slot + 1, TransportFlow::VACANT);
        }
        self.flows[slot] = TransportFlow {
            user_data,
            cwnd: info.cwnd,
            ..TransportFlow::VACANT
        };
        self.transmit(info.now_us);
        Ok(flow)
    }

    pub(crate) fn ack(&mut self, flow: FlowId, signals: &Signals) -> Result<(), fw_error> {
        let datapath = self.datapath_mut().ok_or(FW_ERROR_UNKNOWN_FLOW)?;
        let invoked = datapath.invoke(flow, signals);
        let changed = invoked.map_err(|_| FW_ERROR_UNKNOWN_FLOW)?;
        if let Some(flow_record) = self.flows.get_mut(flow.slot as usize) {
            flow_record.measure(signals);
        }
        if let (Some(controls), Some(flow_record)) =
            (changed, self.flows.get_mut(flow.slot as usize))
        {
            let before = *flow_record;
            (flow_record.cwnd, flow_record.rate) = (controls.cwnd, controls.rate);
            if let (true, Some(set)) = (controls.cwnd != before.cwnd, self.callbacks.set_cwnd) {
                // SAFETY: the transport's own callback, with the pointer that it gave for this.
                unsafe { set(before.user_data, controls.cwnd) };
            }
            if let (true, Some(set)) = (controls.rate != before.rate, self.callbacks.set_rate) {
                // SAFETY: as above.
                unsafe { set(before.user_data, controls.rate) };
            }
        }
        self.transmit(signals[Signal::Now]);
        Ok(())
    }

    pub(crate) fn state(&self, flow: FlowId) -> Result<fw_flow_state, fw_error> {
        let view = self.datapath().and_then(|datapath| datapath.flow(flow));
        let view = view.ok_or(FW_ERROR_UNKNOWN_FLOW)?;
        let record = self.flows.get(flow.slot as usize);
        let record = record.copied().unwrap_or(TransportFlow::VACANT);
        let controller = match view.state {
            FlowState::Waiting => fw_controller::FW_CONTROLLER_WAITING,
            FlowState::Running => fw_controller::FW_CONTROLLER_PROGRAM,
            FlowState::Silent => fw_controller::FW_CONTROLLER_SILENT,
            FlowState::Faulted(_) => fw_controller::FW_CONTROLLER_FAULTED,
            FlowState::Withdrawn | FlowState::Orphaned => fw_controller::FW_CONTROLLER_WITHDRAWN,
        };
        Ok(fw_flow_state {
            size: size_of::<fw_flow_state>(),
            cwnd: view.controls.cwnd,
            rate: view.controls.rate,
            controller: controller as u32,
            program: view.program.unwrap_or(0),
            delivery_rate: record.delivery_rate,
            app_limited: record.app_limited.into(),
            confidence: record.history.count_ones(),
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
        if let Some(flow_record) = self.flows.get_mut(flow.slot as usize) {
            (flow_record.cwnd, flow_record.rate) = (controls.cwnd, controls.rate);
        }
        Ok(())
    }

    pub(crate) fn set_mss(&mut self, flow: FlowId, mss: u32) -> Result<(), fw_error> {
        let datapath = self.datapath_mut().ok_or(FW_ERROR_UNKNOWN_FLOW)?;
        datapath.set_mss(flow, mss).map_err(|error| match error {
            MssError::UnknownFlow(_) => FW_ERROR_UNKNOWN_FLOW,
            MssError::Zero => FW_ERROR_ARGUMENT,
        })
    }

    pub(crate) fn close(&mut self, flow: FlowId) -> Result<(), fw_error> {
        let datapath = self.datapath_mut().ok_or(FW_ERROR_UNKNOWN_FLOW)?;
        let closed = datapath.close(flow);
        closed.map_err(|_| FW_ERROR_UNKNOWN_FLOW)?;
        if let Some(flow_record) = self.flows.get_mut(flow.slot as usize) {
            *flow_record = TransportFlow::VACANT;
        }
        // The time says no more than when a link that is lost may be tried again: at once.
        self.transmit(0);
        Ok(())
    }

    pub(crate) fn receive(&mut self, packet: &[u8], now_us: u64) -> Result<(), fw_error> {
        let PlaneLink::Transport(datapath, plane, _) = &mut self.link else {
            return Err(FW_ERROR_STATE);
        };
        datapath.on_message(*plane, packet, now_us);
        self.transmit(now_us);
        Ok(())
    }

    pub(crate) fn fd(&self) -> c_int {
        match &self.link {
            PlaneLink::Link(library_link) => library_link.fd(),
            PlaneLink::None(_) | PlaneLink::Transport(..) => -1,
        }
    }

    pub(crate) fn next_timeout(&self) -> u64 {
        let next = match &self.link {
            PlaneLink::None(_) => None,
            PlaneLink::Transport(datapath, ..) => datapath.next_timeout(),
            PlaneLink::Link(library_link) => library_link.next_timeout(),
        };
        next.unwrap_or(u64::MAX)
    }

    pub(crate) fn service(&mut self, now_us: u64) -> Result<(), fw_error> {
        let changed = match &mut self.link {
            PlaneLink::None(_) => return Err(FW_ERROR_STATE),
            PlaneLink::Transport(datapath, ..) => {
                datapath.tick(now_us);
                false
            }
            PlaneLink::Link(library_link) => library_link.service(now_us),
        };
        self.log_change(changed);
        self.transmit(now_us);
        match &self.link {
            PlaneLink::Link(library_link) if library_link.is_refused() => Err(FW_ERROR_PLANE_FULL),
            _ => Ok(()),
        }
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
        let changed = match &mut self.link {
            PlaneLink::None(_) => false,
            PlaneLink::Transport(datapath, _, send) => {
                while let Some((_, packet)) = datapath.poll_transmit(MAX_PACKET) {
                    // SAFETY: the transport's own callback, with the pointer that it gave for
                    // this. What it does not take is dropped.
                    let _ = unsafe { send(self.user_data, packet.as_ptr().cast(), packet.len()) };
                }
                false
            }
            PlaneLink::Link(library_link) => library_link.flush(now_us),
        };
        self.log_change(changed);
    }

    fn log_change(&self, changed: bool) {
        if let (true, PlaneLink::Link(library_link)) = (changed, &self.link) {
            self.log(fw_log_level::FW_LOG_INFO, &library_link.to_string());
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
