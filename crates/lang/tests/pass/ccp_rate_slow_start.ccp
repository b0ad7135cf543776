# CCP §4.4: slow start in the program, by rate.
(when (> Timer.Micros Flow.rtt_sample_us)
  (:= Rate (* Rate 2))
  (:= Timer.Micros 0))
