//! Compiles the programs with clang and generates their skeletons.

use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        panic!("cargo sets OUT_DIR");
    };
    let machine = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    // Debian keeps asm/types.h in a folder per architecture.
    let multiarch = format!("/usr/include/{machine}-linux-gnu");
    // As libbpf's headers name it.
    let target = if machine == "x86_64" { "x86" } else { &machine };
    let target = format!("-D__TARGET_ARCH_{target}");
    for name in ["divert", "receive", "send", "sent"] {
        let source = Path::new("bpf").join(format!("{name}.bpf.c"));
        let built = SkeletonBuilder::new()
            .source(&source)
            .clang_args([
                "-Wall",
                "-Werror",
                "-mcpu=v3",
                &target,
                // Headers are read in words of other sizes than they have; the kernel is built so too.
                "-fno-strict-aliasing",
                "-idirafter",
                &multiarch,
            ])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            panic!(
                "cannot compile {}: {error:#}\nclang, libelf-dev, zlib1g-dev, pkg-config and \
                 linux-libc-dev are needed; `make setup` installs them",
                source.display()
            );
        }
    }
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../kernel/bpf/types.h");
}
