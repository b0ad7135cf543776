//! A connection whose handshake is done: sender and receiver, their numbers, and the FINs.

use fairwater_net::Time;
use fairwater_tcp::{Ecn, Receiver, Segment, Sender, TcpConfig};
use fairwater_wire::Seq;

use super::TIMESTAMPS;
use super::handshake::Offer;
use crate::numbers::{Offsets, PeerClock};
use crate::state::OwnFin;
use crate::{CloseReason, Config, State};

/// What both ends have agreed upon.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agreed {
    /// Bytes of data a segment, at most.
    pub(super) mss: u32,
    pub(super) sack: bool,
    pub(super) timestamps: bool,
    pub(super) ecn: Ecn,
    /// Shifts of the windows that this end and the peer advertise.
    pub(super) own_scale: u8,
    pub(super) peer_scale: u8,
}

/// How the handshake went.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    pub(super) isn: Seq,
    pub(super) offer: Offer,
    /// The peer's receive window, bytes.
    pub(super) window: u64,
    /// When the SYN was sent that the peer answered, if that is known.
    pub(super) syn_at: Option<Time>,
    /// SYNs that were sent.
    pub(super) syns: u32,
}

/// SYNs that may be sent before the path counts as such that one segment is enough to begin with (Linux; RFC 5681
/// §3.1 has one).
const MAX_SYNS: u32 = 2;

#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) agreed: Agreed,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// Numbers of what this end sends, and of what arrives.
    pub(super) own: Offsets,
    pub(super) peer: Offsets,
    pub(super) peer_clock: Option<PeerClock>,
    /// SND.NXT, FIN included.
    pub(super) next: u64,
    /// SND.UNA as of the last ACK that was taken.
    pub(super) acked: u64,
    /// The greatest window that the peer has advertised, bytes (MAX.SND.WND of RFC 5961 §5.2).
    pub(super) most_window: u64,
    /// What the last ACK acknowledged (Last.ACK.sent of RFC 7323 §4.3).
    pub(super) acknowledged: u64,
    /// The right edge of this end's window.
    pub(super) edge: u64,
    /// The stream's length, once the peer's FIN said so.
    pub(super) peer_end: Option<u64>,
    is_fin_sent: bool,
    /// The peer's FIN had come when this end's was sent.
    is_passive: bool,
    /// An ACK that is no answer to data is due.
    pub(super) is_ack_due: bool,
    /// No further challenge ACK before this time.
    pub(super) challenge_at: Time,
    /// A segment of which a part is still to be sent: it is longer than the path takes.
    pub(super) rest: Option<Segment>,
    /// Timeouts and probes since the peer was last heard.
    unanswered: u32,
    timeouts: u64,
    /// When TIME-WAIT ends.
    time_wait: Option<Time>,
}

impl Transfer {
    pub(super) fn new(config: &Config, agreed: Agreed, opening: &Opening, now: Time) -> Self {
        let of_sender = TcpConfig {
            mss: agreed.mss,
            initial_window: match opening.syns > MAX_SYNS {
                true => 1,
                false => config.tcp.initial_window,
            },
            // Of the sender's peer.
            receive_window: opening.window,
            sack: agreed.sack,
            timestamps: agreed.timestamps,
            ecn: agreed.ecn,
            handshake: opening.syn_at.is_some(),
            ..config.tcp.clone()
        };
        let mut sender = Sender::new(&of_sender, now);
        if let Some(timestamp) = opening.syn_at {
            sender.on_segment(
                now,
                &Segment {
                    syn: true,
                    ece: agreed.ecn != Ecn::Off,
                    window: opening.window,
                    timestamp,
                    ..Segment::default()
                },
            );
        }
        let own_window = match opening.offer.window_scale {
            Some(_) => config.tcp.receive_window,
            None => config.tcp.receive_window.min(u16::MAX.into()),
        };
        let of_receiver = TcpConfig {
            receive_window: own_window,
            ..of_sender
        };
        let mut receiver = Receiver::new(&of_receiver, now);
        // The window opens as the application reads.
        receiver.pause();
        let peer_clock = opening
            .offer
            .clock
            .filter(|_| agreed.timestamps)
            .map(|clock| PeerClock::new(clock, now));
        Self {
            agreed,
            sender,
            receiver,
            own: Offsets::new(opening.isn),
            peer: Offsets::new(opening.offer.isn),
            peer_clock,
            next: 0,
            acked: 0,
            most_window: opening.window.max(opening.offer.window.into()),
            acknowledged: 0,
            edge: own_window,
            peer_end: None,
            is_fin_sent: false,
            is_passive: false,
            is_ack_due: false,
            challenge_at: Time::ZERO,
            rest: None,
            unanswered: 0,
            timeouts: 0,
            time_wait: None,
        }
    }

