# Operators come first.
(def (x 0) (b false))
(when (x > 0) (report))
(when true
  (:= x x + 1)
  (x := 5)
  (:= x (x * 2))
  (:= b ! b)
  (:= b (b && b)))
