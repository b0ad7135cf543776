//! `--pcap HOST=FILE`: a host's packets as a capture that Wireshark opens.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use etherparse::{IpNumber, Ipv4Header, TcpHeader, TcpOptionElement};
use fairwater_experiment::Backend;
use fairwater_net::{Ecn, Time};
use fairwater_plane::Plane;
use fairwater_results::WholeFile;
use fairwater_scenario::Scenario;
use fairwater_sim::{Captured, Ecn as Agreed, FlowConfig, NodeId};

use crate::failure::Failure;

/// What to capture, and where it goes.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(super) host: NodeId,
    file: PathBuf,
}

impl Capture {
    /// Parses what to capture at each of several hosts.
    pub(super) fn parse_all(
        texts: &[String],
        scenario: &Scenario,
        backend: Backend,
    ) -> Result<Vec<Self>, Failure> {
        let mut captures: Vec<Self> = Vec::new();
        for text in texts {
            let capture = Self::parse(text, scenario, backend)?;
            for other in &captures {
                let twice = match () {
                    () if other.host == capture.host => "the host",
                    () if other.file == capture.file => "the file",
                    () => continue,
                };
                return Err(Failure::BadInput(format!(
                    "--pcap: {twice} of `{text}` is given twice"
                )));
            }
            captures.push(capture);
        }
        Ok(captures)
    }

    fn parse(text: &str, scenario: &Scenario, backend: Backend) -> Result<Self, Failure> {
        let bad = |message: String| Failure::BadInput(format!("--pcap: {message}"));
        let Some((host, file)) = text.split_once('=').filter(|(_, file)| !file.is_empty()) else {
            return Err(bad(format!("`{text}` is not of the form HOST=FILE")));
        };
        if backend != Backend::Sim {
            return Err(bad("only the simulator writes captures".to_owned()));
        }
        if scenario.len() > 1 {
            return Err(bad(format!(
                "the scenario has {} points, and one can be captured: choose by --set and --seed",
                scenario.len()
            )));
        }
        let hosts = scenario.point(0).hosts;
        match hosts.iter().position(|name| name == host) {
            Some(index) => Ok(Capture {
                host: NodeId(u32::try_from(index).unwrap_or(u32::MAX)),
                file: file.into(),
            }),
            None => Err(bad(format!(
                "there is no host `{host}`; there are {}",
                hosts.join(", ")
            ))),
        }
    }

    /// Begins the file of a run with these flows.
    pub(super) fn begin(&self, flows: &[FlowConfig], plane: &Plane) -> Result<Recorder, Failure> {
        let shown = self.file.display().to_string();
        let begun = WholeFile::create(&self.file).and_then(|file| {
            let mut out = BufWriter::new(file);
            out.write_all(&file_header())?;
            Ok(out)
        });
        Ok(Recorder {
            out: begun.map_err(Failure::io(shown.clone()))?,
            shown,
            ends: flows.iter().map(|flow| Ends::of(flow, plane)).collect(),
            failed: None,
        })
    }
}

/// Bytes of each packet that are kept: headers, for there is nothing else in a simulation.
const SNAP_BYTES: u32 = 65_535;

/// The file's header: nanoseconds, and raw IP packets (draft-ietf-opsawg-pcap §4, LINKTYPE_RAW).
fn file_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[0..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    header[4..6].copy_from_slice(&2u16.to_le_bytes());
    header[6..8].copy_from_slice(&4u16.to_le_bytes());
    header[16..20].copy_from_slice(&SNAP_BYTES.to_le_bytes());
    header[20..24].copy_from_slice(&101u32.to_le_bytes());
    header
}

/// Writes packets as they come.
#[derive(Debug)]
pub(super) struct Recorder {
    out: BufWriter<WholeFile>,
    shown: String,
    /// By flow.
    ends: Vec<Ends>,
    failed: Option<io::Error>,
}

/// What the ends of a connection agree upon by their SYNs.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    /// The MSS option, which counts no TCP options (RFC 6691 §2).
    mss: u16,
    /// The shift of the receive window (RFC 7323 §2).
    window_scale: u8,
    sack: bool,
    ecn: Agreed,
}

/// Bytes of the timestamps option and what aligns it.
const TIMESTAMP_BYTES: u32 = 12;

