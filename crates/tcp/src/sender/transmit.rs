//! What is sent, and when.

use fairwater_net::Time;

use super::Sender;
use super::congestion::Probe;
use crate::Ecn;
use crate::Segment;

/// Why no more is sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Cwnd,
    Window,
    Pacing,
    /// A small segment waits for another's acknowledgement (RFC 1122 §4.2.3.4).
    Nagle,
    Application,
}

/// A segment of new data that may be sent.
#[derive(Debug, Clone, Copy)]
struct New {
    len: u32,
    fin: bool,
}

impl Sender {
    /// The next segment to send; call it until there is none.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        let now = now.as_nanos();
        if !self.established {
            return self.send_handshake(now);
        }
        if self.episode.resend_front {
            self.episode.resend_front = false;
            if let Some(front) = self.scoreboard.front() {
                return self.resend(front, now);
            }
        }
        if self.episode.probe == Probe::Due {
            return self.send_probe(now);
        }
        let rate = self.current_rate();
        if rate > 0 && self.pacer.free_at() > now {
            return self.hold(Held::Pacing, now);
        }
        if self.scoreboard.in_flight() >= self.cwnd_packets() {
            return self.hold(Held::Cwnd, now);
        }
        if let Some(number) = self.scoreboard.next_waiting() {
            return self.resend(number, now);
        }
        match self.next_new() {
            Ok(new) => {
                if self.scoreboard.out() == 0 {
                    self.restart_after_idle(now);
                }
                Some(self.send_new(new, now))
            }
            Err(held) => self.hold(held, now),
        }
    }

    pub(super) fn current_rate(&self) -> u64 {
        let window = self
            .cwnd
            .max(self.scoreboard.out().saturating_mul(self.mss));
        self.pacer.rate(
            self.pacing_rate,
            window,
            self.slow_start(),
            self.rtt.smoothed(),
        )
    }

    fn send_handshake(&mut self, now: u64) -> Option<Segment> {
        if !self.handshake.due {
            return None;
        }
        self.handshake.due = false;
        self.handshake.sent += 1;
        self.start_retransmit_timer(now);
        // RFC 3168 §6.1.1: both flags of a SYN offer ECN.
        let offers_ecn = self.ecn != Ecn::Off;
        Some(Segment {
            syn: true,
            ece: offers_ecn,
            cwr: offers_ecn,
            timestamp: Time::from_nanos(now),
            ..Segment::default()
        })
    }

    /// RFC 5681 §4.1, with Linux's halving for each RTO that the pause lasted.
    fn restart_after_idle(&mut self, now: u64) {
        let idle = now.saturating_sub(self.last_sent);
        let rto = self.timeout();
        if !self.idle_restart || idle <= rto || self.next == 0 {
            return;
        }
        let least = self.cwnd.min(self.initial_window * self.mss);
        let halvings = (idle / rto).min(63);
        let cwnd = (self.cwnd >> halvings).max(least);
        if cwnd < self.cwnd {
            self.before_idle.get_or_insert(self.cwnd);
            self.cwnd = cwnd;
        }
    }

    /// The next segment of new data that the application and the receive window allow.
    fn next_new(&self) -> Result<New, Held> {
        let unsent = self.written.saturating_sub(self.next);
        let fin_due = self.closed && !self.fin_sent;
        if unsent == 0 {
            return if fin_due {
                Ok(New { len: 0, fin: true })
            } else {
                Err(Held::Application)
            };
        }
        let mut len = unsent.min(self.mss);
        let room = self.edge.saturating_sub(self.next);
        if room < len {
            // RFC 1122 §4.2.3.4: no small segments because of a small window, but for one that
            // nothing else would follow.
            if self.scoreboard.out() > 0 || room == 0 {
                return Err(Held::Window);
            }
            len = room;
        }
        let last = len == unsent;
        // Nagle's rule as Minshall has it: one small segment may be out.
        if self.nagle && len < self.mss && !(last && fin_due) && self.small_end > self.acked {
            return Err(Held::Nagle);
        }
        Ok(New {
            len: u32::try_from(len).unwrap_or(u32::MAX),
            fin: last && fin_due,
        })
    }

    fn send_new(&mut self, new: New, now: u64) -> Segment {
        let idle = self.scoreboard.out() == 0;
        let stamp = self.rate.on_send(now, idle);
        let seq = self.next;
        self.scoreboard.send(seq, new.len, new.fin, now, stamp);
        self.next += u64::from(new.len) + u64::from(new.fin);
        self.fin_sent |= new.fin;
        if u64::from(new.len) < self.mss {
            self.small_end = self.next;
        }
        self.count_send(new.len, now);
        self.episode.window_probe = false;
        if idle || !self.has_retransmit_timer() {
            self.timers.backoff = 0;
            self.start_retransmit_timer(now);
        }
        self.schedule_probe(now);
        let cwr = self.ecn == Ecn::Classic && std::mem::take(&mut self.tell_reduced);
        Segment {
            seq,
            len: new.len,
            fin: new.fin,
            timestamp: Time::from_nanos(now),
            ect: self.ecn != Ecn::Off,
            cwr,
            ..Segment::default()
        }
    }

    fn resend(&mut self, number: u64, now: u64) -> Option<Segment> {
        let stamp = self.rate.on_send(now, false);
        let sent = self.scoreboard.get(number)?;
        let (seq, fin) = (sent.seq, sent.fin);
        let len = sent.len - u32::from(fin);
        self.scoreboard.resend(number, now, stamp);
        self.note_resend(now);
        self.counters.retransmissions += 1;
        self.count_send(len, now);
        if self.scoreboard.front() == Some(number) {
            self.start_retransmit_timer(now);
        }
        Some(Segment {
            seq,
            len,
            fin,
            timestamp: Time::from_nanos(now),
            // RFC 3168 §6.1.5: not on what is sent again, but where all packets carry it.
            ect: matches!(self.ecn, Ecn::Dctcp | Ecn::Accurate),
            ..Segment::default()
        })
    }

    fn count_send(&mut self, len: u32, now: u64) {
        self.counters.segments += 1;
        self.counters.bytes += u64::from(len);
        self.last_sent = now;
        let rate = self.current_rate();
        self.pacer
            .on_send(now, u64::from(len), rate, self.counters.segments);
    }

    /// RFC 8985 §7.3: new data if there is any, else the last segment again.
    fn send_probe(&mut self, now: u64) -> Option<Segment> {
        self.counters.probes += 1;
        if let Ok(new) = self.next_new() {
            let segment = self.send_new(new, now);
            self.episode.probe = Probe::Sent {
                next: self.next,
                again: false,
            };
            return Some(segment);
        }
        self.episode.probe = Probe::Sent {
            next: self.next,
            again: true,
        };
        let last = self.scoreboard.back()?;
        self.resend(last, now)
    }

    /// Notes that nothing more can be sent now, and why.
    fn hold(&mut self, held: Held, now: u64) -> Option<Segment> {
        self.pacer.hold(held == Held::Pacing);
        match held {
            Held::Pacing => self.timers.pace = Some(self.pacer.free_at()),
            Held::Window if self.scoreboard.out() == 0 => return self.probe_window(now),
            Held::Application | Held::Nagle => {
                if self.scoreboard.waiting() == 0 {
                    self.rate.on_app_limited(self.scoreboard.in_flight());
                }
            }
            Held::Window | Held::Cwnd => {}
        }
        self.validate_window(held == Held::Cwnd);
        None
    }

    /// Whether cwnd was made use of in this round trip (Linux's `tcp_cwnd_validate`).
    fn validate_window(&mut self, limited: bool) {
        let out = self.scoreboard.out();
        if self.acked >= self.usage.round_end
            || limited
            || (!self.usage.limited && out > self.usage.max_out)
        {
            self.usage.limited = limited;
            self.usage.max_out = out;
            self.usage.round_end = self.next;
        }
    }

    /// RFC 9293 §3.8.6.1: a closed window is probed, backing off as retransmissions do.
    fn probe_window(&mut self, now: u64) -> Option<Segment> {
        if !self.episode.window_probe {
            if !self.has_retransmit_timer() {
                self.start_retransmit_timer(now);
            }
            return None;
        }
        self.episode.window_probe = false;
        self.start_retransmit_timer(now);
        Some(Segment {
            seq: self.acked.saturating_sub(1),
            timestamp: Time::from_nanos(now),
            ..Segment::default()
        })
    }
}
