//! The sending side.

mod ack;
mod congestion;
mod timers;
mod transmit;

use std::time::Duration;

use fairwater_lang::{Signal, Signals};
use fairwater_net::Time;

use super::pacing::Pacer;
use super::rack::Rack;
use super::rate::Estimator;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::{Cause, Controls, Invocation, State};
use crate::TcpConfig;
use congestion::Episode;
use timers::Timers;

/// A sender's counters since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Data segments, those sent again included.
    pub segments: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts, those of the handshake not counted.
    pub timeouts: u64,
    /// Tail loss probes (RFC 8985 §7).
    pub probes: u64,
    /// Reductions taken back (RFC 3522, RFC 3708).
    pub undos: u64,
}

/// One connection's sender.
///
/// cwnd is in force in whole segments, one at least, as in Linux.
#[derive(Debug, Clone)]
pub struct Sender {
    mss: u64,
    initial_window: u64,
    sack: bool,
    ecn: crate::Ecn,
    idle_restart: bool,
    timestamps: bool,
    nagle: bool,

    established: bool,
    handshake: Handshake,
    /// Bytes the application has written.
    written: u64,
    closed: bool,
    fin_sent: bool,
    /// SND.UNA, SND.NXT, and the right edge of the receiver's window.
    acked: u64,
    next: u64,
    edge: u64,
    /// The end of the last segment that was sent with less than an MSS.
    small_end: u64,

    scoreboard: Scoreboard,
    rack: Rack,
    rtt: Rtt,
    rate: Estimator,
    pacer: Pacer,
    timers: Timers,
    episode: Episode,

    cwnd: u64,
    pacing_rate: u64,
    /// cwnd before an idle restart reduced it, bytes, until the controller is told.
    before_idle: Option<u64>,
    usage: Usage,
    last_sent: u64,
    /// The next new segment tells the receiver that cwnd was reduced (RFC 3168 §6.1.2).
    tell_reduced: bool,
    /// The greatest counter of marks that an ACK has brought (accurate ECN).
    ce_seen: u64,
    marked: u64,

    signals: Signals,
    reported: ReportedCounts,
    event: Option<Event>,
    counters: Counters,
}

/// State of the handshake.
#[derive(Debug, Clone, Copy, Default)]
struct Handshake {
    due: bool,
    sent: u32,
}

/// Whether cwnd is made use of (Linux's `tcp_cwnd_validate`, after RFC 7661 §4.2).
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    limited: bool,
    max_out: u64,
    /// The round trip ends when this offset is acknowledged.
    round_end: u64,
}

/// Counters at the last invocation: signals are the differences since then.
#[derive(Debug, Clone, Copy, Default)]
struct ReportedCounts {
    acked: u64,
    lost: u64,
    losses: u64,
    marked: u64,
    sacked: u64,
    undos: u64,
}

/// Material of the next invocation.
#[derive(Debug, Clone, Copy)]
struct Event {
    cause: Cause,
    at: u64,
    delivered: u64,
    advanced: bool,
    undone: bool,
    rtt_ns: Option<u64>,
}

impl Sender {
    /// A connection that begins now, with a handshake if it is configured so.
    #[must_use]
    pub fn new(config: &TcpConfig, now: Time) -> Self {
        let mss = u64::from(config.mss.max(1));
        let initial_window = u64::from(config.initial_window.max(1));
        Self {
            mss,
            initial_window,
            sack: config.sack,
            ecn: config.ecn,
            idle_restart: config.idle_restart,
            timestamps: config.timestamps,
            nagle: config.nagle,
            established: !config.handshake,
            handshake: Handshake {
                due: config.handshake,
                sent: 0,
            },
            written: 0,
            closed: false,
            fin_sent: false,
            acked: 0,
            next: 0,
            edge: config.receive_window,
            small_end: 0,
            scoreboard: Scoreboard::default(),
            rack: Rack::default(),
            rtt: Rtt::new(config),
            rate: Estimator::default(),
            pacer: Pacer::new(config.pace),
            timers: Timers::default(),
            episode: Episode::default(),
            cwnd: initial_window * mss,
            pacing_rate: 0,
            before_idle: None,
            usage: Usage::default(),
            last_sent: now.as_nanos(),
            tell_reduced: false,
            ce_seen: 0,
            marked: 0,
            signals: Signals::default(),
            reported: ReportedCounts::default(),
            event: None,
            counters: Counters::default(),
        }
    }

