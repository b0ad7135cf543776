# The program of Copa. Each ACK moves cwnd towards the target rate: RTTstanding, the comparison of
# rates and the pacing rate are of this ACK. What changes once a round trip, the plane sets.

(const
  (max_velocity 1)
  (long_us 10000))                   # a bundle's queue that is longer is drained at once

# Windows in bytes, times in microseconds.
(def
  (Report
    (volatile lost 0)              # packets
    (volatile least_us +infinity)  # of the RTT samples
    (volatile greatest_us 0)
    (srtt_us 0)
    (slow_start true))
  # Set by the plane:
  (mss 1448)
  (begins true)                    # false: of a bundle, which takes over running traffic
  (unbounded 0)                    # +infinity for a bundle: a rate limiter, which no window bounds
  (share 2896)                     # 1/delta: what the flow wants to have in the queue
  (velocity 1)
  (heading true)                   # where velocity leads: up
  (base_us +infinity)              # RTTmin
  (ceiling +infinity)              # of cwnd, while the flow holds back
  (restored 0)                     # cwnd to go back to, once
  # Kept by the program:
  (standing_us +infinity)          # RTTstanding
  (this_us +infinity)
  (last_us +infinity)
  (slot_start 0)
  (last_cwnd 14480)
  (lost_now 0)
  (delivered 0)                    # newly, in or out of order
  (limited false)                  # cwnd is what holds the flow back
  (up true)
  (queued 0)                       # the flow's part of the queue
  (change 0)
  (told false))

# What is delivered newly is at most what left the window, so that a cumulative ACK over data that
# was SACKed before counts once. A bundle tells of nothing out of order, and more than its window
# may be in flight.
(when true
  (:= lost_now (* mss Ack.lost_pkts_sample))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (:= delivered (min (+ Ack.bytes_acked Ack.bytes_misordered)
                     (- (max unbounded last_cwnd) (+ Flow.bytes_in_flight lost_now))))
  (:= limited (> (* 2 (+ Flow.bytes_in_flight delivered)) Cwnd))
  (fallthrough))

(when (! begins)
  (:= begins true)
  (:= Report.slow_start false)
  (fallthrough))

# RTTstanding: the least of srtt/2. A burst of compressed ACKs tells the truth with its last, so
# the slots are cut at ACKs, and two whole ones count however far they are apart.
(when (&& (> (+ Ack.bytes_acked Ack.bytes_misordered) 0) (< Flow.rtt_sample_us +infinity))
  (:= Report.srtt_us (if (== Report.srtt_us 0) Flow.rtt_sample_us
                       (/ (+ (* 7 Report.srtt_us) Flow.rtt_sample_us) 8)))
  (:= base_us (min base_us Flow.rtt_sample_us))
  (:= Report.least_us (min Report.least_us Flow.rtt_sample_us))
  (:= Report.greatest_us (max Report.greatest_us Flow.rtt_sample_us))
  (when (> (- Ack.now slot_start) (/ Report.srtt_us 4))
    (:= last_us this_us)
    (:= this_us +infinity)
    (:= slot_start Ack.now))
  (:= this_us (min this_us Flow.rtt_sample_us))
  (:= standing_us (max 1 (min this_us last_us))))

(when Flow.was_timeout
  (:= Report.slow_start true)
  (:= Cwnd mss)
  (report))

# cwnd/RTTstanding <= 1/(delta * queueing delay), solved for 1/delta. However fast it goes, a step
# down leaves half of what waits: the standing RTT tells of it a round trip late.
(when (&& (> delivered 0) (< standing_us +infinity))
  (:= queued (/ (* Cwnd (- standing_us base_us)) standing_us))
  (:= up (<= queued share))
  (when (&& Report.slow_start (|| (! up) (< ceiling +infinity)))
    (:= Report.slow_start false)
    (:= heading false)
    (:= velocity max_velocity))
  (:= change (min (* share (if (== up heading) velocity 1))
                  (if up Cwnd (max share (/ queued 2)))))
  (if Report.slow_start (:= change Cwnd))
  (:= change (/ (* change delivered) Cwnd))
  (if up
    (if limited (:= Cwnd (+ Cwnd change)))
    (:= Cwnd (max (* 2 mss) (- Cwnd change))))
  (if (&& (> unbounded 0) (> Flow.rate_incoming 0)
          (> (- standing_us base_us) (max long_us (/ base_us 8))))
    (:= Cwnd (min Cwnd (max (* 2 mss) (/ (* Flow.rate_incoming base_us) 1000000)))))
  (:= Cwnd (max (min Cwnd ceiling) restored))
  (:= restored 0))

(when (< standing_us +infinity)
  (:= Rate (min 1000000000000 (/ (* 2000000 Cwnd) standing_us))))

(when (&& (> lost_now 0) (! told))
  (:= told true)
  (report))

(when true
  (:= last_cwnd Cwnd))

(when (> Micros Report.srtt_us)
  (:= told false)
  (report)
  (reset))
