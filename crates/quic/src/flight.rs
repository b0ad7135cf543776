//! Packets in flight, in the order in which they were sent.

use std::collections::VecDeque;

use crate::rate::Stamp;

/// What was sent at once: one packet, or a batch of a stack that tells of batches alone.
#[derive(Debug, Clone, Copy)]
struct Sent {
    stamp: Stamp,
    /// Packet number. Numbers repeat in the three spaces of a connection (RFC 9000 §12.3).
    number: u64,
    /// Bytes that are neither acknowledged nor lost.
    left: u32,
}

/// What an acknowledgement found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acked {
    pub(crate) stamp: Stamp,
    pub(crate) bytes: u64,
    /// Nothing that was sent before in the same packet number space is left.
    pub(crate) in_order: bool,
}

/// The packets of one path that are neither acknowledged nor lost.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    sent: VecDeque<Sent>,
    /// Bytes left.
    bytes: u64,
    /// Entries with bytes left.
    entries: u64,
}

impl Flight {
    pub(crate) const fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Packets (batches, of a stack that tells of batches) in flight.
    pub(crate) const fn entries(&self) -> u64 {
        self.entries
    }

    #[inline]
    pub(crate) fn push(&mut self, stamp: Stamp, number: u64, bytes: u32) {
        if bytes > 0 {
            self.sent.push_back(Sent {
                stamp,
                number,
                left: bytes,
            });
            self.bytes += u64::from(bytes);
            self.entries += 1;
        }
    }

    /// Takes out a packet that was acknowledged. `None` for a packet that is not in flight.
    #[inline]
    pub(crate) fn acknowledge(&mut self, sent_ns: u64, number: u64, bytes: u32) -> Option<Acked> {
        self.take(sent_ns, bytes, Some(number))
    }

    /// Takes bytes that were acknowledged out of the batch that was sent then.
    #[cfg(feature = "quinn")]
    #[inline]
    pub(crate) fn acknowledge_batch(&mut self, sent_ns: u64, bytes: u32) -> Option<Acked> {
        self.take(sent_ns, bytes, None)
    }

    /// `number` is that of the packet; `None` takes out of the first batch that was sent then.
    #[inline]
    fn take(&mut self, sent_ns: u64, bytes: u32, number: Option<u64>) -> Option<Acked> {
        let first = match self.sent.front()?.stamp.sent_ns == sent_ns {
            true => 0,
            false => self.sent.partition_point(|s| s.stamp.sent_ns < sent_ns),
        };
        let at = (first..self.sent.len())
            .map_while(|at| self.sent.get(at).map(|sent| (at, sent)))
            .take_while(|(_, sent)| sent.stamp.sent_ns == sent_ns)
            .find(|(_, sent)| sent.left > 0 && number.is_none_or(|number| sent.number == number))?
            .0;
        let in_order = self.is_in_order(at, number);
        let sent = self.sent.get_mut(at)?;
        let taken = bytes.min(sent.left);
        sent.left -= taken;
        let (stamp, left) = (sent.stamp, sent.left);
        self.bytes -= u64::from(taken);
        if left == 0 {
            self.entries -= 1;
            self.pop_gone();
        }
        Some(Acked {
            stamp,
            bytes: u64::from(bytes),
            in_order,
        })
    }

    /// Whether nothing is left of what was sent before in the same space. A packet that was sent
    /// before and has no lower number is of another space.
    #[inline]
    fn is_in_order(&self, at: usize, number: Option<u64>) -> bool {
        let of_space = |sent: &&Sent| number.is_none_or(|number| sent.number < number);
        let mut before = self.sent.iter().take(at).filter(|sent| sent.left > 0);
        !before.any(|sent| of_space(&sent))
    }

    /// Takes out a packet that was lost; whether it was in flight. Packets are lost in the order in
    /// which they were sent, so it is near the front.
    pub(crate) fn lose(&mut self, number: u64, bytes: u32) -> bool {
        let found = self
            .sent
            .iter_mut()
            .find(|sent| (1..=bytes).contains(&sent.left) && sent.number == number);
        let Some(sent) = found else {
            return false;
        };
        self.bytes -= u64::from(std::mem::take(&mut sent.left));
        self.entries -= 1;
        self.pop_gone();
        true
    }

    /// Forgets what the stack has forgotten without telling: packets of a space whose keys were
    /// discarded (RFC 9002 §6.4), and lost probes of the MTU (RFC 8899), which are larger than
    /// `mtu`. `in_flight` is what the stack counts.
    #[inline]
    pub(crate) fn reconcile(&mut self, in_flight: u64, mtu: u32) {
        if self.bytes > in_flight {
            self.forget(in_flight, mtu);
        }
    }

    #[cold]
    fn forget(&mut self, in_flight: u64, mtu: u32) {
        let surplus = self.bytes - in_flight;
        let probe = self
            .sent
            .iter_mut()
            .find(|sent| sent.left > mtu && u64::from(sent.left) == surplus);
        if let Some(probe) = probe {
            probe.left = 0;
            self.bytes = in_flight;
            self.entries -= 1;
        }
        for sent in &mut self.sent {
            if self.bytes <= in_flight {
                break;
            }
            let surplus = u32::try_from(self.bytes - in_flight).unwrap_or(u32::MAX);
            let taken = sent.left.min(surplus);
            self.entries -= u64::from(taken > 0 && taken == sent.left);
            sent.left -= taken;
            self.bytes -= u64::from(taken);
        }
        self.pop_gone();
    }

    fn pop_gone(&mut self) {
        while self.sent.front().is_some_and(|sent| sent.left == 0) {
            self.sent.pop_front();
        }
    }
}
