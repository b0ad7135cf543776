(def (Report (volatile acked 0)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked
