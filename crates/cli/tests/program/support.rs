//! What the tests of the command line share.

use std::process::{Command, Output};

/// Runs the program to its end.
pub(crate) fn fairwater(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .args(args)
        .output()
        .unwrap()
}

/// Whether this machine can run the Linux datapath. Where it must and cannot, this fails.
pub(crate) fn privileged() -> bool {
    let doctor = fairwater(&["doctor"]);
    if doctor.status.success() {
        return true;
    }
    let probe = String::from_utf8_lossy(&doctor.stdout);
    let required = std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
    assert!(!required, "FAIRWATER_REQUIRE_PRIVILEGED=1, but:\n{probe}");
    eprintln!("not run here:\n{probe}");
    false
}
