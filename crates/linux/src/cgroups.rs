//! Names of cgroups, by their ids.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the hierarchy of version 2 is mounted.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Shortest time between two walks of the hierarchy.
const PAUSE: Duration = Duration::from_secs(1);

/// How deeply the hierarchy is walked.
const MAX_DEPTH: usize = 16;

/// Paths of cgroups, `/system.slice/ssh.service`, as of the last walk of the hierarchy.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    known: RefCell<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By id; `None` for a cgroup that was gone by a walk after its socket was made: ids are not given
    /// out again.
    paths: HashMap<u64, Option<String>>,
    walked: Option<Instant>,
}

impl Cgroups {
    /// The path of a cgroup, if it is mounted here. An unknown id leads to a walk of the hierarchy,
    /// at most once a second.
    pub(crate) fn path(&self, id: u64) -> Option<String> {
        if id == 0 {
            return None;
        }
        let mut known = self.known.borrow_mut();
        if !known.paths.contains_key(&id)
            && known.walked.is_none_or(|walked| walked.elapsed() >= PAUSE)
        {
            known.walked = Some(Instant::now());
            known.paths.retain(|_, path| path.is_none());
            let found = walk().into_iter().map(|(id, path)| (id, Some(path)));
            known.paths.extend(found);
            known.paths.entry(id).or_insert(None);
        }
        known.paths.get(&id).cloned().flatten()
    }
}

fn walk() -> HashMap<u64, String> {
    let mut paths = HashMap::new();
    let is_version_2 = |mount: &&&str| Path::new(mount).join("cgroup.controllers").exists();
    let Some(root) = MOUNTS.iter().find(is_version_2).map(PathBuf::from) else {
        return paths;
    };
    if let Ok(metadata) = fs::metadata(&root) {
        paths.insert(
            std::os::unix::fs::MetadataExt::ino(&metadata),
            "/".to_owned(),
        );
    }
    let mut below = vec![(root, String::new(), 0)];
    while let Some((directory, name, depth)) = below.pop() {
        // A cgroup may be removed meanwhile.
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = format!("{name}/{}", entry.file_name().to_string_lossy());
            paths.insert(entry.ino(), path.clone());
            if depth < MAX_DEPTH {
                below.push((entry.path(), path, depth + 1));
            }
        }
    }
    paths
}
