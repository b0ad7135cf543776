//! The text of the program that window-based algorithms share.
//!
//! The program keeps the window: slow start, growth in congestion avoidance at the pace that the
//! plane sets (`per_mss`), one reduction per window of data, recovery, timeouts. The plane never
//! sets cwnd itself, so an answer to a report that is a little old cannot undo a reduction. Only
//! signals of CCP Table 2 are read.

pub(super) const DEFINITIONS: &str = "\
# In bytes, unless said otherwise.
(def
  (Report
    (volatile acked 0)             # newly delivered while the window may grow
    (volatile congested false)     # a reduction began
    (volatile timeout false)       # a retransmission timeout
    (volatile undone false)        # the datapath took the last reduction back
    (mode 0)                       # 0 open, 1 fast recovery, 2 after a timeout
    (before 0)                     # cwnd before the last reduction
    (ssthresh +infinity)
    (rtt_us +infinity)             # the latest sample, microseconds
    (min_rtt_us +infinity))        # over the connection, microseconds
  # Set by the plane:
  (mss 1448)
  (per_mss +infinity)              # to be acknowledged for cwnd to grow by one mss
  (ceiling +infinity)              # where that growth stops until the plane says more
  (last_cwnd 14480)                # cwnd at the end of the last invocation
  # Kept by the program:
  (ssthresh_before +infinity)
  (recover 0)                      # of what was out at the reduction, still to be acknowledged
  (sacked 0)
  (lost_now 0)
  (delivered 0)                    # newly, in or out of order
  (outstanding 0)                  # sent and not acknowledged in order when this ACK came
  (prr_delivered 0)
  (prr_out 0)
  (last_flight 0)
  (allowed 0)
  (limited false)                  # cwnd is what holds the flow back
  (growth 0)
  (credit 0)
  (steps 0)
";

pub(super) const DEFINE_SHARE: &str = "  \
  (Report.alpha 1048576)           # of what was delivered, the share that was marked, in 2^-20
  (window_left 14480)              # of this window, still to be acknowledged
  (window_packets 0)               # delivered in it
  (window_marked 0)                # of these, with a mark
";

pub(super) const DEFINE_KEEP: &str = "  (keep 512)                       # set by the plane: what a loss leaves of cwnd, in 1024th\n";

pub(super) const DEFINE_GAIN: &str =
    "  (gain 1024)                      # set by the plane: growth in slow start, in 1024th\n";

pub(super) const DEFINE_DELAYS: &str = "  \
  (volatile Report.rtt_sum_us 0)   # of the samples since the last report
  (volatile Report.rtt_samples 0)
";

pub(super) const DEFINE_TURNS: &str = "  \
  (Report.queued 0)                # what the last round trip had in the queue
  (round_left 14480)               # of this round trip, still to be acknowledged
  (round_min_us +infinity)
  (samples 0)
  (hold false)                     # no growth in this round trip, for the queue to be seen
";

pub(super) const DEFINE_GOAL: &str =
    "  (goal 0)                         # set by the plane: cwnd to reach in slow start
";

pub(super) const DEFINE_PLUS_PLUS: &str = "  \
  (round_left 14480)               # of this round trip, still to be acknowledged
  (css false)                      # conservative slow start
  (css_rounds 0)
  (css_baseline_us +infinity)
  (round_min_us +infinity)
  (last_round_min_us +infinity)
  (samples 0)
";

pub(super) const DEFINE_CLASSIC: &str = "  \
  (round_left 14480)               # of this round trip, still to be acknowledged
  (round_start 0)                  # microseconds
  (train_end 0)                    # microseconds
  (leave false)
  (round_min_us +infinity)
  (samples 0)
";

pub(super) const DEFINE_RATE: &str = "  \
  (by_rate true)                   # until the first sign of congestion
  (doubled_at 0)                   # microseconds
";

/// What leaves the pipe with this ACK is bounded by what cwnd let in, so that a cumulative ACK
/// over data that was SACKed before counts once. A flow that uses less than half of its window
/// has not shown that the path carries it (RFC 7661 §4.2).
pub(super) const FOLD: &str = "
(when true
  (:= lost_now (* mss Ack.lost_pkts_sample))
  (:= delivered (min (+ Ack.bytes_acked Ack.bytes_misordered)
                     (- last_cwnd (+ Flow.bytes_in_flight lost_now))))
  (:= sacked (+ (- sacked Ack.bytes_acked) Ack.bytes_misordered))
  (:= outstanding (+ (+ Flow.bytes_in_flight Ack.bytes_acked) (+ sacked lost_now)))
  (:= limited (> (* 2 (+ Flow.bytes_in_flight delivered)) Cwnd))
  (:= Report.rtt_us Flow.rtt_sample_us)
  (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
  (fallthrough))
";

/// RFC 8257 §3.3, by packets as Linux counts: marks are known for whole packets alone.
pub(super) const SHARE: &str = "
(when (> (+ Ack.packets_acked Ack.packets_misordered) 0)
  (:= window_packets (+ window_packets Ack.packets_acked Ack.packets_misordered))
  (:= window_marked (+ window_marked Ack.ecn_packets))
  (:= window_left (- window_left Ack.bytes_acked))
  (when (== window_left 0)
    (:= Report.alpha
      (+ (- Report.alpha (* @share's weight@ Report.alpha))
         (* @share's weight@ (/ (* 1048576 (min window_marked window_packets)) window_packets))))
    (:= window_left (- outstanding Ack.bytes_acked))
    (:= window_packets 0)
    (:= window_marked 0)))
";

/// Until the receiver has seen CWR its ACKs still echo the marks of the old window (RFC 3168
/// §6.1.3), so what follows a mark lasts until something that was sent later is acknowledged.
pub(super) const BEYOND: &str =
    "(+ (- outstanding Ack.bytes_acked) (if (> Ack.lost_pkts_sample 0) 0 1))";
pub(super) const ALL: &str = "(- outstanding Ack.bytes_acked)";

/// Whole segments, as kernels reckon.
pub(super) const WHOLE_SEGMENTS: &str = "(* mss (/ @lost@ mss))";
/// RFC 8257 §3.3 for a mark, §3.4 for a loss. To the byte: in a small window, a whole segment would
/// be far more than α/2.
pub(super) const BY_SHARE: &str = "(if (> Ack.lost_pkts_sample 0)
    @lost@
    (- Cwnd (/ (* Cwnd Report.alpha) 2097152)))";

pub(super) const LOSS: &str = "(> Ack.lost_pkts_sample 0)";
pub(super) const LOSS_OR_MARK: &str = "(|| (> Ack.lost_pkts_sample 0) (> Ack.ecn_packets 0))";
/// While a rate governs, cwnd is out of the way: what is out is the window.
pub(super) const WINDOW_OF_RATE: &str = "(if (> Rate 0) (min last_cwnd outstanding) last_cwnd)";
pub(super) const LEAVE_RATE: &str = "(when by_rate
    (:= by_rate false)
    (when (> Rate 0) (:= Cwnd (max mss (min Cwnd outstanding))))
    (:= Rate 0))";

/// In this order: the datapath's undo, a timeout, the end of a recovery, the begin of one, the
/// window within it.
pub(super) const RESPONSE: &str = "
# Only an undo of a spurious reduction raises cwnd behind the program's back.
(when (&& (> Report.mode 0) (> Cwnd last_cwnd))
  (:= Report.ssthresh ssthresh_before)
  (:= Report.mode 0)
  (:= recover 0)
  (:= Report.undone true)
  (report))

# RFC 5681 3.1: one segment, and slow start up to the reduced window. A timeout on top of a
# reduction of the same window does not reduce ssthresh again.
(when Flow.was_timeout
  (when (== Report.mode 0)
    (:= Report.before @window@)
    (:= ssthresh_before Report.ssthresh)
    (:= Report.ssthresh (max (* mss (/ @lost before@ mss)) (* 2 mss))))
  @leave rate@
  @no goal@
  (:= recover (max recover outstanding))
  (:= Report.mode 2)
  (:= Report.timeout true)
  (:= credit 0)
  (:= Cwnd mss)
  (report))

# RFC 6582 3.2: recovery lasts until all that was out when it began is acknowledged.
(when (> Report.mode 0)
  (:= recover (- recover Ack.bytes_acked))
  (when (== recover 0)
    (when (== Report.mode 1) (:= Cwnd Report.ssthresh))
    (:= Report.mode 0)
    (report)))

(when (&& (== Report.mode 0) @congestion@)
  @leave rate@
  @no goal@
  (:= Report.before Cwnd)
  (:= ssthresh_before Report.ssthresh)
  (:= Report.ssthresh (max @reduced@ (* 2 mss)))
  (:= recover @above@)
  (:= prr_delivered 0)
  (:= prr_out 0)
  (:= last_flight (+ Flow.bytes_in_flight (+ delivered lost_now)))
  (:= credit 0)
  (:= Report.mode 1)
  (:= Report.congested true)
  (report))

# RFC 6937 3: spread the reduction over the round trip; below ssthresh, at most slow start.
(when (== Report.mode 1)
  (:= prr_delivered (+ prr_delivered delivered))
  (:= prr_out (+ prr_out (- (+ Flow.bytes_in_flight (+ delivered lost_now)) last_flight)))
  (:= last_flight Flow.bytes_in_flight)
  (when (> delivered 0)
    (:= allowed
      (if (> Flow.bytes_in_flight Report.ssthresh)
        (- (+ (/ (* Report.ssthresh prr_delivered) Report.before) (- mss 1)) prr_out)
        (min (- Report.ssthresh Flow.bytes_in_flight)
             (+ (max (- prr_delivered prr_out) delivered)
                (if (&& (> Ack.bytes_acked 0) (== lost_now 0)) mss 0)))))
    (when (== prr_out 0) (:= allowed (max allowed mss)))
    (:= Cwnd (max mss (+ Flow.bytes_in_flight allowed)))))
";

/// HyStart as Linux has it (Ha and Rhee, "Taming the elephants", 2011, and `tcp_cubic.c`): slow
/// start ends when the first ACKs of a round trip come late, or when a train of closely spaced
/// ACKs is half as long as the least RTT, and one ms for what the sender aggregates. A round trip
/// begins with the first ACK beyond the last one's: were it the last of those, each round would
/// begin twice as many ACKs early as the one before, until eight of them, from the end of a burst
/// and so late, pass for a queue.
pub(super) const CLASSIC: &str = "
(when (&& (== Report.ssthresh +infinity) (> Ack.bytes_acked 0))
  (when (< round_left Ack.bytes_acked)
    (:= round_left (+ Flow.bytes_in_flight Ack.bytes_acked))
    (:= round_start Ack.now)
    (:= train_end Ack.now)
    (:= round_min_us +infinity)
    (:= samples 0))
  (:= round_left (- round_left Ack.bytes_acked))
  (:= round_min_us (min round_min_us Flow.rtt_sample_us))
  (when (>= Cwnd (* 16 mss))
    @train@
    (:= samples (+ samples 1))
    (when (&& (> samples 8) (> (- round_min_us Report.min_rtt_us)
                               (max 4000 (min 16000 (/ Report.min_rtt_us 8)))))
      (:= leave true))
    (when leave
      @leave rate@
      (:= Report.ssthresh Cwnd)
      (report))))
";

/// Pacing spreads ACKs over the round trip, whatever the path: there, only the delay tells.
pub(super) const ACK_TRAIN: &str = "(when (<= (- Ack.now train_end) 2000)
      (:= train_end Ack.now)
      (when (> (- Ack.now round_start) (/ (+ Report.min_rtt_us 1000) 2))
        (:= leave true)))";

pub(super) const PLUS_PLUS: &str = "
# RFC 9406 4.2, in the initial slow start only. Rounds as in the classic one.
(when (&& (== Report.ssthresh +infinity) (> Ack.bytes_acked 0))
  (when (< round_left Ack.bytes_acked)
    (:= last_round_min_us round_min_us)
    (:= round_min_us +infinity)
    (:= samples 0)
    (:= round_left (+ Flow.bytes_in_flight Ack.bytes_acked))
    (when css
      (:= css_rounds (+ css_rounds 1))
      (when (>= css_rounds 5)
        (:= css false)
        (:= Report.ssthresh Cwnd)
        (report))))
  (:= round_left (- round_left Ack.bytes_acked))
  (:= round_min_us (min round_min_us Flow.rtt_sample_us))
  (:= samples (+ samples 1))
  (when (>= samples 8)
    (when (&& css (< round_min_us css_baseline_us))
      (:= css false))
    (when (&& (! css) (&& (< last_round_min_us +infinity)
                          (>= (- round_min_us last_round_min_us)
                              (max 4000 (min 16000 (/ last_round_min_us 8))))))
      @leave rate@
      (:= css true)
      (:= css_rounds 0)
      (:= css_baseline_us round_min_us))))
";

/// CCP §4.4, Figure 6.
pub(super) const SLOW_START_CWND: &str = "
(when (&& @open@ (&& limited (> Ack.bytes_acked 0)))
  (:= Report.acked (+ Report.acked delivered))
  (:= growth delivered)
  (when (< Cwnd Report.ssthresh)
    (:= steps (min @growth@ (- Report.ssthresh Cwnd)))
    (:= Cwnd (+ Cwnd steps))
    (:= growth (if (< Cwnd Report.ssthresh) 0 (- delivered steps)))))
";

/// CCP §4.4, Figure 4: the plane adds what was acknowledged, each report.
pub(super) const SLOW_START_PLANE: &str = "
(when (&& (!= Report.mode 1) (&& limited (> Ack.bytes_acked 0)))
  (:= growth delivered)
  (when (< Cwnd Report.ssthresh)
    (:= growth 0)
    (:= Report.acked (+ Report.acked @growth@))
    (:= Cwnd (max Cwnd (min goal Report.ssthresh))))
  (:= Report.acked (+ Report.acked growth)))
";

/// CCP §4.4, the excerpt by rate: cwnd stays out of the way, at one and a half round trips of
/// the rate, which stays below what a datapath believes. From the first sign of congestion on,
/// [`SLOW_START_CWND`] takes over.
pub(super) const SLOW_START_RATE: &str = "
(when (&& by_rate (< Flow.rtt_sample_us +infinity))
  (when (== Rate 0)
    (:= Rate (min 1000000000000 (/ (* Cwnd 1000000) Flow.rtt_sample_us)))
    (:= doubled_at Ack.now))
  (when (&& limited (> (- Ack.now doubled_at) Flow.rtt_sample_us))
    (:= Rate (min 1000000000000 (* Rate 2)))
    (:= doubled_at Ack.now))
  (:= Cwnd (max Cwnd (/ (* Rate Flow.rtt_sample_us) 666667))))
";

pub(super) const DELAYS: &str = "
(when (&& (> Ack.bytes_acked 0) (< Flow.rtt_sample_us +infinity))
  (:= Report.rtt_sum_us (+ Report.rtt_sum_us Flow.rtt_sample_us))
  (:= Report.rtt_samples (+ Report.rtt_samples 1)))
";

/// Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE
/// JSAC 13(8), 1995: the window less what the path takes at the least RTT waits
/// in the queue. The least sample of a round trip counts, so that delayed and compressed ACKs do
/// not; two samples tell too little, and cwnd grows as Reno's (Linux's `tcp_vegas.c`). When slow
/// start ends, the queue that it built is given back (there, too).
pub(super) const TURNS: &str = "
(when (> Ack.bytes_acked 0)
  (:= round_left (- round_left Ack.bytes_acked))
  (when (> Report.mode 0) (:= samples 0))
  (when (== Report.mode 0)
    (:= samples (+ samples 1))
    (:= round_min_us (min round_min_us Flow.rtt_sample_us)))
  (when (== round_left 0)
    (when (&& limited (> samples 0))
      (:= Report.queued (/ (* Cwnd (- round_min_us Report.min_rtt_us)) round_min_us))
      (when (&& (< Cwnd Report.ssthresh) (> Report.queued @gamma@))
        (:= Cwnd (max (* 2 mss) (+ (- Cwnd Report.queued) mss)))
        (:= Report.ssthresh Cwnd)
        (:= round_min_us 0))
      (when (&& (>= Cwnd Report.ssthresh) (> round_min_us 0))
        (when (|| (< samples 3) (< Report.queued @alpha@))
          (:= Cwnd (+ Cwnd mss)))
        (when (&& (>= samples 3) (> Report.queued @beta@))
          (:= Cwnd (max (* 2 mss) (- Cwnd mss)))
          (:= Report.ssthresh (min Report.ssthresh Cwnd)))))
    (:= round_left Flow.bytes_in_flight)
    (:= round_min_us +infinity)
    (:= samples 0)
    (:= hold (! hold))))
";

pub(super) const RENO_PACE: &str = "
(when (> growth 0)
  (:= per_mss Cwnd))
";

/// One step for what was earned before, at most, as the pace may have changed since (Linux's
/// `tcp_cong_avoid_ai`).
pub(super) const AVOIDANCE: &str = "
(when (&& (> growth 0) (|| (> Flow.bytes_pending 0)
                           (> (+ (+ Flow.bytes_in_flight delivered) mss) Cwnd)))
  (when (&& (>= credit per_mss) (>= (- ceiling Cwnd) mss))
    (:= credit 0)
    (:= Cwnd (+ Cwnd mss)))
  (:= credit (+ credit growth))
  (when (&& (>= credit per_mss) (>= (- ceiling Cwnd) mss))
    (:= steps (min (/ credit per_mss) (/ (- ceiling Cwnd) mss)))
    (:= credit (- credit (* steps per_mss)))
    (:= Cwnd (+ Cwnd (* steps mss)))))

(when true
  (:= last_cwnd Cwnd)
  (:= growth 0))

(when @period@
  (report)
  (reset))
";
