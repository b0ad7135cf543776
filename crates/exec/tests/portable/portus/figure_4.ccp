(def (Report (volatile acked 0) (volatile loss 0)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (fallthrough))
(when (> Micros Flow.rtt_sample_us)
  (report)
  (:= Micros 0))
