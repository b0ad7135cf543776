//! Names of a recording's files.

/// The head.
pub(crate) const HEAD: &str = "recording.json";
/// The programs.
pub(crate) const PROGRAMS: &str = "programs.json";
/// What the recorder says when it ends: without it, the recording was cut off.
pub(crate) const END: &str = "end.json";

/// Digits of a hash that a file's name has.
const HASH_DIGITS: usize = 16;

/// The name of the file of that number, from 1, with these bytes. The name tells whether the bytes are
/// those that were written.
pub(crate) fn table_name(number: u64, bytes: &[u8]) -> String {
    let hash = blake3::hash(bytes).to_hex();
    format!("{number:06}-{}.parquet", &hash[..HASH_DIGITS])
}

/// The number of a file of this name; `None` of a name that is none of a table's.
pub(crate) fn table_number(name: &str) -> Option<u64> {
    let (number, hash) = name.strip_suffix(".parquet")?.split_once('-')?;
    let is_hash = hash.len() == HASH_DIGITS && hash.bytes().all(|b| b.is_ascii_hexdigit());
    let number = number.parse().ok().filter(|number| *number > 0)?;
    is_hash.then_some(number)
}
