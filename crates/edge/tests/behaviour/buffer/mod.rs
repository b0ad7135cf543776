//! Connections whose data a box holds.

mod malformed;
mod model;
mod packets;
mod properties;
mod returns;
mod setup;
