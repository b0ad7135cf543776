# The program that window-based algorithms share.
#
# The program keeps the window: slow start, growth in congestion avoidance at the pace that the
# plane sets (per_mss), one reduction per window of data, recovery, timeouts. The plane never sets
# Cwnd itself, so an answer to a report that is a little old cannot undo a reduction. The program
# reads signals of CCP Table 2 only.
#
# Sizes in bytes, unless said otherwise.

(const
  # Who runs slow start (CCP 4.4): the program by cwnd, unless one of these holds.
  (slow_start_by_rate false)       # the program, by doubling the pacing rate
  (slow_start_in_plane false)      # the plane, at each report
  (gain_in_plane false)            # the plane sets how fast slow start grows
  # What ends the initial slow start before a loss does; at most one holds.
  (hystart_classic false)          # HyStart as in Linux's CUBIC
  (hystart_plus_plus false)        # HyStart++ (RFC 9406)
  # What a loss leaves of cwnd:
  (loss_factor 0.5)
  (loss_factor_in_plane false)     # the plane sets it instead
  (prr true)                       # spread over the round trip (RFC 6937), or at once (RFC 6675 5)
  # What ECN marks do; at most one holds.
  (mark_is_loss true)              # what a loss does (RFC 3168 6.1.2)
  (mark_share false)               # cut cwnd by half of their share (RFC 8257 3.3)
  (mark_weight 0.0625)             # weight of a round trip in the average of that share
  # How cwnd moves in congestion avoidance: at the plane's pace, unless one of these holds.
  (reno_pace false)                # one segment for each cwnd acknowledged (RFC 5681 3.1)
  (vegas false)                    # by the segments that wait in the queue
  (vegas_alpha 2.0)
  (vegas_beta 4.0)
  (vegas_gamma 1.0)
  (report_delays false)            # the sum and the number of RTT samples
  # When the program reports if nothing urgent happens: each round trip, unless set otherwise.
  (report_each_ack false)
  (report_period_us 0))

(def
  (Report
    (volatile acked 0)             # newly delivered while the window may grow
    (volatile congested false)     # a reduction began
    (volatile timeout false)       # a retransmission timeout
    (volatile undone false)        # the datapath took the last reduction back
    (mode 0)                       # 0 open, 1 fast recovery, 2 after a timeout
    (before 0)                     # cwnd before the last reduction
    (ssthresh +infinity)
    (rtt_us +infinity)             # latest RTT sample
    (min_rtt_us +infinity)         # minimum RTT of the connection
    (when mark_share
      (alpha 1048576))             # share of delivered packets that were marked, in 2^-20
    (when report_delays
      (volatile rtt_sum_us 0)      # sum of the RTT samples since the last report
      (volatile rtt_samples 0))    # and their number
    (when vegas
      (queued 0)))                 # what waited in the queue during the last round trip
  # Set by the plane:
  (mss 1448)
  (per_mss +infinity)              # bytes to be acknowledged for cwnd to grow by one mss
  (ceiling +infinity)              # growth stops here until the plane says more
  (last_cwnd 14480)                # cwnd at the end of the last invocation
  (threshold +infinity)            # ssthresh, which a flow may bring with it; the report copies it
  (when loss_factor_in_plane
    (keep 512))                    # what a loss leaves of cwnd, in 1024ths
  (when gain_in_plane
    (gain 1024))                   # growth in slow start per byte delivered, in 1024ths
  (when slow_start_in_plane
    (goal 0))                      # cwnd to reach in slow start
  # Kept by the program:
  (ssthresh_before +infinity)      # ssthresh before the last reduction
  (recover 0)                      # bytes out at the reduction, still to be acknowledged
  (sacked 0)
  (lost_now 0)
  (lost_later 0)                   # lost of what was sent during this fast recovery
  (delivered 0)                    # newly delivered by this ACK, in or out of order
  (pipe 0)                         # in flight when this ACK came, less what is lost now
  (outstanding 0)                  # sent and not acknowledged in order when this ACK came
  (prr_delivered 0)
  (prr_out 0)
  (last_flight 0)
  (allowed 0)
  (limited false)                  # cwnd is what holds the flow back
  (growth 0)
  (credit 0)
  (steps 0)
  (when mark_share
    (window_left 0)                # bytes of this window still to be acknowledged
    (window_packets 0)             # packets delivered in this window
    (window_marked 0))             # and those of them with a mark
  # A round trip lasts until something is acknowledged that was sent after it began. The first
  # begins with the first ACK. It is counted in packets: kernels know what is in flight in whole
  # segments only, so in bytes each short segment would make the round trip longer.
  (when (|| hystart_classic hystart_plus_plus vegas)
    (round_packets 0)              # packets of this round trip still to be acknowledged
    (round_min_us +infinity)       # minimum RTT sample of this round trip
    (samples 0))                   # RTT samples of this round trip
  (when vegas
    (hold true)                    # no growth in this round trip, for the queue to be seen
    (held 0))                      # cwnd when this round trip began
  (when hystart_plus_plus
    (css false)                    # in conservative slow start
    (css_rounds 0)
    (css_baseline_us +infinity)
    (last_round_min_us +infinity))
  (when hystart_classic
    (round_start 0)                # microseconds
    (train_end 0)                  # microseconds
    (leave false))
  (when slow_start_by_rate
    (by_rate true)                 # until the first sign of congestion
    (doubled_at 0)))               # microseconds

