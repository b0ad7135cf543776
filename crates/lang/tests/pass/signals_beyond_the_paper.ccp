# Signals that CCP Table 2 does not have.
(def
  (best 0)
  (Report (limited false) (volatile undos 0)))
(when true
  (:= Report.limited Flow.app_limited)
  (if (! Flow.app_limited) (:= best (max best Flow.rate_incoming)))
  (:= Report.undos (+ Report.undos (if Ack.undo 1 0)))
  (fallthrough))
(when (&& Ack.undo (> best 0))
  (report))
