//! The text of the program that both versions share.
//!
//! The program does what must not wait for the plane: it folds delivery-rate and RTT samples at
//! each ACK (CCP §4.3), paces and bounds cwnd by the model, raises the model's bandwidth as soon as
//! a sample exceeds it, and answers losses and timeouts. The filters over round trips and seconds
//! and the state machine are the plane's.
//!
//! A round trip ends with the ACK of something that was sent after it began, which the RTT sample
//! tells. So it takes an RTT at least, whatever comes back: ACKs that come late and in bursts, as
//! after a spurious timeout, do not end round trips early.

use crate::window::Period;

/// What the text depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Which version's rules.
    pub(super) version: Version,
    /// Whether ECN marks count as losses do.
    pub(super) ecn: bool,
    /// How often the program reports when nothing urgent happens.
    pub(super) period: Period,
}

/// Which BBR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Three,
}

impl Shape {
    /// The program's source.
    pub(super) fn source(&self) -> String {
        let one = self.version == Version::One;
        let due = match self.period {
            Period::Ack => "true".to_owned(),
            Period::Rtt => "ended".to_owned(),
            Period::Micros(us) => {
                format!("(|| (&& attentive ended) (> (- Ack.now reported_at) {us}))")
            }
        };
        let parts = [
            DEFINITIONS,
            if one { DEFINE_ONE } else { DEFINE_THREE },
            ")\n",
            FOLD,
            ROUND,
            TIMEOUT,
            if one { CYCLE } else { AGGREGATION },
            MODEL,
            if one { TARGET_ONE } else { TARGET_THREE },
            if one { CONSERVE } else { "" },
            WINDOW,
            if one { "" } else { BOUND },
            PROBE_RTT,
            RATE,
            LOW,
            if one { "" } else { EXCESS },
            END,
        ];
        parts
            .concat()
            .replace("@bw@", if one { "bw" } else { "(min bw bw_limit)" })
            .replace("@open@", if one { "(!= mode 1)" } else { "true" })
            .replace("@undone@", if one { "" } else { "(:= Report.undone true)" })
            .replace("@marks@", if self.ecn { MARKS } else { "0" })
            .replace("@due@", &due)
    }
}

