//! The program that observes, held to `fairwater_bundle`: the same boundaries, and the same counters at each.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::{Cell, RefCell};
use std::env;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use fairwater_bundle::{
    BoundaryKey, BundleSecret, ChannelConfig, EpochSize, Prefix, ReceiveBundleConfig,
    ReceiveCounters, Segmentation, expand,
};
use fairwater_bundle_tun::Observer;
use fairwater_wire::{Checksum, EcnCodepoint, Packet, Seq, TcpFlags, TcpOption, compose};
use libbpf_rs::libbpf_sys;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Port of messages between the boxes.
const MESSAGES: u16 = 6790;

/// Word of `gso_size` in `struct __sk_buff`.
const GSO_SIZE: usize = 44;

/// Runs the program on a frame, of segments of so many bytes if they are not 0.
#[expect(unsafe_code, reason = "libbpf takes pointers")]
fn run(program: BorrowedFd<'_>, frame: &[u8], segment: u16) -> i32 {
    // `struct __sk_buff` of linux/bpf.h, in words of 32 bits.
    let mut context = [0_u32; 48];
    context[GSO_SIZE] = segment.into();
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        ctx_in: (&raw mut context).cast(),
        ctx_size_in: size_of_val(&context) as u32,
        repeat: 1,
        ..Default::default()
    };
    // SAFETY: packet and context outlive the call, and their lengths are told.
    let error =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    assert_eq!(error, 0, "{}", std::io::Error::last_os_error());
    options.retval.cast_signed()
}

fn config() -> ReceiveBundleConfig {
    let prefix = |text: &str, length| Prefix::new(text.parse().unwrap(), length).unwrap();
    ReceiveBundleConfig {
        channel: ChannelConfig {
            bundle: 1,
            secret: BundleSecret([7; 32]),
            instance: 1,
        },
        sources: vec![prefix("10.1.0.0", 16), prefix("fd01::", 32)],
        destinations: vec![prefix("10.2.0.0", 16), prefix("fd02::", 32)],
    }
}

/// One packet; what it is follows from these.
#[derive(Debug, Clone)]
struct Sample {
    is_v6: bool,
    is_udp: bool,
    is_elsewhere: bool,
    is_marked: bool,
    id: u16,
    seq: u32,
    ports: (u16, u16),
    /// Value of the timestamps, if there are any, and whether they stand as Linux puts them.
    timestamps: Option<(u32, bool)>,
    payload: Vec<u8>,
    segment: u16,
}

fn samples() -> impl Strategy<Value = Sample> {
    let flags = any::<[bool; 4]>();
    let port = prop_oneof![3 => any::<u16>(), 1 => Just(MESSAGES)];
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(any::<u8>(), 0..2500)
    ];
    let numbers = (any::<u16>(), any::<u32>(), any::<u16>(), port);
    let stamps = prop::option::of((any::<u32>(), any::<bool>()));
    let segment = prop_oneof![Just(0_u16), 20_u16..600];
    (flags, numbers, stamps, payload, segment).prop_map(
        |(flags, (id, seq, from, to), timestamps, payload, segment)| Sample {
            is_v6: flags[0],
            is_udp: flags[1],
            is_elsewhere: flags[2] && id % 4 == 0,
            is_marked: flags[3],
            id: if id % 8 == 0 { 0 } else { id },
            seq,
            ports: (from, to),
            timestamps,
            payload,
            segment,
        },
    )
}

