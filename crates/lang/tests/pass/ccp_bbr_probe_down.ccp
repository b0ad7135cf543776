# CCP §4.3, third excerpt: BBR drains the queue. The `def` block is not in print.
(def (pulseState 0) (curr_btl_est 0))
(when (&& (== pulseState 1)
      (> Timer.micros Flow.rtt_sample_us))
  (:= Rate (* 0.75 curr_btl_est))
  (:= pulseState 2))
