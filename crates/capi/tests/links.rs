//! A datapath finds its plane by every link of ours, waits on one descriptor, and finds the next
//! plane when the first is gone.

#![expect(
    unsafe_code,
    reason = "the functions of a C interface are unsafe to call"
)]
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each one hands the interface pointers of the test's own, which live for the call"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::{size_of, zeroed};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fairwater::fw_error::*;
use fairwater::fw_link::*;
use fairwater::*;
use fairwater_algorithms::{Reno, RenoConfig};
use fairwater_plane::Plane;
use fairwater_proto::link::{Link, Listener, MAX_PACKET, datagram, ring, seqpacket};
use fairwater_proto::{Dialect, ToDatapath, ToPlane, Welcome};
use fairwater_service::{Config, Endpoints, Server};

/// Types of libccp's messages.
const CREATE: u8 = 0;
const READY: u8 = 5;

unsafe extern "C" fn set_cwnd(_: *mut c_void, _: u64) {}

unsafe extern "C" fn log(lines: *mut c_void, _: fw_log_level, line: *const c_char) {
    let line = unsafe { CStr::from_ptr(line) }.to_str().unwrap().to_owned();
    unsafe { &mut *lines.cast::<Vec<String>>() }.push(line);
}

/// A datapath with one flow, that nobody answers at first.
struct Rig {
    datapath: *mut fw_datapath,
    lines: *mut Vec<String>,
    now_us: u64,
}

impl Rig {
    fn at(link: fw_link, path: &Path) -> Self {
        let lines = Box::into_raw(Box::<Vec<String>>::default());
        let mut options: fw_options = unsafe { zeroed() };
        options.size = size_of::<fw_options>();
        options.callbacks.set_cwnd = Some(set_cwnd);
        options.callbacks.log = Some(log);
        options.user_data = lines.cast();
        let mut datapath = null_mut();
        assert_eq!(
            unsafe { fw_datapath_new(&options, &raw mut datapath) },
            FW_OK
        );
        assert_eq!(unsafe { fw_datapath_fd(datapath) }, -1);
        let path = CString::new(path.to_str().unwrap()).unwrap();
        let code = unsafe { fw_datapath_connect(datapath, link as u32, path.as_ptr(), 0) };
        assert_eq!(code, FW_ERROR_NO_PLANE);

        let mut info: fw_flow_info = unsafe { zeroed() };
        info.size = size_of::<fw_flow_info>();
        (info.mss, info.cwnd) = (1000, 10_000);
        let mut flow = 0;
        let code = unsafe { fw_flow_start(datapath, &info, null_mut(), &raw mut flow) };
        assert_eq!(code, FW_OK);
        Self {
            datapath,
            lines,
            now_us: 0,
        }
    }

