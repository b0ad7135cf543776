//! TOML documents that people write: scenarios, the configuration of a host.
//!
//! [`tree::parse`] reads a text as a tree of values that know their places. [`fields::Fields`] takes
//! the keys of a table one by one and names those that nobody asked for, [`quantity`] reads values
//! with their units, [`network`] prefixes and ports, and a [`diagnostic::Sink`] collects every mistake, to be shown under its line.
//! No I/O.
//!
//! ```
//! use fairwater_document::diagnostic::Sink;
//! use fairwater_document::fields::Fields;
//! use fairwater_document::{quantity, tree};
//!
//! let source = "silent_after = \"200\"\nmax_flws = 3\n";
//! let sink = Sink::default();
//! let root = tree::parse(source, &sink);
//! let mut fields = Fields::of("the file", &root, &sink).ok_or("no table")?;
//! assert_eq!(fields.optional("silent_after", quantity::duration), None);
//! fields.optional("max_flows", quantity::count);
//! fields.finish();
//! let diagnostics = sink.finish("host.toml", source).unwrap_err();
//! assert_eq!(diagnostics.iter().count(), 2);
//! # Ok::<(), &str>(())
//! ```

pub mod diagnostic;
pub mod fields;
pub mod network;
pub mod quantity;
pub mod queue;
pub mod tree;
