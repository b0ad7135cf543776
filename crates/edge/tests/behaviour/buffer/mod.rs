//! Connections whose data a box holds.

mod model;
mod properties;
