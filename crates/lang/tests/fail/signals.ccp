(def (Report (n 0)))
(when (> Ack.rtt 0) (:= Report.n Flow.window) (report))
