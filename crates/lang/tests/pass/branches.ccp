# `if` as a value and as a statement, and `when` in `when`.
(def (Report (rate 0) (flag false)) (x 0))
(when true
  # Directly under an assignment, an `if` without an else leaves the place as it is …
  (:= Report.rate (if (> x 5) Flow.rate_incoming))
  (:= Report.rate (!if (> x 5) Flow.rate_outgoing))
  (:= Report.flag (if (> x 5) true))
  (:= Cwnd (if (> x 9) 15000))
  # … elsewhere it yields 0 or false.
  (:= x (+ x (if Flow.was_timeout 1)))
  (:= Report.flag (! (!if Flow.was_timeout true)))
  (:= x (if (> x 5) (if (> x 6) 1 2) 3))
  (If (> x 5) (report))
  (!if (> x 5) (reset) (:= x 0))
  (if (> x 5) (when (> x 6) (:= x 1) (if (> x 7) (report) (fallthrough))) (report))
  (when Flow.was_timeout
    (:= x 0)
    (when Report.flag (report) (fallthrough))))
