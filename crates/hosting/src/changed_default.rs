//! The machine's default congestion control, changed for as long as a plane runs.
//!
//! A state file keeps the former default, and is locked while the default is changed. A lock ends
//! with its process and the file does not, so a start after `kill -9` finds an unlocked file and
//! restores the default in it. Each network namespace has its own default and file.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fairwater_linux::native_default;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Where the default and its state file are.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The sysctl `net.ipv4.tcp_congestion_control`, for IPv6 too.
    pub(crate) sysctl: PathBuf,
    /// The state file.
    pub(crate) state: PathBuf,
    /// Writes a congestion control into the sysctl.
    set: fn(&Path, &str) -> io::Result<()>,
}

impl Places {
    /// For the network namespace that this process is in.
    ///
    /// # Errors
    /// The namespace cannot be told.
    pub(crate) fn of_this_namespace() -> io::Result<Self> {
        let namespace = fs::metadata("/proc/self/ns/net")?.ino();
        Ok(Self {
            sysctl: "/proc/sys/net/ipv4/tcp_congestion_control".into(),
            state: format!("/run/fairwater/default-{namespace}.json").into(),
            set: |sysctl, name| fs::write(sysctl, name),
        })
    }
}

/// Content of the state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    former: String,
    ours: String,
    pid: u32,
}

/// The changed default; it is restored when this is dropped.
#[derive(Debug)]
pub(crate) struct ChangedDefault {
    places: Places,
    /// Locked, and so the proof that this process lives.
    _lock: File,
    /// `None` once it is restored.
    change: Option<Change>,
}

/// Why the default was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum DefaultError {
    /// Another process has changed it and still runs.
    #[error("the default is set to {ours} by process {pid}; stop it first")]
    Held {
        /// What that process has set.
        ours: String,
        /// The process.
        pid: u32,
    },
    /// Reading or writing failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A default that was changed by Fairwater and is not any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restored {
    /// The congestion control that Fairwater had set.
    from: String,
    /// The default before.
    former: String,
    /// The default now: the former, or another if the former is gone.
    to: String,
}

impl Display for Restored {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { from, former, to } = self;
        if former == to {
            write!(f, "the default was {from}, and is {to} again")
        } else {
            write!(
                f,
                "the default was {from}, and is {to} now; {former}, the default before, is gone"
            )
        }
    }
}

/// Restores the default if a process that changed it was killed.
///
/// Nothing is done while such a process runs, nor when somebody has changed the default since.
///
/// # Errors
/// The default or the state file cannot be read or written.
pub(crate) fn restore_after_kill(places: &Places) -> Result<Option<Restored>, DefaultError> {
    if !places.state.exists() {
        return Ok(None);
    }
    let Some(mut file) = open_locked(&places.state)?.ok() else {
        return Ok(None);
    };
    let Some(change) = read_change(&mut file, &places.state)? else {
        return Ok(None);
    };
    restore(places, &change)
}

impl ChangedDefault {
    /// Makes `name` the default until this is dropped. The name must be registered.
    ///
    /// # Errors
    /// Another process has changed the default, or it cannot be read or written.
    pub(crate) fn set(places: Places, name: &str) -> Result<Self, DefaultError> {
        restore_after_kill(&places)?;
        if let Some(directory) = places.state.parent() {
            fs::create_dir_all(directory).map_err(at(directory))?;
        }
        let mut file = match open_locked(&places.state)? {
            Ok(file) => file,
            Err(mut held) => {
                let change = read_change(&mut held, &places.state)?;
                let (ours, pid) = change.map_or_else(Default::default, |c| (c.ours, c.pid));
                return Err(DefaultError::Held { ours, pid });
            }
        };
        let mut former = read_default(&places.sysctl)?;
        if former == name {
            // An earlier plane of this name, or an administrator, made it the default.
            native_default().clone_into(&mut former);
        }
        let change = Change {
            former,
            ours: name.to_owned(),
            pid: std::process::id(),
        };
        // The state first: killed between the two, there is nothing to restore.
        write_change(&mut file, &change).map_err(at(&places.state))?;
        (places.set)(&places.sysctl, name).map_err(at(&places.sysctl))?;
        Ok(Self {
            places,
            _lock: file,
            change: Some(change),
        })
    }

