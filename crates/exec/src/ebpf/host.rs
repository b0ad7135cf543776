//! What a datapath puts around the generated code.

use super::asm::Asm;

/// A datapath's hook around a generated program: pieces of code that [`generate`] places.
///
/// Registers between the pieces: `R6` points to the frame, `R7` is the host's, `R8` and `R9` are
/// the generated code's, `R0`–`R5` hold nothing unless said. The stack is the host's.
///
/// [`generate`]: super::generate
pub trait Host {
    /// The start, with the hook's context in `R1`: leaves the frame's address in `R6`. It may
    /// return early by an [`exit`](Asm::exit) of its own, and must where the frame's `fault` is
    /// not 0, unless the datapath has looked at that before.
    fn enter(&self, asm: &mut Asm);

    /// Puts the congestion window of `R1` bytes into force. Placed where the window changed and
    /// is not 0; the frame holds it already.
    fn apply_cwnd(&self, asm: &mut Asm);

    /// Puts the pacing rate of `R1` bytes/s, 0 for none, into force. Placed where the rate
    /// changed and is at most [`MAX_RATE`](crate::frame::MAX_RATE).
    fn apply_rate(&self, asm: &mut Asm);

    /// Sends the `len` bytes at the frame's [`REPORT`](crate::frame::REPORT). The generated code
    /// has filled in the time, cwnd, rate, count and fields.
    fn report(&self, asm: &mut Asm, len: u32);

    /// Tells that the program was stopped, with the bit of the [`Fault`](crate::frame::Fault) in
    /// `R1`. The frame's `fault` is set already; [`leave`](Self::leave) follows.
    fn fault(&self, asm: &mut Asm) {
        let _ = asm;
    }

    /// Returns from the hook. Placed at each end of the program.
    fn leave(&self, asm: &mut Asm);
}
