//! What waits to be sent to one peer: whole messages in the order of their making.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use fairwater_proto::{Dialect, EncodeError, ToPlane};

/// What control messages may take beyond the bound on reports, bytes, so that reports never crowd
/// them out.
const CONTROL_BYTES: usize = 1 << 14;

/// A bounded queue of encoded messages. Once it has grown to its bound it allocates no more.
#[derive(Debug)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    /// Lengths of the messages that wait, oldest first.
    lengths: VecDeque<u32>,
    /// Bytes at the front that were handed out.
    taken: usize,
    bound: usize,
}

/// Why a message was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotQueued {
    /// There is no room now.
    Full,
    /// The dialect cannot say it.
    Inexpressible,
}

impl From<EncodeError> for NotQueued {
    fn from(_: EncodeError) -> Self {
        Self::Inexpressible
    }
}

impl Outgoing {
    pub(crate) const fn new(bound: usize) -> Self {
        Self {
            bytes: Vec::new(),
            lengths: VecDeque::new(),
            taken: 0,
            bound,
        }
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Queues what may be lost: a report, or word of a refusal.
    pub(crate) fn push(
        &mut self,
        dialect: Dialect,
        message: &ToPlane<'_>,
    ) -> Result<(), NotQueued> {
        self.push_within(self.bound, dialect, message)
    }

    /// Queues what must not be lost. When there is no room the caller keeps it in mind.
    pub(crate) fn push_control(
        &mut self,
        dialect: Dialect,
        message: &ToPlane<'_>,
    ) -> Result<(), NotQueued> {
        self.push_within(self.bound.saturating_add(CONTROL_BYTES), dialect, message)
    }

    fn push_within(
        &mut self,
        bound: usize,
        dialect: Dialect,
        message: &ToPlane<'_>,
    ) -> Result<(), NotQueued> {
        if self.waiting() >= bound {
            return Err(NotQueued::Full);
        }
        self.reclaim();
        let start = self.bytes.len();
        dialect.encode_to_plane(message, &mut self.bytes)?;
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.lengths.push_back(length);
        Ok(())
    }

    /// Reuses the bytes at the front once they are as many as those that wait, so that each byte
    /// is moved once at most on average.
    fn reclaim(&mut self) {
        if self.taken > 0 && self.taken >= self.waiting() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Takes the next packet: as many whole messages as fit `max_bytes`, but one of a dialect
    /// whose peers read one. Messages that are longer by themselves are dropped; how many is
    /// the second of the pair.
    pub(crate) fn take(&mut self, max_bytes: usize, dialect: Dialect) -> (usize, u64) {
        let mut dropped = 0;
        let mut packet = 0;
        while let Some(&length) = self.lengths.front() {
            let length = length as usize;
            if packet == 0 && length > max_bytes {
                self.taken += length;
                self.lengths.pop_front();
                dropped += 1;
                continue;
            }
            if packet + length > max_bytes {
                break;
            }
            packet += length;
            self.lengths.pop_front();
            if dialect == Dialect::Ccp {
                break;
            }
        }
        self.taken += packet;
        (packet, dropped)
    }

    /// The last `length` bytes that were taken.
    pub(crate) fn taken(&self, length: usize) -> &[u8] {
        &self.bytes[self.taken - length..self.taken]
    }

    /// Drops all that waits.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.taken = 0;
    }
}
