//! Requests as bytes, many in one message to the kernel: for what has to be set often, and for kinds of objects of
//! which only few fields matter.

use std::io;

use crate::Netlink;

/// Bytes of a netlink header.
const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;
/// Most bytes that go to the kernel at once.
const MAX_BYTES: usize = 32 << 10;

/// Requests that go to the kernel together: only the last is acknowledged, so that many cost little more than one.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where the requests begin.
    starts: Vec<usize>,
}

impl Batch {
    /// Adds a request of this kind (`RTM_…`) with flags (`NLM_F_…`) beside those that every request has.
    pub fn push(&mut self, kind: u16, flags: u16, body: &[u8]) {
        let start = self.bytes.len();
        self.starts.push(start);
        let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | REQUEST).to_ne_bytes());
        self.bytes.extend([0; 8]);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// How many requests there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Forgets all requests.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    /// Splits off requests of at most [`MAX_BYTES`] from `first` on: where they end, and how many they are.
    fn part(&self, first: usize) -> (usize, usize) {
        let begin = self.starts[first];
        let end_of = |index: usize| self.starts.get(index + 1).copied();
        let mut last = first;
        while let Some(end) = end_of(last + 1).or_else(|| {
            let is_last = last + 2 == self.starts.len();
            is_last.then_some(self.bytes.len())
        }) && end - begin <= MAX_BYTES
        {
            last += 1;
        }
        (end_of(last).unwrap_or(self.bytes.len()), last + 1 - first)
    }
}

impl Netlink {
    /// Sends the requests, and calls `each` with kind and body of every answer. The batch is empty afterwards.
    ///
    /// # Errors
    /// The first refusal of the kernel; the other requests were carried out. Or the kernel could not be asked.
    pub fn submit(
        &mut self,
        batch: &mut Batch,
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        let mut refusal = None;
        let mut first = 0;
        while first < batch.len() {
            let (end, count) = batch.part(first);
            let begin = batch.starts[first];
            let last = batch.starts[first + count - 1];
            if let Some(flags) = batch.bytes.get_mut(last + 6..last + 8) {
                let [low, high] = *flags else { break };
                let with = u16::from_ne_bytes([low, high]) | ACKNOWLEDGE;
                flags.copy_from_slice(&with.to_ne_bytes());
            }
            if let Some(number) = batch.bytes.get_mut(last + 8..last + 12) {
                number.copy_from_slice(&1u32.to_ne_bytes());
            }
            self.socket().send(&batch.bytes[begin..end], 0)?;
            if let Some(error) = self.answers(&mut each)? {
                refusal.get_or_insert(error);
            }
            first += count;
        }
        batch.clear();
        refusal.map_or(Ok(()), Err)
    }

    /// Asks for all of something; `each` is given kind and body of each answer.
    ///
    /// # Errors
    /// The kernel refused, or could not be asked.
    pub fn dump_raw(
        &mut self,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        let mut batch = Batch::default();
        batch.push(kind, DUMP, body);
        if let Some(number) = batch.bytes.get_mut(8..12) {
            number.copy_from_slice(&1u32.to_ne_bytes());
        }
        self.socket().send(&batch.bytes, 0)?;
        self.answers(&mut each)?.map_or(Ok(()), Err)
    }

    /// Reads up to the acknowledgement of the request with the number 1; the first refusal.
    fn answers(&mut self, each: &mut impl FnMut(u16, &[u8])) -> io::Result<Option<io::Error>> {
        let mut refusal = None;
        loop {
            let received = self.receive()?.to_vec();
            let mut rest = &received[..];
            while let Some((header, _)) = rest.split_first_chunk::<HEADER>() {
                let [l0, l1, l2, l3, k0, k1, _, _, n0, n1, n2, n3, ..] = *header;
                let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
                let body = rest.get(HEADER..length).unwrap_or_default();
                let number = u32::from_ne_bytes([n0, n1, n2, n3]);
                match u16::from_ne_bytes([k0, k1]) {
                    DONE => return Ok(refusal),
                    ERROR => {
                        let code = body
                            .first_chunk()
                            .map_or(0, |code| i32::from_ne_bytes(*code));
                        if code != 0 && refusal.is_none() {
                            refusal = Some(io::Error::from_raw_os_error(-code));
                        }
                        if number == 1 {
                            return Ok(refusal);
                        }
                    }
                    kind => each(kind, body),
                }
                rest = rest
                    .get(length.next_multiple_of(4).max(HEADER)..)
                    .unwrap_or_default();
            }
        }
    }
}

/// Kinds and values of netlink attributes; ends at the first that lies about its length.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// Flags for nested attributes and those in network order.
    const KIND: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let [l0, l1, k0, k1] = *bytes.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & KIND, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_split_at_requests() {
        let mut batch = Batch::default();
        for length in [20_000, 12_000, 1_000, 40_000, 4, 5] {
            batch.push(1, 0, &vec![7; length]);
        }
        let mut first = 0;
        let mut parts = Vec::new();
        while first < batch.len() {
            let (end, count) = batch.part(first);
            parts.push((count, end));
            first += count;
        }
        let counts: Vec<usize> = parts.iter().map(|(count, _)| *count).collect();
        assert_eq!(counts, [2, 1, 1, 2]);
        assert_eq!(parts.last().map(|(_, end)| *end), Some(batch.bytes.len()));
    }

    #[test]
    fn attributes_end_where_one_lies() {
        let bytes = [
            8, 0, 1, 0x80, 1, 2, 3, 4, 5, 0, 2, 0, 9, 0, 0, 0, 200, 0, 3, 0,
        ];
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found, [(1, &[1, 2, 3, 4][..]), (2, &[9][..])]);
    }
}
