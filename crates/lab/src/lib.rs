//! Emulated networks in which real flows run, and what they measure.
