# CCP Figure 6: slow start in the program, by window. The print has one `)` too many, and no
# `(fallthrough)`: read strictly, its second `when` never runs.
(def (volatile Report.loss 0))
(when true (:= Cwnd (+ Cwnd Ack.bytes_acked)))
(when (> Ack.lost_pkts_sample 0) (report))
