//! Bytes to messages.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    CAPABILITIES, CHANGE_PROG, CONTROL, CREATE, CWND, HEADER, IMPLICIT, INSTALL, MAX_CONTROLS,
    MAX_MESSAGE, MAX_NAME, MAX_UPDATES, MAX_UPDATES_OF_SWITCH, MEASURE, NAME_FIELD, RATE, READY,
    TYPE_AT, UPDATE_FIELDS, VOLATILE_CONTROL, flow_of,
};
use crate::error::{DecodeErrorKind, ErrorAt};
use crate::fixed::Fixed;
use crate::{Fields, FlowId, FlowInfo, Hello, ToDatapath, ToPlane, Updates};

/// The first message of a packet, by its length, and what follows it.
#[inline]
pub(crate) fn frame(packet: &[u8]) -> Result<(&[u8], &[u8]), ErrorAt> {
    let header = packet.first_chunk::<HEADER>().map(Fixed);
    let header = header.ok_or(DecodeErrorKind::Truncated.at(packet.len()))?;
    let length = usize::from(header.u16::<2>());
    if length < HEADER {
        return Err(DecodeErrorKind::Length.at(2));
    }
    if length > MAX_MESSAGE {
        return Err(DecodeErrorKind::TooLong.at(2));
    }
    let split = packet.split_at_checked(length);
    split.ok_or(DecodeErrorKind::Truncated.at(packet.len()))
}

/// The part of fixed length, and the rest.
#[inline]
fn fixed<const N: usize>(message: &[u8]) -> Result<(Fixed<'_, N>, &[u8]), ErrorAt> {
    let split = message.split_first_chunk::<N>();
    let (fixed, rest) = split.ok_or(DecodeErrorKind::Length.at(2))?;
    Ok((Fixed(fixed), rest))
}

/// The type and the flow that the sid names.
#[inline]
fn header(message: &[u8]) -> Result<(u8, FlowId), ErrorAt> {
    let (header, _) = fixed::<HEADER>(message)?;
    if header.u8::<1>() != 0 {
        return Err(DecodeErrorKind::Type.at(TYPE_AT));
    }
    Ok((header.u8::<TYPE_AT>(), flow_of(header.u32::<4>())))
}

/// The elements of `N` bytes that are all of `rest`, and as many as `count` says.
#[inline]
fn counted<const N: usize>(rest: &[u8], count: u32, at: usize) -> Result<&[[u8; N]], ErrorAt> {
    match rest.as_chunks::<N>() {
        (elements, []) if u32::try_from(elements.len()) == Ok(count) => Ok(elements),
        _ => Err(DecodeErrorKind::Length.at(at)),
    }
}

/// One whole message of a datapath's.
#[inline(always)]
pub(crate) fn decode_to_plane(message: &[u8]) -> Result<ToPlane<'_>, ErrorAt> {
    match header(message)? {
        (MEASURE, flow) => measure(flow, message),
        (CREATE, flow) => create(flow, message),
        (READY, _) => match fixed::<12>(message)? {
            (fixed, []) => Ok(ToPlane::Hello(Hello {
                name: "libccp",
                instance: u64::from(fixed.u32::<8>()),
                capabilities: CAPABILITIES,
            })),
            _ => Err(DecodeErrorKind::Length.at(2)),
        },
        _ => Err(DecodeErrorKind::Type.at(TYPE_AT)),
    }
}

/// One whole message of an agent's.
#[inline(always)]
pub(crate) fn decode_to_datapath(message: &[u8]) -> Result<ToDatapath<'_>, ErrorAt> {
    match header(message)? {
        (UPDATE_FIELDS, flow) => {
            let (fixed, rest) = fixed::<12>(message)?;
            let entries = counted(rest, fixed.u32::<8>(), 8)?;
            if entries.len() > MAX_UPDATES {
                return Err(DecodeErrorKind::Length.at(8));
            }
            command(flow, None, entries, 12)
        }
        (CHANGE_PROG, flow) => {
            let (fixed, rest) = fixed::<16>(message)?;
            let entries = counted(rest, fixed.u32::<12>(), 12)?;
            if entries.len() > MAX_UPDATES_OF_SWITCH {
                return Err(DecodeErrorKind::Length.at(12));
            }
            command(flow, Some(fixed.u32::<8>()), entries, 16)
        }
        (INSTALL, _) => install(message),
        _ => Err(DecodeErrorKind::Type.at(TYPE_AT)),
    }
}

