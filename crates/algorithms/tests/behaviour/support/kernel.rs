//! What a kernel's NewReno and CUBIC do to cwnd at each ACK, in whole packets: the yardstick for
//! fidelity. Written from the behaviour that Linux documents, not for speed.

use super::path::{Ack, Controller, MSS};

const INFINITE: u64 = u64::MAX / 4;

/// Congestion avoidance and the reduction; the rest is common.
pub(crate) trait Avoidance {
    fn reduced(&mut self, cwnd: u64) -> u64;
    /// Packets to be acknowledged for one more.
    fn count(&mut self, cwnd: u64, acked: u64, now_us: u64) -> u64;
    fn timed_out(&mut self) {}
    /// Whether slow start should end here.
    fn leave_slow_start(&mut self, _cwnd: u64, _ack: &Ack) -> bool {
        false
    }
}

pub(crate) struct Kernel<A> {
    avoidance: A,
    ssthresh: u64,
    /// Packets to be acknowledged until the recovery ends; 0 outside.
    recover: u64,
    in_loss_state: bool,
    sacked: u64,
    prior_cwnd: u64,
    prr_delivered: u64,
    prr_out: u64,
    last_cwnd: u64,
    last_flight: u64,
    earned: u64,
}

impl<A: Avoidance> Kernel<A> {
    pub(crate) fn new(avoidance: A) -> Self {
        Self {
            avoidance,
            ssthresh: INFINITE,
            recover: 0,
            in_loss_state: false,
            sacked: 0,
            prior_cwnd: 0,
            prr_delivered: 0,
            prr_out: 0,
            last_cwnd: 0,
            last_flight: 0,
            earned: 0,
        }
    }

    /// Proportional rate reduction (RFC 6937).
    fn reduce(&mut self, delivered: u64, advanced: bool, lost: u64, flight: u64) -> u64 {
        self.prr_delivered += delivered;
        let mut allowed = if flight > self.ssthresh {
            (self.ssthresh * self.prr_delivered)
                .div_ceil(self.prior_cwnd)
                .saturating_sub(self.prr_out)
        } else {
            let bonus = u64::from(advanced && lost == 0);
            (self
                .prr_delivered
                .saturating_sub(self.prr_out)
                .max(delivered)
                + bonus)
                .min(self.ssthresh - flight)
        };
        if self.prr_out == 0 {
            allowed = allowed.max(1);
        }
        flight + allowed
    }

    fn grow(&mut self, mut cwnd: u64, mut acked: u64, now_us: u64) -> u64 {
        if cwnd < self.ssthresh {
            let grown = (cwnd + acked).min(self.ssthresh);
            acked -= grown - cwnd;
            cwnd = grown;
        }
        if acked == 0 {
            return cwnd;
        }
        let count = self.avoidance.count(cwnd, acked, now_us);
        if self.earned >= count {
            self.earned = 0;
            cwnd += 1;
        }
        self.earned += acked;
        cwnd += self.earned / count;
        self.earned %= count;
        cwnd
    }
}

impl<A: Avoidance> Controller for Kernel<A> {
    fn invoke(&mut self, ack: &Ack, mut cwnd: u64) -> (u64, u64) {
        let (acked, delivered) = (ack.acked_packets, ack.delivered / MSS);
        let flight = ack.in_flight / MSS;
        self.sacked = (self.sacked + delivered).saturating_sub(acked);
        let outstanding = flight + self.sacked + ack.lost_packets;
        if ack.timeout {
            if self.recover == 0 {
                self.ssthresh = self.avoidance.reduced(self.last_cwnd);
            }
            self.avoidance.timed_out();
            self.recover = self.recover.max(outstanding);
            self.in_loss_state = true;
            (self.last_cwnd, self.last_flight) = (1, flight);
            return (1, 0);
        }
        if self.recover > 0 {
            self.recover = self.recover.saturating_sub(acked);
            if self.recover == 0 {
                if !self.in_loss_state {
                    cwnd = self.ssthresh;
                }
                self.in_loss_state = false;
            }
        }
        if self.recover == 0 && ack.lost_packets > 0 {
            self.prior_cwnd = cwnd;
            self.ssthresh = self.avoidance.reduced(cwnd);
            self.recover = outstanding;
            self.prr_delivered = 0;
            self.prr_out = 0;
            self.earned = 0;
        } else if self.recover > 0 && !self.in_loss_state {
            self.prr_out +=
                (flight + delivered + ack.lost_packets).saturating_sub(self.last_flight);
        }
        if self.recover > 0 && !self.in_loss_state {
            if delivered > 0 {
                cwnd = self.reduce(delivered, acked > 0, ack.lost_packets, flight);
            }
        } else if acked > 0 {
            if cwnd < self.ssthresh && self.avoidance.leave_slow_start(cwnd, ack) {
                self.ssthresh = cwnd;
            }
            // A flow that uses less than half of its window does not widen it.
            if 2 * (flight + delivered) > cwnd {
                cwnd = self.grow(cwnd, delivered, ack.now_us);
            }
        }
        self.last_flight = flight;
        self.last_cwnd = cwnd;
        (cwnd, 0)
    }
}

