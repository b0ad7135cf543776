//! The handshake: SYN-SENT and SYN-RECEIVED (RFC 9293 §3.10.7.3 and §3.10.7.4).

use std::net::SocketAddr;
use std::time::Duration;

use fairwater_net::Time;
use fairwater_tcp::Ecn;
use fairwater_wire::{MAX_WINDOW_SCALE, OptionSummary, Packet, Seq, Tcp, TcpFlags};

use super::transfer::{Agreed, Opening, Transfer};
use super::{Connection, Numbers, Phase, TCP_HEADER, TIMESTAMPS};
use crate::{CloseReason, Config, State};

/// The first timeout (RFC 6298 §2.1).
const INITIAL_RTO: Duration = Duration::from_secs(1);

/// Segment size of a peer that states none, bytes (RFC 9293 §3.7.1).
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;

/// Least segment size of a peer that is believed, bytes: what every path takes with room for options (Linux's
/// `TCP_MIN_MSS` is 88).
const MIN_MSS: u16 = 88;

/// A connection that is being opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handshake {
    pub(super) isn: Seq,
    /// The peer's SYN, once it has come.
    pub(super) offer: Option<Offer>,
    /// Whether this end began.
    pub(super) is_active: bool,
    /// A SYN or SYN-ACK is to be sent now.
    pub(super) is_due: bool,
    pub(super) sent: u32,
    sent_at: Time,
    timer: Option<Time>,
}

/// What a SYN says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    pub(super) isn: Seq,
    pub(super) window: u16,
    pub(super) mss: u16,
    pub(super) window_scale: Option<u8>,
    pub(super) sack: bool,
    /// TSval.
    pub(super) clock: Option<u32>,
    pub(super) ecn: bool,
}

impl Offer {
    fn new(tcp: &Tcp<'_>, options: &OptionSummary, is_v6: bool) -> Self {
        let flags = tcp.flags();
        // RFC 3168 §6.1.1: a SYN offers by both flags, a SYN-ACK agrees by ECE alone; with accurate ECN's flag the
        // offer is one of RFC 9768, which the same answer turns to RFC 3168.
        let wants_cwr = !flags.contains(TcpFlags::ACK);
        let ecn = flags.contains(TcpFlags::ECE) && flags.contains(TcpFlags::CWR) == wants_cwr;
        let unstated = if is_v6 {
            DEFAULT_MSS_V6
        } else {
            DEFAULT_MSS_V4
        };
        Self {
            isn: tcp.seq(),
            window: tcp.window(),
            mss: options.mss.unwrap_or(unstated).max(MIN_MSS),
            window_scale: options
                .window_scale
                .map(|shift| shift.min(MAX_WINDOW_SCALE)),
            sack: options.sack_permitted,
            clock: options.timestamps.map(|(value, _)| value),
            ecn,
        }
    }
}

impl Handshake {
    pub(super) const fn active(isn: Seq) -> Self {
        Self {
            isn,
            offer: None,
            is_active: true,
            is_due: true,
            sent: 0,
            sent_at: Time::ZERO,
            timer: None,
        }
    }

    pub(super) const fn state(&self) -> State {
        match self.offer {
            None => State::SynSent,
            Some(_) => State::SynReceived,
        }
    }

    pub(super) const fn next_timeout(&self) -> Option<Time> {
        self.timer
    }

    /// RFC 6298 §5.5: the SYN is sent again after twice as long each time.
    pub(super) fn on_timer(&mut self, now: Time, config: &Config) -> Option<CloseReason> {
        if self.timer.is_none_or(|at| at > now) {
            return None;
        }
        self.timer = None;
        let retries = match self.offer {
            None => config.syn_retries,
            Some(_) => config.syn_ack_retries,
        };
        if self.sent > retries {
            return Some(CloseReason::TimedOut);
        }
        self.is_due = true;
        None
    }

    /// A SYN or SYN-ACK leaves.
    pub(super) fn on_sent(&mut self, now: Time) {
        self.is_due = false;
        let backoff = INITIAL_RTO.saturating_mul(1 << self.sent.min(7));
        self.sent += 1;
        self.sent_at = now;
        self.timer = Some(now + backoff);
    }

    /// Sequence and acknowledgement number of the reset that gives it up; `None` if the peer knows of nothing.
    pub(super) fn reset(&self) -> Option<(Seq, Seq)> {
        let offer = self.offer?;
        Some((self.isn.plus(1), offer.isn.plus(1)))
    }
}

/// Shift by which a receive window fits into 16 bits (RFC 7323 §2.2).
pub(super) fn window_scale(receive_window: u64) -> u8 {
    let fits = |shift: &u8| receive_window >> shift <= u64::from(u16::MAX);
    (0..MAX_WINDOW_SCALE).find(fits).unwrap_or(MAX_WINDOW_SCALE)
}

impl Connection {
    /// Answers a SYN: the first packet to send is a SYN-ACK. `None` if the packet is no SYN, or its options cannot be
    /// read.
    #[must_use]
    pub fn accept(config: Config, syn: &Packet<'_>, numbers: Numbers) -> Option<Self> {
        let tcp = syn.tcp()?;
        let other = TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN;
        if !tcp.flags().contains(TcpFlags::SYN) || tcp.flags().intersects(other) {
            return None;
        }
        let options = tcp.option_summary().ok()?;
        let local = SocketAddr::new(syn.destination(), tcp.destination_port());
        let remote = SocketAddr::new(syn.source(), tcp.source_port());
        let mut handshake = Handshake::active(numbers.isn);
        handshake.is_active = false;
        handshake.offer = Some(Offer::new(&tcp, &options, remote.is_ipv6()));
        Some(Self::new(config, (local, remote), numbers, handshake))
    }

