(when true (:= x 1))
(def (x 0))