/// The greatest shift of the receive window (RFC 7323 §2.3).
const MAX_WINDOW_SCALE: u8 = 14;

impl Ends {
    fn of(flow: &FlowConfig, plane: &Plane) -> Self {
        let tcp = &flow.tcp;
        let fits = |scale: &u8| tcp.receive_window >> scale <= u64::from(u16::MAX);
        Self {
            mss: u16::try_from(tcp.mss.saturating_add(TIMESTAMP_BYTES)).unwrap_or(u16::MAX),
            window_scale: (0..MAX_WINDOW_SCALE).find(fits).unwrap_or(MAX_WINDOW_SCALE),
            sack: tcp.sack,
            ecn: fairwater_sim::negotiated_ecn(flow, plane),
        }
    }
}

impl Recorder {
    pub(super) fn record(&mut self, packet: &Captured<'_>) {
        if self.failed.is_none() {
            let ends = self.ends.get(packet.flow).copied().unwrap_or_default();
            let written = headers(packet, ends)
                .map_err(io::Error::other)
                .and_then(|bytes| {
                    self.out
                        .write_all(&framed(packet.at, packet.size_bytes, &bytes))
                });
            self.failed = written.err();
        }
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        let written = match self.failed {
            Some(error) => Err(error),
            None => self
                .out
                .into_inner()
                .map_err(|error| error.into_error())
                .and_then(WholeFile::finish),
        };
        written.map_err(Failure::io(self.shown))
    }
}

/// A packet's record: when, how much of it is kept, how long it was.
fn framed(at: Time, size_bytes: u32, kept: &[u8]) -> Vec<u8> {
    let ns = at.as_nanos();
    let seconds = u32::try_from(ns / 1_000_000_000).unwrap_or(u32::MAX);
    let fraction = u32::try_from(ns % 1_000_000_000).unwrap_or(0);
    let length = u32::try_from(kept.len()).unwrap_or(u32::MAX);
    let mut record = Vec::with_capacity(16 + kept.len());
    for word in [seconds, fraction, length, size_bytes.max(length)] {
        record.extend(word.to_le_bytes());
    }
    record.extend(kept);
    record
}

/// The port of every receiver; senders have ports of their own.
const RECEIVER_PORT: u16 = 5001;

/// The first port of senders.
const FIRST_PORT: u64 = 10_000;

/// The IP and TCP headers of a packet, whose payload is nothing but its length. A connection's
/// sequence numbers are its stream's offsets, from 1 on behind the SYN.
fn headers(packet: &Captured<'_>, ends: Ends) -> Result<Vec<u8>, String> {
    let segment = packet.segment;
    let flow = u32::try_from(packet.flow).unwrap_or(u32::MAX);
    let sender = (0x0a00_0000 | (flow & 0x00ff_ffff)).to_be_bytes();
    let receiver = (0x6440_0000 | (flow & 0x003f_ffff)).to_be_bytes();
    let port = u16::try_from(FIRST_PORT + packet.connection % 50_000).unwrap_or(u16::MAX);
    let (from, to) = match packet.to_receiver {
        true => ((sender, port), (receiver, RECEIVER_PORT)),
        false => ((receiver, RECEIVER_PORT), (sender, port)),
    };
    let mut tcp = tcp_header(packet, ends, (from.1, to.1))?;
    let payload = vec![0; segment.len as usize];
    let length = tcp.header_len() + payload.len();
    let length = u16::try_from(length).map_err(|_| "a packet too long for IPv4".to_owned())?;
    let mut ip = Ipv4Header::new(length, 64, IpNumber::TCP, from.0, to.0)
        .map_err(|error| error.to_string())?;
    ip.dont_fragment = true;
    ip.ecn = match packet.ecn {
        Ecn::NotEct => etherparse::IpEcn::ZERO,
        Ecn::Ect0 => etherparse::IpEcn::TWO,
        Ecn::Ect1 => etherparse::IpEcn::ONE,
        Ecn::Ce => etherparse::IpEcn::THREE,
    };
    tcp.checksum = tcp
        .calc_checksum_ipv4(&ip, &payload)
        .map_err(|error| error.to_string())?;
    let mut bytes = Vec::with_capacity(ip.header_len() + usize::from(length));
    ip.write(&mut bytes).map_err(|error| error.to_string())?;
    tcp.write(&mut bytes).map_err(|error| error.to_string())?;
    bytes.extend(payload);
    Ok(bytes)
}

