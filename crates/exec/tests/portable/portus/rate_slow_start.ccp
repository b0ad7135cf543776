(def (Report.unused 0))
(when (> Micros Flow.rtt_sample_us)
  (:= Rate (* Rate 2))
  (:= Micros 0))
