# One parenthesis too few in the first `when`: the second is checked all the same.
(def (Report (volatile acked 0)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (fallthrough)
(when (> Report.aked 0) (report))
