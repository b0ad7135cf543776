# CCP Figure 4: slow start in the plane. `loss` is never assigned, in print as here.
(def (Report (volatile acked 0) (volatile loss 0)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (when (> Micros Flow.rtt_sample_us) (report) (reset)))
