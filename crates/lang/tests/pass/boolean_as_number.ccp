# A boolean that is stored in a number is 0 or 1.
(def (Report (timeout 0) (late 0)) (constant 0) (kept 3))
(when true
  (:= Report.timeout Flow.was_timeout)
  (:= Report.late (&& (> Flow.rtt_sample_us 100000) (! Flow.was_timeout)))
  (:= constant true)
  (:= kept (if (> constant 0) Flow.was_timeout))
  (:= Report.late (if Flow.was_timeout (> kept 0) false))
  (report))
