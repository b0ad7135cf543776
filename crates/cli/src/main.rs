//! The `fairwater` command.

fn main() {}
