//! The script driver of libfairwater's tests, `ccp_driver.c`, over the crate `libccp`.

use std::ffi::c_int;
use std::process::ExitCode;

use libccp as _;

#[expect(unsafe_code, reason = "the driver is written in C")]
// SAFETY: `ccp_driver.c`, which build.rs compiles with `main` renamed, defines this function.
unsafe extern "C" {
    /// Runs the script on standard input; returns the exit status of the process.
    safe fn ccp_driver_main() -> c_int;
}

fn main() -> ExitCode {
    ExitCode::from(u8::try_from(ccp_driver_main()).unwrap_or(u8::MAX))
}
