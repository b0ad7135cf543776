//! TCP options, one after the other.

use crate::bytes::{array_at, u8_at, u16_at, u32_at};
use crate::{ParseError, Seq};

/// Numbers of option kinds (IANA, "TCP Option Kind Numbers").
pub(crate) mod kind {
    pub(crate) const END: u8 = 0;
    pub(crate) const NOP: u8 = 1;
    pub(crate) const MSS: u8 = 2;
    pub(crate) const WINDOW_SCALE: u8 = 3;
    pub(crate) const SACK_PERMITTED: u8 = 4;
    pub(crate) const SACK: u8 = 5;
    pub(crate) const TIMESTAMPS: u8 = 8;
    pub(crate) const MD5: u8 = 19;
    pub(crate) const AO: u8 = 29;
    pub(crate) const MPTCP: u8 = 30;
    pub(crate) const FAST_OPEN: u8 = 34;
    pub(crate) const ACC_ECN_0: u8 = 172;
    pub(crate) const ACC_ECN_1: u8 = 174;
    pub(crate) const EXPERIMENT: u8 = 254;
    /// The experiment that became Fast Open (RFC 7413 §4.1.1).
    pub(crate) const FAST_OPEN_EXPERIMENT: [u8; 2] = [0xf9, 0x89];
}

/// A TCP option that takes a kind and a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Maximum segment size, bytes without options (RFC 9293 §3.7.1).
    Mss(u16),
    /// Shift of the receive window, as sent: above [`MAX_WINDOW_SCALE`](crate::MAX_WINDOW_SCALE) it
    /// counts as that (RFC 7323 §2.3).
    WindowScale(u8),
    /// Selective acknowledgements may be sent (RFC 2018 §2).
    SackPermitted,
    /// Selective acknowledgements (RFC 2018 §3).
    Sack(SackBlocks<'a>),
    /// The sender's clock, and the one that it echoes (RFC 7323 §3.2).
    Timestamps {
        /// TSval.
        value: u32,
        /// TSecr.
        echo: u32,
    },
    /// Fast Open's cookie; empty to ask for one (RFC 7413 §4.1.1). Its experimental form counts too.
    FastOpen(&'a [u8]),
    /// A digest over the segment (RFC 2385).
    Md5([u8; 16]),
    /// The authentication option, without kind and length (RFC 5925 §2.2).
    Authentication(&'a [u8]),
    /// Multipath TCP, without kind and length (RFC 8684 §3).
    Mptcp(&'a [u8]),
    /// Counters of accurate ECN (RFC 9768 §3.2.3).
    AccEcn(AccEcn),
    /// Any other.
    Unknown {
        /// Its kind.
        kind: u8,
        /// Without kind and length.
        data: &'a [u8],
    },
}

/// A range of sequence numbers, `start` included and `end` not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SackBlock {
    /// The first byte.
    pub start: Seq,
    /// The byte after the last.
    pub end: Seq,
}

/// The blocks of a SACK option, the first of them first; one to four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackBlocks<'a>(&'a [[u8; 8]]);

impl SackBlock {
    /// The block as an option has it.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let ([a, b, c, d], [e, f, g, h]) = (self.start.0.to_be_bytes(), self.end.0.to_be_bytes());
        [a, b, c, d, e, f, g, h]
    }
}

impl<'a> SackBlocks<'a> {
    /// Most blocks of an option.
    pub const MAX: usize = 4;

    /// Blocks for an option that is to be written; `None` for none, and for more than there can be.
    #[must_use]
    pub const fn new(blocks: &'a [[u8; 8]]) -> Option<Self> {
        match blocks.len() {
            1..=Self::MAX => Some(Self(blocks)),
            _ => None,
        }
    }

    /// The blocks, as they are in the option: nothing says that they make sense.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SackBlock> + 'a {
        self.0.iter().map(|block| SackBlock {
            start: Seq(u32_at(block, 0)),
            end: Seq(u32_at(block, 4)),
        })
    }

    pub(crate) const fn raw(&self) -> &'a [[u8; 8]] {
        self.0
    }
}

/// The counters of an `AccECN` option, modulo 2²⁴; those that the option is too short for are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AccEcn {
    /// r.e0b: bytes that came with ECT(0), plus 1.
    pub ect0_bytes: Option<u32>,
    /// r.ceb: bytes that came with CE.
    pub ce_bytes: Option<u32>,
    /// r.e1b: bytes that came with ECT(1), plus 1.
    pub ect1_bytes: Option<u32>,
}

