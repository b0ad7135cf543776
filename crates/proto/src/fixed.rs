//! The part of a message that has the same length whatever it says, read and written at offsets
//! that the compiler checks.

/// Little-endian numbers at constant offsets of `N` bytes.
#[derive(Clone, Copy)]
pub(crate) struct Fixed<'a, const N: usize>(pub(crate) &'a [u8; N]);

impl<const N: usize> Fixed<'_, N> {
    pub(crate) const fn array<const AT: usize, const LEN: usize>(self) -> [u8; LEN] {
        const { assert!(AT + LEN <= N) };
        let mut array = [0; LEN];
        let mut i = 0;
        while i < LEN {
            array[i] = self.0[AT + i];
            i += 1;
        }
        array
    }

    pub(crate) const fn u8<const AT: usize>(self) -> u8 {
        const { assert!(AT < N) };
        self.0[AT]
    }

    pub(crate) const fn u16<const AT: usize>(self) -> u16 {
        u16::from_le_bytes(self.array::<AT, 2>())
    }

    pub(crate) const fn u32<const AT: usize>(self) -> u32 {
        u32::from_le_bytes(self.array::<AT, 4>())
    }

    pub(crate) const fn u64<const AT: usize>(self) -> u64 {
        u64::from_le_bytes(self.array::<AT, 8>())
    }
}

/// The same, to be written.
pub(crate) struct FixedMut<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> FixedMut<N> {
    pub(crate) const fn new() -> Self {
        Self([0; N])
    }

    pub(crate) const fn array<const AT: usize, const LEN: usize>(
        mut self,
        array: [u8; LEN],
    ) -> Self {
        const { assert!(AT + LEN <= N) };
        let mut i = 0;
        while i < LEN {
            self.0[AT + i] = array[i];
            i += 1;
        }
        self
    }

    pub(crate) const fn u8<const AT: usize>(self, value: u8) -> Self {
        self.array::<AT, 1>([value])
    }

    pub(crate) const fn u16<const AT: usize>(self, value: u16) -> Self {
        self.array::<AT, 2>(value.to_le_bytes())
    }

    pub(crate) const fn u32<const AT: usize>(self, value: u32) -> Self {
        self.array::<AT, 4>(value.to_le_bytes())
    }

    pub(crate) const fn u64<const AT: usize>(self, value: u64) -> Self {
        self.array::<AT, 8>(value.to_le_bytes())
    }
}
