//! The machine that runs of real TCP and benchmarks are measured on.

use std::fs;
use std::num::NonZero;
use std::thread;

use fairwater_reproduce::atlas::Machine;
use fairwater_results::{Folder, write_whole};

use crate::failure::Failure;

/// Where it is kept, beside what was measured.
const FILE: &str = "machine.json";

/// This machine.
fn this_machine() -> Machine {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    let kernel = rustix::system::uname();
    Machine {
        kernel: kernel.release().to_string_lossy().into_owned(),
        cpu: model.unwrap_or_else(|| "an unknown CPU".to_owned()),
        cores: thread::available_parallelism().map_or(1, NonZero::get),
    }
}

/// Keeps this machine beside what is measured now.
pub(super) fn keep(folder: &Folder) -> Result<(), Failure> {
    let path = folder.file(FILE);
    serde_json::to_vec_pretty(&this_machine())
        .map_err(std::io::Error::from)
        .and_then(|text| write_whole(&path, &text))
        .map_err(Failure::io(path.display().to_string()))
}

/// The machine on which it was measured; `None` if it is not known.
pub(super) fn kept(folder: &Folder) -> Option<Machine> {
    let bytes = fs::read(folder.file(FILE)).ok()?;
    serde_json::from_slice(&bytes).ok()
}
