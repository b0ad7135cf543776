//! Compiles the C program that follows a script through libccp's interface, for the binary
//! `libccp-driver`.

use std::path::Path;

fn main() {
    let capi = Path::new("../crates/capi");
    let source = capi.join("tests/c/ccp_driver.c");
    // Our header: a transport compiled with it must run on libccp too.
    let headers = capi.join("include/ccp");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed={}", headers.display());
    let objects = cc::Build::new()
        .file(&source)
        .include(&headers)
        .define("main", "ccp_driver_main")
        .warnings_into_errors(true)
        .compile_intermediates();
    for object in objects {
        println!("cargo::rustc-link-arg-bins={}", object.display());
    }
}
