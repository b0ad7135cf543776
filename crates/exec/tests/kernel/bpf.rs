//! The few `bpf(2)` commands that the tests need.
#![expect(unsafe_code, reason = "system calls and memory that the kernel shares")]

use fairwater_exec::ebpf::Insn;
use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

const MAP_CREATE: c_long = 0;
const PROG_LOAD: c_long = 5;
const PROG_TEST_RUN: c_long = 10;
const MAP_TYPE_ARRAY: u32 = 2;
const F_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_SCHED_CLS: u32 = 3;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

fn bpf<T>(command: c_long, attr: &mut T) -> io::Result<c_long> {
    // SAFETY: `attr` is a prefix of `union bpf_attr` for this command, of the size told; what it
    // points to outlives the call.
    let got = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attr),
            size_of::<T>(),
        )
    };
    if got < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(got)
    }
}

fn owned(fd: c_long) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us.
    unsafe { OwnedFd::from_raw_fd(fd as RawFd) }
}

/// An array map of one value, mapped into this process.
pub(crate) struct Array {
    fd: OwnedFd,
    memory: NonNull<u8>,
    len: usize,
}

impl Array {
    pub(crate) fn new(value_size: usize) -> io::Result<Self> {
        let mut attr = MapCreate {
            map_type: MAP_TYPE_ARRAY,
            key_size: 4,
            value_size: value_size as u32,
            max_entries: 1,
            map_flags: F_MMAPABLE,
        };
        let fd = owned(bpf(MAP_CREATE, &mut attr)?);
        let len = value_size.next_multiple_of(4096);
        // SAFETY: a new shared mapping that the kernel places; its length is the map's.
        let memory = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                len,
                access,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { fd, memory, len })
    }

    pub(crate) fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    pub(crate) fn read(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len);
        // SAFETY: inside the mapping, aligned.
        unsafe { self.memory.add(offset).cast::<u64>().read_volatile() }
    }

    pub(crate) fn write(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len);
        // SAFETY: inside the mapping, aligned.
        unsafe { self.memory.add(offset).cast::<u64>().write_volatile(value) }
    }

    pub(crate) fn read_u32(&self, offset: usize) -> u32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len);
        // SAFETY: inside the mapping, aligned.
        unsafe { self.memory.add(offset).cast::<u32>().read_volatile() }
    }

    pub(crate) fn write_u32(&self, offset: usize, value: u32) {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len);
        // SAFETY: inside the mapping, aligned.
        unsafe { self.memory.add(offset).cast::<u32>().write_volatile(value) }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.len) };
    }
}

/// A loaded program, of the kind that `BPF_PROG_TEST_RUN` can repeat and time.
pub(crate) struct Loaded(OwnedFd);

impl Loaded {
    /// Loads it; the error has the verifier's last words.
    pub(crate) fn new(code: &[Insn]) -> Result<Self, String> {
        let load = |log: &mut [u8]| {
            let mut attr = ProgLoad {
                prog_type: PROG_TYPE_SCHED_CLS,
                insn_cnt: code.len() as u32,
                insns: code.as_ptr() as u64,
                license: c"GPL".as_ptr() as u64,
                log_level: u32::from(!log.is_empty()),
                log_size: log.len() as u32,
                log_buf: if log.is_empty() {
                    0
                } else {
                    log.as_mut_ptr() as u64
                },
            };
            bpf(PROG_LOAD, &mut attr)
        };
        match load(&mut []) {
            Ok(fd) => Ok(Self(owned(fd))),
            Err(error) => {
                let mut log = vec![0; 1 << 18];
                let _ = load(&mut log);
                let text = String::from_utf8_lossy(&log);
                let lines: Vec<_> = text.trim_end_matches('\0').lines().collect();
                let last = &lines[lines.len().saturating_sub(40)..];
                Err(format!(
                    "the kernel refused the program: {error}\n{}",
                    last.join("\n")
                ))
            }
        }
    }

    /// Runs it `repeat` times; the mean duration, ns.
    pub(crate) fn run(&self, repeat: u32) -> io::Result<u32> {
        let packet = [0_u8; 64];
        let mut attr = TestRun {
            prog_fd: self.0.as_raw_fd() as u32,
            data_size_in: packet.len() as u32,
            data_in: packet.as_ptr() as u64,
            repeat,
            ..TestRun::default()
        };
        bpf(PROG_TEST_RUN, &mut attr)?;
        Ok(attr.duration)
    }
}