#[inline(always)]
fn measure(flow: FlowId, message: &[u8]) -> Result<ToPlane<'_>, ErrorAt> {
    let (fixed, rest) = fixed::<16>(message)?;
    let words = counted(rest, fixed.u32::<12>(), 12)?;
    if words.is_empty() {
        return Ok(ToPlane::Closed { flow });
    }
    Ok(ToPlane::Reported {
        flow,
        program: fixed.u32::<8>(),
        time_us: None,
        cwnd: 0,
        rate: 0,
        fields: Fields::wire(words),
    })
}

#[inline(never)]
fn create(flow: FlowId, message: &[u8]) -> Result<ToPlane<'_>, ErrorAt> {
    let (fixed, name) = fixed::<32>(message)?;
    if name.len() != NAME_FIELD {
        return Err(DecodeErrorKind::Length.at(2));
    }
    let end = name.iter().position(|byte| *byte == 0);
    let name = name
        .get(..end.unwrap_or(NAME_FIELD))
        .filter(|name| name.len() <= MAX_NAME)
        .ok_or(DecodeErrorKind::Text.at(message.len()))?;
    let algorithm =
        core::str::from_utf8(name).map_err(|e| DecodeErrorKind::Text.at(32 + e.valid_up_to()))?;
    let address = |octets: [u8; 4], port: u32| {
        let address = IpAddr::V4(Ipv4Addr::from(octets));
        SocketAddr::new(address, u16::try_from(port).unwrap_or(0))
    };
    Ok(ToPlane::Created {
        flow,
        algorithm,
        info: FlowInfo {
            local: address(fixed.array::<16, 4>(), fixed.u32::<20>()),
            remote: address(fixed.array::<24, 4>(), fixed.u32::<28>()),
            mss: fixed.u32::<12>(),
            cwnd: u64::from(fixed.u32::<8>()),
            ..FlowInfo::default()
        },
    })
}

/// Takes cwnd and rate out of the entries and checks the others.
#[inline(always)]
fn command<'a>(
    flow: FlowId,
    switch: Option<u32>,
    entries: &'a [[u8; 13]],
    at: usize,
) -> Result<ToDatapath<'a>, ErrorAt> {
    let (mut cwnd, mut rate) = (None, None);
    for (i, bytes) in entries.iter().enumerate() {
        let entry = Fixed(bytes);
        match (entry.u8::<0>(), entry.u32::<1>()) {
            (CONTROL | VOLATILE_CONTROL, register) if register < u32::from(MAX_CONTROLS) => {}
            (IMPLICIT, CWND) => cwnd = Some(entry.u64::<5>()),
            (IMPLICIT, RATE) => rate = Some(entry.u64::<5>()),
            _ => return Err(DecodeErrorKind::Register.at(at + 13 * i)),
        }
    }
    Ok(ToDatapath::Command {
        flow,
        switch,
        cwnd,
        rate,
        updates: Updates::ccp(entries),
        withdraw: false,
    })
}

#[inline(never)]
fn install(message: &[u8]) -> Result<ToDatapath<'_>, ErrorAt> {
    let (fixed, rest) = fixed::<20>(message)?;
    let parts = fixed.u32::<12>().checked_add(fixed.u32::<16>());
    let _: &[[u8; 16]] = counted(rest, parts.ok_or(DecodeErrorKind::Length.at(12))?, 12)?;
    let program = fixed.u32::<8>();
    if program == 0 {
        return Err(DecodeErrorKind::Value.at(8));
    }
    let body = message.get(12..).unwrap_or_default();
    Ok(ToDatapath::Install {
        program,
        idle_restart: true,
        body,
    })
}