const DEFINITIONS: &str = "\
# Bytes, bytes/s and microseconds; gains in thousandths.
(def
  (Report
    (volatile rounds 0)              # round trips that ended
    (volatile sampled false)         # a sample was limited by the path alone
    (volatile rate 0)                # the greatest delivery rate of such samples, or above bw
    (volatile min_rtt_us +infinity)
    (volatile idled false)           # the flow goes on after a pause
    (volatile low_reached false))    # in flight fell to `low`
  # Set by the plane:
  (mss 1448)
  (bw 0)                             # the model's bandwidth; the program raises it, too
  (rtt_us +infinity)                 # the model's RTT; the program lowers it, too
  (pacing_gain 2890)
  (cwnd_gain 2890)
  (steady false)                     # the path was filled once: cwnd and rate may fall
  (attentive true)                   # reports at the end of each round trip
  (low 0)                            # reports when no more than this is in flight; 0 is never
  (hold 0)                           # cwnd of ProbeRTT; 0 is none
  (round_start 0)
  (rtt_known false)                  # when Rate was first set
  # Kept by the program:
  (mode 0)                           # 0 open, 1 packet conservation, 2 after a timeout
  (delivered 0)                      # newly, in or out of order
  (lost_now 0)
  (flight 0)                         # in flight when this ACK came
  (last_flight 0)
  (last_cwnd 0)
  (sample 0)
  (app_limited false)                # the application held back what this ACK is of
  (app_was_limited false)
  (app_limited_at 0)
  (idle false)
  (ended false)                      # this ACK ends a round trip
  (round_lost 0)
  (prior 0)                          # cwnd before the timeout
  (held 0)                           # cwnd before ProbeRTT
  (bdp 0)
  (quantum 0)
  (target +infinity)
  (paced 0)
  (reported_at 0)
";

const DEFINE_ONE: &str = "  \
  (cycling false)                    # set by the plane: the pacing gain goes round
  (phase 0)                          # of eight; set by the plane where a cycle begins
  (turn false)
  (episode false)                    # of losses
  (lost_at 0)
";

const MARKS: &str = "(* mss Ack.ecn_packets)";

const DEFINE_THREE: &str = "  \
  (volatile Report.latest 0)         # the greatest delivery rate, whatever limited it
  (volatile Report.extra_acked 0)    # more than the model's bandwidth explains
  (volatile Report.delivered 0)      # the most in a round trip that ended
  (volatile Report.lost 0)           # lost, or marked with ECN CE
  (volatile Report.losses 0)         # ACKs that told of losses
  (volatile Report.limited false)    # cwnd held the flow back
  (volatile Report.undone false)     # the datapath took the last reduction back
  (volatile Report.high_reached false)  # in flight rose to `high`
  (volatile Report.excess false)     # more than 2 % were lost while probing
  (Report.flight_before 0)           # the most in flight in the last round trip
  # Set by the plane:
  (bw_limit +infinity)               # bw_shortterm
  (ceiling +infinity)                # of cwnd
  (extra_acked 0)
  (spare 0)                          # on top of the target
  (high 0)                           # reports when as much is in flight; 0 is never
  (probing false)                    # reports when more than 2 % and two packets are lost
  # Kept by the program:
  (extra_since 0)
  (extra_delivered 0)
  (expected 0)
  (flight_now 0)                     # the most in flight in this round trip
  (round_delivered 0)
";

/// What leaves the pipe with an ACK is bounded by what was let in, so that a cumulative ACK over
/// data that was SACKed before counts once. The delivery rate is the lesser of the rates of ACKs
/// and of sending, so that compressed ACKs tell no lie (draft-cheng-iccrg-delivery-rate-estimation
/// §3.3). A sample is the application's when what it is of was sent before the last moment at
/// which the flow had nothing to send; it counts only when it is above the model (§3.4). After a
/// timeout it is cwnd that limits.
const FOLD: &str = "
(when true
  (:= lost_now (* mss Ack.lost_pkts_sample))
  (:= delivered (min (+ Ack.bytes_acked Ack.bytes_misordered)
                     (- (max last_cwnd last_flight) (+ Flow.bytes_in_flight lost_now))))
  (:= flight (+ Flow.bytes_in_flight (+ delivered lost_now)))
  (:= round_lost (+ round_lost (+ lost_now @marks@)))
  (:= sample (if (> Flow.rate_outgoing 0) (min Flow.rate_incoming Flow.rate_outgoing)
                                          Flow.rate_incoming))
  (:= app_limited (&& app_was_limited (<= Ack.now (+ app_limited_at Flow.rtt_sample_us))))
  (when (&& (< Flow.bytes_pending mss) (<= (+ Flow.bytes_in_flight mss) Cwnd))
    (:= app_was_limited true)
    (:= app_limited_at Ack.now))
  (when (> delivered 0)
    (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
    (:= rtt_us (min rtt_us Flow.rtt_sample_us))
    (:= Report.idled (|| Report.idled idle))
    (when (|| (> sample bw) (&& (! app_limited) (&& (!= mode 2) (== hold 0))))
      (:= Report.rate (max Report.rate sample))
      (:= Report.sampled (|| Report.sampled (> sample 0)))
      (:= bw (max bw sample))))
  (fallthrough))
";

const ROUND: &str = "
(when true
  (:= ended (&& (> delivered 0) (>= Ack.now (+ round_start Flow.rtt_sample_us))))
  (when ended
    (:= round_start Ack.now)
    (:= Report.rounds (+ Report.rounds 1))))
";

/// Only an undo of a spurious reduction raises cwnd behind the program's back.
const TIMEOUT: &str = "
(when (&& (> last_cwnd 0) (> Cwnd last_cwnd))
  @undone@
  (:= mode 0))

# Slow start to where cwnd was; the model stays.
(when Flow.was_timeout
  (when (!= mode 2) (:= prior (max Cwnd last_cwnd)))
  (:= mode 2)
  (:= Cwnd (+ Flow.bytes_in_flight mss)))
";

/// BBR v1's gain cycle, as CCP §4.3 puts it into a program: a phase for each RTT of the timer; the
/// first goes on until it has filled what it is to fill or met a loss, the second ends as soon as
/// what the first put into the queue is gone (Cardwell et al. 2016;
/// draft-cardwell-iccrg-bbr-congestion-control-00 §4.3.4).
const CYCLE: &str = "
(when cycling
  (:= turn (> Timer.micros rtt_us))
  (when (== phase 0)
    (:= turn (&& turn (|| (> round_lost 0) (>= flight (* 1.25 bdp))))))
  (when (== phase 1)
    (:= turn (|| turn (<= Flow.bytes_in_flight bdp))))
  (when turn
    (:= phase (if (< phase 7) (+ phase 1) 0))
    (reset))
  (:= pacing_gain (if (== phase 0) 1250 (if (== phase 1) 750 1000))))
";

/// draft-ietf-ccwg-bbr, \"BBR.extra_acked\".
const AGGREGATION: &str = "
(when (> delivered 0)
  (:= expected (/ (* @bw@ (- Ack.now extra_since)) 1000000))
  (when (<= extra_delivered expected)
    (:= extra_delivered 0)
    (:= extra_since Ack.now)
    (:= expected 0))
  (:= extra_delivered (+ extra_delivered delivered))
  (:= Report.extra_acked (max Report.extra_acked (min Cwnd (- extra_delivered expected)))))
";

const MODEL: &str = "
(when true
  (:= bdp (/ (* @bw@ rtt_us) 1000000))
  (:= quantum (max (* 2 mss) (min 65536 (/ Rate 1000)))))
";

const TARGET_ONE: &str = "
(when (&& (> bw 0) (< rtt_us +infinity))
  (:= target (max (* 4 mss) (+ (/ (* bdp cwnd_gain) 1000) (* 3 quantum)))))
";

const TARGET_THREE: &str = "
(when (&& (> bw 0) (< rtt_us +infinity))
  (:= target (+ spare (max (* 4 mss) (max (* 3 quantum)
                                          (+ extra_acked (/ (* bdp cwnd_gain) 1000)))))))
";

/// Packet conservation in the first round trip of an episode of losses, then growth again (Linux's
/// `tcp_bbr.c`; draft-cardwell-iccrg-bbr-congestion-control-00 §4.2.3.4).
const CONSERVE: &str = "
(when ended
  (:= episode (> round_lost 0))
  (:= round_lost 0))
(when (&& (== mode 1) (&& (> delivered 0) (>= Ack.now (+ lost_at Flow.rtt_sample_us))))
  (:= mode 0))

(when (&& (> lost_now 0) (&& (== mode 0) (! episode)))
  (:= episode true)
  (:= mode 1)
  (:= lost_at Ack.now)
  (:= Cwnd (max mss (+ Flow.bytes_in_flight delivered))))

(when (== mode 1)
  (:= Cwnd (max mss (max (- Cwnd lost_now) (+ Flow.bytes_in_flight delivered)))))
";

/// cwnd grows by what is delivered, and falls to the target at once when the path was filled.
const WINDOW: &str = "
(when (&& (> delivered 0) @open@)
  (if steady
    (:= Cwnd (min (+ Cwnd delivered) target))
    (:= Cwnd (if (< Cwnd target) (+ Cwnd delivered))))
  (:= Cwnd (max Cwnd (* 4 mss)))
  (when (&& (== mode 2) (>= Cwnd (min prior target)))
    (:= mode 0)))
";

const BOUND: &str = "
(when (> delivered 0)
  (:= Cwnd (min Cwnd (max ceiling (* 4 mss)))))
";

const PROBE_RTT: &str = "
(when (> hold 0)
  (:= held (max held last_cwnd))
  (:= Cwnd (min Cwnd (max hold mss))))
(when (&& (== hold 0) (> held 0))
  (when (== mode 0) (:= Cwnd (max Cwnd (min held target))))
  (:= held 0))
";

/// 1 % below the model, so that queues drain (Linux's `bbr_pacing_margin_percent`), and below what
/// a datapath believes; a packet each RTT at least, as cwnd has a least: a model that was led to
/// next to nothing is to find back. A flow that goes idle starts again at the model's bandwidth.
/// The first RTT tells how to pace before the first delivery rate (Linux's
/// `bbr_init_pacing_rate_from_rtt`).
const RATE: &str = "
(when (&& (! rtt_known) (&& (> delivered 0) (< rtt_us +infinity)))
  (:= rtt_known true)
  (:= Rate (min 1000000000000 (max mss (/ (* pacing_gain (* 1000 last_cwnd)) rtt_us)))))
(when true
  (:= idle (&& (== Flow.bytes_in_flight 0) (< Flow.bytes_pending mss)))
  (:= paced (* 0.99 (/ (* @bw@ (if (&& idle steady) 1000 pacing_gain)) 1000)))
  (:= paced (min 1000000000000 (max mss (max paced (/ (* 1000000 mss) rtt_us)))))
  (when (&& (> bw 0) (|| steady (> paced Rate)))
    (:= Rate paced)))
";

const LOW: &str = "
(when (&& (> low 0) (<= Flow.bytes_in_flight low))
  (:= low 0)
  (:= round_start Ack.now)
  (:= Report.low_reached true)
  (report))
";

/// What is lost in a round trip was in flight a round trip ago. Two packets more than 2 % of it are
/// excess: of a hundred packets at a loss of 1 %, three are lost one time in twelve.
const EXCESS: &str = "
(when true
  (:= flight_now (max flight_now flight))
  (:= round_delivered (+ round_delivered delivered))
  (when (> delivered 0) (:= Report.latest (max Report.latest sample)))
  (:= Report.lost (+ Report.lost (+ lost_now @marks@)))
  (:= Report.losses (+ Report.losses (if (> lost_now 0) 1 0)))
  (:= Report.limited (|| Report.limited (> (+ flight mss) last_cwnd))))
(when (&& probing (> round_lost (+ (* 2 mss) (/ Report.flight_before 50))))
  (:= probing false)
  (:= Report.excess true)
  (report))
(when (&& (> high 0) (>= Flow.bytes_in_flight high))
  (:= high 0)
  (:= Report.high_reached true)
  (report))
(when ended
  (:= Report.delivered (max Report.delivered round_delivered))
  (:= Report.flight_before flight_now)
  (:= flight_now Flow.bytes_in_flight)
  (:= round_delivered 0)
  (:= round_lost 0))
";

const END: &str = "
(when true
  (:= last_cwnd Cwnd)
  (:= last_flight Flow.bytes_in_flight))

(when @due@
  (:= reported_at Ack.now)
  (report))
";
