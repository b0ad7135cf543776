//! The window in which each message number is accepted once.

use crate::Refusal;

const WORDS: u64 = 17;

/// Accepts each number once, and none that is [`ReplayWindow::SIZE`] or more below the greatest (the algorithm of
/// RFC 6479).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplayWindow {
    greatest: u64,
    /// Bits of the numbers, by number modulo the ring's size. One word more than the window, so that words are
    /// cleared whole.
    ring: [u64; WORDS as usize],
}

impl ReplayWindow {
    /// Numbers in the window.
    pub const SIZE: u64 = (WORDS - 1) * 64;

    /// The greatest number accepted; 0 before the first.
    #[must_use]
    pub const fn greatest(&self) -> u64 {
        self.greatest
    }

    /// Whether the number may be accepted. Numbers begin at 1.
    ///
    /// # Errors
    /// [`Refusal::Replayed`] for 0 and for a number that was accepted, [`Refusal::TooOld`] for a number below the
    /// window.
    pub fn check(&self, number: u64) -> Result<(), Refusal> {
        if number > self.greatest {
            return Ok(());
        }
        if self.greatest - number >= Self::SIZE {
            return Err(Refusal::TooOld);
        }
        if number == 0 || self.ring[word_of(number)] & bit_of(number) != 0 {
            return Err(Refusal::Replayed);
        }
        Ok(())
    }

    /// Accepts a number that [`ReplayWindow::check`] allowed.
    pub fn accept(&mut self, number: u64) {
        let words = (number / 64).saturating_sub(self.greatest / 64).min(WORDS);
        for ahead in 1..=words {
            self.ring[((self.greatest / 64 + ahead) % WORDS) as usize] = 0;
        }
        self.greatest = self.greatest.max(number);
        self.ring[word_of(number)] |= bit_of(number);
    }
}

const fn word_of(number: u64) -> usize {
    ((number / 64) % WORDS) as usize
}

const fn bit_of(number: u64) -> u64 {
    1 << (number % 64)
}