pub(crate) struct Reno;

impl Avoidance for Reno {
    fn reduced(&mut self, cwnd: u64) -> u64 {
        (cwnd / 2).max(2)
    }

    fn count(&mut self, cwnd: u64, _: u64, _: u64) -> u64 {
        cwnd
    }
}

#[derive(Default)]
pub(crate) struct Cubic {
    last_max: u64,
    epoch_us: Option<u64>,
    origin: u64,
    k_s: f64,
    reno_cwnd: u64,
    reno_acked: u64,
    min_rtt_us: u64,
    /// Exclusive end of the round, a packet's index.
    round_end: usize,
    round_start_us: u64,
    last_ack_us: u64,
    round_rtt_us: u64,
    samples: u64,
}

impl Avoidance for Cubic {
    fn reduced(&mut self, cwnd: u64) -> u64 {
        self.epoch_us = None;
        self.last_max = if cwnd < self.last_max {
            cwnd * (1024 + 717) / 2048
        } else {
            cwnd
        };
        (cwnd * 717 / 1024).max(2)
    }

    fn count(&mut self, cwnd: u64, acked: u64, now_us: u64) -> u64 {
        self.reno_acked += acked;
        let epoch_us = *self.epoch_us.get_or_insert_with(|| {
            self.reno_acked = acked;
            self.reno_cwnd = cwnd;
            self.origin = self.last_max.max(cwnd);
            self.k_s = ((self.origin - cwnd) as f64 / 0.4).cbrt();
            now_us
        });
        let t = (now_us - epoch_us + self.min_rtt_us) as f64 / 1e6;
        let target = self.origin as f64 + (0.4 * (t - self.k_s).powi(3)).trunc();
        let mut count = if target > cwnd as f64 {
            cwnd / (target as u64 - cwnd)
        } else {
            100 * cwnd
        };
        if self.last_max == 0 {
            count = count.min(20);
        }
        let per_step = cwnd * 15 / 8;
        while self.reno_acked > per_step {
            self.reno_acked -= per_step;
            self.reno_cwnd += 1;
        }
        if self.reno_cwnd > cwnd {
            count = count.min(cwnd / (self.reno_cwnd - cwnd));
        }
        count.max(2)
    }

    fn timed_out(&mut self) {
        self.last_max = 0;
        self.epoch_us = None;
    }

    /// HyStart by the length of the ACK train and by delay, from 16 packets on.
    fn leave_slow_start(&mut self, cwnd: u64, ack: &Ack) -> bool {
        if self.min_rtt_us == 0 || ack.rtt_us < self.min_rtt_us {
            self.min_rtt_us = ack.rtt_us;
        }
        if ack.unacked > self.round_end {
            self.round_end = ack.next;
            self.round_start_us = ack.now_us;
            self.last_ack_us = ack.now_us;
            self.round_rtt_us = u64::MAX;
            self.samples = 0;
        }
        if cwnd < 16 {
            return false;
        }
        let mut found = false;
        if ack.now_us - self.last_ack_us <= 2_000 {
            self.last_ack_us = ack.now_us;
            found |= ack.now_us - self.round_start_us > self.min_rtt_us / 2;
        }
        self.round_rtt_us = self.round_rtt_us.min(ack.rtt_us);
        if self.samples < 8 {
            self.samples += 1;
        } else {
            found |=
                self.round_rtt_us > self.min_rtt_us + (self.min_rtt_us / 8).clamp(4_000, 16_000);
        }
        found
    }
}