    pub(super) fn state(&self) -> State {
        if self.time_wait.is_some() {
            return State::TimeWait;
        }
        let own = match self.is_fin_sent {
            false => OwnFin::Unsent,
            true if self.acked == self.next => OwnFin::Acknowledged,
            true => OwnFin::Sent,
        };
        State::of_fins(own, self.receiver.is_finished(), self.is_passive)
    }

    /// RCV.NXT, FIN included.
    pub(super) fn expected(&self) -> u64 {
        self.receiver.delivered() + u64::from(self.receiver.is_finished())
    }

    pub(super) fn expected_seq(&self) -> Seq {
        self.peer.seq(self.expected())
    }

    pub(super) fn next_seq(&self) -> Seq {
        self.own.seq(self.next)
    }

    pub(super) fn mss(&self) -> u32 {
        u32::try_from(self.sender.mss()).unwrap_or(u32::MAX)
    }

    /// Whether the number is of something that was sent and is not acknowledged.
    pub(super) fn is_in_flight(&self, seq: Seq) -> bool {
        let offset = self.own.offset(seq, self.acked);
        u64::try_from(offset).is_ok_and(|offset| (self.acked..self.next).contains(&offset))
    }

    /// Segments have at most so many bytes of options and data from now on; returns how many of data.
    pub(super) fn limit_mss(&mut self, bytes: u32) -> u32 {
        let options = if self.agreed.timestamps {
            TIMESTAMPS
        } else {
            0
        };
        let mss = bytes.saturating_sub(options).max(1).min(self.mss());
        self.agreed.mss = mss;
        self.sender.set_mss(mss);
        mss
    }

    /// A segment leaves up to offset `end`, FIN included.
    pub(super) fn on_sent(&mut self, end: u64, fin: bool) {
        self.next = self.next.max(end);
        if fin && !self.is_fin_sent {
            self.is_fin_sent = true;
            self.is_passive = self.receiver.is_finished();
        }
    }

    /// A window probe leaves.
    pub(super) const fn on_probe(&mut self) {
        self.unanswered += 1;
    }

    /// A segment of the peer's was taken.
    pub(super) const fn on_heard(&mut self) {
        self.unanswered = 0;
    }

    /// Begins TIME-WAIT, or begins it anew (RFC 9293 §3.10.7.4).
    pub(super) fn wait(&mut self, now: Time, config: &Config) {
        self.time_wait = Some(now + config.time_wait);
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        if self.time_wait.is_some() {
            return self.time_wait;
        }
        let receiver = self.receiver.next_timer();
        self.sender.next_timer().into_iter().chain(receiver).min()
    }

    pub(super) fn on_timer(&mut self, now: Time, config: &Config) -> Option<CloseReason> {
        if let Some(end) = self.time_wait {
            return (end <= now).then_some(CloseReason::Finished);
        }
        self.sender.on_timer(now);
        self.receiver.on_timer(now);
        let timeouts = self.sender.counters().timeouts;
        if timeouts > self.timeouts {
            self.timeouts = timeouts;
            self.unanswered += 1;
        }
        (self.unanswered > config.retries).then_some(CloseReason::TimedOut)
    }
}
