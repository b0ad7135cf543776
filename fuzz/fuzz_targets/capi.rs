//! Whatever sequence of calls a C program makes, and whatever the plane says in between, the
//! library neither crashes nor leaks nor mistakes one flow for another.
//!
//! The first byte chooses the interface; then each call is one byte and its arguments. Pointers are
//! always valid: what they point to is not.

#![no_main]

use std::ffi::{c_char, c_int, c_void};
use std::mem::{size_of, zeroed};
use std::ptr::{null, null_mut};
use std::sync::LazyLock;

use fairwater::fw_error::*;
use fairwater::*;
use fairwater_fuzz::Input;
use fairwater_lang::{MAX_RATE, binary, compile};
use fairwater_proto::{Dialect, FlowId, ToDatapath, ToPlane, Update, Updates, Welcome};
use libfuzzer_sys::fuzz_target;

static PROGRAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let sources = [
        "(def (Report (volatile acked 0)) (window 5000)) (when true
            (:= Report.acked (+ Report.acked Ack.bytes_acked)) (:= Cwnd window) (report))",
        "(def (Report (n 0)) (volatile c 1)) (when Flow.was_timeout (:= Cwnd 0))
            (when (> Micros 100) (:= Rate (* c Ack.bytes_acked)) (:= Report.n Rate) (report) (reset))",
    ];
    let programs = sources.map(|source| compile("fuzz.ccp", source).unwrap().program);
    programs.iter().map(binary::encode).collect()
});

/// Records what callbacks are called with.
#[derive(Default)]
struct Recorder {
    packets: Vec<Vec<u8>>,
}

unsafe extern "C" fn set_cwnd(recorder: *mut c_void, bytes: u64) {
    assert!(!recorder.is_null() && bytes > 0);
}

unsafe extern "C" fn set_rate(recorder: *mut c_void, bytes_per_second: u64) {
    assert!(!recorder.is_null() && bytes_per_second <= MAX_RATE);
}

unsafe extern "C" fn send(recorder: *mut c_void, packet: *const c_void, len: usize) -> c_int {
    let packet = unsafe { std::slice::from_raw_parts(packet.cast::<u8>(), len) };
    unsafe { &mut *recorder.cast::<Recorder>() }
        .packets
        .push(packet.to_vec());
    c_int::from(len % 7 == 0)
}

unsafe extern "C" fn log(_: *mut c_void, _: fw_log_level, line: *const c_char) {
    assert!(!line.is_null());
}

fn checked(code: fw_error) -> fw_error {
    assert_ne!(code, FW_ERROR_INTERNAL);
    code
}

