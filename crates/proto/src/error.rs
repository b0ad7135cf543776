//! What can be wrong with bytes received, and with a message to be sent.

use crate::RefusalReason;

/// Bytes that are not a message. Nothing of such a message is ever acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message of type {message} is malformed at byte {offset}: {kind}")]
pub struct DecodeError {
    /// Where in the packet the error is, bytes.
    pub offset: usize,
    /// The message's type as its encoding numbers it; 0 where it is not known.
    pub message: u8,
    /// What is wrong.
    pub kind: DecodeErrorKind,
}

impl DecodeError {
    /// The reason for which such a message is refused.
    #[must_use]
    pub const fn reason(&self) -> RefusalReason {
        match self.kind {
            DecodeErrorKind::Version => RefusalReason::Version,
            _ => RefusalReason::Malformed,
        }
    }
}

/// What is wrong with bytes that are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DecodeErrorKind {
    /// The packet ends before the message does. What follows cannot be found.
    #[error("the packet ends before the message does")]
    Truncated,
    /// The message does not begin with the bytes `FW`. What follows cannot be found.
    #[error("it does not begin with FW")]
    Magic,
    /// The message is of a version that is not known.
    #[error("its version is not known")]
    Version,
    /// There is no message of this type in this direction.
    #[error("there is no message of this type in this direction")]
    Type,
    /// The length is impossible for the type, or disagrees with the counts inside.
    #[error("its length does not match its contents")]
    Length,
    /// The message is longer than the encoding's bound. What follows cannot be found.
    #[error("it is longer than the longest message")]
    TooLong,
    /// A name is not UTF-8, or too long.
    #[error("a name in it is not UTF-8, or too long")]
    Text,
    /// A field has a value that means nothing.
    #[error("a field has an undefined value")]
    Value,
    /// A register that is not there or that the plane may not set.
    #[error("it sets a register that does not exist, or that the plane may not set")]
    Register,
}

/// A decode error at an offset within one message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorAt {
    pub(crate) at: usize,
    pub(crate) kind: DecodeErrorKind,
}

impl DecodeErrorKind {
    pub(crate) const fn at(self, at: usize) -> ErrorAt {
        ErrorAt { at, kind: self }
    }
}

/// A message that the encoding has no way to say. Nothing of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EncodeError {
    /// The encoding has no such message.
    #[error("the encoding has no such message")]
    Message,
    /// The message would be longer than the encoding's bound.
    #[error("the message would be longer than the encoding's bound")]
    TooLong,
    /// A name is longer than the encoding's bound, or has a NUL inside where NUL ends names.
    #[error("a name is longer than the encoding's bound, or has a NUL inside")]
    Name,
    /// The flow's slot is beyond those that the encoding can name.
    #[error("the flow's slot is beyond those that the encoding can name")]
    Slot,
    /// A report without fields, which in libccp's encoding would end the flow.
    #[error("a report without fields would end the flow in libccp's encoding")]
    EmptyReport,
    /// A variable beyond the registers of libccp.
    #[error("a variable is beyond libccp's control registers")]
    Register,
    /// A maximum segment size of 0.
    #[error("the maximum segment size is 0")]
    Mss,
    /// A program's number is 0, or its body does not have the length that its counts say.
    #[error("the program's number is 0, or its body is not a program")]
    Program,
}
