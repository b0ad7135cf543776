//! The boxes of a bundle take any messages and packets at any times: nothing panics, every packet leaves or is told
//! dropped, and no more waits than may.

#![no_main]

use std::net::{IpAddr, SocketAddr};

use fairwater_bundle::message::{Channel, Message};
use fairwater_bundle::{
    Boundary, BoxRole, BundlePacket, BundleSecret, ChannelConfig, CrossTraffic, EpochSize,
    Feedback, Prefix, ReceiveBundleConfig, ReceiveCounters, Receivebox, Segment, Segmentation,
    SendBundleConfig, Sendbox, datapath_config, expand,
};
use fairwater_datapath::{Datapath, PeerId};
use fairwater_fuzz::Input;
use fairwater_lang::{binary, compile};
use fairwater_net::Time;
use fairwater_proto::{Dialect, ToDatapath, ToPlane, Updates, Welcome};
use fairwater_wire::{Checksum, Packet, compose};
use libfuzzer_sys::fuzz_target;

const PROGRAM: &str = "(def (Report (volatile lost 0)) (w 20000))
    (when (> Ack.lost_pkts_sample 0) (:= w (max 2000 (/ w 2))) (fallthrough))
    (when true (:= w (+ w Ack.bytes_acked)) (:= Cwnd w) (:= Rate Flow.rate_incoming))";

const MAX_QUEUED: u64 = 100_000;
const INSTANCE: u64 = 5;

struct Bytes {
    bytes: Vec<u8>,
    segmentation: Option<Segmentation>,
}

impl fairwater_net::Packet for Bytes {
    fn size_bytes(&self) -> u32 {
        self.bytes.len() as u32
    }
}

impl BundlePacket for Bytes {
    fn for_each_segment(&self, each: &mut dyn FnMut(&Segment)) {
        if let Ok(packet) = Packet::parse_ip(&self.bytes) {
            expand(&packet, self.segmentation, each);
        }
    }
}

fn channel(instance: u64) -> ChannelConfig {
    ChannelConfig {
        bundle: 1,
        secret: BundleSecret([1; 32]),
        instance,
    }
}

fn prefix() -> Vec<Prefix> {
    let any = Prefix::new(IpAddr::from([0, 0, 0, 0]), 0);
    any.into_iter().collect()
}

fn address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 9], 4_000))
}

fn receivebox(instance: u64) -> Receivebox {
    Receivebox::new(&[ReceiveBundleConfig {
        channel: channel(instance),
        sources: prefix(),
        destinations: Vec::new(),
    }])
    .unwrap()
}

fn tell(datapath: &mut Datapath, peer: PeerId, message: &ToDatapath<'_>) {
    let mut packet = Vec::new();
    Dialect::Own
        .encode_to_datapath(message, &mut packet)
        .unwrap();
    datapath.on_message(peer, &packet, 0);
}

fn sendbox() -> (Sendbox<Bytes>, PeerId) {
    let mut datapath = Datapath::new(datapath_config());
    let peer = datapath.add_peer(Dialect::Own, 0);
    let welcome = Welcome {
        instance: 1,
        alive_us: 0,
    };
    tell(&mut datapath, peer, &ToDatapath::Welcome(welcome));
    let body = binary::encode(&compile("fuzz", PROGRAM).unwrap().program);
    let install = ToDatapath::Install {
        idle_restart: true,
        program: 1,
        body: &body,
    };
    tell(&mut datapath, peer, &install);
    let config = SendBundleConfig::new(channel(INSTANCE), address(), prefix());
    let sendbox = Sendbox::new(&[config], MAX_QUEUED, datapath, peer).unwrap();
    (sendbox, peer)
}

/// The plane gives new flows their program.
fn serve(sendbox: &mut Sendbox<Bytes>, peer: PeerId) {
    let mut begun = Vec::new();
    while let Some((_, packet)) = sendbox.datapath_mut().poll_transmit(1400) {
        for message in Dialect::Own.to_plane(packet) {
            if let Ok(ToPlane::Created { flow, .. } | ToPlane::Resumed { flow, .. }) = message {
                begun.push(flow);
            }
        }
    }
    for flow in begun {
        let command = ToDatapath::Command {
            flow,
            switch: Some(1),
            cwnd: None,
            rate: None,
            updates: Updates::NONE,
            withdraw: false,
        };
        tell(sendbox.datapath_mut(), peer, &command);
    }
}

