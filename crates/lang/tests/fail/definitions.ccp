# The `def` block.
(def (Report (volatile acked 0) (acked 1) (__hidden 0))
  (volatile Report.acked 2)
  (Cwnd 0) (Micros 0) (Timer.Micros 0) (Report 0) (Ack.bytes_acked 0) (Flow.mine 0) (max 0) (true 1)
  (x 0) (x false)
  (half 0.5) (sum (+ 1 2)) (copy x) (twice 1 2) (bare) () lonely
  (a_name_that_is_much_longer_than_any_reader_would_care_to_read_in_a_report 0))
(when true (:= x 1))
(def (y 0))
(when (> y half) (report))
