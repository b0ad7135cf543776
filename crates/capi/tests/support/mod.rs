//! Compiles C programs against the library that belongs to this test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What the static library needs of the system, as `rustc --print native-static-libs` has it.
pub(crate) const SYSTEM_LIBRARIES: [&str; 6] =
    ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// The flags under which every C program here compiles without a warning.
pub(crate) const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-std=c11"];

/// The folder of the crate `fairwater-capi`; tests of another crate of the workspace use it too.
pub(crate) fn crate_dir() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut candidates = manifest_dir.ancestors().map(|dir| dir.join("crates/capi"));
    candidates.find(|dir| dir.is_dir()).unwrap()
}

/// Where cargo put `libfairwater.so` and `libfairwater.a`: a test's dependencies, built before it.
pub(crate) fn library_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// The C compiler.
pub(crate) fn cc() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

/// Compiles one C file of the crate against the shared library.
pub(crate) fn compile(source: &str, program: &Path) {
    let library = library_dir();
    let mut cc = cc();
    cc.args(STRICT).arg("-g");
    cc.arg("-I").arg(crate_dir().join("include"));
    cc.arg("-I").arg(crate_dir().join("include/ccp"));
    cc.arg(crate_dir().join(source)).arg("-o").arg(program);
    cc.arg(library.join("libfairwater.so"));
    // The loader looks for the soname, which only an installed library has as its file's name.
    let soname = program.with_file_name("libfairwater.so.0");
    if !soname.exists() {
        std::os::unix::fs::symlink(library.join("libfairwater.so"), &soname).unwrap();
    }
    cc.arg("-Wl,-rpath,$ORIGIN");
    succeed(&mut cc);
}

/// Compiles one C file against the static library under AddressSanitizer and UBSan. `None` when
/// the compiler has no sanitizers.
pub(crate) fn compile_sanitized(source: &str, program: &Path) -> Option<()> {
    const SANITIZE: [&str; 3] = [
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
    ];
    let probe = program.with_extension("probe");
    let mut cc_probe = cc();
    cc_probe
        .args(SANITIZE)
        .args(["-x", "c", "-", "-o"])
        .arg(&probe);
    let mut child = cc_probe
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let main = b"int main(void) { return 0; }\n";
    child.stdin.take().unwrap().write_all(main).unwrap();
    let works = child.wait().unwrap().success()
        && Command::new(&probe)
            .status()
            .is_ok_and(|status| status.success());
    if !works {
        assert!(
            std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED").is_none(),
            "this C compiler has no AddressSanitizer"
        );
        eprintln!("not run: this C compiler has no AddressSanitizer");
        return None;
    }
    let mut cc = cc();
    cc.args(STRICT).arg("-g").args(SANITIZE);
    cc.arg("-I").arg(crate_dir().join("include"));
    cc.arg("-I").arg(crate_dir().join("include/ccp"));
    cc.arg(crate_dir().join(source)).arg("-o").arg(program);
    cc.arg(library_dir().join("libfairwater.a"))
        .args(SYSTEM_LIBRARIES);
    succeed(&mut cc);
    Some(())
}

/// Runs a program with this standard input; it must succeed. Returns its standard output.
pub(crate) fn run(program: &mut Command, input: &str) -> String {
    let command = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that does not read to the end tells why by its status.
    let mut stdin = child.stdin.take().unwrap();
    let _: std::io::Result<()> = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{program:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
    text
}
