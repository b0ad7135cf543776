# The program of the constant window or rate decides nothing. Reports once a second show that the
# flow lives.

(def (Report (volatile acked 0) (volatile lost 0) (rtt_us 0)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (:= Report.rtt_us Flow.rtt_sample_us)
  (fallthrough))
(when (|| Flow.was_timeout (> Micros 1000000))
  (report)
  (reset))
