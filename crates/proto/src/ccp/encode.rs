//! Messages to bytes.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::{
    CHANGE_PROG, CONTROL, CREATE, CWND, IMPLICIT, INSTALL, MAX_CONTROLS, MAX_MESSAGE, MAX_NAME,
    MAX_UPDATES, MAX_UPDATES_OF_SWITCH, MEASURE, NAME_FIELD, RATE, READY, TYPE_AT, UPDATE_FIELDS,
    sid_of,
};
use crate::fixed::{Fixed, FixedMut};
use crate::{EncodeError, Fields, FlowId, FlowInfo, ToDatapath, ToPlane, Updates};

const ENTRY: usize = 13;

/// A message's part of fixed length, with the header of a message that has `rest` more bytes.
#[inline]
fn fixed<const N: usize>(kind: u8, sid: u32, rest: usize) -> Result<FixedMut<N>, EncodeError> {
    let length = N.saturating_add(rest);
    if length > MAX_MESSAGE {
        return Err(EncodeError::TooLong);
    }
    let length = u16::try_from(length).map_err(|_| EncodeError::TooLong)?;
    Ok(FixedMut::new()
        .u8::<TYPE_AT>(kind)
        .u16::<2>(length)
        .u32::<4>(sid))
}

#[inline]
fn sid(flow: FlowId) -> Result<u32, EncodeError> {
    sid_of(flow).ok_or(EncodeError::Slot)
}

fn clamped(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Appends one message of a datapath's.
#[inline]
pub(crate) fn encode_to_plane(
    message: &ToPlane<'_>,
    packet: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    match *message {
        ToPlane::Reported {
            flow,
            program,
            fields,
            ..
        } => {
            if fields.is_empty() {
                return Err(EncodeError::EmptyReport);
            }
            measure(flow, program, fields, packet)
        }
        ToPlane::Hello(hello) => {
            let low = hello.instance & u64::from(u32::MAX);
            let fixed = fixed::<12>(READY, 0, 0)?.u32::<8>(clamped(low));
            packet.extend_from_slice(&fixed.0);
            Ok(())
        }
        ToPlane::Created {
            flow,
            algorithm,
            ref info,
        }
        | ToPlane::Resumed {
            flow,
            algorithm,
            ref info,
        } => create(flow, algorithm, info, packet),
        ToPlane::Closed { flow } | ToPlane::Faulted { flow, .. } => {
            measure(flow, 0, Fields::from(&[]), packet)
        }
        ToPlane::MssChanged { .. } | ToPlane::Refused(_) => Err(EncodeError::Message),
    }
}

/// Appends one message of an agent's, or a command's several.
#[inline]
pub(crate) fn encode_to_datapath(
    message: &ToDatapath<'_>,
    packet: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    match *message {
        ToDatapath::Command {
            withdraw: false,
            flow,
            switch,
            cwnd,
            rate,
            updates,
        } => {
            let sid = sid(flow)?;
            if updates.iter().any(|u| u.variable >= MAX_CONTROLS) {
                return Err(EncodeError::Register);
            }
            let controls = [(CWND, cwnd), (RATE, rate)];
            command(sid, switch, controls, updates, packet)
        }
        ToDatapath::Install { program, body, .. } => install(program, body, packet),
        _ => Err(EncodeError::Message),
    }
}

#[inline]
fn measure(
    flow: FlowId,
    program: u32,
    fields: Fields<'_>,
    packet: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let count = u32::try_from(fields.len()).map_err(|_| EncodeError::TooLong)?;
    let fixed = fixed::<16>(MEASURE, sid(flow)?, fields.len().saturating_mul(8))?
        .u32::<8>(program)
        .u32::<12>(count);
    packet.extend_from_slice(&fixed.0);
    let start = packet.len();
    packet.resize(start + 8 * fields.len(), 0);
    fields.write(packet[start..].as_chunks_mut::<8>().0);
    Ok(())
}

fn create(
    flow: FlowId,
    algorithm: &str,
    info: &FlowInfo,
    packet: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if algorithm.len() > MAX_NAME || algorithm.contains('\0') {
        return Err(EncodeError::Name);
    }
    let octets = |address: SocketAddr| match address.ip().to_canonical() {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => [0; 4],
    };
    let fixed = fixed::<32>(CREATE, sid(flow)?, NAME_FIELD)?
        .u32::<8>(clamped(info.cwnd))
        .u32::<12>(info.mss)
        .array::<16, 4>(octets(info.local))
        .u32::<20>(u32::from(info.local.port()))
        .array::<24, 4>(octets(info.remote))
        .u32::<28>(u32::from(info.remote.port()));
    packet.extend_from_slice(&fixed.0);
    packet.extend_from_slice(algorithm.as_bytes());
    packet.extend(core::iter::repeat_n(0, NAME_FIELD - algorithm.len()));
    Ok(())
}

fn install(program: u32, body: &[u8], packet: &mut Vec<u8>) -> Result<(), EncodeError> {
    let counts = body.first_chunk::<8>().map(Fixed);
    let parts = counts.and_then(|c| c.u32::<0>().checked_add(c.u32::<4>()));
    let length = parts.map(|parts| 8 + 16 * u64::from(parts));
    if program == 0 || length != u64::try_from(body.len()).ok() {
        return Err(EncodeError::Program);
    }
    let fixed = fixed::<12>(INSTALL, 0, body.len())?.u32::<8>(program);
    packet.extend_from_slice(&fixed.0);
    packet.extend_from_slice(body);
    Ok(())
}

/// A CHANGE_PROG or an UPDATE_FIELDS, and further UPDATE_FIELDS for what exceeds one message:
/// libccp drops staged updates at CHANGE_PROG alone.
#[inline]
fn command(
    sid: u32,
    switch: Option<u32>,
    controls: [(u32, Option<u64>); 2],
    updates: Updates<'_>,
    packet: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let controls = controls.into_iter();
    let mut entries = controls
        .filter_map(|(register, value)| Some((IMPLICIT, register, value?)))
        .chain(
            updates
                .iter()
                .map(|u| (CONTROL, u32::from(u.variable), u.value)),
        )
        .peekable();
    let mut switch = switch;
    loop {
        let start = packet.len();
        let most = match switch.take() {
            Some(program) => {
                let fixed = fixed::<16>(CHANGE_PROG, sid, 0)?.u32::<8>(program);
                packet.extend_from_slice(&fixed.0);
                MAX_UPDATES_OF_SWITCH
            }
            None => {
                packet.extend_from_slice(&fixed::<12>(UPDATE_FIELDS, sid, 0)?.0);
                MAX_UPDATES
            }
        };
        let body = packet.len();
        for (kind, register, value) in entries.by_ref().take(most) {
            let entry = FixedMut::<ENTRY>::new()
                .u8::<0>(kind)
                .u32::<1>(register)
                .u64::<5>(value);
            packet.extend_from_slice(&entry.0);
        }
        // At most 222 entries: neither number exceeds its field.
        let count = (packet.len() - body) / ENTRY;
        let length = packet.len() - start;
        packet[start + 2..start + 4].copy_from_slice(&(length as u16).to_le_bytes());
        packet[body - 4..body].copy_from_slice(&(count as u32).to_le_bytes());
        if entries.peek().is_none() {
            return Ok(());
        }
    }
}
