# A program that does nothing.
(def (x 0))
