//! The C interface as its callers use it, without a socket: every function, what each refuses,
//! and a plane played by the test. Runs under Miri too.

#![expect(
    unsafe_code,
    reason = "the functions of a C interface are unsafe to call"
)]
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each one hands the interface pointers of the test's own, which live for the call"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod control;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{offset_of, size_of, zeroed};
use core::ptr::{null, null_mut};

use fairwater::fw_error::*;
use fairwater::*;
use fairwater_proto::{Dialect, ToDatapath, ToPlane};

const MSS: u32 = 1000;

/// Records the callbacks of one flow, or of one datapath.
#[derive(Default)]
struct Recorder {
    cwnds: Vec<u64>,
    rates: Vec<u64>,
    packets: Vec<Vec<u8>>,
    lines: Vec<String>,
    /// What a callback got when it called the library.
    reentered: Vec<fw_error>,
    datapath: *mut fw_datapath,
}

unsafe extern "C" fn set_cwnd(recorder: *mut c_void, bytes: u64) {
    let recorder = unsafe { &mut *recorder.cast::<Recorder>() };
    recorder.cwnds.push(bytes);
    if !recorder.datapath.is_null() {
        let again = unsafe { fw_datapath_service(recorder.datapath, 0) };
        let freed = unsafe { fw_datapath_free(recorder.datapath) };
        recorder.reentered.extend([again, freed]);
    }
}

unsafe extern "C" fn set_rate(recorder: *mut c_void, bytes_per_second: u64) {
    unsafe { &mut *recorder.cast::<Recorder>() }
        .rates
        .push(bytes_per_second);
}

unsafe extern "C" fn send(recorder: *mut c_void, packet: *const c_void, len: usize) -> c_int {
    let packet = unsafe { core::slice::from_raw_parts(packet.cast::<u8>(), len) };
    unsafe { &mut *recorder.cast::<Recorder>() }
        .packets
        .push(packet.to_vec());
    0
}

unsafe extern "C" fn log(recorder: *mut c_void, _: fw_log_level, line: *const c_char) {
    let line = unsafe { CStr::from_ptr(line) }.to_str().unwrap().to_owned();
    unsafe { &mut *recorder.cast::<Recorder>() }
        .lines
        .push(line);
}

fn options(recorder: *mut Recorder) -> fw_options {
    let mut options: fw_options = unsafe { zeroed() };
    options.size = size_of::<fw_options>();
    options.callbacks = fw_callbacks {
        set_cwnd: Some(set_cwnd),
        set_rate: Some(set_rate),
        send: Some(send),
        log: Some(log),
    };
    options.user_data = recorder.cast();
    options.instance = 1;
    options
}

fn info() -> fw_flow_info {
    let mut info: fw_flow_info = unsafe { zeroed() };
    info.size = size_of::<fw_flow_info>();
    info.mss = MSS;
    info.cwnd = 10 * u64::from(MSS);
    info
}

fn ack(now_us: u64) -> fw_signals {
    let mut signals: fw_signals = unsafe { zeroed() };
    signals.size = size_of::<fw_signals>();
    signals.now_us = now_us;
    signals.bytes_acked = MSS.into();
    signals.packets_acked = 1;
    signals.rtt_sample_us = 10_000;
    signals
}

/// A datapath that the test is the plane of.
struct Rig {
    datapath: *mut fw_datapath,
    recorder: *mut Recorder,
}

