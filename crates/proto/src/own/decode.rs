//! Bytes to messages.

use fairwater_lang::{Signal, SignalSet};

use super::{
    CLOSED, COMMAND, CREATED, CWND, FAULTED, HAND_OVER, HAS_FLOW, HAS_TIME, HEADER, HELLO,
    IDLE_RESTART, INSTALL, MAGIC, MAX_MESSAGE, MAX_NAME, MSS_CHANGED, RATE, REFUSED_TO_DATAPATH,
    REFUSED_TO_PLANE, REPORTED, RESUMED, SWITCH, TYPE_AT, UNINSTALL, VERSION, WELCOME, WITHDRAW,
    address, present,
};
use crate::error::{DecodeErrorKind, ErrorAt};
use crate::fixed::Fixed;
use crate::{
    Abilities, Capabilities, Fallback, Fields, FlowId, FlowInfo, Hello, Refusal, RefusalReason,
    SignalQualities, ToDatapath, ToPlane, Updates, Welcome,
};

/// The first message of a packet, by its length, and what follows it.
#[inline]
pub(crate) fn frame(packet: &[u8]) -> Result<(&[u8], &[u8]), ErrorAt> {
    let header = packet.first_chunk::<HEADER>().map(Fixed);
    let header = header.ok_or(DecodeErrorKind::Truncated.at(packet.len()))?;
    if header.array::<0, 2>() != MAGIC {
        return Err(DecodeErrorKind::Magic.at(0));
    }
    let length = usize::try_from(header.u32::<4>()).unwrap_or(usize::MAX);
    if length < HEADER {
        return Err(DecodeErrorKind::Length.at(4));
    }
    if length > MAX_MESSAGE {
        return Err(DecodeErrorKind::TooLong.at(4));
    }
    let split = packet.split_at_checked(length);
    split.ok_or(DecodeErrorKind::Truncated.at(packet.len()))
}

/// The part of fixed length, and the rest.
#[inline]
fn fixed<const N: usize>(message: &[u8]) -> Result<(Fixed<'_, N>, &[u8]), ErrorAt> {
    let split = message.split_first_chunk::<N>();
    let (fixed, rest) = split.ok_or(DecodeErrorKind::Length.at(4))?;
    Ok((Fixed(fixed), rest))
}

/// A message that is its part of fixed length.
#[inline]
fn whole<const N: usize>(message: &[u8]) -> Result<Fixed<'_, N>, ErrorAt> {
    match fixed(message)? {
        (fixed, []) => Ok(fixed),
        _ => Err(DecodeErrorKind::Length.at(4)),
    }
}

#[inline]
fn flow<const N: usize, const SLOT: usize, const GENERATION: usize>(from: Fixed<'_, N>) -> FlowId {
    FlowId {
        slot: from.u32::<SLOT>(),
        generation: from.u32::<GENERATION>(),
    }
}

fn name(bytes: &[u8], at: usize) -> Result<&str, ErrorAt> {
    if bytes.len() > MAX_NAME {
        return Err(DecodeErrorKind::Text.at(at));
    }
    core::str::from_utf8(bytes).map_err(|e| DecodeErrorKind::Text.at(at + e.valid_up_to()))
}

#[inline]
fn known_version(message: &[u8]) -> Result<u8, ErrorAt> {
    let header = whole_header(message)?;
    if header.u8::<2>() == VERSION {
        Ok(header.u8::<TYPE_AT>())
    } else {
        Err(DecodeErrorKind::Version.at(2))
    }
}

#[inline]
fn whole_header(message: &[u8]) -> Result<Fixed<'_, HEADER>, ErrorAt> {
    fixed(message).map(|(header, _)| header)
}

