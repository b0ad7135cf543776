# Directly under an assignment, `ewma` averages into the place; elsewhere into a hidden variable,
# updated each time its statement or condition is reached.
(def (Report (rtt 0) (double 0)))
(when (> (ewma 9 Flow.rtt_sample_us) 100000)
  (:= Report.rtt (ewma 8 Flow.rtt_sample_us))
  (:= Cwnd (ewma 5 (ewma 2 Ack.bytes_acked)))
  (:= Report.double (* 2 (ewma (if Flow.was_timeout 0 8) Ack.bytes_acked)))
  (when (> (ewma 1 Ack.packets_acked) 10)
    (if (< (ewma 3 Ack.lost_pkts_sample) 1) (report)))
  (:= Report.rtt (if Flow.was_timeout (ewma 4 Flow.rtt_sample_us)))
  (:= Report.rtt (ewma 11 Report.rtt)))