fn own(input: &mut Input<'_>) {
    let mut recorder = Recorder::default();
    let pointer: *mut c_void = (&raw mut recorder).cast();
    let mut options: fw_options = unsafe { zeroed() };
    options.size = size_of::<fw_options>();
    options.callbacks = fw_callbacks {
        set_cwnd: Some(set_cwnd),
        set_rate: Some(set_rate),
        send: Some(send),
        log: Some(log),
    };
    options.user_data = pointer;
    options.max_flows = 4;
    options.max_programs = 2;
    options.instance = 1;
    let mut dp = null_mut();
    assert_eq!(unsafe { fw_datapath_new(&options, &raw mut dp) }, FW_OK);

    let mut values: Vec<fw_flow> = vec![0];
    let mut names = vec![FlowId {
        slot: 0,
        generation: 0,
    }];
    let mut now_us = 0_u64;
    while !input.0.is_empty() {
        let flow = values[usize::from(input.u8()) % values.len()];
        now_us = now_us.wrapping_add(input.number());
        let code = match input.u8() % 12 {
            0 => unsafe { fw_datapath_attach(dp, u32::from(input.u8()), now_us) },
            1 => {
                let mut new = 0;
                let code = start(dp, input, pointer, now_us, &mut new);
                if code == FW_OK {
                    assert!(new != 0 && !values.contains(&new));
                    values.push(new);
                }
                code
            }
            2 | 3 => {
                // A structure of any size, with as many bytes behind it as it says.
                let mut words = vec![0_u64; 20];
                words[0] = match input.u8() {
                    0..200 => size_of::<fw_signals>() as u64,
                    size => u64::from(size - 200) * 8,
                };
                words[1..16].fill_with(|| input.number());
                words[6] = now_us;
                words.resize((words[0] / 8).max(1) as usize, 1);
                unsafe { fw_flow_ack(dp, flow, words.as_ptr().cast()) }
            }
            4 => {
                let packet = input.bytes();
                unsafe { fw_datapath_receive(dp, packet.as_ptr().cast(), packet.len(), now_us) }
            }
            5 | 6 => {
                let packet = planes_packet(input, &names);
                unsafe { fw_datapath_receive(dp, packet.as_ptr().cast(), packet.len(), now_us) }
            }
            7 => unsafe { fw_flow_close(dp, flow) },
            8 => unsafe { fw_flow_set_controls(dp, flow, input.number(), input.number()) },
            9 => unsafe { fw_datapath_service(dp, now_us) },
            10 => {
                let mut state: fw_flow_state = unsafe { zeroed() };
                state.size = size_of::<fw_flow_state>();
                let code = unsafe { fw_flow_status(dp, flow, &raw mut state) };
                assert!(code != FW_OK || state.cwnd > 0);
                code
            }
            _ => {
                let mut counts: fw_statistics = unsafe { zeroed() };
                counts.size = size_of::<fw_statistics>();
                let code = unsafe { fw_datapath_statistics(dp, &raw mut counts) };
                assert!(counts.flows <= 4);
                code
            }
        };
        checked(code);
        for packet in std::mem::take(&mut recorder.packets) {
            for message in Dialect::Own.to_plane(&packet).flatten() {
                if let ToPlane::Created { flow, .. } = message {
                    names.push(flow);
                }
            }
        }
    }
    assert_eq!(unsafe { fw_datapath_free(dp) }, FW_OK);
}

fn start(
    dp: *mut fw_datapath,
    input: &mut Input<'_>,
    user_data: *mut c_void,
    now_us: u64,
    new: &mut fw_flow,
) -> fw_error {
    let mut info: fw_flow_info = unsafe { zeroed() };
    info.size = size_of::<fw_flow_info>();
    info.mss = input.number() as u32;
    info.cwnd = input.number();
    info.local.version = u16::from(input.u8());
    let mut name = input.bytes();
    name.push(0);
    info.algorithm = name.as_ptr().cast();
    info.now_us = now_us;
    unsafe { fw_flow_start(dp, &info, user_data, new) }
}

/// One well-formed message of a plane, about a flow of `names`.
fn planes_packet(input: &mut Input<'_>, names: &[FlowId]) -> Vec<u8> {
    let mut packet = Vec::new();
    let updates = [Update {
        variable: 1,
        value: input.number(),
    }];
    let number = u32::from(input.u8() % 4);
    let body = &PROGRAMS[usize::from(input.u8()) % PROGRAMS.len()];
    let message = match input.u8() % 4 {
        0 => ToDatapath::Welcome(Welcome {
            instance: number.into(),
            alive_us: 1000,
        }),
        1 => ToDatapath::Install {
            idle_restart: true,
            program: number,
            body,
        },
        2 => ToDatapath::Uninstall { program: number },
        _ => ToDatapath::Command {
            flow: names[usize::from(input.u8()) % names.len()],
            switch: (number > 0).then_some(number),
            cwnd: (number == 2).then_some(updates[0].value),
            rate: (number == 3).then_some(updates[0].value),
            updates: Updates::from(&updates[..]),
            withdraw: input.u8() > 250,
        },
    };
    // What the encoding cannot say is not sent.
    let _ = Dialect::Own.encode_to_datapath(&message, &mut packet);
    packet
}

