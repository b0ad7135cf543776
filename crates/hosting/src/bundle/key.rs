//! Files with the key that both boxes of a bundle share.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use fairwater_bundle::BundleSecret;
use fairwater_bundle_linux::random;

/// Why a key cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read.
    #[error("the key cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Others may read the file.
    #[error("the key may be read by others (mode {0:03o}): `chmod 600` it")]
    Exposed(u32),
    /// The file has something else in it.
    #[error("the file has no key in it: `fairwater bundle key` makes one")]
    NotAKey,
}

/// What stands before the digits.
const PREFIX: &str = "fairwater-bundle-key-1 ";

/// Draws a key and writes it to a new file that only its owner may read.
///
/// # Errors
/// The file is there already, or cannot be written.
pub fn create_key(path: &Path) -> io::Result<()> {
    let secret: [u8; 32] = random()?;
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = file.write_all(format!("{PREFIX}{digits}\n").as_bytes());
    if written.is_err() {
        // Half a key is none.
        let _ = fs::remove_file(path);
    }
    written
}

/// Reads a key.
///
/// # Errors
/// See [`KeyError`].
pub fn read_key(path: &Path) -> Result<BundleSecret, KeyError> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed(mode));
    }
    let text = fs::read_to_string(path)?;
    parse(&text).ok_or(KeyError::NotAKey)
}

fn parse(text: &str) -> Option<BundleSecret> {
    let digits = text.trim_end().strip_prefix(PREFIX)?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return None;
    }
    let mut secret = [0; 32];
    for (byte, pair) in secret.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(BundleSecret(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_and_is_neither_overwritten_nor_read_when_others_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        create_key(&path).unwrap();
        let key = read_key(&path).unwrap();
        assert!(create_key(&path).is_err());
        assert!(read_key(&path).unwrap() == key);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read_key(&path), Err(KeyError::Exposed(0o640))));
        let other = folder.path().join("b.key");
        create_key(&other).unwrap();
        assert!(read_key(&other).unwrap() != key);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for digits in ["", "00", &"g".repeat(64), &"0".repeat(65), &"0".repeat(66)] {
            assert!(parse(&format!("{PREFIX}{digits}")).is_none(), "{digits}");
        }
        assert!(parse(&"0".repeat(64)).is_none());
    }
}
