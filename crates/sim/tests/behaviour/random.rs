//! Whatever the network and the traffic: it ends, nothing panics, nothing is delivered that was
//! not sent, and the same comes out twice.
