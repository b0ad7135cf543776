//! Bytes under test as a sequence of choices.

/// The bytes that say what to do; zeros after the last.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let n = N.min(self.0.len());
        taken[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        taken
    }

    pub fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    /// Small numbers and the extremes.
    pub fn number(&mut self) -> u64 {
        match self.u8() {
            255 => u64::MAX,
            254 => u64::from(u32::MAX),
            253 => u64::from_le_bytes(self.take()),
            low => u64::from(low) << (low % 16),
        }
    }

    pub fn option(&mut self) -> Option<u64> {
        (self.u8() % 2 == 1).then(|| self.number())
    }

    pub fn bytes(&mut self) -> Vec<u8> {
        let n = usize::from(self.u8()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest;
        bytes.to_vec()
    }
}
