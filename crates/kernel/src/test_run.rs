//! Runs of the programs by `BPF_PROG_TEST_RUN`, without an interface.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::libbpf_sys;

/// What became of the packets of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// What the program returned.
    pub verdict: i32,
    /// Bytes of the packet afterwards.
    pub length: usize,
    /// Mean time of a repetition, ns.
    pub nanos: u32,
}

/// 32-bit words of `struct __sk_buff` up to `gso_size`, and places in it (linux/bpf.h).
const SK_BUFF_WORDS: usize = 46;
const MARK: usize = 2;
const GSO_SEGS: usize = 41;
const GSO_SIZE: usize = 44;

/// What a packet is beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TestContext {
    /// The socket buffer's mark.
    pub mark: u32,
    /// Segments of a super-packet; 0 of another.
    pub gso_segs: u32,
    /// Bytes of payload in each of its segments but the last.
    pub gso_size: u32,
}

/// Runs a program on a packet of at least 14 bytes, `repeat` times; `out` takes the packet afterwards.
///
/// # Errors
/// The kernel does not run it.
pub fn run(
    program: BorrowedFd<'_>,
    packet: &[u8],
    out: &mut [u8],
    repeat: u32,
) -> io::Result<Outcome> {
    run_in(program, packet, TestContext::default(), out, repeat)
}

/// As [`run`], of a packet that is more than its bytes.
///
/// # Errors
/// The kernel does not run it.
pub fn run_in(
    program: BorrowedFd<'_>,
    packet: &[u8],
    context: TestContext,
    out: &mut [u8],
    repeat: u32,
) -> io::Result<Outcome> {
    let mut skb = [0; SK_BUFF_WORDS];
    skb[MARK] = context.mark;
    skb[GSO_SEGS] = context.gso_segs;
    skb[GSO_SIZE] = context.gso_size;
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: packet.as_ptr().cast(),
        data_size_in: length(packet),
        data_out: out.as_mut_ptr().cast(),
        data_size_out: length(out),
        repeat: repeat.cast_signed(),
        ctx_in: (&raw const skb).cast(),
        ctx_size_in: u32::try_from(size_of_val(&skb)).unwrap_or(u32::MAX),
        ..Default::default()
    };
    #[expect(unsafe_code, reason = "libbpf takes pointers")]
    // SAFETY: the context and both buffers outlive the call, and their lengths are told.
    let error =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if error < 0 {
        return Err(io::Error::from_raw_os_error(-error));
    }
    Ok(Outcome {
        verdict: options.retval.cast_signed(),
        length: options.data_size_out as usize,
        nanos: options.duration,
    })
}
