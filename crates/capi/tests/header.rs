//! The header that is checked in is the one that the sources make.

use std::fs;
use std::path::Path;

/// In the order in which a reader of the header meets them.
const SOURCES: [&str; 7] = [
    "error", "options", "handle", "datapath", "address", "signals", "flow",
];

#[test]
fn the_header_is_not_stale() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in SOURCES {
        builder = builder.with_src(crate_dir.join("src").join(name).with_extension("rs"));
    }
    let mut generated = Vec::new();
    builder.generate().unwrap().write(&mut generated);
    let generated = String::from_utf8(generated).unwrap();

    let path = crate_dir.join("include/fairwater.h");
    if std::env::var_os("FAIRWATER_WRITE_HEADER").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        generated == checked_in,
        "include/fairwater.h is not what the sources make: run `make header`"
    );
}