    /// The default before.
    #[must_use]
    pub(crate) fn former(&self) -> &str {
        self.change.as_ref().map_or("", |change| &change.former)
    }

    /// Restores the default; `None` if somebody has changed it since.
    ///
    /// # Errors
    /// The default or the state file cannot be read or written.
    pub(crate) fn restore(mut self) -> Result<Option<Restored>, DefaultError> {
        let change = self.change.take();
        change.map_or(Ok(None), |change| restore(&self.places, &change))
    }
}

impl Drop for ChangedDefault {
    fn drop(&mut self) {
        // Whoever wants to know of errors calls `restore`.
        let _ = self
            .change
            .take()
            .map(|change| restore(&self.places, &change));
    }
}

/// Puts the former default back unless somebody has changed it since; removes the state file. A
/// former default that is gone is replaced, as the present one is about to go, too.
fn restore(places: &Places, change: &Change) -> Result<Option<Restored>, DefaultError> {
    let mut restored = None;
    if read_default(&places.sysctl)? == change.ours {
        // A network namespace may not set a default that its owner may not choose; Reno it may.
        let set = |name| (places.set)(&places.sysctl, name).map(|()| name);
        let to = set(change.former.as_str())
            .or_else(|_| set(native_default()))
            .or_else(|_| set("reno"))
            .map_err(at(&places.sysctl))?;
        restored = Some(Restored {
            from: change.ours.clone(),
            former: change.former.clone(),
            to: to.to_owned(),
        });
    }
    fs::remove_file(&places.state).map_err(at(&places.state))?;
    Ok(restored)
}

fn read_default(sysctl: &Path) -> Result<String, DefaultError> {
    Ok(fs::read_to_string(sysctl)
        .map_err(at(sysctl))?
        .trim()
        .to_owned())
}

/// The file at `path`, made if need be: locked, or as it is when another process holds it.
fn open_locked(path: &Path) -> Result<Result<File, File>, DefaultError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    loop {
        let file = options.open(path).map_err(at(path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Err(file)),
            Err(error) => return Err(at(path)(error.into())),
        }
        // Its last holder may have removed it between our opening and our locking.
        let ours = file.metadata().map_err(at(path))?.ino();
        if fs::metadata(path).is_ok_and(|now| now.ino() == ours) {
            return Ok(Ok(file));
        }
    }
}

/// `None` when there is nothing to restore: the file is new, or was being written when its
/// writer was killed, which is before the default is changed.
fn read_change(file: &mut File, path: &Path) -> Result<Option<Change>, DefaultError> {
    let mut text = String::new();
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))
        .map_err(at(path))?;
    Ok(serde_json::from_str(&text).ok())
}

