//! Transfers from a guest to its peer.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread::{self, JoinHandle};

use fairwater_testbed::{BridgedSite, Family};

/// Bytes of one write.
const WRITE: usize = 64 * 1024;

/// What a transfer came to.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// Most bytes that the guest was allowed to have in flight, as it saw it, in the last quarter.
    pub(crate) greatest_window: u64,
    /// Whether what arrived is what was sent.
    pub(crate) intact: bool,
}

/// Waits for one connection and reads all of it; the sum of what arrived.
pub(crate) fn receive(listener: TcpListener) -> JoinHandle<u64> {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; WRITE];
        let mut sum = Sum::default();
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => return sum.value,
                read => sum.add(&buffer[..read]),
            }
        }
    })
}

/// Sends so many bytes from the guest to the peer; `midway` is called when half of them are written.
pub(crate) fn transfer(
    site: &BridgedSite,
    family: Family,
    bytes: usize,
    midway: impl FnOnce(),
) -> Transfer {
    let listener = site.listen(family).unwrap();
    let mut stream = site.connect(&listener).unwrap();
    let reader = receive(listener);
    let mut sum = Sum::default();
    let mut greatest_window = 0;
    let mut midway = Some(midway);
    let mut sent = 0;
    while sent < bytes {
        let data: Vec<u8> = (sent..sent + WRITE)
            .map(|at| ((at * 31) >> 7) as u8)
            .collect();
        stream.write_all(&data).unwrap();
        sum.add(&data);
        sent += data.len();
        // What was in flight as the algorithm took over has arrived by then.
        if sent >= bytes / 4 * 3 {
            greatest_window = greatest_window.max(u64::from(window_of(&stream)));
        }
        if sent >= bytes / 2
            && let Some(midway) = midway.take()
        {
            midway();
        }
    }
    drop(stream);
    Transfer {
        greatest_window,
        intact: reader.join().unwrap() == sum.value,
    }
}

/// A sum that depends on the order of the bytes.
#[derive(Debug, Default)]
struct Sum {
    value: u64,
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.value = (self.value ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The window that the peer advertised to a socket last, bytes.
fn window_of(stream: &TcpStream) -> u32 {
    let mut bytes = [0u8; 256];
    let mut length = libc::socklen_t::try_from(bytes.len()).unwrap();
    #[expect(unsafe_code, reason = "no library knows the window")]
    // SAFETY: the buffer is as long as `length` says.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0);
    // Offset of `tcpi_snd_wnd` in `struct tcp_info` of linux/tcp.h.
    u32::from_ne_bytes(bytes[228..232].try_into().unwrap())
}
