# Some editors begin a file with a byte-order mark.
(def (Report (acked 0)) (unused 0))
(when true (:= Report.acked Ack.bytes_acked) (report))