impl Rig {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut fw_options)) -> Self {
        let recorder = Box::into_raw(Box::<Recorder>::default());
        let mut options = options(recorder);
        change(&mut options);
        let mut datapath = null_mut();
        let code = unsafe { fw_datapath_new(&raw const options, &raw mut datapath) };
        assert_eq!(code, FW_OK);
        Self { datapath, recorder }
    }

    fn attached() -> Self {
        Self::new().attach()
    }

    fn attach(self) -> Self {
        let rig = self;
        let own = fw_dialect::FW_DIALECT_FAIRWATER as u32;
        assert_eq!(unsafe { fw_datapath_attach(rig.datapath, own, 0) }, FW_OK);
        rig
    }

    #[expect(
        clippy::mut_from_ref,
        reason = "the callbacks write to it through a pointer, as C does"
    )]
    fn recorder(&self) -> &mut Recorder {
        unsafe { &mut *self.recorder }
    }

    fn start(&self, recorder: *mut Recorder) -> fw_flow {
        let mut flow = 0;
        let code = unsafe { fw_flow_start(self.datapath, &info(), recorder.cast(), &raw mut flow) };
        assert_eq!(code, FW_OK);
        assert_ne!(flow, 0);
        flow
    }

    fn ack(&self, flow: fw_flow, now_us: u64) {
        assert_eq!(
            unsafe { fw_flow_ack(self.datapath, flow, &ack(now_us)) },
            FW_OK
        );
    }

    fn say(&self, messages: &[ToDatapath<'_>], now_us: u64) {
        let mut packet = Vec::new();
        for message in messages {
            Dialect::Own
                .encode_to_datapath(message, &mut packet)
                .unwrap();
        }
        let (bytes, len) = (packet.as_ptr().cast(), packet.len());
        let code = unsafe { fw_datapath_receive(self.datapath, bytes, len, now_us) };
        assert_eq!(code, FW_OK);
    }

    /// What the plane hears, as text, since the last call.
    fn sent(&self) -> Vec<String> {
        let packets = std::mem::take(&mut self.recorder().packets);
        packets
            .iter()
            .flat_map(|packet| Dialect::Own.to_plane(packet))
            .map(|message| match message.unwrap() {
                ToPlane::Hello(_) => "hello".to_owned(),
                ToPlane::Created { algorithm, .. } => format!("created {algorithm}"),
                ToPlane::Reported { fields, cwnd, .. } => {
                    format!("reported {:?} at {cwnd}", fields.iter().collect::<Vec<_>>())
                }
                ToPlane::MssChanged { mss, .. } => format!("mss {mss}"),
                ToPlane::Closed { .. } => "closed".to_owned(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    fn statistics(&self) -> fw_statistics {
        let mut counts: fw_statistics = unsafe { zeroed() };
        counts.size = size_of::<fw_statistics>();
        let code = unsafe { fw_datapath_statistics(self.datapath, &raw mut counts) };
        assert_eq!(code, FW_OK);
        counts
    }

    fn state(&self, flow: fw_flow) -> fw_flow_state {
        let mut state: fw_flow_state = unsafe { zeroed() };
        state.size = size_of::<fw_flow_state>();
        assert_eq!(
            unsafe { fw_flow_status(self.datapath, flow, &raw mut state) },
            FW_OK
        );
        state
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.recorder().datapath = null_mut();
        assert_eq!(unsafe { fw_datapath_free(self.datapath) }, FW_OK);
        drop(unsafe { Box::from_raw(self.recorder) });
    }
}

#[test]
fn flows_are_values_that_end() {
    let rig = Rig::attached();
    let (mut one, mut other) = (Recorder::default(), Recorder::default());
    let first = rig.start(&raw mut one);
    assert_eq!(unsafe { fw_flow_close(rig.datapath, first) }, FW_OK);
    let second = rig.start(&raw mut other);
    assert_ne!(first, second);
    let mut state: fw_flow_state = unsafe { zeroed() };
    state.size = size_of::<fw_flow_state>();
    for gone in [first, 0, u64::MAX, 1 << 32] {
        let datapath = rig.datapath;
        let codes = unsafe {
            [
                fw_flow_ack(datapath, gone, &ack(1)),
                fw_flow_status(datapath, gone, &raw mut state),
                fw_flow_close(datapath, gone),
            ]
        };
        assert_eq!(codes, [FW_ERROR_UNKNOWN_FLOW; 3], "{gone:#x}");
    }
    rig.ack(second, 1000);
    assert!(one.cwnds.is_empty() && !other.cwnds.is_empty());
}

#[test]
fn a_callback_that_calls_back_is_refused() {
    let rig = Rig::attached();
    let recorder = rig.recorder;
    rig.recorder().datapath = rig.datapath;
    let flow = rig.start(recorder);
    rig.ack(flow, 1000);
    assert_eq!(rig.recorder().reentered, [FW_ERROR_BUSY; 2]);
    rig.ack(flow, 2000);
}

#[test]
fn null_is_an_argument_error_everywhere() {
    let rig = Rig::attached();
    let recorder = rig.recorder;
    let flow = rig.start(recorder);
    let (dp, none) = (rig.datapath, null_mut());
    let (mut out, mut datapath) = (0, null_mut());
    let mut address = fw_address::default();
    let codes = unsafe {
        [
            fw_datapath_new(null(), &raw mut datapath),
            fw_datapath_new(&options(recorder), null_mut()),
            fw_datapath_attach(none, 0, 0),
            fw_datapath_connect(none, 0, c"/x".as_ptr(), 0),
            fw_datapath_connect(dp, 0, null(), 0),
            fw_datapath_service(none, 0),
            fw_datapath_receive(none, c"".as_ptr().cast(), 0, 0),
            fw_datapath_receive(dp, null(), 0, 0),
            fw_datapath_statistics(none, null_mut()),
            fw_datapath_statistics(dp, null_mut()),
            fw_flow_start(none, &info(), null_mut(), &raw mut out),
            fw_flow_start(dp, null(), null_mut(), &raw mut out),
            fw_flow_start(dp, &info(), null_mut(), null_mut()),
            fw_flow_ack(none, flow, &ack(1)),
            fw_flow_ack(dp, flow, null()),
            fw_flow_status(none, flow, null_mut()),
            fw_flow_status(dp, flow, null_mut()),
            fw_flow_close(none, flow),
            fw_address_from_sockaddr(null(), 16, &raw mut address),
            fw_address_from_sockaddr((&raw const address).cast(), 16, null_mut()),
        ]
    };
    assert_eq!(codes, [FW_ERROR_ARGUMENT; 20]);
    assert_eq!(unsafe { fw_datapath_fd(none) }, -1);
    assert_eq!(unsafe { fw_datapath_free(none) }, FW_OK);
    assert_eq!(rig.statistics().flows, 1);
}

#[test]
fn values_out_of_range_are_argument_errors() {
    let make = |change: fn(&mut fw_options)| {
        let mut recorder = Recorder::default();
        let mut options = options(&raw mut recorder);
        change(&mut options);
        let mut datapath = null_mut();
        let code = unsafe { fw_datapath_new(&options, &raw mut datapath) };
        assert_eq!(datapath.is_null(), code != FW_OK);
        assert_eq!(unsafe { fw_datapath_free(datapath) }, FW_OK);
        code
    };
    assert_eq!(make(|_| ()), FW_OK);
    assert_eq!(make(|o| o.signals = 1 << 17), FW_ERROR_ARGUMENT);
    assert_eq!(make(|o| o.backend = 2), FW_ERROR_ARGUMENT);
    assert_eq!(make(|o| o.max_flows = u32::MAX), FW_ERROR_ARGUMENT);
    assert_eq!(make(|o| o.callbacks.set_cwnd = None), FW_OK);
    assert_eq!(make(|o| o.callbacks.set_rate = None), FW_OK);
    let neither = make(|o| (o.callbacks.set_cwnd, o.callbacks.set_rate) = (None, None));
    assert_eq!(neither, FW_ERROR_ARGUMENT);
    assert_eq!(make(|o| o.name = c"\xff".as_ptr()), FW_ERROR_ARGUMENT);

    let rig = Rig::attached();
    let start = |change: fn(&mut fw_flow_info)| {
        let (mut info, mut flow) = (info(), 0);
        change(&mut info);
        unsafe { fw_flow_start(rig.datapath, &info, null_mut(), &raw mut flow) }
    };
    assert_eq!(start(|i| i.mss = 0), FW_ERROR_ARGUMENT);
    assert_eq!(start(|i| i.cwnd = 0), FW_ERROR_ARGUMENT);
    assert_eq!(start(|i| i.local.version = 5), FW_ERROR_ARGUMENT);
    assert_eq!(start(|i| i.algorithm = c"\xff".as_ptr()), FW_ERROR_ARGUMENT);
    assert_eq!(start(|i| i.algorithm = c"reno".as_ptr()), FW_OK);
    assert_eq!(rig.sent(), ["hello", "created reno"]);
}

#[test]
fn calls_out_of_order_are_state_errors() {
    let rig = Rig::new();
    let (dp, mut flow) = (rig.datapath, 0);
    let start = || {
        let mut flow = 0;
        unsafe { fw_flow_start(dp, &info(), null_mut(), &raw mut flow) }
    };
    assert_eq!(start(), FW_ERROR_STATE);
    assert_eq!(unsafe { fw_datapath_service(dp, 0) }, FW_ERROR_STATE);
    let receive = || unsafe { fw_datapath_receive(dp, c"".as_ptr().cast(), 0, 0) };
    assert_eq!(receive(), FW_ERROR_STATE);
    assert_eq!(unsafe { fw_datapath_attach(dp, 2, 0) }, FW_ERROR_ARGUMENT);
    assert_eq!(unsafe { fw_datapath_attach(dp, 0, 0) }, FW_OK);
    assert_eq!(unsafe { fw_datapath_attach(dp, 0, 0) }, FW_ERROR_STATE);
    assert_eq!(
        unsafe { fw_datapath_connect(dp, 0, c"/x".as_ptr(), 0) },
        FW_ERROR_STATE
    );
    assert_eq!(unsafe { fw_datapath_service(dp, 0) }, FW_OK);
    assert_eq!(receive(), FW_OK);
    assert_eq!(
        unsafe { fw_flow_start(dp, &info(), null_mut(), &raw mut flow) },
        FW_OK
    );
}

#[test]
fn flows_beyond_the_bound_are_refused_until_one_ends() {
    let recorder = Box::into_raw(Box::<Recorder>::default());
    let mut options = options(recorder);
    options.max_flows = 2;
    let mut datapath = null_mut();
    assert_eq!(
        unsafe { fw_datapath_new(&options, &raw mut datapath) },
        FW_OK
    );
    let rig = Rig { datapath, recorder };
    assert_eq!(unsafe { fw_datapath_attach(datapath, 0, 0) }, FW_OK);
    let (first, _) = (rig.start(recorder), rig.start(recorder));
    let mut flow = 7;
    let more = || unsafe { fw_flow_start(datapath, &info(), null_mut(), &raw mut flow) };
    assert_eq!({ more }(), FW_ERROR_FULL);
    assert_eq!(flow, 7);
    assert_eq!(unsafe { fw_flow_close(datapath, first) }, FW_OK);
    rig.start(recorder);
}

#[test]
fn a_flows_segments_may_change_their_size() {
    let rig = Rig::attached();
    let flow = rig.start(rig.recorder);
    rig.sent();
    let set = |flow, mss| unsafe { fw_flow_set_mss(rig.datapath, flow, mss) };
    assert_eq!(set(flow, 1_200), FW_OK);
    assert_eq!(set(flow, 0), FW_ERROR_ARGUMENT);
    assert_eq!(unsafe { fw_datapath_service(rig.datapath, 1) }, FW_OK);
    assert_eq!(rig.sent(), ["mss 1200"]);
    assert_eq!(unsafe { fw_flow_close(rig.datapath, flow) }, FW_OK);
    assert_eq!(set(flow, 1_200), FW_ERROR_UNKNOWN_FLOW);
}

#[test]
fn structures_of_other_versions_are_understood_or_refused() {
    #[repr(C)]
    struct NewerSignals {
        known: fw_signals,
        later: u64,
    }
    let rig = Rig::attached();
    let flow = rig.start(rig.recorder);
    let call = |size: usize, later: u64| {
        let mut known = ack(1000);
        known.size = size;
        let newer = NewerSignals { known, later };
        unsafe { fw_flow_ack(rig.datapath, flow, (&raw const newer).cast()) }
    };
    assert_eq!(call(size_of::<NewerSignals>(), 0), FW_OK);
    assert_eq!(call(size_of::<NewerSignals>(), 1), FW_ERROR_SIZE);
    assert_eq!(call(size_of::<fw_signals>(), 1), FW_OK);
    // Callers of the first version do not know `app_limited` and `undo`.
    let first = offset_of!(fw_signals, app_limited);
    assert_eq!(call(first, 0), FW_OK);
    for size in [0, 8, first - 1, 4097, usize::MAX] {
        assert_eq!(call(size, 0), FW_ERROR_SIZE, "{size}");
    }

    #[repr(C)]
    struct NewerState {
        known: fw_flow_state,
        later: u64,
    }
    let mut newer: NewerState = unsafe { zeroed() };
    newer.known.size = size_of::<NewerState>();
    newer.later = 9;
    let out = (&raw mut newer).cast();
    assert_eq!(unsafe { fw_flow_status(rig.datapath, flow, out) }, FW_OK);
    assert_eq!(
        (newer.known.size, newer.later),
        (size_of::<NewerState>(), 0)
    );
    assert!(newer.known.cwnd > 0);
    // Callers of the first version do not know `delivery_rate` and what follows it.
    newer.known.size = offset_of!(fw_flow_state, delivery_rate);
    newer.known.delivery_rate = 7;
    assert_eq!(unsafe { fw_flow_status(rig.datapath, flow, out) }, FW_OK);
    assert_eq!(newer.known.delivery_rate, 7, "not touched");
}

#[test]
fn the_application_learns_the_delivery_rate_and_what_it_says() {
    let rig = Rig::attached();
    let mut one = Recorder::default();
    let flow = rig.start(&raw mut one);
    let state = rig.state(flow);
    assert_eq!((state.delivery_rate, state.confidence), (0, 0));
    for at in 0..20 {
        let mut signals = ack(1_000 * (at + 1));
        signals.rate_incoming = 1_000_000 + at;
        // The last four find the application with less to send than the path takes.
        signals.app_limited = u64::from(at >= 16);
        let code = unsafe { fw_flow_ack(rig.datapath, flow, &raw const signals) };
        assert_eq!(code, FW_OK);
    }
    let state = rig.state(flow);
    assert_eq!(state.delivery_rate, 1_000_019);
    assert_eq!((state.app_limited, state.confidence), (1, 12));
}

#[test]
fn addresses_of_both_families_are_read_from_sockaddr() {
    let mut out = fw_address::default();
    let mut v4: libc::sockaddr_in = unsafe { zeroed() };
    v4.sin_family = libc::AF_INET as libc::sa_family_t;
    v4.sin_port = 443_u16.to_be();
    v4.sin_addr.s_addr = u32::from_ne_bytes([192, 0, 2, 1]);
    let read = |bytes: *const c_void, len: usize, out: &mut fw_address| unsafe {
        fw_address_from_sockaddr(bytes, len, out)
    };
    let bytes = (&raw const v4).cast();
    assert_eq!(read(bytes, size_of_val(&v4), &mut out), FW_OK);
    assert_eq!(
        (out.version, out.port, &out.ip[..4]),
        (4, 443, &[192, 0, 2, 1][..])
    );

    let mut v6: libc::sockaddr_in6 = unsafe { zeroed() };
    v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    v6.sin6_port = 53_u16.to_be();
    v6.sin6_addr.s6_addr[15] = 1;
    let bytes = (&raw const v6).cast();
    assert_eq!(read(bytes, size_of_val(&v6), &mut out), FW_OK);
    assert_eq!((out.version, out.port, out.ip[15]), (6, 53, 1));
    assert_eq!(
        read(bytes, size_of_val(&v6) - 1, &mut out),
        FW_ERROR_ARGUMENT
    );
    v6.sin6_family = libc::AF_UNIX as libc::sa_family_t;
    assert_eq!(
        read((&raw const v6).cast(), size_of_val(&v6), &mut out),
        FW_ERROR_ARGUMENT
    );
}

#[test]
fn every_code_has_a_meaning_of_its_own() {
    let text = |code| {
        unsafe { CStr::from_ptr(fw_strerror(code)) }
            .to_str()
            .unwrap()
            .to_owned()
    };
    let mut meanings: Vec<_> = (-10..=0).map(text).collect();
    assert!(!meanings.contains(&text(1)));
    meanings.sort();
    meanings.dedup();
    assert_eq!(meanings.len(), 11);
    assert_eq!(
        [text(1), text(-11), text(c_int::MIN)],
        [text(7), text(7), text(7)]
    );
    assert!(fw_version() > 0);
}
