# What the parser itself refuses; it goes on after each.
(def (Report (volatile acked 0)) (x 0))
(when true
  (:= x 99999999999999999999)
  (:= x 9lives)
  (:= x 5.)
  (:= x (+ x -5))
  (:= x §4)
  (:= x [1])
  (:= Report.acked (+ Report.acked Ack.bytes_acked))) )
; a comment elsewhere
(when (> x 0) // so is this
  ())
(report)
x
(wen true (report))
((report))
