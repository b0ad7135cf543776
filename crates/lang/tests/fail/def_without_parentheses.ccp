(def acked 0)
(when true (:= acked 1))
