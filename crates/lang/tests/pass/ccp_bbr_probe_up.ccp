# CCP §4.3, second excerpt: BBR probes for bandwidth. The `def` block is not in print.
(def (pulseState 0) (curr_btl_est 0))
(when (== pulseState 0)
  (:= Rate (* 1.25 curr_btl_est))
  (:= pulseState 1))
