//! The command line as a user meets it: each file in `cmd/` is a session, and what it prints.
//!
//! `TRYCMD=overwrite cargo test -p fairwater --test cli` rewrites them; read the difference.

#[test]
fn sessions() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
