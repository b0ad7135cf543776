# Operators that are not of the language are no names either.
(def (%% 0) (Report (=> 1)))
(when true (:= %% 1))
