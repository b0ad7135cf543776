//! The datapath at its seams: signals and packets in, controls and packets out.

mod flows;
mod harness;