    /// The application writes more bytes to send.
    pub fn write(&mut self, bytes: u64) {
        if !self.closed {
            // One offset is left for the FIN.
            self.written = self.written.saturating_add(bytes).min(u64::MAX - 1);
        }
    }

    /// The application takes back what it wrote and was not sent yet.
    pub fn cut(&mut self) {
        self.written = self.written.min(self.next);
    }

    /// The application has no more: a FIN follows what it wrote.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// What the controller is to be told after [`Self::on_segment`] or [`Self::on_timer`]. One that
    /// was not taken is overwritten by the next; its signals then count from the one before.
    pub fn poll_invocation(&mut self) -> Option<Invocation> {
        let event = self.event.take()?;
        let lost_packets = self.scoreboard.losses() - self.reported.losses;
        self.reported.losses = self.scoreboard.losses();
        if event.cause != Cause::LossTimer {
            self.refresh_signals(&event);
        }
        Some(Invocation {
            signals: self.signals,
            now_ns: event.at,
            cause: event.cause,
            state: self.episode.state,
            cwnd: self.cwnd,
            mss: u32::try_from(self.mss).unwrap_or(u32::MAX),
            reductions: self.episode.reductions,
            reduced_from: self.episode.reduced_from,
            undone: event.undone,
            idle_restart: self.before_idle.take(),
            delivered_packets: event.delivered,
            advanced: event.advanced,
            lost_packets,
            in_flight_packets: self.scoreboard.in_flight(),
            sent_packets: self.counters.segments,
            cwnd_limited: self.usage.limited,
            max_packets_out: self.usage.max_out,
            rtt_ns: event.rtt_ns,
            paced: self.current_rate() > 0,
            acked: self.acked,
            next: self.next,
        })
    }

    fn tell(&mut self, cause: Cause, at: u64) {
        let undone = self.take_undone();
        self.event = Some(Event {
            cause,
            at,
            delivered: 0,
            advanced: false,
            undone,
            rtt_ns: None,
        });
    }

    /// The signals as `crates/linux/bpf/fairwater.bpf.c` computes them from the same counters.
    fn refresh_signals(&mut self, event: &Event) {
        let sacked = self.scoreboard.sacked();
        let lost = self.scoreboard.losses();
        let in_flight = self.scoreboard.in_flight();
        let timeout = event.cause == Cause::Timeout;
        let mut set = |signal: Signal, value| self.signals[signal] = value;
        set(Signal::Now, event.at / 1_000);
        set(Signal::LostPkts, lost - self.reported.lost);
        set(Signal::PacketsInFlight, in_flight);
        set(Signal::BytesInFlight, in_flight * self.mss);
        set(
            Signal::BytesPending,
            self.written
                .saturating_sub(self.next)
                .min(u64::from(u32::MAX)),
        );
        set(Signal::WasTimeout, u64::from(timeout));
        set(
            Signal::Undo,
            u64::from(self.counters.undos > self.reported.undos),
        );
        self.reported.undos = self.counters.undos;
        self.reported.lost = lost;
        if timeout {
            for signal in [
                Signal::BytesAcked,
                Signal::PacketsAcked,
                Signal::BytesMisordered,
                Signal::PacketsMisordered,
                Signal::EcnBytes,
                Signal::EcnPackets,
            ] {
                self.signals[signal] = 0;
            }
            return;
        }
        let newly_sacked = sacked.saturating_sub(self.reported.sacked);
        // `event.delivered` counts each segment once; those that were SACKed before count as
        // acknowledged in order when the cumulative acknowledgement reaches them.
        let acked = (event.delivered + self.reported.sacked).saturating_sub(sacked);
        let marked = self.marked - self.reported.marked;
        set(Signal::BytesAcked, self.acked - self.reported.acked);
        set(Signal::PacketsAcked, acked);
        set(Signal::PacketsMisordered, newly_sacked);
        set(Signal::BytesMisordered, newly_sacked * self.mss);
        set(Signal::EcnPackets, marked);
        set(Signal::EcnBytes, marked * self.mss);
        if let Some(rtt_ns) = event.rtt_ns {
            set(Signal::RttSampleUs, rtt_ns / 1_000);
        }
        self.reported.acked = self.acked;
        self.reported.sacked = sacked;
        self.reported.marked = self.marked;
    }

