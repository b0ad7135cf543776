//! The XDP program that gives a queue's packets to a socket: six instructions.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The program on its interface. It goes with this, and with the process.
#[derive(Debug)]
pub(super) struct Redirect {
    _link: OwnedFd,
    _program: OwnedFd,
    _map: OwnedFd,
}

/// Commands of bpf(2), and what goes with them (linux/bpf.h).
const MAP_CREATE: u32 = 0;
const MAP_UPDATE_ELEM: u32 = 2;
const PROG_LOAD: u32 = 5;
const LINK_CREATE: u32 = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const FLAG_GENERIC: u32 = 1 << 1;
const FLAG_NATIVE: u32 = 1 << 2;

/// The part of `union bpf_attr` that a command reads; what is behind it counts as 0.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    count: u32,
    instructions: u64,
    license: u64,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// `struct bpf_insn`: the opcode, destination and source register, offset and immediate.
const fn instruction(code: u8, destination: u8, source: u8, offset: i16, value: i32) -> u64 {
    let [o0, o1] = offset.to_ne_bytes();
    let [v0, v1, v2, v3] = value.to_ne_bytes();
    u64::from_ne_bytes([code, source << 4 | destination, o0, o1, v0, v1, v2, v3])
}

impl Redirect {
    /// Gives what a queue receives to an AF_XDP socket.
    pub(super) fn new(
        interface: u32,
        queue: u32,
        socket: RawFd,
        is_native: bool,
    ) -> io::Result<Self> {
        let map = descriptor(
            MAP_CREATE,
            &MapCreate {
                map_type: MAP_TYPE_XSKMAP,
                key_size: 4,
                value_size: 4,
                max_entries: queue + 1,
            },
        )?;
        let update = MapUpdate {
            map: number(&map),
            _pad: 0,
            key: (&raw const queue) as u64,
            value: (&raw const socket) as u64,
            flags: 0,
        };
        bpf(MAP_UPDATE_ELEM, &update)?;
        let program = [
            // r2 = xdp_md.rx_queue_index
            instruction(0x61, 2, 1, 16, 0),
            // r1 = the map, by its descriptor
            instruction(0x18, 1, 1, 0, map.as_raw_fd()),
            instruction(0, 0, 0, 0, 0),
            // r3 = XDP_PASS, for the queues that have no socket
            instruction(0xb7, 3, 0, 0, 2),
            // r0 = bpf_redirect_map(r1, r2, r3)
            instruction(0x85, 0, 0, 0, 51),
            instruction(0x95, 0, 0, 0, 0),
        ];
        let license = c"Dual MIT/GPL";
        let program = descriptor(
            PROG_LOAD,
            &ProgLoad {
                prog_type: PROG_TYPE_XDP,
                count: program.len() as u32,
                instructions: program.as_ptr() as u64,
                license: license.as_ptr() as u64,
            },
        )?;
        let link = descriptor(
            LINK_CREATE,
            &LinkCreate {
                program: number(&program),
                interface,
                attach_type: ATTACH_XDP,
                flags: if is_native { FLAG_NATIVE } else { FLAG_GENERIC },
            },
        )?;
        Ok(Self {
            _link: link,
            _program: program,
            _map: map,
        })
    }
}

fn number(of: &OwnedFd) -> u32 {
    of.as_raw_fd().cast_unsigned()
}

/// A command that returns a descriptor, which closes when a program is executed.
fn descriptor<T>(command: u32, attributes: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    #[expect(unsafe_code, reason = "a number becomes a descriptor")]
    // SAFETY: the kernel has just opened it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf<T>(command: u32, attributes: &T) -> io::Result<RawFd> {
    #[expect(unsafe_code, reason = "no library of this crate's has bpf(2)")]
    // SAFETY: the attributes are the beginning of `union bpf_attr` as the command reads it, and what they point to
    // lives until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw const *attributes,
            size_of::<T>(),
        )
    };
    match RawFd::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}
