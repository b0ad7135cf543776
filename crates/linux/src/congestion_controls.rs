//! Congestion controls of the kernel by name: the names that an algorithm gets, and the default
//! without Fairwater.

use std::{fs, io};

use crate::LinuxError;

/// Prefix of the names of Fairwater's congestion controls.
pub(crate) const PREFIX: &str = "fw_";
/// The default of the network namespace that the calling thread is in.
pub(crate) const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Length of the kernel's names, 16 bytes, without prefix and NUL.
const MAX_NAME: usize = 12;
/// Length of a suffix of [`unique_name`], `_` included.
const SUFFIX: usize = 4;

/// `fw_` and the algorithm's name. A name that is too long loses words from its end, but keeps a
/// number there: `congestion_manager_2` is `fw_congestion_2`.
pub(crate) fn kernel_name(algorithm: &str) -> Result<String, LinuxError> {
    check(algorithm)?;
    let name = without_words(algorithm, MAX_NAME).ok_or_else(|| bad(algorithm))?;
    Ok(format!("{PREFIX}{name}"))
}

/// A name for one run of one process, so that several can use an algorithm at once: the name above
/// cut to 8 characters, and a suffix from `number` in base 36: `fw_cubic_7k2`.
pub(crate) fn unique_name(algorithm: &str, number: u32) -> Result<String, LinuxError> {
    check(algorithm)?;
    let room = MAX_NAME - SUFFIX;
    let name =
        without_words(algorithm, room).unwrap_or_else(|| algorithm.chars().take(room).collect());
    let digit = |power: u32| char::from_digit(number / 36u32.pow(power) % 36, 36).unwrap_or('0');
    let suffix: String = [digit(2), digit(1), digit(0)].iter().collect();
    Ok(format!("{PREFIX}{name}_{suffix}"))
}

fn bad(algorithm: &str) -> LinuxError {
    LinuxError::BadName {
        name: algorithm.to_owned(),
    }
}

fn check(algorithm: &str) -> Result<(), LinuxError> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    match !algorithm.is_empty() && algorithm.bytes().all(allowed) {
        true => Ok(()),
        false => Err(bad(algorithm)),
    }
}

/// The name within `room` bytes, whole words and a number at its end; `None` if no word fits.
fn without_words(algorithm: &str, room: usize) -> Option<String> {
    let is_number = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let (mut words, number) = match algorithm.rsplit_once('_').filter(|(_, n)| is_number(n)) {
        Some((words, _)) => (words, &algorithm[words.len()..]),
        None => (algorithm, ""),
    };
    while words.len() + number.len() > room {
        (words, _) = words.rsplit_once('_')?;
    }
    (!words.is_empty()).then(|| format!("{words}{number}"))
}

/// The congestion control for connections that Fairwater leaves, where nothing better is known:
/// the kernel's own default if it is loaded, and Reno, which every kernel has, otherwise.
#[must_use]
pub fn native_default() -> &'static str {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.unwrap_or_default();
    let has_cubic = available.split_whitespace().any(|name| name == "cubic");
    if has_cubic { "cubic" } else { "reno" }
}

/// The congestion control that new connections of this network namespace get without Fairwater.
pub(crate) fn default_without_fairwater() -> String {
    match fs::read_to_string(DEFAULT) {
        Ok(name) if !name.starts_with(PREFIX) => name.trim().to_owned(),
        _ => native_default().to_owned(),
    }
}

/// Sets the default of the calling thread's network namespace anew if it has that name: it may
/// mean a plane of that name that is gone.
pub(crate) fn renew_default(name: &str) -> io::Result<()> {
    match fs::read_to_string(DEFAULT) {
        Ok(default) if default.trim() == name => fs::write(DEFAULT, name),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_loses_words_and_keeps_its_number() {
        let name = |algorithm| kernel_name(algorithm).ok();
        assert_eq!(name("cubic").as_deref(), Some("fw_cubic"));
        assert_eq!(name("reno_2").as_deref(), Some("fw_reno_2"));
        assert_eq!(name("twelve_bytes").as_deref(), Some("fw_twelve_bytes"));
        assert_eq!(name("congestion_manager").as_deref(), Some("fw_congestion"));
        assert_eq!(name("congestion_manager_12"), None);
        assert_eq!(
            name("congestion_manager_2").as_deref(),
            Some("fw_congestion_2")
        );
        for bad in ["", "Cubic", "a-b", "thirteenbytes", "_thirteenbytes"] {
            assert_eq!(name(bad), None, "{bad}");
        }
    }

    #[test]
    fn unique_names_fit_the_kernel_and_differ_by_their_number() {
        let name = |algorithm, number| unique_name(algorithm, number).ok();
        assert_eq!(name("cubic", 0).as_deref(), Some("fw_cubic_000"));
        assert_eq!(
            name("cubic", 36 * 36 * 36 + 37).as_deref(),
            Some("fw_cubic_011")
        );
        assert_eq!(name("constant_2", 35).as_deref(), Some("fw_constant_00z"));
        for algorithm in [
            "thirteenbytes",
            "congestion_manager_12",
            "_thirteenbytes",
            "x",
        ] {
            let name = name(algorithm, 46_655).unwrap();
            assert!(name.len() <= 15 && name.ends_with("_zzz"), "{name}");
        }
        assert_eq!(name("Cubic", 1), None);
    }
}
