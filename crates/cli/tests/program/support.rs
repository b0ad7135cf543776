//! What the tests of the command line share.

use std::process::{Child, Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

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

/// The kernel's names of congestion controls are the whole machine's: one test at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static NAMES: Mutex<()> = Mutex::new(());
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that ends with its test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
