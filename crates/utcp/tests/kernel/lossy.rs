//! A device that loses, doubles and reorders packets.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairwater_utcp::io::{DescriptorPort, PacketPort};

/// What happens to one packet in so many; 0 for none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Impairment {
    lost: u64,
    doubled: u64,
    delayed: u64,
}

impl Impairment {
    pub(crate) const NONE: Self = Self {
        lost: 0,
        doubled: 0,
        delayed: 0,
    };
    pub(crate) const ONE_PERCENT: Self = Self {
        lost: 100,
        doubled: 200,
        delayed: 50,
    };
}

#[derive(Debug)]
pub(crate) struct LossyPort {
    inner: DescriptorPort,
    impairment: Impairment,
    random: u64,
    /// Packets held back, and after how many others each goes on.
    late_in: Vec<(u32, Vec<u8>)>,
    late_out: Vec<(u32, Vec<u8>)>,
    /// The greatest number sent, and whether small ones came behind it.
    number: u32,
    has_wrapped: Arc<AtomicBool>,
}

/// Offset of the sequence number in an IPv4 packet.
const NUMBER_AT: usize = 24;

impl LossyPort {
    pub(crate) fn new(inner: DescriptorPort, impairment: Impairment) -> Self {
        Self {
            inner,
            impairment,
            random: 88_172_645_463_325_252,
            late_in: Vec::new(),
            late_out: Vec::new(),
            number: 0,
            has_wrapped: Arc::default(),
        }
    }

    /// Becomes true when sequence numbers begin anew at 0.
    pub(crate) fn has_wrapped(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_wrapped)
    }
}

fn strikes(random: &mut u64, one_in: u64) -> bool {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    one_in > 0 && random.is_multiple_of(one_in)
}

/// What becomes of a packet: the packets that go on in its place.
fn impaired(
    packet: &[u8],
    how: Impairment,
    random: &mut u64,
    late: &mut Vec<(u32, Vec<u8>)>,
) -> Vec<Vec<u8>> {
    let mut on = Vec::new();
    if strikes(random, how.delayed) {
        late.push((5, packet.to_vec()));
    } else if !strikes(random, how.lost) {
        on.push(packet.to_vec());
        if strikes(random, how.doubled) {
            on.push(packet.to_vec());
        }
    }
    for (left, _) in late.iter_mut() {
        *left = left.saturating_sub(1);
    }
    while let Some(at) = late.iter().position(|(left, _)| *left == 0) {
        on.push(late.remove(at).1);
    }
    on
}

impl PacketPort for LossyPort {
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Self {
            inner,
            impairment,
            random,
            late_in,
            ..
        } = self;
        inner.receive(&mut |packet| {
            for packet in impaired(packet, *impairment, random, late_in) {
                take(&packet);
            }
        })
    }

    fn send(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        let Self {
            inner,
            impairment,
            random,
            late_out,
            number,
            has_wrapped,
            ..
        } = self;
        let mut ready: Vec<Vec<u8>> = Vec::new();
        inner.send(&mut |out| {
            while ready.is_empty() {
                let length = write(out)?;
                let field: [u8; 4] = out[NUMBER_AT..NUMBER_AT + 4].try_into().expect("4 bytes");
                let sent = u32::from_be_bytes(field);
                if sent < 1 << 30 && *number > 3 << 30 {
                    has_wrapped.store(true, Ordering::Relaxed);
                }
                *number = (*number).max(sent);
                ready = impaired(&out[..length], *impairment, random, late_out);
            }
            let packet = ready.remove(0);
            out[..packet.len()].copy_from_slice(&packet);
            Some(packet.len())
        })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner.descriptor()
    }

    fn is_full(&self) -> bool {
        self.inner.is_full()
    }
}
