//! Datagram peers at one path that belong to different users. Needs root, to act as another.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairwater_proto::ToPlane;
use fairwater_service::Server;
use rustix::process::Uid;
use tempfile::{TempDir, tempdir};

use crate::server::server;
use crate::support::{bytes, created, hello, id};

/// Runs something in a thread as another user (a thread has its own credentials); `None` without the
/// rights to.
fn as_another_user<T: Send>(action: impl FnOnce() -> T + Send) -> Option<T> {
    let user = Some(Uid::from_raw(65_534));
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            rustix::thread::set_thread_res_uid(user, user, user).ok()?;
            Some(action())
        });
        thread.join().unwrap()
    })
}

/// A server to which every user may send, and a directory in which every user may bind.
struct Place {
    plane: TempDir,
    datapaths: TempDir,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let (plane, datapaths) = (tempdir().unwrap(), tempdir().unwrap());
        open(plane.path(), 0o755);
        open(datapaths.path(), 0o777);
        let server = server(plane.path(), 1);
        let place = Self {
            plane,
            datapaths,
            server,
        };
        open(&place.socket(), 0o666);
        place
    }

    fn socket(&self) -> PathBuf {
        self.plane.path().join("ccp")
    }

    /// Where both users bind.
    fn own(&self) -> PathBuf {
        self.datapaths.path().join("own")
    }

    /// The numbers of peers, living flows and flows so far, once the packets are handled.
    fn counts(&mut self) -> (u64, u64, u64) {
        for _ in 0..5 {
            self.server.turn(Duration::from_millis(1)).unwrap();
        }
        let statistics = self.server.service().statistics();
        (statistics.peers, statistics.flows, statistics.flows_total)
    }
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn rebind(path: &Path) -> UnixDatagram {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{error}"),
        _ => UnixDatagram::bind(path).unwrap(),
    }
}

fn start_flow(socket: &UnixDatagram, plane: &Path) {
    for message in [hello(1), created(id(0, 1), "echo")] {
        socket.send_to(&bytes(&message), plane).unwrap();
    }
}

fn end_flow(socket: &UnixDatagram, plane: &Path) {
    let closed = ToPlane::Closed { flow: id(0, 1) };
    socket.send_to(&bytes(&closed), plane).unwrap();
}

#[test]
fn another_user_cannot_end_the_flow_of_a_living_peer_from_a_socket_of_the_same_path() {
    let mut place = Place::new();
    let (plane, own) = (place.socket(), place.own());
    let Some(other) = as_another_user(|| rebind(&own)) else {
        eprintln!("not root: nothing was tested");
        return;
    };
    let first = rebind(&own);
    start_flow(&first, &plane);
    assert_eq!(place.counts(), (1, 1, 1));
    as_another_user(|| {
        end_flow(&other, &plane);
        start_flow(&other, &plane);
    });
    assert_eq!(place.counts(), (1, 1, 1));
    end_flow(&first, &plane);
    assert_eq!(place.counts(), (1, 0, 1));
}

#[test]
fn a_path_that_another_user_took_is_another_peers() {
    for first_is_open in [true, false] {
        let mut place = Place::new();
        let (plane, own) = (place.socket(), place.own());
        let first = rebind(&own);
        start_flow(&first, &plane);
        assert_eq!(place.counts(), (1, 1, 1));
        let first = Some(first).filter(|_| first_is_open);
        let Some(other) = as_another_user(|| {
            let other = rebind(&own);
            start_flow(&other, &plane);
            other
        }) else {
            eprintln!("not root: nothing was tested");
            return;
        };
        // The flow of the first user ended, and one of the other's began.
        assert_eq!(place.counts(), (1, 1, 2));
        if let Some(first) = first {
            end_flow(&first, &plane);
            assert_eq!(place.counts(), (1, 1, 2));
        }
        as_another_user(|| end_flow(&other, &plane));
        assert_eq!(place.counts(), (1, 0, 2));
    }
}
