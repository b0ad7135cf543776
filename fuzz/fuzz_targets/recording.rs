//! Whatever one of a recording's files has in it, reading the recording and stepping through what can be
//! read panics nowhere.

#![no_main]

use std::io;
use std::path::Path;

use fairwater_recording::replay::{self, Interpreter};
use fairwater_recording::{Recording, Stepper};
use libfuzzer_sys::fuzz_target;

const HEAD: &str = include_str!("../seeds/recording/recording.json");
const PROGRAMS: &str = include_str!("../seeds/recording/programs.json");

fuzz_target!(|input: (u8, &[u8])| {
    let (which, bytes) = input;
    let names = ["recording.json", "programs.json", "end.json", "000001-0123456789abcdef.parquet"];
    let changed = names[usize::from(which) % names.len()];
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut read = |name: &str| match name {
        name if name == changed => Ok(bytes.to_vec()),
        "recording.json" => Ok(HEAD.into()),
        "programs.json" => Ok(PROGRAMS.into()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let Ok(recording) = Recording::read(Path::new("fuzz"), &names, &mut read) else {
        return;
    };
    let _ = replay::programs(&recording, &mut Interpreter);
    if let Ok(stepper) = Stepper::new(&recording) {
        for number in 1..=stepper.last() {
            let _ = stepper.step(number);
        }
    }
});