impl Sample {
    fn packet(&self) -> Vec<u8> {
        let (from, to) = match (self.is_v6, self.is_elsewhere) {
            (false, false) => ("10.1.2.3", "10.2.3.4"),
            (false, true) => ("10.1.2.3", "10.3.3.4"),
            (true, false) => ("fd01::5", "fd02::6"),
            (true, true) => ("fd01::5", "fd03::6"),
        };
        let ip = compose::Ip {
            ecn: if self.is_marked {
                EcnCodepoint::Ce
            } else {
                EcnCodepoint::Ect0
            },
            id: self.id,
            ..compose::Ip::new(from.parse::<IpAddr>().unwrap(), to.parse().unwrap())
        };
        let mut bytes = vec![0; self.payload.len() + 120];
        let written = if self.is_udp {
            compose::udp(
                &ip,
                self.ports,
                &self.payload,
                Checksum::Complete,
                &mut bytes,
            )
        } else {
            let tcp = compose::Tcp {
                source_port: self.ports.0,
                destination_port: self.ports.1,
                seq: Seq(self.seq),
                ack: Seq(self.seq.wrapping_mul(7)),
                flags: TcpFlags::ACK,
                window: 100,
                urgent: 0,
            };
            let options = match self.timestamps {
                None => vec![],
                Some((value, true)) => vec![TcpOption::Timestamps { value, echo: 3 }],
                Some((value, false)) => vec![
                    TcpOption::Mss(1460),
                    TcpOption::Timestamps { value, echo: 3 },
                ],
            };
            compose::tcp(
                &ip,
                &tcp,
                &options,
                &self.payload,
                Checksum::Complete,
                &mut bytes,
            )
        };
        bytes.truncate(written.unwrap());
        bytes
    }

    fn segmentation(&self) -> Option<Segmentation> {
        (self.segment > 0).then_some(Segmentation {
            payload_bytes: self.segment,
            fixed_id: self.id == 0,
        })
    }
}

#[test]
fn the_program_counts_and_hashes_as_the_receivebox_does() {
    let observer = match Observer::load(&[config()], MESSAGES) {
        Ok(observer) => observer,
        Err(error) => {
            let required = env::var_os("FAIRWATER_REQUIRE_PRIVILEGED");
            assert!(required.is_none_or(|value| value != "1"), "{error}");
            println!("skipped: {error}");
            return;
        }
    };
    observer.set_epoch(0, EpochSize::from_exponent(0).unwrap());
    let key: BoundaryKey = config().channel.secret.boundary_key();
    let boundaries = RefCell::new(observer.boundaries().unwrap());
    let mut runner = TestRunner::new(Config {
        cases: 2000,
        ..Config::default()
    });
    let counted = RefCell::new(ReceiveCounters::default());
    let seen = Cell::new(0);
    let outcome = runner.run(&samples(), |sample| {
        let packet = sample.packet();
        let ether_type: [u8; 2] = if sample.is_v6 { [0x86, 0xdd] } else { [8, 0] };
        let frame = [&[2; 12][..], &ether_type, &packet].concat();
        let verdict = run(observer.program.as_fd(), &frame, sample.segment);
        prop_assert_eq!(verdict, -1);
        let mut told = Vec::new();
        let mut expected = counted.borrow_mut();
        let parsed = Packet::parse_ip(&packet).unwrap();
        let has_port = [sample.ports.0, sample.ports.1].contains(&MESSAGES);
        let is_message = sample.is_udp && packet.len() <= 160 && has_port;
        if !sample.is_elsewhere && !is_message {
            expand(&parsed, sample.segmentation(), &mut |segment| {
                expected.bytes += u64::from(segment.ip_bytes);
                expected.packets += 1;
                if sample.is_marked {
                    expected.ce_bytes += u64::from(segment.ip_bytes);
                    expected.ce_packets += 1;
                }
                told.push((key.hash(&segment.identity.unwrap()), *expected));
            });
        }
        let found: Vec<_> = boundaries.borrow_mut().take();
        let found: Vec<_> = found.iter().map(|it| (it.boundary, it.counters)).collect();
        seen.set(seen.get() + found.len());
        prop_assert_eq!(found, told);
        prop_assert_eq!(observer.counters(0), *expected);
        Ok(())
    });
    outcome.unwrap();
    assert!(seen.get() > 2000, "{seen:?}");
    assert_eq!(observer.lost(), 0);
}
