# The program that both versions of BBR share.
#
# The program does what must not wait for the plane: it folds delivery-rate and RTT samples at each
# ACK (CCP 4.3), paces and bounds cwnd by the model, raises the model's bandwidth as soon as a sample
# exceeds it, and answers losses and timeouts. The filters over round trips and seconds and the
# state machine are the plane's.
#
# A round trip ends with the ACK of something that was sent after it began, which the RTT sample
# tells. So it takes an RTT at least, whatever comes back: ACKs that come late and in bursts, as
# after a spurious timeout, do not end round trips early.

(const
  (three false)                      # version 3; else version 1
  (ecn false)                        # ECN marks count as losses do
  # When the program reports if nothing urgent happens: each round trip, unless set otherwise.
  (report_each_ack false)
  (report_period_us 0))

# Bytes, bytes/s and microseconds; gains in thousandths.
(def
  (Report
    (volatile rounds 0)              # round trips that ended
    (volatile sampled false)         # a sample was limited by the path alone
    (volatile rate 0)                # the greatest delivery rate of such samples, or above bw
    (volatile min_rtt_us +infinity)
    (volatile idled false)           # the flow goes on after a pause
    (volatile low_reached false)     # in flight fell to low
    (volatile extra_acked 0)         # the most that was acknowledged beyond the model's bandwidth
    (when three
      (volatile latest 0)            # the greatest delivery rate, whatever limited it
      (volatile delivered 0)         # the most in a round trip that ended
      (volatile lost 0)              # lost, or marked with ECN CE
      (volatile losses 0)            # ACKs that told of losses
      (volatile limited false)       # cwnd held the flow back
      (volatile undone false)        # the datapath took the last reduction back
      (volatile high_reached false)  # in flight rose to high
      (volatile excess false)        # more than 2 % were lost while probing
      (flight_before 0)))            # the most in flight in the last round trip
  # Set by the plane:
  (mss 1448)
  (unbounded 0)                    # +infinity for a bundle: a rate limiter, which no window bounds
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
  (extra_acked 0)                    # ACKs come in bursts of so much
  (when three
    (bw_limit +infinity)             # bw_shortterm
    (ceiling +infinity)              # of cwnd
    (spare 0)                        # on top of the target
    (high 0)                         # reports when as much is in flight; 0 is never
    (probing false))                 # reports when more than 2 % and two packets are lost
  (when (! three)
    (cycling false)                  # set by the plane: the pacing gain goes round
    (phase 0))                       # of eight; set by the plane where a cycle begins
  # Kept by the program:
  (mode 0)                           # 0 open, 1 packet conservation, 2 after a timeout
  (sacked 0)                         # acknowledged out of order, not yet in order
  (repeated 0)                       # acknowledged in order, and out of order before
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
  (extra_since 0)
  (extra_delivered 0)
  (expected 0)
  (when (! three)
    (acked_at 0)                     # when the last ACK came
    (turn false)
    (episode false)                  # of losses
    (lost_at 0))
  (when three
    (flight_now 0)                   # the most in flight in this round trip
    (round_delivered 0)))

