//! The values that messages carry in numbers: read where they were received, or where they lie
//! in memory, without allocation either way.

/// The values of a report, in the order of the report variables.
#[derive(Clone, Copy)]
pub struct Fields<'a>(Words<'a>);

#[derive(Clone, Copy)]
enum Words<'a> {
    Memory(&'a [u64]),
    Wire(&'a [[u8; 8]]),
}

impl<'a> Fields<'a> {
    /// Values as both encodings carry them: little-endian, at any alignment.
    pub(crate) const fn wire(words: &'a [[u8; 8]]) -> Self {
        Self(Words::Wire(words))
    }

    /// How many there are.
    #[must_use]
    pub const fn len(self) -> usize {
        match self.0 {
            Words::Memory(values) => values.len(),
            Words::Wire(words) => words.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The value of that index.
    #[must_use]
    #[inline]
    pub fn get(self, index: usize) -> Option<u64> {
        match self.0 {
            Words::Memory(values) => values.get(index).copied(),
            Words::Wire(words) => words.get(index).map(|word| u64::from_le_bytes(*word)),
        }
    }

    /// The values, in order.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = u64> + 'a {
        (0..self.len()).map(move |i| self.get(i).unwrap_or_default())
    }

    /// Writes the first values to `into`, as many as fit, and says how many that were.
    #[inline]
    pub fn copy_to(self, into: &mut [u64]) -> usize {
        match self.0 {
            Words::Memory(values) => {
                for (to, from) in into.iter_mut().zip(values) {
                    *to = *from;
                }
            }
            Words::Wire(words) => {
                for (to, from) in into.iter_mut().zip(words) {
                    *to = u64::from_le_bytes(*from);
                }
            }
        }
        self.len().min(into.len())
    }

    /// Writes the values little-endian to `into`, as many as fit.
    #[inline]
    pub(crate) fn write(self, into: &mut [[u8; 8]]) {
        match self.0 {
            Words::Memory(values) => {
                for (to, from) in into.iter_mut().zip(values) {
                    *to = from.to_le_bytes();
                }
            }
            Words::Wire(words) => {
                for (to, from) in into.iter_mut().zip(words) {
                    *to = *from;
                }
            }
        }
    }
}

impl<'a> From<&'a [u64]> for Fields<'a> {
    fn from(values: &'a [u64]) -> Self {
        Self(Words::Memory(values))
    }
}

impl<'a, const N: usize> From<&'a [u64; N]> for Fields<'a> {
    fn from(values: &'a [u64; N]) -> Self {
        Self(Words::Memory(values))
    }
}

impl PartialEq for Fields<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Fields<'_> {}

impl core::fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One update of a control variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update {
    /// Index among the program's variables: in our encoding those of
    /// `fairwater_lang::Program::variables`, in libccp's its control registers.
    pub variable: u16,
    /// The value.
    pub value: u64,
}

/// Updates of control variables, in the order in which they apply.
#[derive(Clone, Copy)]
pub struct Updates<'a>(Entries<'a>);

#[derive(Clone, Copy)]
enum Entries<'a> {
    Memory(&'a [Update]),
    /// u16 variable, u64 value.
    Own(&'a [[u8; 10]]),
    /// u8 register type, u32 index, u64 value; those of type 2 (cwnd and rate) are no updates.
    Ccp(&'a [[u8; 13]]),
}

impl<'a> Updates<'a> {
    /// No updates.
    pub const NONE: Self = Self(Entries::Memory(&[]));

    /// Entries of our Command.
    pub(crate) const fn own(entries: &'a [[u8; 10]]) -> Self {
        Self(Entries::Own(entries))
    }

    /// Entries of libccp's UPDATE_FIELDS and CHANGE_PROG whose indices were checked.
    pub(crate) const fn ccp(entries: &'a [[u8; 13]]) -> Self {
        Self(Entries::Ccp(entries))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    /// The updates, in order.
    #[must_use]
    pub fn iter(self) -> UpdatesIter<'a> {
        UpdatesIter(self.0)
    }
}

impl<'a> From<&'a [Update]> for Updates<'a> {
    fn from(updates: &'a [Update]) -> Self {
        Self(Entries::Memory(updates))
    }
}

impl<'a, const N: usize> From<&'a [Update; N]> for Updates<'a> {
    fn from(updates: &'a [Update; N]) -> Self {
        Self(Entries::Memory(updates))
    }
}

impl Default for Updates<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<'a> IntoIterator for Updates<'a> {
    type Item = Update;
    type IntoIter = UpdatesIter<'a>;

    fn into_iter(self) -> UpdatesIter<'a> {
        self.iter()
    }
}

impl PartialEq for Updates<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Updates<'_> {}

impl core::fmt::Debug for Updates<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterates over [`Updates`].
#[derive(Clone)]
pub struct UpdatesIter<'a>(Entries<'a>);

impl Iterator for UpdatesIter<'_> {
    type Item = Update;

    fn next(&mut self) -> Option<Update> {
        match &mut self.0 {
            Entries::Memory(updates) => {
                let (first, rest) = updates.split_first()?;
                *updates = rest;
                Some(*first)
            }
            Entries::Own(entries) => {
                let (first, rest) = entries.split_first()?;
                *entries = rest;
                let [i0, i1, value @ ..] = *first;
                Some(Update {
                    variable: u16::from_le_bytes([i0, i1]),
                    value: u64::from_le_bytes(value),
                })
            }
            Entries::Ccp(entries) => loop {
                let (first, rest) = entries.split_first()?;
                *entries = rest;
                let [kind, i0, i1, _, _, value @ ..] = *first;
                if kind != crate::ccp::IMPLICIT {
                    return Some(Update {
                        variable: u16::from_le_bytes([i0, i1]),
                        value: u64::from_le_bytes(value),
                    });
                }
            },
        }
    }
}