/// A stream's offset as a sequence number.
const fn wire(offset: u64) -> u32 {
    (offset & u32::MAX as u64) as u32
}

/// A segment's header without its checksum.
fn tcp_header(
    packet: &Captured<'_>,
    ends: Ends,
    (from, to): (u16, u16),
) -> Result<TcpHeader, String> {
    let segment = packet.segment;
    let opens = segment.syn;
    let seq = match (packet.to_receiver, opens) {
        (_, true) => 0,
        (true, false) => wire(segment.seq.wrapping_add(1)),
        (false, false) => 1,
    };
    let mut tcp = TcpHeader::new(from, to, seq, u16::MAX);
    tcp.syn = opens;
    tcp.fin = segment.fin;
    tcp.ece = segment.ece;
    tcp.cwr = segment.cwr;
    if !packet.to_receiver {
        tcp.ack = true;
        tcp.acknowledgment_number = wire(segment.ack.wrapping_add(1));
        // RFC 7323 §2.2: a SYN's window is not scaled.
        let scale = if opens { 0 } else { ends.window_scale };
        tcp.window_size = u16::try_from(segment.window >> scale).unwrap_or(u16::MAX);
    } else if !opens {
        tcp.ack = true;
        tcp.acknowledgment_number = 1;
    }
    tcp.psh = segment.len > 0;
    if opens {
        offer_ecn(&mut tcp, packet.to_receiver, ends.ecn);
    } else if ends.ecn == Agreed::Accurate {
        // What a sender would say of marked acknowledgements is not simulated.
        count_marks(&mut tcp, segment.ce_packets);
    }
    let blocks: Vec<(u32, u32)> = segment
        .sack
        .iter()
        .take(3)
        .map(|block| {
            let (start, end) = (block.start.wrapping_add(1), block.end.wrapping_add(1));
            (wire(start), wire(end))
        })
        .collect();
    let ticks = (segment.timestamp.as_nanos() / 1_000_000) as u32;
    let mut options = vec![
        TcpOptionElement::Noop,
        TcpOptionElement::Noop,
        match packet.to_receiver {
            true => TcpOptionElement::Timestamp(ticks, 0),
            false => TcpOptionElement::Timestamp(0, ticks),
        },
    ];
    if opens {
        options.push(TcpOptionElement::MaximumSegmentSize(ends.mss));
        options.push(TcpOptionElement::WindowScale(ends.window_scale));
        if ends.sack {
            options.push(TcpOptionElement::SelectiveAcknowledgementPermitted);
        }
    }
    if let Some((first, rest)) = blocks.split_first() {
        let rest = [rest.first().copied(), rest.get(1).copied(), None];
        options.push(TcpOptionElement::SelectiveAcknowledgement(*first, rest));
    }
    tcp.set_options(&options)
        .map_err(|error| error.to_string())?;
    Ok(tcp)
}

/// The flags by which SYNs agree on ECN: RFC 3168 §6.1.1, which RFC 8257 takes as it is, and
/// RFC 9768 §3.1.1.
fn offer_ecn(tcp: &mut TcpHeader, offers: bool, ecn: Agreed) {
    (tcp.ns, tcp.cwr, tcp.ece) = match (ecn, offers) {
        (Agreed::Off, _) => (false, false, false),
        (Agreed::Classic | Agreed::Dctcp, true) => (false, true, true),
        (Agreed::Classic | Agreed::Dctcp, false) => (false, false, true),
        (Agreed::Accurate, true) => (true, true, true),
        // The SYN came without a mark.
        (Agreed::Accurate, false) => (false, true, false),
    };
}

/// The ACE field (RFC 9768 §3.2): the last three bits of how many packets came marked, from 5 on.
fn count_marks(tcp: &mut TcpHeader, marked: u64) {
    let ace = marked.wrapping_add(5);
    (tcp.ns, tcp.cwr, tcp.ece) = (ace & 4 != 0, ace & 2 != 0, ace & 1 != 0);
}
