# Nothing is said about names when the `def` block cannot be read.
(def (Report (volatile acked 0))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked 1.5)))
