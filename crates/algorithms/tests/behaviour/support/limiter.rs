//! A bundle's sendbox as the algorithms see it: a rate limiter and nothing else. No window holds the
//! data, feedback comes each 10 ms, and the rate is the program's, at most cwnd over the smoothed RTT
//! ("One port" in docs/architecture.md). The rates are of the packets that came within the last round trip, at which
//! they were sent and received (Bundler §4.5). Fluid in steps of a millisecond; the box always has data.

use super::path::{Ack, Controller, INITIAL_WINDOW, MSS};

/// Between two feedbacks, ms.
const FEEDBACK_MS: usize = 10;

/// The state at one feedback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Feedback {
    pub(crate) now_ms: usize,
    /// Queueing delay at the bottleneck at this moment, ms.
    pub(crate) queue_ms: f64,
    /// Bytes that have left the bottleneck since the start.
    pub(crate) departed: f64,
}

/// Runs over a bottleneck of this capacity, bytes/ms at each millisecond.
pub(crate) fn limited(
    control: &mut dyn Controller,
    rtt_ms: usize,
    capacity: impl Fn(usize) -> f64,
    seconds: usize,
) -> Vec<Feedback> {
    let (mut sent, mut departed) = (vec![0.0_f64], vec![0.0_f64]);
    let (mut cwnd, mut enforced, mut srtt_ms) = (INITIAL_WINDOW, 0, rtt_ms as f64);
    let mut reported = 0.0;
    let mut feedbacks = Vec::new();
    for now_ms in 1..seconds * 1_000 {
        let window = cwnd as f64 / srtt_ms;
        let sending = if enforced == 0 {
            window
        } else {
            window.min(enforced as f64 / 1e3)
        };
        sent.push(sent[now_ms - 1] + sending);
        departed.push((departed[now_ms - 1] + capacity(now_ms)).min(sent[now_ms]));
        if now_ms % FEEDBACK_MS != 0 || now_ms <= rtt_ms {
            continue;
        }
        let received = departed[now_ms - rtt_ms];
        let sent_ms = sent.partition_point(|bytes| *bytes < received);
        let rtt = now_ms - sent_ms.min(now_ms - rtt_ms);
        srtt_ms += (rtt as f64 - srtt_ms) / 8.0;
        let acked = (received - reported) as u64;
        reported += acked as f64;
        let before = now_ms.saturating_sub(2 * rtt_ms);
        let (first, passed_ms) = (departed[before], now_ms - rtt_ms - before);
        let first_ms = sent.partition_point(|bytes| *bytes < first);
        let rate = |ms: usize| ((received - first) * 1e3 / ms.max(1) as f64) as u64;
        let (rate_incoming, rate_outgoing) =
            (rate(passed_ms), rate(sent_ms.saturating_sub(first_ms)));
        let ack = Ack {
            now_us: now_ms as u64 * 1_000,
            acked,
            acked_packets: acked / MSS,
            in_flight: (sent[now_ms] - reported) as u64,
            pending: 100 * MSS,
            rtt_us: rtt as u64 * 1_000,
            rate_incoming,
            rate_outgoing,
            ..Ack::default()
        };
        let (packets, next) = control.invoke(&ack, (cwnd / MSS).max(1));
        (cwnd, enforced) = (packets * MSS, next);
        feedbacks.push(Feedback {
            now_ms,
            queue_ms: (sent[now_ms] - departed[now_ms]) / capacity(now_ms),
            departed: departed[now_ms],
        });
    }
    feedbacks
}