impl AccEcn {
    /// `AccECN0` counts ECT(0) first, `AccECN1` ECT(1).
    fn read(data: &[u8], ect1_first: bool) -> Option<Self> {
        if !data.len().is_multiple_of(3) || data.len() > 9 {
            return None;
        }
        let field = |index: usize| {
            let bytes = data.get(3 * index..3 * index + 3)?;
            Some(u32::from_be_bytes([
                0,
                u8_at(bytes, 0),
                u8_at(bytes, 1),
                u8_at(bytes, 2),
            ]))
        };
        let (first, last) = (field(0), field(2));
        let (ect0_bytes, ect1_bytes) = if ect1_first {
            (last, first)
        } else {
            (first, last)
        };
        Some(Self {
            ect0_bytes,
            ce_bytes: field(1),
            ect1_bytes,
        })
    }
}

/// The options of a header; no-operations are passed over. Ends at the end of the list, or after an error.
#[derive(Debug, Clone)]
pub struct TcpOptions<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the value of the option that came last.
    value_at: usize,
}

impl<'a> TcpOptions<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            value_at: 0,
        }
    }

    /// Offset of the value of the option that came last, from the first option on.
    pub(crate) const fn last_value_at(&self) -> usize {
        self.value_at
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.bytes;
        while u8_at(bytes, self.at) == kind::NOP && self.at < bytes.len() {
            self.at += 1;
        }
        let here = self.at;
        // Whatever comes next, it is the last unless the option is sound.
        self.at = bytes.len();
        let kind = *bytes.get(here)?;
        if kind == kind::END {
            return None;
        }
        let Some(&length) = bytes.get(here + 1) else {
            return Some(Err(ParseError::TcpOptionTruncated));
        };
        let length = usize::from(length);
        if length < 2 {
            return Some(Err(ParseError::TcpOptionLength));
        }
        let Some(data) = bytes.get(here + 2..here + length) else {
            return Some(Err(ParseError::TcpOptionTruncated));
        };
        let option = read(kind, data).ok_or(ParseError::TcpOptionLength);
        if option.is_ok() {
            self.at = here + length;
            self.value_at = here + 2;
        }
        Some(option)
    }
}

/// The option of a kind; `None` if it has a length that its kind does not have.
fn read(kind: u8, data: &[u8]) -> Option<TcpOption<'_>> {
    let has = |length: usize| (data.len() == length).then_some(());
    Some(match kind {
        kind::MSS => {
            has(2)?;
            TcpOption::Mss(u16_at(data, 0))
        }
        kind::WINDOW_SCALE => {
            has(1)?;
            TcpOption::WindowScale(u8_at(data, 0))
        }
        kind::SACK_PERMITTED => {
            has(0)?;
            TcpOption::SackPermitted
        }
        kind::SACK => match data.as_chunks::<8>() {
            (blocks, []) if (1..=SackBlocks::MAX).contains(&blocks.len()) => {
                TcpOption::Sack(SackBlocks(blocks))
            }
            _ => return None,
        },
        kind::TIMESTAMPS => {
            has(8)?;
            TcpOption::Timestamps {
                value: u32_at(data, 0),
                echo: u32_at(data, 4),
            }
        }
        kind::MD5 => {
            has(16)?;
            TcpOption::Md5(array_at(data, 0))
        }
        // RFC 5925 §2.2: two key identifiers, then the code.
        kind::AO => {
            (data.len() >= 2).then_some(())?;
            TcpOption::Authentication(data)
        }
        // RFC 8684 §3: the subtype at least.
        kind::MPTCP => {
            (!data.is_empty()).then_some(())?;
            TcpOption::Mptcp(data)
        }
        kind::FAST_OPEN => {
            is_cookie(data).then_some(())?;
            TcpOption::FastOpen(data)
        }
        kind::EXPERIMENT if data.starts_with(&kind::FAST_OPEN_EXPERIMENT) => {
            let cookie = data.get(2..).filter(|cookie| is_cookie(cookie))?;
            TcpOption::FastOpen(cookie)
        }
        kind::ACC_ECN_0 => TcpOption::AccEcn(AccEcn::read(data, false)?),
        kind::ACC_ECN_1 => TcpOption::AccEcn(AccEcn::read(data, true)?),
        kind => TcpOption::Unknown { kind, data },
    })
}

/// RFC 7413 §4.1.1: empty, or 4 to 16 bytes, even.
fn is_cookie(data: &[u8]) -> bool {
    data.is_empty() || ((4..=16).contains(&data.len()) && data.len().is_multiple_of(2))
}
