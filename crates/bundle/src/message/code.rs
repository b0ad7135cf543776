//! Messages, encoded and decoded.

use fairwater_net::Time;

use super::{Feedback, ReceiveCounters};
use crate::{Boundary, EpochSize, Refusal};

const MAGIC: [u8; 2] = *b"FB";
const VERSION: u8 = 1;
const KIND_EPOCH: u8 = 1;
const KIND_FEEDBACK: u8 = 2;
const KIND_GREETING: u8 = 3;

pub(super) const HEADER_BYTES: usize = 32;
pub(super) const TAG_BYTES: usize = 16;
const EPOCH_BYTES: usize = 8;
const FEEDBACK_BYTES: usize = 56;

/// Bytes of the longest message.
pub const MAX_MESSAGE_BYTES: usize = HEADER_BYTES + FEEDBACK_BYTES + TAG_BYTES;

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The sendbox tells its N.
    Epoch(EpochSize),
    /// The receivebox received a boundary packet.
    Feedback(Feedback),
    /// The receivebox tells its instance. The boundary means nothing.
    Greeting(Feedback),
}

/// The fields before the message's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) bundle: u32,
    pub(super) instance: u64,
    pub(super) echo: u64,
    pub(super) number: u64,
}

/// The bundle that a message is for, of a message whose length fits its kind.
///
/// # Errors
/// The message is none of this protocol's.
pub(crate) fn bundle_of(bytes: &[u8]) -> Result<u32, Refusal> {
    let (header, _) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or({
        if bytes.starts_with(&MAGIC) {
            Refusal::Length
        } else {
            Refusal::Magic
        }
    })?;
    if !header.starts_with(&MAGIC) {
        return Err(Refusal::Magic);
    }
    if header[2] != VERSION {
        return Err(Refusal::Version);
    }
    let body = match header[3] {
        KIND_EPOCH => EPOCH_BYTES,
        KIND_FEEDBACK | KIND_GREETING => FEEDBACK_BYTES,
        _ => return Err(Refusal::Kind),
    };
    if bytes.len() != HEADER_BYTES + body + TAG_BYTES {
        return Err(Refusal::Length);
    }
    Ok(u32_at(bytes, 4))
}

/// Writes the message and its MAC.
pub(super) fn encode(key: &[u8; 32], header: Header, message: &Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAX_MESSAGE_BYTES);
    let kind = match message {
        Message::Epoch(_) => KIND_EPOCH,
        Message::Feedback(_) => KIND_FEEDBACK,
        Message::Greeting(_) => KIND_GREETING,
    };
    bytes.extend(MAGIC);
    bytes.extend([VERSION, kind]);
    bytes.extend(header.bundle.to_be_bytes());
    for field in [header.instance, header.echo, header.number] {
        bytes.extend(field.to_be_bytes());
    }
    let epoch = match message {
        Message::Epoch(epoch) => *epoch,
        Message::Feedback(feedback) | Message::Greeting(feedback) => {
            let counters = &feedback.counters;
            for field in [
                feedback.boundary.0,
                counters.bytes,
                counters.packets,
                counters.ce_bytes,
                counters.ce_packets,
                feedback.received_at.as_nanos(),
            ] {
                bytes.extend(field.to_be_bytes());
            }
            feedback.epoch
        }
    };
    bytes.push(epoch.exponent());
    bytes.extend([0; 7]);
    let tag = blake3::keyed_hash(key, &bytes);
    bytes.extend(&tag.as_bytes()[..TAG_BYTES]);
    bytes
}

/// Reads a message for which [`bundle_of`] gave a bundle.
///
/// # Errors
/// It is not authentic, or a field is out of its range.
pub(super) fn decode(key: &[u8; 32], bytes: &[u8]) -> Result<(Header, Message), Refusal> {
    let (signed, tag) = bytes
        .split_last_chunk::<TAG_BYTES>()
        .ok_or(Refusal::Length)?;
    let expected = blake3::keyed_hash(key, signed);
    let mut padded = *expected.as_bytes();
    padded[..TAG_BYTES].copy_from_slice(tag);
    // Equality of BLAKE3's hashes takes the same time wherever they differ.
    if expected != blake3::Hash::from_bytes(padded) {
        return Err(Refusal::Authentication);
    }
    let header = Header {
        bundle: u32_at(signed, 4),
        instance: u64_at(signed, 8),
        echo: u64_at(signed, 16),
        number: u64_at(signed, 24),
    };
    let last = signed.len().saturating_sub(8);
    let exponent = u64_at(signed, last);
    if exponent & 0x00ff_ffff_ffff_ffff != 0 || header.instance == 0 {
        return Err(Refusal::Field);
    }
    let epoch = EpochSize::from_exponent((exponent >> 56) as u8).ok_or(Refusal::Field)?;
    let field = |index: usize| u64_at(signed, HEADER_BYTES + 8 * index);
    let feedback = || Feedback {
        boundary: Boundary(field(0)),
        counters: ReceiveCounters {
            bytes: field(1),
            packets: field(2),
            ce_bytes: field(3),
            ce_packets: field(4),
        },
        received_at: Time::from_nanos(field(5)),
        epoch,
    };
    let message = match signed.get(3).copied() {
        Some(KIND_EPOCH) => Message::Epoch(epoch),
        Some(KIND_FEEDBACK) => Message::Feedback(feedback()),
        Some(KIND_GREETING) => Message::Greeting(feedback()),
        _ => return Err(Refusal::Kind),
    };
    Ok((header, message))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_be_bytes(field.copied().unwrap_or_default())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u64::from_be_bytes(field.copied().unwrap_or_default())
}
