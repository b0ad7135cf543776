//! Sans-IO packets, queue disciplines, links and delivery traces.