# What leaves the pipe with an ACK is bounded by what was let in, so that a cumulative ACK over
# data that was SACKed before counts once; a bundle tells of nothing out of order, and more than
# its window may be in flight. The delivery rate is the lesser of the rates of ACKs
# and of sending, so that compressed ACKs tell no lie (draft-cheng-iccrg-delivery-rate-estimation
# 3.3). A sample is the application's when what it is of was sent before the last moment at which
# the flow had nothing to send; it counts only when it is above the model (3.4). After a timeout
# it is cwnd that limits.
(when true
  (:= lost_now (* mss Ack.lost_pkts_sample))
  (:= delivered (min (+ Ack.bytes_acked Ack.bytes_misordered)
                     (- (max unbounded (max last_cwnd last_flight))
                        (+ Flow.bytes_in_flight lost_now))))
  (:= flight (+ Flow.bytes_in_flight (+ delivered lost_now)))
  (:= round_lost (+ round_lost (+ lost_now (if ecn (* mss Ack.ecn_packets) 0))))
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

(when true
  (:= ended (&& (> delivered 0) (>= Ack.now (+ round_start Flow.rtt_sample_us))))
  (when ended
    (:= round_start Ack.now)
    (:= Report.rounds (+ Report.rounds 1))))

# Only an undo of a spurious reduction raises cwnd behind the program's back.
(when (&& (> last_cwnd 0) (> Cwnd last_cwnd))
  (when three (:= Report.undone true))
  (:= mode 0))

# Slow start to where cwnd was; the model stays.
(when Flow.was_timeout
  (when (!= mode 2) (:= prior (max Cwnd last_cwnd)))
  (:= mode 2)
  (:= Cwnd (+ Flow.bytes_in_flight mss)))

# BBR v1's gain cycle, as CCP 4.3 puts it into a program: a phase for each RTT of the timer; the
# first goes on until it has filled what it is to fill or met a loss, the second ends as soon as
# what the first put into the queue is gone (Cardwell et al. 2016; draft-cardwell-iccrg-bbr-
# congestion-control-00 4.3.4).
(when (&& (! three) cycling)
  (:= turn (> Timer.micros rtt_us))
  (when (== phase 0)
    (:= turn (&& turn (|| (> round_lost 0) (>= flight (* 1.25 bdp))))))
  (when (== phase 1)
    (:= turn (|| turn (<= Flow.bytes_in_flight bdp))))
  (when turn
    (:= phase (if (< phase 7) (+ phase 1) 0))
    (reset))
  (:= pacing_gain (if (== phase 0) 1250 (if (== phase 1) 750 1000))))

# draft-ietf-ccwg-bbr, "BBR.extra_acked"; Linux's bbr_update_ack_aggregation().
(when (> delivered 0)
  (:= expected (/ (* (if three (min bw bw_limit) bw) (- Ack.now extra_since)) 1000000))
  (when (<= extra_delivered expected)
    (:= extra_delivered 0)
    (:= extra_since Ack.now)
    (:= expected 0))
  (when three (:= extra_delivered (+ extra_delivered delivered)))
  # A cumulative ACK over what was SACKed before is bounded by what can have been in flight.
  (when (! three)
    (:= extra_delivered
        (+ extra_delivered
           (min delivered
                (- (+ last_flight (+ (+ quantum (* 2 mss)) (/ (* Rate (- Ack.now acked_at)) 1000000)))
                   (+ Flow.bytes_in_flight lost_now))))))
  (:= Report.extra_acked (max Report.extra_acked (min Cwnd (- extra_delivered expected)))))

(when true
  (:= bdp (/ (* (if three (min bw bw_limit) bw) rtt_us) 1000000))
  (:= quantum (max (* 2 mss) (min 65536 (/ Rate 1000)))))

(when (&& (! three) (&& (> bw 0) (< rtt_us +infinity)))
  (:= target (max (* 4 mss) (+ (/ (* bdp cwnd_gain) 1000) (* 3 quantum))))
  # While ACKs stay away, what they will acknowledge goes on being sent: Linux allows for 100 ms.
  (when steady (:= target (+ target (min extra_acked (/ bw 10))))))

(when (&& three (&& (> bw 0) (< rtt_us +infinity)))
  (:= target (+ spare (max (* 4 mss) (max (* 3 quantum)
                                          (+ extra_acked (/ (* bdp cwnd_gain) 1000)))))))

# Packet conservation in the first round trip of an episode of losses, then growth again (Linux's
# tcp_bbr.c; draft-cardwell-iccrg-bbr-congestion-control-00 4.2.3.4).
(when (&& (! three) ended)
  (:= episode (> round_lost 0))
  (:= round_lost 0))
(when (&& (! three) (&& (== mode 1) (&& (> delivered 0) (>= Ack.now (+ lost_at Flow.rtt_sample_us)))))
  (:= mode 0))

(when (&& (! three) (&& (> lost_now 0) (&& (== mode 0) (! episode))))
  (:= episode true)
  (:= mode 1)
  (:= lost_at Ack.now)
  (:= Cwnd (max mss (+ Flow.bytes_in_flight delivered))))

(when (&& (! three) (== mode 1))
  (:= Cwnd (max mss (max (- Cwnd lost_now) (+ Flow.bytes_in_flight delivered)))))

# cwnd grows by what is delivered, and falls to the target at once when the path was filled.
(when (&& (> delivered 0) (|| three (!= mode 1)))
  (if steady
    (:= Cwnd (min (+ Cwnd delivered) target))
    (:= Cwnd (if (< Cwnd target) (+ Cwnd delivered))))
  (:= Cwnd (max Cwnd (* 4 mss)))
  (when (&& (== mode 2) (>= Cwnd (min prior target)))
    (:= mode 0)))

(when (&& three (> delivered 0))
  (:= Cwnd (min Cwnd (max ceiling (* 4 mss)))))

(when (> hold 0)
  (:= held (max held last_cwnd))
  (:= Cwnd (min Cwnd (max hold mss))))
(when (&& (== hold 0) (> held 0))
  (when (== mode 0) (:= Cwnd (max Cwnd (min held target))))
  (:= held 0))

# 1 % below the model, so that queues drain (Linux's bbr_pacing_margin_percent), and below what a
# datapath believes; a packet each RTT at least, as cwnd has a least: a model that was led to next
# to nothing is to find back. A flow that goes idle starts again at the model's bandwidth. The
# first RTT tells how to pace before the first delivery rate (Linux's
# bbr_init_pacing_rate_from_rtt).
(when (&& (! rtt_known) (&& (> delivered 0) (< rtt_us +infinity)))
  (:= rtt_known true)
  (:= Rate (min 1000000000000 (max mss (/ (* pacing_gain (* 1000 last_cwnd)) rtt_us)))))
(when true
  (:= idle (&& (== Flow.bytes_in_flight 0) (< Flow.bytes_pending mss)))
  (:= paced (* 0.99 (/ (* (if three (min bw bw_limit) bw) (if (&& idle steady) 1000 pacing_gain)) 1000)))
  (:= paced (min 1000000000000 (max mss (max paced (/ (* 1000000 mss) rtt_us)))))
  (when (&& (> bw 0) (|| steady (> paced Rate)))
    (:= Rate paced)))

(when (&& (> low 0) (<= Flow.bytes_in_flight low))
  (:= low 0)
  (:= round_start Ack.now)
  (:= Report.low_reached true)
  (report))

# What is lost in a round trip was in flight a round trip ago. Two packets more than 2 % of it are
# excess: of a hundred packets at a loss of 1 %, three are lost one time in twelve.
(when three
  (:= flight_now (max flight_now flight))
  (:= round_delivered (+ round_delivered delivered))
  (when (> delivered 0) (:= Report.latest (max Report.latest sample)))
  (:= Report.lost (+ Report.lost (+ lost_now (if ecn (* mss Ack.ecn_packets) 0))))
  (:= Report.losses (+ Report.losses (if (> lost_now 0) 1 0)))
  (:= Report.limited (|| Report.limited (> (+ flight mss) last_cwnd))))
(when (&& three (&& probing (> round_lost (+ (* 2 mss) (/ Report.flight_before 50)))))
  (:= probing false)
  (:= Report.excess true)
  (report))
(when (&& three (&& (> high 0) (>= Flow.bytes_in_flight high)))
  (:= high 0)
  (:= Report.high_reached true)
  (report))
(when (&& three ended)
  (:= Report.delivered (max Report.delivered round_delivered))
  (:= Report.flight_before flight_now)
  (:= flight_now Flow.bytes_in_flight)
  (:= round_delivered 0)
  (:= round_lost 0))

(when (! three) (:= acked_at Ack.now))
(when true
  (:= last_cwnd Cwnd)
  (:= last_flight Flow.bytes_in_flight))

(when (if report_each_ack true
        (if (> report_period_us 0)
          (|| (&& attentive ended) (> (- Ack.now reported_at) report_period_us))
          ended))
  (:= reported_at Ack.now)
  (report))