    /// RFC 9293 §3.10.7.3.
    pub(super) fn arrive_in_syn_sent(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        tcp: &Tcp<'_>,
        options: &OptionSummary,
    ) {
        let Phase::Opening(handshake) = &mut self.phase else {
            return;
        };
        let flags = tcp.flags();
        let has_ack = flags.contains(TcpFlags::ACK);
        if has_ack && tcp.ack() != handshake.isn.plus(1) {
            if !flags.contains(TcpFlags::RST) {
                self.stray_reset = Some(tcp.ack());
            }
            return;
        }
        if flags.contains(TcpFlags::RST) {
            if has_ack {
                self.close(CloseReason::Refused);
            }
            return;
        }
        if !flags.contains(TcpFlags::SYN) {
            return;
        }
        handshake.offer = Some(Offer::new(tcp, options, packet.source().is_ipv6()));
        if has_ack {
            self.open(now, tcp, options);
            if let Some(transfer) = self.transfer_mut() {
                transfer.is_ack_due = true;
            }
        } else {
            // Both ends have begun at the same time (RFC 9293 §3.5, figure 7).
            handshake.is_due = true;
            handshake.sent = 0;
        }
    }

    /// RFC 9293 §3.10.7.4, in SYN-RECEIVED. Whether the connection is open now, and the segment goes on to be
    /// processed.
    pub(super) fn arrive_in_syn_received(
        &mut self,
        now: Time,
        tcp: &Tcp<'_>,
        options: &OptionSummary,
    ) -> bool {
        let Phase::Opening(handshake) = &mut self.phase else {
            return false;
        };
        let Some(offer) = handshake.offer else {
            return false;
        };
        let flags = tcp.flags();
        let expected = offer.isn.plus(1);
        let is_again = flags.contains(TcpFlags::SYN) && tcp.seq() == offer.isn;
        let window = u32::try_from(self.config.tcp.receive_window).unwrap_or(u32::MAX);
        if !is_again && !tcp.seq().is_within(expected, window) {
            handshake.is_due |= !flags.contains(TcpFlags::RST);
            return false;
        }
        if flags.contains(TcpFlags::RST) {
            // RFC 5961 §3.2: the exact number, or nothing.
            if tcp.seq() == expected {
                let reason = match handshake.is_active {
                    true => CloseReason::Refused,
                    false => CloseReason::Reset,
                };
                self.close(reason);
            }
            return false;
        }
        if flags.contains(TcpFlags::SYN) && !(is_again && flags.contains(TcpFlags::ACK)) {
            // The peer has missed the SYN-ACK.
            handshake.is_due |= is_again;
            return false;
        }
        if !flags.contains(TcpFlags::ACK) {
            return false;
        }
        if tcp.ack() != handshake.isn.plus(1) {
            self.stray_reset = Some(tcp.ack());
            return false;
        }
        self.open(now, tcp, options);
        if is_again && let Some(transfer) = self.transfer_mut() {
            transfer.is_ack_due = true;
        }
        !is_again
    }

    /// The handshake is done.
    fn open(&mut self, now: Time, tcp: &Tcp<'_>, options: &OptionSummary) {
        let Phase::Opening(handshake) = &self.phase else {
            return;
        };
        let (handshake, Some(offer)) = (*handshake, handshake.offer) else {
            return;
        };
        let agreed = self.agree(&offer);
        // RFC 6298 §3: of a SYN that was sent twice, the echoed clock alone tells which was answered.
        let echoed = options
            .timestamps
            .filter(|_| agreed.timestamps)
            .and_then(|(_, echo)| self.clock.sent_at(echo, now));
        let first = (handshake.sent == 1).then_some(handshake.sent_at);
        let is_syn = tcp.flags().contains(TcpFlags::SYN);
        let opening = Opening {
            isn: handshake.isn,
            offer,
            // RFC 7323 §2.2: the window of a SYN is not scaled.
            window: u64::from(tcp.window()) << if is_syn { 0 } else { agreed.peer_scale },
            syn_at: first.or(echoed),
            syns: handshake.sent,
        };
        let mut transfer = Transfer::new(&self.config, agreed, &opening, now);
        transfer.sender.write(self.send.len() as u64);
        if self.is_shut {
            transfer.sender.close();
        }
        self.phase = Phase::Open(Box::new(transfer));
    }

    fn agree(&self, offer: &Offer) -> Agreed {
        let tcp = &self.config.tcp;
        let timestamps = tcp.timestamps && offer.clock.is_some();
        let options = if timestamps { TIMESTAMPS } else { 0 };
        let of_path = self.path_mtu.saturating_sub(self.ip_header() + TCP_HEADER);
        // RFC 6691 §2: the peer's size counts no options.
        let most = u32::from(offer.mss).min(of_path);
        let is_scaled = offer.window_scale.is_some();
        let scale = window_scale(tcp.receive_window);
        Agreed {
            mss: most.saturating_sub(options).max(1),
            sack: tcp.sack && offer.sack,
            timestamps,
            ecn: match tcp.ecn {
                _ if !offer.ecn => Ecn::Off,
                Ecn::Accurate => Ecn::Classic,
                own => own,
            },
            own_scale: if is_scaled { scale } else { 0 },
            peer_scale: offer.window_scale.unwrap_or(0),
        }
    }
}
