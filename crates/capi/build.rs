//! Names the shared library's ABI.

/// The number after `.so`: it changes when a program built against an older header would break.
const ABI: &str = "0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match os.as_str() {
        "linux" | "android" | "freebsd" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfairwater.so.{ABI}");
        }
        "macos" | "ios" => {
            println!(
                "cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libfairwater.{ABI}.dylib"
            );
        }
        _ => {}
    }
}
