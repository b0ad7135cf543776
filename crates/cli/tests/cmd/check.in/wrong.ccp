(def (Report (acked 0)))
(when true
  (:= Report.ackd (+ Report.acked Ack.bytes_acked))
  (:= Cwnd (> Ack.now 5))
  (report))