fn packet(input: &mut Input<'_>) -> Bytes {
    let segmentation = input.option().map(|size| Segmentation {
        payload_bytes: size as u16,
        fixed_id: size % 2 == 0,
    });
    let mut payload = vec![0; usize::from(input.u8()) * 8];
    payload
        .iter_mut()
        .take(8)
        .for_each(|byte| *byte = input.u8());
    let ip = compose::Ip::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut bytes = vec![0; payload.len() + 28];
    let written = compose::udp(&ip, (1, 2), &payload, Checksum::Partial, &mut bytes);
    assert_eq!(written, Ok(bytes.len()));
    Bytes {
        bytes,
        segmentation,
    }
}

fn feedback(input: &mut Input<'_>) -> Feedback {
    Feedback {
        boundary: Boundary(input.number()),
        counters: ReceiveCounters {
            bytes: input.number(),
            packets: input.number(),
            ce_bytes: input.number(),
            ce_packets: input.number(),
        },
        received_at: Time::from_nanos(input.number()),
        epoch: EpochSize::from_exponent(input.u8() % 21).unwrap(),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (mut sendbox, peer) = sendbox();
    let mut receiving = receivebox(6);
    let mut hostile = Channel::new(&channel(7), BoxRole::Receivebox, None);
    let mut now = Time::from_millis(1);
    let (mut entered, mut left, mut dropped) = (0_u64, 0_u64, 0_u64);
    let mut under_way: Vec<Bytes> = Vec::new();
    while !input.0.is_empty() {
        match input.u8() % 10 {
            0 => {
                let _ = sendbox.on_message(now, address(), &input.bytes());
            }
            1 => {
                let _ = receiving.on_message(now, address(), &input.bytes());
            }
            2 => {
                let message = Message::Feedback(feedback(&mut input));
                let bytes = hostile.seal_to(INSTANCE, &message);
                let _ = sendbox.on_message(now, address(), &bytes);
            }
            3 | 4 => {
                let packet = packet(&mut input);
                entered += 1;
                let destination = IpAddr::from([10, 0, 0, 2]);
                assert!(sendbox.enqueue(now, destination, packet).is_ok());
                assert!(sendbox.queued_bytes() <= MAX_QUEUED);
            }
            5 => {
                // Lost, received once, or twice.
                let copies = input.u8() % 3;
                for packet in under_way.drain(..) {
                    for _ in 0..copies {
                        let parsed = Packet::parse_ip(&packet.bytes).unwrap();
                        receiving.on_packet(now, &parsed, packet.segmentation);
                    }
                }
            }
            6 => {
                let keeps = input.u8() % 2 == 0;
                while let Some(message) = receiving.poll_message() {
                    if keeps {
                        let _ = sendbox.on_message(now, address(), &message.bytes);
                    }
                }
                while let Some(message) = sendbox.poll_message() {
                    if keeps {
                        let _ = receiving.on_message(now, address(), &message.bytes);
                    }
                }
            }
            7 => receiving = receivebox(8 + u64::from(input.u8())),
            8 => {
                let verdict = [CrossTraffic::Inelastic, CrossTraffic::Elastic];
                sendbox.set_cross_traffic(1, verdict[usize::from(input.u8() % 2)]);
            }
            _ => now = now.plus_nanos(input.number().saturating_mul(100_000)),
        }
        sendbox.on_timer(now);
        serve(&mut sendbox, peer);
        while let Some(packet) = sendbox.poll(now) {
            left += 1;
            under_way.push(packet);
        }
        dropped += sendbox.drain_dropped().count() as u64;
        while let Some(change) = sendbox.poll_change() {
            assert!(!change.to_string().is_empty());
        }
    }
    // What waits leaves in the end: the least rate is 1 Mbit/s, and no hold lasts without feedback.
    for _ in 0..2_000 {
        now = now.plus_nanos(10_000_000);
        sendbox.on_timer(now);
        while sendbox.poll(now).is_some() {
            left += 1;
        }
    }
    dropped += sendbox.drain_dropped().count() as u64;
    assert_eq!((entered, sendbox.queued_bytes()), (left + dropped, 0));
});
