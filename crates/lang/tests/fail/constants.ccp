(const
  (factor 0.75)
  (factor 0.5)
  (Cwnd 1)
  (pair 1 2)
  fast
  (unset x)
  (on true))
(def (on false) (count 0))
(when on
  (:= factor 2)
  (:= count (+ factr 1))
  (:= Cwnd on))
