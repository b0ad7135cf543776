# Sizes of requests at an Internet router: 97.6 % have at most 10 kB, 0.002 % from 5 to 100 MB (Bundler §7.1).
# The first point begins the sizes at 1 byte: without it, all of the first share would have 10 kB.
1 0.000001
10000 0.976
100000 0.995
1000000 0.999
5000000 0.99998
100000000 1
