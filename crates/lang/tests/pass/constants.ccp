# Parts that constants rule out are gone; the others are as if written without them.
(const
  (factor 0.75)
  (floor_us 4000)
  (by_rate false)
  (verbose true))
(def
  (Report (volatile acked 0) (when verbose (rtt_us +infinity)))
  (when by_rate (rate_now 0))
  (start floor_us))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (when verbose (:= Report.rtt_us Flow.rtt_sample_us))
  (when by_rate (:= rate_now Rate) (:= Rate (* 2 rate_now)))
  (if (! by_rate) (:= Cwnd (* factor Cwnd)) (:= Rate 0))
  (when (> Report.acked 0) (when by_rate (:= Rate 1)))
  (fallthrough))
(when (&& by_rate (> rate_now 0)) (report))
(when (|| (> start 0) (> Micros (if (> floor_us 0) floor_us Flow.rtt_sample_us)))
  (report)
  (reset))
