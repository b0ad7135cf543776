//! What controls a flow, and what the transport hears of it: the fallback, a plane's program,
//! and one control in place of both.

use core::mem::offset_of;
use core::ptr::null_mut;

use fairwater::fw_error::*;
use fairwater::*;
use fairwater_lang::{binary, compile};
use fairwater_proto::{Dialect, FlowId, ToDatapath, ToPlane, Update, Updates, Welcome};

use super::{MSS, Recorder, Rig, options};

#[test]
fn without_a_plane_the_fallback_grows_the_window() {
    let rig = Rig::attached();
    let mut recorder = Recorder::default();
    let flow = rig.start(&raw mut recorder);
    for now_us in 1..=20 {
        rig.ack(flow, now_us * 1000);
    }
    let cwnds = &recorder.cwnds;
    assert!(
        cwnds.is_sorted() && cwnds.last() > Some(&(10 * u64::from(MSS))),
        "{cwnds:?}"
    );
    let state = rig.state(flow);
    assert_eq!(Some(&state.cwnd), cwnds.last());
    assert_eq!(
        state.controller,
        fw_controller::FW_CONTROLLER_WAITING as u32
    );
    assert_eq!(rig.sent(), ["hello", "created "]);
}

/// The windows that the transport is given at three ACKs of one segment each under that fallback.
fn windows_under(fallback: fw_fallback) -> Vec<u64> {
    let rig = Rig::with(|options| options.fallback = fallback as u32).attach();
    let mut recorder = Recorder::default();
    let flow = rig.start(&raw mut recorder);
    for now_us in 1..=3 {
        rig.ack(flow, now_us * 1000);
    }
    assert_eq!(Some(&rig.state(flow).cwnd), recorder.cwnds.last());
    recorder.cwnds
}

#[test]
fn the_fallback_is_what_the_transport_chooses() {
    let (initial, mss) = (10 * u64::from(MSS), u64::from(MSS));
    for fallback in [
        fw_fallback::FW_FALLBACK_CUBIC,
        fw_fallback::FW_FALLBACK_RENO,
    ] {
        let slow_start: Vec<_> = (1..=3).map(|n| initial + n * mss).collect();
        assert_eq!(windows_under(fallback), slow_start);
    }
    assert_eq!(windows_under(fw_fallback::FW_FALLBACK_RELEASE), [u64::MAX]);
    // A number of a later version's.
    let mut recorder = Recorder::default();
    let mut options = options(&raw mut recorder);
    options.fallback = 3;
    let mut datapath = null_mut();
    let made = unsafe { fw_datapath_new(&raw const options, &raw mut datapath) };
    assert_eq!(made, FW_ERROR_ARGUMENT);
    // A transport of an earlier version does not know the member.
    options.size = offset_of!(fw_options, fallback);
    let made = unsafe { fw_datapath_new(&raw const options, &raw mut datapath) };
    assert_eq!(made, FW_OK);
    assert_eq!(unsafe { fw_datapath_free(datapath) }, FW_OK);
}

