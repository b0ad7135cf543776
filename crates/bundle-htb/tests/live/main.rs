//! Sites in namespaces, real TCP.
