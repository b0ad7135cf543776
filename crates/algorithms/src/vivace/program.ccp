# The program of PCC Vivace: it sends at the rates of a plan, each for one interval, and measures what
# became of what was sent in each.
#
# What was sent in an interval is acknowledged a round trip later. An ACK that comes at now with an
# RTT sample of rtt is for a segment that was sent at now - rtt: that time, not the ACK's, says which
# interval it belongs to. All intervals of a plan have the same length, so that their boundaries need
# no list.

(def
  (Report
    (plan 0)                # whose interval this is
    (index 0)               # which; as many as there are: a plan is wanted
    (volatile delivered 0)  # bytes, of what was sent in the interval
    (volatile lost 0)       # packets
    (volatile acks 0)       # with an RTT sample
    (volatile idle 0)       # ACKs at which the application had nothing more to send
    (volatile held 0)       # ACKs that the receiver may have held back
    # Sums over RTT samples y of what was sent at x, microseconds since the interval began:
    (volatile sum_x 0)
    (volatile sum_y 0)
    (volatile sum_xx 0)
    (volatile sum_xy 0)
    (volatile sum_yy 0)
    (volatile held_x 0)     # sum_x and sum_y of the ACKs that may have been held back
    (volatile held_y 0)
    (volatile timeout false)
    (rtt_us +infinity))
  # The plan, set by the plane:
  (mss 1448)
  (fresh false)
  (number 0)
  (length_us 1)             # of an interval
  (count 0)                 # of intervals
  (rate_0 0) (rate_1 0) (rate_2 0) (rate_3 0)
  (rate_after 0)            # bytes/s, until the next plan
  # Kept by the program:
  (started_us 0)
  (sending 0)               # the interval that is sent now
  (measured 0)              # the interval whose ACKs are awaited
  (sacks 0)                 # selective ACKs at the present cumulative acknowledgement
  (fills_gap false)
  (x 0)
  (interval 0)              # in which was sent what this ACK is for
  (room 14480)              # the most that may have been in flight, bytes
  (last_us 0))

(when fresh
  (:= fresh false)
  (:= started_us Ack.now)
  (:= measured 0)
  (:= Report.plan number)
  (:= Report.delivered 0)
  (:= Report.lost 0)
  (:= Report.acks 0)
  (:= Report.idle 0)
  (:= Report.held 0)
  (:= Report.sum_x 0)
  (:= Report.sum_y 0)
  (:= Report.sum_xx 0)
  (:= Report.sum_xy 0)
  (:= Report.sum_yy 0)
  (:= Report.held_x 0)
  (:= Report.held_y 0)
  (fallthrough))

# Linux's receivers hold a selective ACK back for up to a millisecond, from the fourth on at one
# cumulative acknowledgement: an RTT that rises with them tells nothing of the path. What fills a gap
# was sent twice; its RTT is known from TCP's timestamps alone, whose tick is a millisecond.
(when true
  (:= fills_gap (&& (> Ack.bytes_acked 0) (> sacks 0)))
  (:= sacks (+ (if (> Ack.bytes_acked 0) 0 sacks) (if (> Ack.bytes_misordered 0) 1 0)))
  (fallthrough))

# A loss is found when what was sent after it arrives, so it counts where that does.
(when true
  (:= Report.rtt_us Flow.rtt_sample_us)
  (when (&& (< measured count)
            (>= Ack.now (+ started_us Flow.rtt_sample_us)))
    (:= x (- Ack.now (+ started_us Flow.rtt_sample_us)))
    (:= interval (/ x length_us))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (when (== interval measured)
      (:= x (- x (* measured length_us)))
      (:= Report.delivered
          (+ Report.delivered
             (min (+ Ack.bytes_acked Ack.bytes_misordered)
                  (- (+ room (/ (* Rate (- Ack.now last_us)) 1000000))
                     (+ Flow.bytes_in_flight (* mss Ack.lost_pkts_sample)))))))
    (when (&& (== interval measured) (! fills_gap))
      (:= Report.acks (+ Report.acks 1))
      (:= Report.idle (+ Report.idle (if (== Flow.bytes_pending 0) 1 0)))
      (:= Report.sum_x (+ Report.sum_x x))
      (:= Report.sum_y (+ Report.sum_y Flow.rtt_sample_us))
      (:= Report.sum_xx (+ Report.sum_xx (* x x)))
      (:= Report.sum_xy (+ Report.sum_xy (* x Flow.rtt_sample_us)))
      (:= Report.sum_yy (+ Report.sum_yy (* Flow.rtt_sample_us Flow.rtt_sample_us)))
      (when (> sacks 3)
        (:= Report.held (+ Report.held 1))
        (:= Report.held_x (+ Report.held_x x))
        (:= Report.held_y (+ Report.held_y Flow.rtt_sample_us))))
    (when (> interval measured)
      (report)
      (:= Report.index measured)
      (:= measured (min interval count))
      (:= Micros 0)))
  (:= room (+ Flow.bytes_in_flight (* 2 mss)))
  (:= last_us Ack.now)

  # Asks for the first plan, and again when the next one stays away.
  (when (&& (>= measured count)
            (> Micros (if (== number 0) 0 (* 2 Flow.rtt_sample_us))))
    (:= Report.index count)
    (report)
    (:= Micros 0))

  (:= sending (/ (- Ack.now started_us) length_us))
  (:= Rate (if (>= sending count) rate_after
             (if (== sending 0) rate_0
               (if (== sending 1) rate_1
                 (if (== sending 2) rate_2 rate_3)))))
  # The rate governs; cwnd bounds what is out when ACKs stay away: twice what the rate needs.
  (when (&& (> Rate 0) (< Flow.rtt_sample_us +infinity))
    (:= Cwnd (max (* 10 mss) (/ (* Rate Flow.rtt_sample_us) 500000))))

  # RFC 5681 3.1: one segment shows whether the path is back.
  (when Flow.was_timeout
    (:= Report.timeout true)
    (:= Report.index count)
    (:= measured count)
    (:= Cwnd mss)
    (report)))
