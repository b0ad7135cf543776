# The program of LEDBAT++ keeps the window by itself. The plane keeps what lasts longer than a round
# trip: the history of the base delay, the gain, and when to slow down.

(const
  (ecn true))                        # a mark is congestion (RFC 3168 6.1.2)

# In bytes, unless said otherwise.
(def
  (Report
    (volatile min_rtt_us +infinity)  # of this round trip
    (volatile began false)           # a slowdown, or a timeout
    (volatile slowed false)          # the window is back after one
    (phase 0)                        # 0 slow start, 1 avoidance, 2 slowed down, 3 back to ssthresh
    (rtt_us +infinity)
    (queueing_us 0))
  # Set by the plane:
  (mss 1448)
  (target_us 60000)
  (base_us +infinity)
  (divisor 16)                       # 1 / GAIN
  (slow_down false)
  # Kept by the program:
  (ssthresh +infinity)
  (rtt_2 +infinity) (rtt_3 +infinity) (rtt_4 +infinity)
  (room 14480)                       # the most that may have been in flight
  (lost_now 0) (delivered 0) (sacked 0) (outstanding 0)
  (recover 0)                        # of what was out at a reduction, still to be acknowledged
  (limited false)
  (credit 0)
  (held_until 0))                    # microseconds

# RFC 6817 2.4.2: the current delay is the least of a few samples. The draft takes round trips.
(when true
  (:= lost_now (* mss Ack.lost_pkts_sample))
  (:= delivered (min (+ Ack.bytes_acked Ack.bytes_misordered)
                     (- room (+ Flow.bytes_in_flight lost_now))))
  (:= sacked (+ (- sacked Ack.bytes_acked) Ack.bytes_misordered))
  (:= outstanding (+ (+ Flow.bytes_in_flight Ack.bytes_acked) (+ sacked lost_now)))
  (:= limited (> (* 2 (+ Flow.bytes_in_flight delivered)) Cwnd))
  (:= rtt_4 rtt_3)
  (:= rtt_3 rtt_2)
  (:= rtt_2 Report.rtt_us)
  (:= Report.rtt_us Flow.rtt_sample_us)
  (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
  (:= base_us (min base_us Flow.rtt_sample_us))
  (:= Report.queueing_us (- (min (min Report.rtt_us rtt_2) (min rtt_3 rtt_4)) base_us))
  (fallthrough))

# RFC 5681 3.1: one segment, then slow start to half of the window; once for all that was out.
(when Flow.was_timeout
  (when (|| (== recover 0) (< Report.phase 2))
    (:= ssthresh (max (/ (if (< Report.phase 2) room ssthresh) 2) (* 2 mss))))
  (:= recover (max recover outstanding))
  (:= Report.phase 3)
  (:= Report.began true)
  (:= Cwnd mss)
  (:= room (max mss Flow.bytes_in_flight))
  (report))

# RFC 6817 2.4.2: half, once a round trip.
(when (> recover 0)
  (:= recover (- recover Ack.bytes_acked)))
(when (&& (== recover 0) (if ecn (|| (> Ack.lost_pkts_sample 0) (> Ack.ecn_packets 0))
                              (> Ack.lost_pkts_sample 0)))
  # RFC 3168 6.1.2: a mark is echoed until CWR has come, with what is sent next.
  (:= recover (+ (- outstanding Ack.bytes_acked) (if (> Ack.lost_pkts_sample 0) 0 1)))
  (:= credit 0)
  (if (== Report.phase 2)
    (:= ssthresh (max (/ ssthresh 2) (* 2 mss)))
    (:= Cwnd (max (/ Cwnd 2) (* 2 mss))))
  (when (!= Report.phase 2)
    (:= Report.slowed (== Report.phase 3))
    (:= Report.phase 1)
    (report)))

# Periodic slowdown: two segments for two round trips show the base delay.
(when slow_down
  (:= slow_down false)
  (when (== Report.phase 1)
    (:= ssthresh Cwnd)
    (:= Cwnd (* 2 mss))
    (:= held_until (+ Ack.now (* 2 Flow.rtt_sample_us)))
    (:= Report.phase 2)
    (:= Report.began true)
    (report)))
(when (&& (== Report.phase 2) (>= Ack.now held_until))
  (:= Report.phase 3))

# Slow start, by GAIN of what is delivered. The first ends short of the target.
(when (&& (|| (== Report.phase 0) (== Report.phase 3)) (&& limited (> delivered 0)))
  (:= Cwnd (+ Cwnd (/ delivered divisor)))
  (when (&& (== Report.phase 0) (> (* 4 Report.queueing_us) (* 3 target_us)))
    (:= Report.phase 1)
    (report))
  (when (&& (== Report.phase 3) (>= Cwnd ssthresh))
    (:= Cwnd (max ssthresh (* 2 mss)))
    (:= Report.phase 1)
    (:= Report.slowed true)
    (report)))

# Avoidance: GAIN segments more a round trip; above the target, less by the window times what the
# delay is above it, in parts of the target, but never by more than half.
(when (&& (== Report.phase 1) (== recover 0))
  (when limited
    (:= credit (+ credit delivered))
    (when (>= (* 4 credit) Cwnd)
      (:= Cwnd (+ Cwnd (/ (* mss credit) (* divisor Cwnd))))
      (:= credit 0)))
  (when (> Report.queueing_us target_us)
    (:= Cwnd (max (* 2 mss)
                  (- Cwnd (min (/ delivered 2)
                               (/ (* delivered (- Report.queueing_us target_us)) target_us)))))))

(when true
  (:= room (max Cwnd Flow.bytes_in_flight)))

(when (> Micros Flow.rtt_sample_us)
  (report)
  (reset))