# What leaves the pipe with this ACK is counted in whole segments, as kernels count what is in flight
# and how far cwnd grows; and it is bounded by what cwnd let in, so that a cumulative ACK over data
# that was SACKed before counts once. A flow that uses less than half of its window has not shown
# that the path carries it (RFC 7661 4.2).
(when true
  (:= lost_now (* mss Ack.lost_pkts_sample))
  (:= delivered (min (* mss (+ Ack.packets_acked Ack.packets_misordered))
                     (- last_cwnd (+ Flow.bytes_in_flight lost_now))))
  (:= sacked (+ (- sacked Ack.bytes_acked) Ack.bytes_misordered))
  (:= outstanding (+ (+ Flow.bytes_in_flight Ack.bytes_acked) (+ sacked lost_now)))
  (:= pipe (+ Flow.bytes_in_flight delivered))
  (:= limited (> (* 2 pipe) Cwnd))
  (:= Report.rtt_us Flow.rtt_sample_us)
  (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
  (fallthrough))

(when (&& report_delays (&& (> Ack.bytes_acked 0) (< Flow.rtt_sample_us +infinity)))
  (:= Report.rtt_sum_us (+ Report.rtt_sum_us Flow.rtt_sample_us))
  (:= Report.rtt_samples (+ Report.rtt_samples 1)))

# RFC 8257 3.3, by packets as Linux counts: marks are known for whole packets alone.
(when (&& mark_share (> (+ Ack.packets_acked Ack.packets_misordered) 0))
  (:= window_packets (+ window_packets Ack.packets_acked Ack.packets_misordered))
  (:= window_marked (+ window_marked Ack.ecn_packets))
  (when (< window_left Ack.bytes_acked)
    (:= Report.alpha
      (+ (- Report.alpha (* mark_weight Report.alpha))
         (* mark_weight (/ (* 1048576 (min window_marked window_packets)) window_packets))))
    (:= window_left outstanding)
    (:= window_packets 0)
    (:= window_marked 0))
  (:= window_left (- window_left Ack.bytes_acked)))

# Only an undo of a spurious reduction raises cwnd behind the program's back.
(when (&& (> Report.mode 0) (> Cwnd last_cwnd))
  (:= threshold ssthresh_before)
  (:= Report.mode 0)
  (:= recover 0)
  (:= lost_later 0)
  (:= Report.undone true)
  (report))

# RFC 5681 3.1: one segment, and slow start up to the reduced window. A timeout on top of a
# reduction of the same window does not reduce ssthresh again. While a rate governs, cwnd is out of
# the way: what is out is the window.
(when Flow.was_timeout
  (when (== Report.mode 0)
    (:= Report.before
      (if slow_start_by_rate (if (> Rate 0) (min last_cwnd outstanding) last_cwnd) last_cwnd))
    (:= ssthresh_before threshold)
    (:= threshold
      (max (* mss (/ (if loss_factor_in_plane (/ (* keep Report.before) 1024)
                       (* loss_factor Report.before))
                     mss))
           (* 2 mss))))
  (when (&& slow_start_by_rate by_rate)
    (:= by_rate false)
    (when (> Rate 0) (:= Cwnd (max mss (min Cwnd outstanding))))
    (:= Rate 0))
  (when slow_start_in_plane (:= goal 0))
  (:= recover (max recover outstanding))
  (:= Report.mode 2)
  (:= Report.timeout true)
  (:= credit 0)
  (:= Cwnd mss)
  (report))

# RFC 6582 3.2: recovery lasts until all that was out when it began is acknowledged. Short segments
# were counted as whole ones, so a fast recovery also ends when nothing is out any more. If segments
# sent during it are lost too, and not only reordered, the next reduction begins at once.
(when (> Report.mode 0)
  (:= recover (- recover Ack.bytes_acked))
  (when (|| (== recover 0) (&& (== Report.mode 1) (<= outstanding Ack.bytes_acked)))
    (:= recover 0)
    (:= lost_later (if (> sacked 0) lost_later 0))
    (when (== Report.mode 1) (:= Cwnd threshold))
    (:= Report.mode 0)
    (report)))

# A loss, or a mark, begins a reduction. A loss leaves whole segments, as kernels reckon; a share of
# marks cuts to the byte, since in a small window a segment would be far more than alpha/2 (RFC 8257
# 3.3, and 3.4 for losses). Until the receiver has seen CWR its ACKs still echo the marks of the old
# window (RFC 3168 6.1.3), so what follows a mark lasts until something that was sent later is
# acknowledged.
(when (&& (== Report.mode 0)
          (if (|| mark_is_loss mark_share)
            (|| (> (+ lost_now lost_later) 0) (> Ack.ecn_packets 0))
            (> (+ lost_now lost_later) 0)))
  (when (&& slow_start_by_rate by_rate)
    (:= by_rate false)
    (when (> Rate 0) (:= Cwnd (max mss (min Cwnd outstanding))))
    (:= Rate 0))
  (when slow_start_in_plane (:= goal 0))
  (:= Report.before Cwnd)
  (:= ssthresh_before threshold)
  (:= threshold
    (max (if mark_share
           (if (> (+ lost_now lost_later) 0)
             (* loss_factor Cwnd)
             (- Cwnd (/ (* Cwnd Report.alpha) 2097152)))
           (* mss (/ (if loss_factor_in_plane (/ (* keep Cwnd) 1024) (* loss_factor Cwnd)) mss)))
         (* 2 mss)))
  (:= recover
    (if mark_is_loss
      (+ (- outstanding Ack.bytes_acked) (if (> (+ lost_now lost_later) 0) 0 1))
      (- outstanding Ack.bytes_acked)))
  (:= lost_later 0)
  (:= prr_delivered 0)
  (:= prr_out 0)
  (:= last_flight (+ pipe lost_now))
  (:= credit 0)
  (:= Report.mode 1)
  (:= Report.congested true)
  (report))

# RFC 6937 3: spread the reduction over the round trip; below ssthresh, at most slow start.
(when (== Report.mode 1)
  # More is SACKed than was out when the recovery began, of what is not yet acknowledged.
  (when (> sacked recover) (:= lost_later (+ lost_later lost_now)))
  (:= prr_delivered (+ prr_delivered delivered))
  (:= prr_out (+ prr_out (- (+ pipe lost_now) last_flight)))
  (:= last_flight Flow.bytes_in_flight)
  (when (> delivered 0)
    (:= allowed
      (if (> Flow.bytes_in_flight threshold)
        (- (+ (/ (* threshold prr_delivered) Report.before) (- mss 1)) prr_out)
        (min (- threshold Flow.bytes_in_flight)
             (+ (max (- prr_delivered prr_out) delivered)
                (if (&& (> Ack.bytes_acked 0) (== lost_now 0)) mss 0)))))
    (when (== prr_out 0) (:= allowed (max allowed mss)))
    (:= Cwnd (if prr (max mss (+ Flow.bytes_in_flight allowed)) (min Cwnd threshold)))))

# HyStart as Linux has it (Ha and Rhee, "Taming the elephants", 2011, and tcp_cubic.c): slow start
# ends when the first ACKs of a round trip come late, or when a train of closely spaced ACKs is half
# as long as the minimum RTT, and one ms for what the sender aggregates. Pacing spreads ACKs over the
# round trip, whatever the path: there, only the delay tells. A round trip begins with the first ACK
# beyond the last one's: were it the last of those, each round would begin twice as many ACKs early
# as the one before, until eight of them, from the end of a burst and so late, pass for a queue.
(when (&& hystart_classic (&& (== threshold +infinity) (> Ack.bytes_acked 0)))
  (when (< round_packets Ack.packets_acked)
    (:= round_packets (+ (+ Flow.packets_in_flight Ack.packets_acked) (/ sacked mss)))
    (:= round_start Ack.now)
    (:= train_end Ack.now)
    (:= round_min_us +infinity)
    (:= samples 0))
  (:= round_packets (- round_packets Ack.packets_acked))
  (:= round_min_us (min round_min_us Flow.rtt_sample_us))
  (when (>= Cwnd (* 16 mss))
    (when (&& (! slow_start_by_rate) (<= (- Ack.now train_end) 2000))
      (:= train_end Ack.now)
      (when (> (- Ack.now round_start) (/ (+ Report.min_rtt_us 1000) 2))
        (:= leave true)))
    (:= samples (+ samples 1))
    (when (&& (> samples 8) (> (- round_min_us Report.min_rtt_us)
                               (max 4000 (min 16000 (/ Report.min_rtt_us 8)))))
      (:= leave true))
    (when leave
      (when (&& slow_start_by_rate by_rate)
        (:= by_rate false)
        (when (> Rate 0) (:= Cwnd (max mss (min Cwnd outstanding))))
        (:= Rate 0))
      (:= threshold Cwnd)
      (report))))

# RFC 9406 4.2, in the initial slow start only.
(when (&& hystart_plus_plus (&& (== threshold +infinity) (> Ack.bytes_acked 0)))
  (when (< round_packets Ack.packets_acked)
    (:= last_round_min_us round_min_us)
    (:= round_min_us +infinity)
    (:= samples 0)
    (:= round_packets (+ (+ Flow.packets_in_flight Ack.packets_acked) (/ sacked mss)))
    (when css
      (:= css_rounds (+ css_rounds 1))
      (when (>= css_rounds 5)
        (:= css false)
        (:= threshold Cwnd)
        (report))))
  (:= round_packets (- round_packets Ack.packets_acked))
  (:= round_min_us (min round_min_us Flow.rtt_sample_us))
  (:= samples (+ samples 1))
  (when (>= samples 8)
    (when (&& css (< round_min_us css_baseline_us))
      (:= css false))
    (when (&& (! css) (&& (< last_round_min_us +infinity)
                          (>= (- round_min_us last_round_min_us)
                              (max 4000 (min 16000 (/ last_round_min_us 8))))))
      (when (&& slow_start_by_rate by_rate)
        (:= by_rate false)
        (when (> Rate 0) (:= Cwnd (max mss (min Cwnd outstanding))))
        (:= Rate 0))
      (:= css true)
      (:= css_rounds 0)
      (:= css_baseline_us round_min_us))))

# Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC
# 13(8), 1995: the window less what the path takes at the minimum RTT waits in the queue. The least
# sample of a round trip counts, so that delayed and compressed ACKs do not; two samples tell too
# little, and cwnd grows as Reno's (Linux's tcp_vegas.c).
(when (&& vegas (> Ack.bytes_acked 0))
  # What was out before a loss says nothing; slow start after a timeout is Reno's.
  (when (> Report.mode 0)
    (:= round_packets 0)
    (:= samples 0)
    (:= hold true))
  (when (== Report.mode 0)
    (:= samples (+ samples 1))
    (:= round_min_us (min round_min_us Flow.rtt_sample_us)))
  # Slow start holds the window every other round trip, for a valid comparison. What was sent in such
  # a round trip is acknowledged in the next, where the window grows again: so its first samples are
  # compared with the window that was held, not with the one that has grown since. When slow start
  # ends, the queue that it built is given back (there, too).
  (when (&& (&& (! hold) (< Cwnd threshold))
            (&& limited (|| (== samples 8)
                            (&& (< round_packets Ack.packets_acked)
                                (&& (>= samples 3) (< samples 8))))))
    (:= Report.queued (/ (* held (- round_min_us Report.min_rtt_us)) round_min_us))
    (when (> Report.queued (* vegas_gamma mss))
      (:= Cwnd (max (* 2 mss) (+ (- held Report.queued) mss)))
      (:= threshold Cwnd)))
  (when (< round_packets Ack.packets_acked)
    (when (&& (>= Cwnd threshold) (&& limited (> samples 0)))
      (:= Report.queued (/ (* Cwnd (- round_min_us Report.min_rtt_us)) round_min_us))
      (when (|| (< samples 3) (< Report.queued (* vegas_alpha mss)))
        (:= Cwnd (+ Cwnd mss)))
      (when (&& (>= samples 3) (> Report.queued (* vegas_beta mss)))
        (:= Cwnd (max (* 2 mss) (- Cwnd mss)))
        (:= threshold (min threshold Cwnd))))
    (:= round_packets (+ Flow.packets_in_flight Ack.packets_acked))
    (:= round_min_us +infinity)
    (:= samples 0)
    (:= hold (! hold))
    (:= held Cwnd))
  (:= round_packets (- round_packets Ack.packets_acked)))

# Slow start by rate (the excerpt of CCP 4.4): cwnd stays out of the way, at one and a half round
# trips of the rate, which stays below what a datapath believes. From the first sign of congestion
# on, slow start by cwnd takes over.
(when (&& slow_start_by_rate (&& by_rate (< Flow.rtt_sample_us +infinity)))
  (when (== Rate 0)
    (:= Rate (min 1000000000000 (/ (* Cwnd 1000000) Flow.rtt_sample_us)))
    (:= doubled_at Ack.now))
  (when (&& limited (> (- Ack.now doubled_at) Flow.rtt_sample_us))
    (:= Rate (min 1000000000000 (* Rate 2)))
    (:= doubled_at Ack.now))
  (:= Cwnd (max Cwnd (/ (* Rate Flow.rtt_sample_us) 666667))))

# Slow start by cwnd (CCP 4.4, Figure 6).
(when (&& (! slow_start_in_plane)
          (&& (if slow_start_by_rate (&& (! by_rate) (!= Report.mode 1)) (!= Report.mode 1))
              (&& limited (> Ack.bytes_acked 0))))
  (:= Report.acked (+ Report.acked delivered))
  (:= growth delivered)
  (when (< Cwnd threshold)
    (:= steps (min (if gain_in_plane (/ (* gain delivered) 1024)
                     (if vegas (if hold 0 delivered)
                       (if hystart_plus_plus (if css (/ delivered 4) delivered)
                         delivered)))
                   (- threshold Cwnd)))
    (:= Cwnd (+ Cwnd steps))
    (:= growth (if (< Cwnd threshold) 0 (- delivered steps)))))

# Slow start in the plane (CCP 4.4, Figure 4): it adds what was acknowledged, each report.
(when (&& slow_start_in_plane (&& (!= Report.mode 1) (&& limited (> Ack.bytes_acked 0))))
  (:= growth delivered)
  (when (< Cwnd threshold)
    (:= growth 0)
    (:= Report.acked (+ Report.acked
                        (if hystart_plus_plus (if css (/ delivered 4) delivered) delivered)))
    (:= Cwnd (max Cwnd (min goal threshold))))
  (:= Report.acked (+ Report.acked growth)))

(when (&& reno_pace (> growth 0))
  (:= per_mss Cwnd))

# Congestion avoidance at the plane's pace. One step for what was earned before, at most, as the pace
# may have changed since (Linux's tcp_cong_avoid_ai).
(when (&& (! vegas) (&& (> growth 0) (|| (> Flow.bytes_pending 0)
                                         (> (+ pipe mss) Cwnd))))
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
  (:= Report.ssthresh threshold)
  (:= growth 0))

(when (|| report_each_ack
          (> Micros (if (> report_period_us 0) report_period_us Flow.rtt_sample_us)))
  (report)
  (reset))
