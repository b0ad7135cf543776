# `(fallthrough)` stays in force for the rest of the invocation, so all of these can run.
(when Flow.was_timeout (fallthrough))
(when true (:= Cwnd 15000))
(when (> Cwnd 5) (report))