fn write_change(file: &mut File, change: &Change) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    serde_json::to_writer(&mut *file, change)?;
    file.flush()
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> DefaultError {
    let path = path.to_owned();
    move |source| DefaultError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        _directory: tempfile::TempDir,
        places: Places,
    }

    fn machine() -> Machine {
        let directory = tempfile::tempdir().unwrap();
        let places = Places {
            sysctl: directory.path().join("tcp_congestion_control"),
            state: directory.path().join("run/fairwater/default.json"),
            // The kernel's answer where a congestion control is not registered.
            set: |sysctl, name| match name {
                "gone" => Err(io::Error::from(io::ErrorKind::NotFound)),
                _ => fs::write(sysctl, name),
            },
        };
        fs::write(&places.sysctl, "bbr\n").unwrap();
        Machine {
            _directory: directory,
            places,
        }
    }

    fn default_of(machine: &Machine) -> String {
        read_default(&machine.places.sysctl).unwrap()
    }

    /// Ends the process's part without its drop: what `kill -9` leaves.
    fn kill(default: ChangedDefault) {
        let lock = default._lock.try_clone().unwrap();
        std::mem::forget(default);
        flock(&lock, FlockOperation::Unlock).unwrap();
    }

    #[test]
    fn the_default_is_ours_until_dropped() {
        let machine = machine();
        let default = ChangedDefault::set(machine.places.clone(), "fw_cubic").unwrap();
        assert_eq!(
            (default_of(&machine).as_str(), default.former()),
            ("fw_cubic", "bbr")
        );
        drop(default);
        assert_eq!(default_of(&machine), "bbr");
        assert!(!machine.places.state.exists());
    }

    #[test]
    fn a_start_after_a_kill_restores() {
        let machine = machine();
        kill(ChangedDefault::set(machine.places.clone(), "fw_cubic").unwrap());
        assert_eq!(default_of(&machine), "fw_cubic");
        let restored = restore_after_kill(&machine.places).unwrap();
        let sentence = restored.unwrap().to_string();
        assert_eq!(sentence, "the default was fw_cubic, and is bbr again");
        assert_eq!(default_of(&machine), "bbr");
    }

    #[test]
    fn the_former_default_survives_a_kill_and_another_change() {
        let machine = machine();
        kill(ChangedDefault::set(machine.places.clone(), "fw_cubic").unwrap());
        let second = ChangedDefault::set(machine.places.clone(), "fw_reno").unwrap();
        assert_eq!(second.former(), "bbr");
        drop(second);
        assert_eq!(default_of(&machine), "bbr");
    }

    #[test]
    fn a_running_holder_is_named_and_left_alone() {
        let machine = machine();
        let first = ChangedDefault::set(machine.places.clone(), "fw_cubic").unwrap();
        assert_eq!(restore_after_kill(&machine.places).unwrap(), None);
        let error = ChangedDefault::set(machine.places.clone(), "fw_reno")
            .unwrap_err()
            .to_string();
        assert!(error.contains("fw_cubic"), "{error}");
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        assert_eq!(default_of(&machine), "fw_cubic");
        drop(first);
        assert_eq!(default_of(&machine), "bbr");
    }

    #[test]
    fn what_somebody_else_has_set_since_is_kept() {
        let machine = machine();
        let default = ChangedDefault::set(machine.places.clone(), "fw_cubic").unwrap();
        fs::write(&machine.places.sysctl, "reno\n").unwrap();
        assert_eq!(default.restore().unwrap(), None);
        assert_eq!(default_of(&machine), "reno");
    }

    #[test]
    fn a_former_default_that_is_gone_is_replaced_and_named() {
        let machine = machine();
        fs::write(&machine.places.sysctl, "gone\n").unwrap();
        kill(ChangedDefault::set(machine.places.clone(), "fw_cubic").unwrap());
        let sentence = restore_after_kill(&machine.places).unwrap().unwrap();
        let sentence = sentence.to_string();
        assert!(sentence.contains("gone, the default before"), "{sentence}");
        assert_eq!(default_of(&machine), native_default());
        assert!(!machine.places.state.exists());
        // So it is where the plane stops in good order.
        fs::write(&machine.places.sysctl, "gone\n").unwrap();
        let default = ChangedDefault::set(machine.places.clone(), "fw_cubic").unwrap();
        default.restore().unwrap().unwrap();
        assert_eq!(default_of(&machine), native_default());
    }

    #[test]
    fn the_name_itself_is_no_former_default() {
        let machine = machine();
        fs::write(&machine.places.sysctl, "fw_cubic\n").unwrap();
        let default = ChangedDefault::set(machine.places.clone(), "fw_cubic").unwrap();
        assert_eq!(default.former(), native_default());
        drop(default);
        assert_eq!(default_of(&machine), native_default());
    }

    #[test]
    fn a_half_written_state_restores_nothing() {
        let machine = machine();
        fs::create_dir_all(machine.places.state.parent().unwrap()).unwrap();
        fs::write(&machine.places.state, "{\"former\":\"cu").unwrap();
        assert_eq!(restore_after_kill(&machine.places).unwrap(), None);
        assert_eq!(default_of(&machine), "bbr");
    }
}
