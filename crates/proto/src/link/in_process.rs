//! A link within one process: the same rings over ordinary memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ring::Wakeup;
use super::ring::memory::Heap;
use super::ring::spsc::{Consumer, Producer};
use super::{Link, LinkError, MAX_PACKET, Pollable, Source};

/// One end of a link within this process; the ends may be in different threads.
#[derive(Debug)]
pub struct InProcess {
    producer: Producer<Arc<Heap>>,
    consumer: Consumer<Arc<Heap>>,
    own_wakeup: Wakeup,
    peer_wakeup: Wakeup,
    /// Set when either end is dropped.
    closed: Arc<AtomicBool>,
}

/// Two ends, each of which receives what the other sends. A longest packet fits.
///
/// # Errors
/// Too many files are open: each direction has an event file, by which its receiver is woken.
pub fn pair() -> io::Result<(InProcess, InProcess)> {
    const WORDS: usize = 2 * MAX_PACKET / size_of::<u64>();
    let rings = [Heap::new(WORDS), Heap::new(WORDS)].map(Arc::new);
    let wakeups = [Wakeup::new()?, Wakeup::new()?];
    let closed = Arc::new(AtomicBool::new(false));
    let end = |own: usize, peer: usize| -> io::Result<InProcess> {
        Ok(InProcess {
            producer: Producer::new(Arc::clone(&rings[peer])),
            consumer: Consumer::new(Arc::clone(&rings[own])),
            own_wakeup: wakeups[own].again()?,
            peer_wakeup: wakeups[peer].again()?,
            closed: Arc::clone(&closed),
        })
    };
    Ok((end(0, 1)?, end(1, 0)?))
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        self.peer_wakeup.wake();
    }
}

impl Pollable for InProcess {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        [Some(self.own_wakeup.source()), None]
    }
}

impl Link for InProcess {
    fn send(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(LinkError::Gone);
        }
        if self.producer.push(packet)? {
            self.peer_wakeup.wake();
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        // What the peer sent comes before its end, so its end is looked for first.
        let closed = self.closed.load(Ordering::Acquire);
        match self.consumer.pop(buffer) {
            Err(LinkError::WouldBlock) if closed => Err(LinkError::Gone),
            received => received,
        }
    }

    fn is_pending(&self) -> bool {
        self.consumer.is_pending() || self.closed.load(Ordering::Relaxed)
    }

    fn prepare_to_wait(&mut self) -> bool {
        // A peer that goes rings in any case.
        self.consumer.prepare_to_wait() && !self.closed.load(Ordering::Acquire)
    }
}