#[test]
fn a_program_controls_the_flow_and_reports() {
    let source = "(def (Report (volatile acked 0)) (window 5000))
        (when true
          (:= Report.acked (+ Report.acked Ack.bytes_acked))
          (:= Cwnd window)
          (:= Rate 125000)
          (when (> Report.acked 2500) (report)))";
    let program = binary::encode(&compile("test.ccp", source).unwrap().program);
    let rig = Rig::attached();
    let mut recorder = Recorder::default();
    let flow = rig.start(&raw mut recorder);
    let id = first_flow(&rig.recorder().packets);
    assert_eq!(rig.sent(), ["hello", "created "]);
    let updates = [Update {
        variable: 1,
        value: 7000,
    }];
    rig.say(
        &[
            ToDatapath::Welcome(Welcome {
                instance: 1,
                alive_us: 1_000_000,
            }),
            ToDatapath::Install {
                idle_restart: true,
                program: 3,
                body: &program,
            },
            ToDatapath::Command {
                flow: id,
                switch: Some(3),
                cwnd: None,
                rate: None,
                updates: Updates::from(&updates[..]),
                withdraw: false,
            },
        ],
        1000,
    );
    for now_us in [2000, 3000, 4000] {
        rig.ack(flow, now_us);
    }
    assert_eq!(
        (&recorder.cwnds, &recorder.rates),
        (&vec![7000], &vec![125_000])
    );
    assert_eq!(rig.sent(), ["reported [3000] at 7000"]);
    let state = rig.state(flow);
    assert_eq!(
        state.controller,
        fw_controller::FW_CONTROLLER_PROGRAM as u32
    );
    assert_eq!((state.cwnd, state.rate, state.program), (7000, 125_000, 3));
    let counts = rig.statistics();
    assert_eq!((counts.flows, counts.programs, counts.refused), (1, 1, 0));

    assert_eq!(unsafe { fw_flow_close(rig.datapath, flow) }, FW_OK);
    assert_eq!(rig.sent(), ["closed"]);
}

/// A flow of the transport under a program that sets a window of 100 kB and a rate of 2 MB/s.
fn controlled_flow(rig: &Rig, recorder: &mut Recorder) -> fw_flow {
    let source = "(def (Report (x 0))) (when true (:= Cwnd 100000) (:= Rate 2000000))";
    let program = binary::encode(&compile("test.ccp", source).unwrap().program);
    let flow = rig.start(recorder);
    let id = first_flow(&rig.recorder().packets);
    let welcome = Welcome {
        instance: 1,
        alive_us: 1_000_000,
    };
    let messages = [
        ToDatapath::Welcome(welcome),
        ToDatapath::Install {
            idle_restart: true,
            program: 3,
            body: &program,
        },
        ToDatapath::Command {
            flow: id,
            switch: Some(3),
            cwnd: None,
            rate: None,
            updates: Updates::NONE,
            withdraw: false,
        },
    ];
    rig.say(&messages, 1000);
    rig.ack(flow, 2000);
    flow
}

#[test]
fn a_transport_with_one_control_gets_it_in_place_of_both() {
    // 2 MB/s × 10 ms.
    let rig = Rig::with(|options| options.callbacks.set_rate = None).attach();
    let mut recorder = Recorder::default();
    let flow = controlled_flow(&rig, &mut recorder);
    assert_eq!(recorder.cwnds, [20_000]);
    assert_eq!((rig.state(flow).cwnd, rig.state(flow).rate), (20_000, 0));

    // 100 kB / 10 ms is more than the program's rate.
    let rig = Rig::with(|options| options.callbacks.set_cwnd = None).attach();
    let mut recorder = Recorder::default();
    controlled_flow(&rig, &mut recorder);
    assert_eq!((recorder.cwnds, recorder.rates), (vec![], vec![2_000_000]));
}

#[test]
fn what_a_plane_says_wrongly_is_counted_and_changes_nothing() {
    let rig = Rig::attached();
    let mut recorder = Recorder::default();
    let flow = rig.start(&raw mut recorder);
    let before = rig.state(flow);
    for junk in [&b""[..], b"F", b"FW", b"not a message", &[0xff; 200]] {
        let (bytes, len) = (junk.as_ptr().cast(), junk.len());
        assert_eq!(
            unsafe { fw_datapath_receive(rig.datapath, bytes, len, 1) },
            FW_OK
        );
    }
    assert_eq!(rig.statistics().refused, 4);
    let after = rig.state(flow);
    assert_eq!(
        (before.cwnd, before.controller),
        (after.cwnd, after.controller)
    );
}

fn first_flow(packets: &[Vec<u8>]) -> FlowId {
    let mut messages = packets
        .iter()
        .flat_map(|packet| Dialect::Own.to_plane(packet));
    messages
        .find_map(|message| match message.unwrap() {
            ToPlane::Created { flow, .. } => Some(flow),
            _ => None,
        })
        .unwrap()
}
