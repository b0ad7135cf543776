//! Where sockets may be bound.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use fairwater_proto::link::datagram::{Datapath, PlaneSocket};
use fairwater_proto::link::{ring, seqpacket};
use tempfile::tempdir;

/// Binds each kind of socket in the directory, and expects the same of all.
fn bind(directory: &Path) -> io::Result<()> {
    let place = |name: &str| directory.join(name);
    let results = [
        PlaneSocket::bind(place("plane")).map(drop),
        Datapath::bind(place("datapath"), place("plane")).map(drop),
        seqpacket::Listener::bind(place("seqpacket")).map(drop),
        ring::Listener::bind(place("ring"), ring::DEFAULT_CAPACITY).map(drop),
    ];
    let failures = results.iter().filter(|result| result.is_err()).count();
    assert!(failures == 0 || failures == results.len(), "{results:?}");
    results.into_iter().collect()
}

/// Expects a refusal that names the directory and says what to do.
fn refused(directory: &Path, advice: &str) {
    let error = bind(directory).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let text = error.to_string();
    assert!(text.contains(directory.to_str().unwrap()), "{text}");
    assert!(text.contains(advice), "{text}");
    let left = fs::read_dir(directory).unwrap().count();
    assert_eq!(left, 0, "a socket was bound nevertheless");
}

fn make(directory: &Path, mode: u32) {
    fs::create_dir(directory).unwrap();
    fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_directory_that_others_can_write_to_is_refused_unless_it_is_sticky() {
    let parent = tempdir().unwrap();
    for mode in [0o777, 0o775, 0o770, 0o702] {
        let directory = parent.path().join(format!("{mode:o}"));
        make(&directory, mode);
        refused(&directory, "chmod go-w");
    }
    for mode in [0o1777, 0o1770, 0o755, 0o700] {
        let directory = parent.path().join(format!("{mode:o}"));
        make(&directory, mode);
        bind(&directory).unwrap();
    }
}

#[test]
fn a_directory_below_one_that_others_can_write_to_is_refused() {
    let parent = tempdir().unwrap();
    let open = parent.path().join("open");
    make(&open, 0o777);
    let error = bind(&open.join("own")).unwrap_err();
    assert!(error.to_string().contains("chmod go-w"), "{error}");
}

#[test]
fn a_symbolic_link_to_a_directory_is_refused() {
    let parent = tempdir().unwrap();
    let (target, link) = (parent.path().join("target"), parent.path().join("link"));
    make(&target, 0o700);
    symlink(&target, &link).unwrap();
    refused(&link, "remove the link");
}

/// Needs root, to give a directory away.
#[test]
fn a_directory_of_another_user_is_refused() {
    let parent = tempdir().unwrap();
    let directory = parent.path().join("foreign");
    for mode in [0o700, 0o755, 0o1777] {
        make(&directory, mode);
        if chown(&directory, Some(65_534), None).is_err() {
            eprintln!("not root: nothing was tested");
            return;
        }
        refused(&directory, "user 65534");
        fs::remove_dir(&directory).unwrap();
    }
}

/// The umask is the process's, so this test has a process of its own.
#[test]
fn a_umask_of_0_opens_neither_the_socket_nor_its_directory() {
    const CHILD: &str = "FAIRWATER_TEST_UMASK_0";
    let own_name = "places::a_umask_of_0_opens_neither_the_socket_nor_its_directory";
    if std::env::var_os(CHILD).is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", own_name])
            .env(CHILD, "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let parent = tempdir().unwrap();
    rustix::process::umask(rustix::fs::Mode::empty());
    let directory = parent.path().join("a/b");
    let plane = PlaneSocket::bind(directory.join("plane")).unwrap();
    let listener = seqpacket::Listener::bind(directory.join("seqpacket")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&parent.path().join("a")), 0o700);
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(plane.path()), 0o600);
    assert_eq!(mode(listener.path()), 0o600);
}
