# Each unknown name is an error that suggests the nearest.
(def (Report (volatile acked 0)) (pulse 0))
(when true
  (:= Report.acked (+ Report.aked Ack.byte_acked))
  (:= acked 1)
  (:= plse 2)
  (:= threshold (maxx pulse Cwmd))
  (:= Ack.bytes_acked 0)
  (:= Flow.nothing 0)
  (when (> Flow.rtt_sampl_us Timer.Micro) (reprot)))