unsafe extern "C" fn ccp_set(conn: *mut ccp_connection, value: u32) {
    assert!(value > 0 && !unsafe { ccp_get_impl(conn) }.is_null());
}

/// Gives the agent's bytes back to it: a callback that calls the library.
unsafe extern "C" fn ccp_send(dp: *mut ccp_datapath, message: *mut c_char, size: c_int) -> c_int {
    unsafe { ccp_read_msg(dp, message, size) }
}

unsafe extern "C" fn ccp_now() -> u64 {
    0
}

thread_local!(static CLOCK: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

unsafe extern "C" fn ccp_since(then: u64) -> u64 {
    CLOCK.get().wrapping_sub(then)
}

unsafe extern "C" fn ccp_after(us: u64) -> u64 {
    CLOCK.get().wrapping_add(us)
}

fn ccp(input: &mut Input<'_>) {
    const CONNECTIONS: usize = 3;
    CLOCK.set(0);
    let mut connections: [ccp_connection; CONNECTIONS] = unsafe { zeroed() };
    let mut datapath: ccp_datapath = unsafe { zeroed() };
    datapath.set_cwnd = Some(ccp_set);
    datapath.set_rate_abs = Some(ccp_set);
    datapath.send_msg = Some(ccp_send);
    datapath.now = Some(ccp_now);
    datapath.since_usecs = Some(ccp_since);
    datapath.after_usecs = Some(ccp_after);
    datapath.max_connections = CONNECTIONS;
    datapath.max_programs = 2;
    datapath.fto_us = 1000;
    datapath.ccp_active_connections = connections.as_mut_ptr();
    let dp = &raw mut datapath;
    assert_eq!(unsafe { ccp_init(dp, 1) }, 0);
    while !input.0.is_empty() {
        CLOCK.set(CLOCK.get().saturating_add(input.number() >> 8));
        let sid = u16::from(input.u8() % 6);
        let conn = unsafe { ccp_connection_lookup(dp, sid) };
        match input.u8() % 5 {
            0 => {
                let mut info: ccp_datapath_info = unsafe { zeroed() };
                info.init_cwnd = input.number() as u32;
                info.mss = input.number() as u32;
                info.cong_alg
                    .fill_with(|| input.u8().cast_signed() as c_char);
                unsafe { ccp_connection_start(dp, dp.cast(), &raw mut info) };
            }
            1 => unsafe { ccp_connection_free(dp, sid) },
            2 => {
                let mut message = input.bytes();
                let size = message.len() as c_int;
                unsafe { ccp_read_msg(dp, message.as_mut_ptr().cast(), size) };
            }
            3 => {
                // A message with a header that fits it: more of these get somewhere.
                let mut message = vec![input.u8() % 6, 0, 0, 0, sid as u8, 0, 0, 0];
                message.extend(input.bytes());
                let size = message.len() as u16;
                message[2..4].copy_from_slice(&size.to_le_bytes());
                unsafe { ccp_read_msg(dp, message.as_mut_ptr().cast(), c_int::from(size)) };
            }
            _ if conn.is_null() => assert_eq!(
                unsafe { ccp_invoke(null::<ccp_connection>().cast_mut()) },
                -12
            ),
            _ => {
                let prims = unsafe { &mut (*conn).prims };
                prims.bytes_acked = input.number() as u32;
                prims.lost_pkts_sample = u32::from(input.u8() % 3);
                prims.was_timeout = input.u8() > 250;
                prims.rtt_sample_us = input.number();
                prims.snd_cwnd = input.number() as u32;
                prims.snd_rate = input.number();
                assert_eq!(unsafe { ccp_invoke(conn) }, 0);
            }
        }
    }
    unsafe { ccp_free(dp) };
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    if input.u8() % 2 == 0 {
        own(&mut input);
    } else {
        ccp(&mut input);
    }
});
