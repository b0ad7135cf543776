//! What `make install` copies is what a C author needs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Command;

use support::{STRICT, cc, crate_dir, library_dir, run, succeed};

#[test]
fn an_installed_library_is_found_by_pkg_config_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let destination = folder.path().join("destination");
    let script = crate_dir().join("../../scripts/install-library");
    let install = || {
        let mut command = Command::new(&script);
        command
            .env("DESTDIR", &destination)
            .env("PREFIX", "/opt/fw");
        command
    };
    succeed(install().arg(library_dir()));
    let root = destination.join("opt/fw");

    let pkg_config = |package: &str, what: &str| {
        let mut command = Command::new("pkg-config");
        command.args([what, package]);
        command.env("PKG_CONFIG_PATH", root.join("lib/pkgconfig"));
        command.env("PKG_CONFIG_SYSROOT_DIR", &destination);
        let output = succeed(&mut command);
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let pc = std::fs::read_to_string(root.join("lib/pkgconfig/fairwater.pc")).unwrap();
    assert!(pc.starts_with("prefix=/opt/fw\n"), "{pc}");
    assert_eq!(
        pkg_config("fairwater", "--modversion"),
        [env!("CARGO_PKG_VERSION")]
    );

    for (package, source) in [("fairwater", "toy"), ("fairwater-ccp", "ccp_toy")] {
        let program = folder.path().join(source);
        let mut command = cc();
        command.args(STRICT).args(pkg_config(package, "--cflags"));
        command.arg(
            crate_dir()
                .join("examples")
                .join(source)
                .with_extension("c"),
        );
        command
            .arg("-o")
            .arg(&program)
            .args(pkg_config(package, "--libs"));
        succeed(&mut command);
        // The loader finds the library by its soname.
        let nowhere = folder.path().join("nobody");
        let mut command = Command::new(&program);
        command
            .arg(nowhere)
            .env("LD_LIBRARY_PATH", root.join("lib"));
        assert!(!run(&mut command, "").is_empty());
    }

    succeed(install().arg("--uninstall"));
    assert_eq!(files(&destination), Vec::<String>::new());
}

fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}
