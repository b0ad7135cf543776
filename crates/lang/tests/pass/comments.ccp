# A comment first,
(def # after a word (
  # before a declaration
  (x # between name and value
    0)) # at the end )
(when # anywhere
  # (commented out)
  (> x 5) # "quoted"
  (report) # é
  # last
)# at the very end
