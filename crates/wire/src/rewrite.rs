//! Fields changed in place, with the checksums kept right by difference.

use crate::bytes::{u8_at, u16_at};
use crate::checksum::updated;
use crate::tcp::{TCP_HEADER, TcpOption, TcpOptions, option_kind as kind};
use crate::{Checksum, EcnCodepoint, Layout, Seq, TcpFlags, Transport};

/// Offset of the checksum in a TCP header.
const TCP_CHECKSUM: usize = 16;

/// Changes fields of a packet in place. Lengths stay as they are.
///
/// Each change updates the checksums over the changed words only (RFC 1624), so a checksum that was
/// wrong stays wrong, and the receiver drops the packet as it would have.
#[derive(Debug)]
pub struct Rewriter<'a> {
    bytes: &'a mut [u8],
    layout: Layout,
    checksum: Checksum,
}

impl<'a> Rewriter<'a> {
    /// Of a packet and the layout that was found of it; `checksum` is what its TCP checksum field holds.
    /// With the layout of another packet nothing is promised, but that nothing panics.
    #[must_use]
    pub const fn new(bytes: &'a mut [u8], layout: Layout, checksum: Checksum) -> Self {
        Self {
            bytes,
            layout,
            checksum,
        }
    }

    /// Sets the ECN field; IPv4's header checksum follows.
    pub fn set_ecn(&mut self, ecn: EcnCodepoint) {
        let at = self.layout.network_at;
        let before = u16_at(self.bytes, at);
        let shift = if self.layout.is_v6 { 4 } else { 0 };
        let after = before & !(0b11 << shift) | u16::from(ecn.bits()) << shift;
        self.write(at, &after.to_be_bytes());
        if !self.layout.is_v6 {
            let checksum = updated(u16_at(self.bytes, at + 10), before, after);
            self.write(at + 10, &checksum.to_be_bytes());
        }
    }

    /// Sets the receive window's field, not scaled. Without effect on what is not TCP, like all below.
    #[inline]
    pub fn set_window(&mut self, window: u16) {
        self.set_tcp(14, &window.to_be_bytes());
    }

    /// Sets the sequence number.
    pub fn set_seq(&mut self, seq: Seq) {
        self.set_tcp(4, &seq.0.to_be_bytes());
    }

    /// Overwrites all selective acknowledgements with no-operation options; whether there was one.
    pub fn blank_sack(&mut self) -> bool {
        let mut found = false;
        while let Some((at, length)) = self.first_option(|o| matches!(o, TcpOption::Sack(_))) {
            for offset in at..at + length {
                self.set_tcp(offset, &[kind::NOP]);
            }
            found = true;
        }
        found
    }

    /// Sets the acknowledgement number.
    pub fn set_ack(&mut self, ack: Seq) {
        self.set_tcp(8, &ack.0.to_be_bytes());
    }

    /// Sets and clears flags; one that is in both is set.
    pub fn set_flags(&mut self, set: TcpFlags, clear: TcpFlags) {
        let before = u16_at(self.bytes, self.layout.transport_at + 12);
        let flags = before & !clear.bits() | set.bits();
        self.set_tcp(12, &flags.to_be_bytes());
    }

    /// Sets the value of the MSS option; whether there is one.
    pub fn set_mss(&mut self, mss: u16) -> bool {
        let found = self.option_value(|option| matches!(option, TcpOption::Mss(_)));
        found
            .map(|at| self.set_tcp(at, &mss.to_be_bytes()))
            .is_some()
    }

    /// Sets the shift of the window-scale option; whether there is one.
    pub fn set_window_scale(&mut self, shift: u8) -> bool {
        let found = self.option_value(|option| matches!(option, TcpOption::WindowScale(_)));
        found.map(|at| self.set_tcp(at, &[shift])).is_some()
    }

    /// Offset in the TCP header of the value of the first option of that kind.
    fn option_value(&self, wanted: impl Fn(&TcpOption<'_>) -> bool) -> Option<usize> {
        self.first_option(wanted).map(|(at, _)| at + 2)
    }

    /// Offset in the TCP header, and length, of the first option of that kind.
    fn first_option(&self, wanted: impl Fn(&TcpOption<'_>) -> bool) -> Option<(usize, usize)> {
        if self.layout.transport != Transport::Tcp {
            return None;
        }
        let start = self.layout.transport_at + TCP_HEADER;
        let mut options = TcpOptions::new(self.bytes.get(start..self.layout.payload_at)?);
        while let Some(Ok(option)) = options.next() {
            if wanted(&option) {
                let value_at = TCP_HEADER + options.last_value_at();
                let length = u8_at(self.bytes, start - TCP_HEADER + value_at - 1);
                return Some((value_at - 2, usize::from(length)));
            }
        }
        None
    }

    /// Writes bytes of the TCP header at an offset in the header. The words that they are in need not be
    /// theirs alone: an option's value may begin at an odd offset.
    fn set_tcp(&mut self, at: usize, value: &[u8]) {
        if self.layout.transport != Transport::Tcp {
            return;
        }
        let start = self.layout.transport_at;
        let field = start + TCP_CHECKSUM;
        let mut checksum = u16_at(self.bytes, field);
        for (index, &after) in value.iter().enumerate() {
            let offset = at + index;
            let before = u8_at(self.bytes, start + offset);
            let in_word = |byte: u8| match offset % 2 {
                0 => u16::from(byte) << 8,
                _ => u16::from(byte),
            };
            if before != after {
                checksum = updated(checksum, in_word(before), in_word(after));
                self.write(start + offset, &[after]);
            }
        }
        if self.checksum == Checksum::Complete {
            self.write(field, &checksum.to_be_bytes());
        }
    }

    fn write(&mut self, at: usize, value: &[u8]) {
        if let Some(field) = self.bytes.get_mut(at..at + value.len()) {
            field.copy_from_slice(value);
        }
    }
}
