//! Compiles the congestion controls that the benchmarks compare with.

use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        panic!("cargo sets OUT_DIR");
    };
    let machine = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let multiarch = format!("/usr/include/{machine}-linux-gnu");
    let built = SkeletonBuilder::new()
        .source(Path::new("bpf/baseline.bpf.c"))
        .clang_args([
            "-Wall",
            "-Werror",
            "-mcpu=v3",
            "-I../crates/kernel/bpf",
            "-I../crates/linux/bpf",
            "-idirafter",
            &multiarch,
        ])
        .build_and_generate(out.join("baseline.skel.rs"));
    if let Err(error) = built {
        panic!("cannot compile bpf/baseline.bpf.c: {error:#}");
    }
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../crates/kernel/bpf");
    println!("cargo::rerun-if-changed=../crates/linux/bpf");
}