    /// Whether the sender restarts from a smaller window after an idle period (RFC 5681 §4.1).
    pub fn set_idle_restart(&mut self, idle_restart: bool) {
        self.idle_restart = idle_restart;
    }

    /// The controller's answer, or what the plane set meanwhile: cwnd in bytes, the pacing rate in
    /// bytes/s, 0 for none.
    pub fn set_controls(&mut self, controls: Controls) {
        self.cwnd = controls.cwnd;
        self.pacing_rate = controls.rate;
    }

    /// Segments of new data have so many bytes at most from now on: the path's MTU is another (RFC 8201). What was
    /// sent stays cut as it was; whoever writes packets cuts what is sent again, and is too long, into several.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
        self.cwnd = self.cwnd.max(self.mss);
    }

    /// The controls in force. The sender itself raises cwnd at an undo, sets it at a
    /// retransmission timeout, and lowers it after a pause.
    #[must_use]
    pub fn controls(&self) -> Controls {
        Controls {
            cwnd: self.cwnd,
            rate: self.pacing_rate,
        }
    }

    fn cwnd_packets(&self) -> u64 {
        (self.cwnd / self.mss).max(1)
    }

    /// The end of the stream, FIN included, once it is known.
    fn end(&self) -> Option<u64> {
        self.closed.then(|| self.written + 1)
    }

    /// Whether the handshake is done.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Whether all that was written, and the FIN, is acknowledged.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.end() == Some(self.acked)
    }

    /// Payload bytes acknowledged in order.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.acked.min(self.written)
    }

    /// Bytes written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Segments sent and neither acknowledged nor declared lost (RFC 6675 §4's pipe), in full
    /// segments' bytes.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.scoreboard.in_flight() * self.mss
    }

    /// [`Self::in_flight`], counted afresh from each segment's outcome: takes time in proportion to
    /// the window, and must be equal.
    #[must_use]
    pub fn recount_in_flight(&self) -> u64 {
        self.scoreboard.recount(self.sack) * self.mss
    }

    /// Bytes from the first that is not acknowledged to the right edge of the receiver's window.
    #[must_use]
    pub fn send_window(&self) -> u64 {
        self.edge.saturating_sub(self.acked)
    }

    /// Bytes of data a segment, at most.
    #[must_use]
    pub fn mss(&self) -> u64 {
        self.mss
    }

    /// The congestion state.
    #[must_use]
    pub fn state(&self) -> State {
        self.episode.state
    }

    /// Smoothed RTT, µs; 0 before the first sample.
    #[must_use]
    pub fn srtt_us(&self) -> u64 {
        self.rtt.smoothed() / 1_000
    }

    /// Least RTT, µs; 0 before the first sample.
    #[must_use]
    pub fn min_rtt_us(&self) -> u64 {
        match self.rtt.min() {
            u64::MAX => 0,
            least => least / 1_000,
        }
    }

    /// The retransmission timeout as it is now, backed off or not (RFC 6298).
    #[must_use]
    pub fn rto(&self) -> Duration {
        Duration::from_nanos(self.timeout())
    }

    /// Whether what is sent now is limited by the application: its rate samples say nothing of
    /// the path (draft-cheng-iccrg-delivery-rate-estimation §3.4).
    #[must_use]
    pub fn is_app_limited(&self) -> bool {
        self.rate.is_app_limited()
    }

    /// The sender's counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