    /// Lets the library do what is due until `done`.
    fn service_until(&mut self, done: impl Fn() -> bool) {
        for _ in 0..10_000 {
            if done() {
                return;
            }
            self.service();
            thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing comes of it");
    }

    fn service(&mut self) {
        self.now_us += 100_000;
        assert_eq!(
            unsafe { fw_datapath_service(self.datapath, self.now_us) },
            FW_OK
        );
    }

    fn is_readable(&self, timeout_ms: i32) -> bool {
        let fd = unsafe { fw_datapath_fd(self.datapath) };
        let mut wait = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        unsafe { libc::poll(&raw mut wait, 1, timeout_ms) == 1 }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        assert_eq!(unsafe { fw_datapath_free(self.datapath) }, FW_OK);
        drop(unsafe { Box::from_raw(self.lines) });
    }
}

/// A plane that hears of a flow, says Welcome when told to, and then is gone. Returns how the
/// flow was announced.
fn plane<L: Listener>(mut listener: L, heard: &AtomicBool, speak: &AtomicBool) -> Vec<String> {
    let (mut link, mut buffer, mut said) = (None, vec![0; MAX_PACKET], Vec::new());
    while said.len() < 2 {
        if let Some(new) = listener.accept().unwrap() {
            link = Some(new);
        }
        let Some(Ok(length)) = link.as_mut().map(|link| link.receive(&mut buffer)) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        for message in Dialect::Own.to_plane(&buffer[..length]) {
            match message.unwrap() {
                ToPlane::Hello(_) => said.push("hello".to_owned()),
                ToPlane::Created { .. } => said.push("created".to_owned()),
                ToPlane::Resumed { .. } => said.push("resumed".to_owned()),
                other => panic!("{other:?}"),
            }
        }
    }
    heard.store(true, Ordering::Release);
    while !speak.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
    let welcome = Welcome {
        instance: 1,
        alive_us: 1_000_000_000,
    };
    let mut packet = Vec::new();
    let message = ToDatapath::Welcome(welcome);
    Dialect::Own
        .encode_to_datapath(&message, &mut packet)
        .unwrap();
    let mut link = link.unwrap();
    link.send(&packet).unwrap();
    thread::sleep(Duration::from_millis(20));
    said
}

fn finds_planes<L: Listener + Send>(link: fw_link, path: &Path, listen: impl Fn() -> L) {
    let mut rig = Rig::at(link, path);
    let fd = unsafe { fw_datapath_fd(rig.datapath) };
    for announced in ["created", "resumed"] {
        let (heard, speak) = (AtomicBool::new(false), AtomicBool::new(false));
        let listener = listen();
        thread::scope(|scope| {
            let plane = scope.spawn(|| plane(listener, &heard, &speak));
            rig.service_until(|| heard.load(Ordering::Acquire));
            // What a new link has to say for itself is taken in.
            rig.service();
            let is_readable = rig.is_readable(0);
            speak.store(true, Ordering::Release);
            assert!(!is_readable, "it wakes for nothing");
            assert!(rig.is_readable(5000), "the plane's word does not wake");
            rig.service();
            assert_eq!(plane.join().unwrap(), ["hello", announced]);
        });
        // The plane is gone, which wakes too.
        assert!(rig.is_readable(5000), "the plane's end does not wake");
        let lines = rig.lines;
        rig.service_until(|| {
            let lines = unsafe { &*lines };
            lines
                .last()
                .is_some_and(|line| line.starts_with("lost the plane"))
        });
        assert!(!rig.is_readable(0));
        assert_eq!(unsafe { fw_datapath_fd(rig.datapath) }, fd);
    }
}

#[test]
fn planes_are_found_and_lost_by_seqpacket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plane");
    finds_planes(FW_LINK_SEQPACKET, &path, || {
        seqpacket::Listener::bind(&path).unwrap()
    });
}

#[test]
fn planes_are_found_and_lost_by_shared_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plane");
    finds_planes(FW_LINK_SHARED_MEMORY, &path, || {
        ring::Listener::bind(&path, 1 << 20).unwrap()
    });
}

#[test]
fn an_agent_of_ccps_is_found_by_datagrams() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent");
    let mut rig = Rig::at(FW_LINK_CCP_DATAGRAM, &path);
    let mut agent = datagram::PlaneSocket::bind(&path).unwrap();
    let mut batch = datagram::Batch::new(8, MAX_PACKET);
    let mut types = Vec::new();
    while types.len() < 2 {
        rig.service();
        for (_, packet) in agent.receive(&mut batch).unwrap().iter() {
            types.push(packet.unwrap()[0]);
        }
    }
    assert_eq!(types, [READY, CREATE]);
}

#[test]
fn a_plane_that_takes_no_more_datapaths_is_an_error_until_one_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plane");
    let endpoints = Endpoints {
        seqpacket: Some(path.clone()),
        ..Endpoints::default()
    };
    let config = Config {
        max_peers: 1,
        ..Config::default()
    };
    let (mut first, mut second) = (
        Rig::at(FW_LINK_SEQPACKET, &path),
        Rig::at(FW_LINK_SEQPACKET, &path),
    );
    let mut plane = Plane::new();
    plane
        .add(|programs| Reno::new(programs, RenoConfig::default()))
        .unwrap();
    let mut server = Server::bind(plane, config, &endpoints).unwrap();
    let mut service = |rig: &mut Rig| {
        server.turn(Duration::from_millis(1)).unwrap();
        rig.now_us += 1_000;
        unsafe { fw_datapath_service(rig.datapath, rig.now_us) }
    };
    for _ in 0..100 {
        assert_eq!(service(&mut first), FW_OK);
    }
    while service(&mut second) != FW_ERROR_PLANE_FULL {}
    let lines = unsafe { &*second.lines };
    assert!(
        lines.iter().any(|line| line.contains("--max-peers")),
        "{lines:?}"
    );
    drop(first);
    for _ in 0..100 {
        while service(&mut second) != FW_OK {}
    }
}