/// One whole message of a datapath's.
#[inline(always)]
pub(crate) fn decode_to_plane(message: &[u8]) -> Result<ToPlane<'_>, ErrorAt> {
    match known_version(message)? {
        REPORTED => reported(message),
        HELLO => hello(message),
        CREATED => started(message).map(|(flow, algorithm, info)| ToPlane::Created {
            flow,
            algorithm,
            info,
        }),
        RESUMED => started(message).map(|(flow, algorithm, info)| ToPlane::Resumed {
            flow,
            algorithm,
            info,
        }),
        MSS_CHANGED => {
            let fixed = whole::<20>(message)?;
            let mss = fixed.u32::<16>();
            if mss == 0 {
                return Err(DecodeErrorKind::Value.at(16));
            }
            Ok(ToPlane::MssChanged {
                flow: flow::<_, 8, 12>(fixed),
                mss,
            })
        }
        FAULTED => {
            let fixed = whole::<20>(message)?;
            Ok(ToPlane::Faulted {
                flow: flow::<_, 8, 12>(fixed),
                fault: fixed.u32::<16>(),
            })
        }
        CLOSED => {
            let flow = flow::<_, 8, 12>(whole::<16>(message)?);
            Ok(ToPlane::Closed { flow })
        }
        REFUSED_TO_PLANE => refused(message).map(ToPlane::Refused),
        _ => Err(DecodeErrorKind::Type.at(TYPE_AT)),
    }
}

/// One whole message of a plane's.
#[inline(always)]
pub(crate) fn decode_to_datapath(message: &[u8]) -> Result<ToDatapath<'_>, ErrorAt> {
    match known_version(message)? {
        COMMAND => command(message),
        WELCOME => {
            let fixed = whole::<20>(message)?;
            Ok(ToDatapath::Welcome(Welcome {
                instance: fixed.u64::<8>(),
                alive_us: fixed.u32::<16>(),
            }))
        }
        INSTALL => {
            let (fixed, body) = fixed::<16>(message)?;
            let program = program(fixed.u32::<8>())?;
            let flags = fixed.u32::<12>();
            if flags & !IDLE_RESTART != 0 {
                return Err(DecodeErrorKind::Value.at(12));
            }
            Ok(ToDatapath::Install {
                program,
                idle_restart: flags & IDLE_RESTART != 0,
                body,
            })
        }
        UNINSTALL => {
            let program = program(whole::<12>(message)?.u32::<8>())?;
            Ok(ToDatapath::Uninstall { program })
        }
        HAND_OVER => {
            let (fixed, rest) = fixed::<16>(message)?;
            Ok(ToDatapath::HandOver {
                flow: flow::<_, 8, 12>(fixed),
                algorithm: name(rest, 16)?,
            })
        }
        REFUSED_TO_DATAPATH => refused(message).map(ToDatapath::Refused),
        _ => Err(DecodeErrorKind::Type.at(TYPE_AT)),
    }
}

#[inline]
fn program(number: u32) -> Result<u32, ErrorAt> {
    match number {
        0 => Err(DecodeErrorKind::Value.at(8)),
        _ => Ok(number),
    }
}

#[inline(always)]
fn reported(message: &[u8]) -> Result<ToPlane<'_>, ErrorAt> {
    let (fixed, rest) = fixed::<48>(message)?;
    let (words, []) = rest.as_chunks::<8>() else {
        return Err(DecodeErrorKind::Length.at(4));
    };
    let flags = fixed.u32::<20>();
    if flags & !HAS_TIME != 0 {
        return Err(DecodeErrorKind::Value.at(20));
    }
    Ok(ToPlane::Reported {
        flow: flow::<_, 8, 12>(fixed),
        program: fixed.u32::<16>(),
        time_us: present(flags, HAS_TIME, fixed.u64::<24>(), 24)?,
        cwnd: fixed.u64::<32>(),
        rate: fixed.u64::<40>(),
        fields: Fields::wire(words),
    })
}

