(def (Report (acked 0)))
(when false (report))
