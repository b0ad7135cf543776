# The program of the Sprout-like algorithm: it counts what is delivered in a tick of 20 ms, and holds
# the window that the plane forecasts.

(def
  (Report
    (volatile delivered 0)           # bytes, in or out of order
    (volatile lost 0)                # packets
    (volatile min_rtt_us +infinity)  # of this tick
    (volatile idle false)            # the application had nothing more to send
    (volatile timeout false))
  (mss 1448)
  (window 14480)                     # bytes, set by the plane each tick
  (room 14480))                      # the most that may have been in flight

(when true
  (:= Report.delivered
      (+ Report.delivered
         (min (+ Ack.bytes_acked Ack.bytes_misordered)
              (- room (+ Flow.bytes_in_flight (* mss Ack.lost_pkts_sample))))))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
  (if (== Flow.bytes_pending 0) (:= Report.idle true))
  (:= Cwnd (max window mss))
  # RFC 5681 3.1: one segment shows whether the path is back.
  (when Flow.was_timeout
    (:= Report.timeout true)
    (:= Cwnd mss))
  (:= room (max Cwnd Flow.bytes_in_flight))
  (when (|| Flow.was_timeout (>= Micros 20000))
    (report)
    (reset)))