#[inline(always)]
fn command(message: &[u8]) -> Result<ToDatapath<'_>, ErrorAt> {
    let (fixed, rest) = fixed::<40>(message)?;
    let (entries, []) = rest.as_chunks::<10>() else {
        return Err(DecodeErrorKind::Length.at(4));
    };
    if entries.len() != usize::from(fixed.u16::<18>()) {
        return Err(DecodeErrorKind::Length.at(18));
    }
    let flags = fixed.u16::<16>();
    if flags & !(SWITCH | CWND | RATE | WITHDRAW) != 0 {
        return Err(DecodeErrorKind::Value.at(16));
    }
    Ok(ToDatapath::Command {
        flow: flow::<_, 8, 12>(fixed),
        switch: present(flags, SWITCH, fixed.u32::<20>(), 20)?,
        cwnd: present(flags, CWND, fixed.u64::<24>(), 24)?,
        rate: present(flags, RATE, fixed.u64::<32>(), 32)?,
        updates: Updates::own(entries),
        withdraw: flags & WITHDRAW != 0,
    })
}

#[inline(never)]
fn hello(message: &[u8]) -> Result<ToPlane<'_>, ErrorAt> {
    let (fixed, rest) = fixed::<40>(message)?;
    let present = signals(fixed.u32::<16>(), 16)?;
    let inferred = signals(fixed.u32::<24>(), 24)?;
    let degraded = signals(fixed.u32::<28>(), 28)?;
    let qualities = SignalQualities::from_sets(present, inferred, degraded);
    let abilities = Abilities::from_bits(fixed.u32::<32>());
    let fallback = usize::try_from(fixed.u32::<36>()).ok();
    let fallback = fallback.and_then(|number| Fallback::ALL.get(number));
    Ok(ToPlane::Hello(Hello {
        name: name(rest, 40)?,
        instance: fixed.u64::<8>(),
        capabilities: Capabilities {
            signals: qualities.ok_or(DecodeErrorKind::Value.at(24))?,
            abilities: abilities.ok_or(DecodeErrorKind::Value.at(32))?,
            fallback: *fallback.ok_or(DecodeErrorKind::Value.at(36))?,
            max_programs: fixed.u32::<20>(),
        },
    }))
}

fn signals(bits: u32, at: usize) -> Result<SignalSet, ErrorAt> {
    if bits & !SignalSet::ALL.bits() != 0 {
        return Err(DecodeErrorKind::Value.at(at));
    }
    let signals = Signal::ALL.into_iter();
    Ok(signals.filter(|s| bits >> *s as u32 & 1 != 0).collect())
}

/// The contents of Created and of Resumed.
#[inline(never)]
fn started(message: &[u8]) -> Result<(FlowId, &str, FlowInfo), ErrorAt> {
    let (fixed, rest) = fixed::<120>(message)?;
    let address_at = |bytes, at| {
        address::decode(bytes).map_err(|error| ErrorAt {
            at: at + error.at,
            ..error
        })
    };
    let info = FlowInfo {
        local: address_at(&fixed.array::<48, { address::BYTES }>(), 48)?,
        remote: address_at(&fixed.array::<76, { address::BYTES }>(), 76)?,
        mss: fixed.u32::<16>(),
        cwnd: fixed.u64::<24>(),
        rate: fixed.u64::<104>(),
        ssthresh: Some(fixed.u64::<112>()).filter(|ssthresh| *ssthresh != u64::MAX),
        srtt_us: fixed.u64::<32>(),
        now_us: fixed.u64::<40>(),
        tag: fixed.u32::<20>(),
    };
    Ok((flow::<_, 8, 12>(fixed), name(rest, 120)?, info))
}

#[inline(never)]
fn refused(message: &[u8]) -> Result<Refusal, ErrorAt> {
    let fixed = whole::<24>(message)?;
    let reason = RefusalReason::from_code(fixed.u8::<9>());
    let flags = fixed.u16::<10>();
    if flags & !HAS_FLOW != 0 {
        return Err(DecodeErrorKind::Value.at(10));
    }
    let has_flow = present(flags, HAS_FLOW, fixed.u64::<16>(), 16)?.is_some();
    Ok(Refusal {
        message: fixed.u8::<8>(),
        reason: reason.ok_or(DecodeErrorKind::Value.at(9))?,
        flow: has_flow.then(|| flow::<_, 16, 20>(fixed)),
        program: fixed.u32::<12>(),
    })
}
