(def (volatile Report.loss 0))
(when true
  (:= Report.loss (+ Report.loss Ack.lost_pkts_sample))
  (:= Cwnd (+ Cwnd Ack.bytes_acked))
  (fallthrough))
(when (> Ack.lost_pkts_sample 0) (report))
