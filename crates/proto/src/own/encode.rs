//! Messages to bytes.

use alloc::vec::Vec;

use super::{
    CLOSED, COMMAND, CREATED, CWND, FAULTED, HAND_OVER, HAS_FLOW, HAS_TIME, HELLO, IDLE_RESTART,
    INSTALL, MAGIC, MAX_MESSAGE, MAX_NAME, MSS_CHANGED, RATE, REFUSED_TO_DATAPATH,
    REFUSED_TO_PLANE, REPORTED, RESUMED, SWITCH, TYPE_AT, UNINSTALL, VERSION, WELCOME, WITHDRAW,
    address,
};
use crate::fixed::FixedMut;
use crate::{
    Capabilities, EncodeError, Fields, FlowId, FlowInfo, Refusal, ToDatapath, ToPlane, Updates,
};

/// A message's part of fixed length, with the header of a message that has `rest` more bytes.
#[inline]
fn fixed<const N: usize>(kind: u8, rest: usize) -> Result<FixedMut<N>, EncodeError> {
    let length = N.saturating_add(rest);
    if length > MAX_MESSAGE {
        return Err(EncodeError::TooLong);
    }
    let length = u32::try_from(length).map_err(|_| EncodeError::TooLong)?;
    Ok(FixedMut::new()
        .array::<0, 2>(MAGIC)
        .u8::<2>(VERSION)
        .u8::<TYPE_AT>(kind)
        .u32::<4>(length))
}

#[inline]
const fn flow<const N: usize, const SLOT: usize, const GENERATION: usize>(
    fixed: FixedMut<N>,
    flow: FlowId,
) -> FixedMut<N> {
    fixed
        .u32::<SLOT>(flow.slot)
        .u32::<GENERATION>(flow.generation)
}

fn named(name: &str) -> Result<&[u8], EncodeError> {
    if name.len() > MAX_NAME {
        return Err(EncodeError::Name);
    }
    Ok(name.as_bytes())
}

const fn numbered(program: u32) -> Result<u32, EncodeError> {
    match program {
        0 => Err(EncodeError::Program),
        _ => Ok(program),
    }
}

/// Appends one message of a datapath's.
#[inline]
pub(crate) fn encode_to_plane(
    message: &ToPlane<'_>,
    packet: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    match *message {
        ToPlane::Reported {
            flow: id,
            program,
            time_us,
            cwnd,
            rate,
            fields,
        } => {
            let fixed = fixed::<48>(REPORTED, fields.len().saturating_mul(8))?;
            let fixed = flow::<_, 8, 12>(fixed, id)
                .u32::<16>(program)
                .u32::<20>(if time_us.is_some() { HAS_TIME } else { 0 })
                .u64::<24>(time_us.unwrap_or_default())
                .u64::<32>(cwnd)
                .u64::<40>(rate);
            packet.extend_from_slice(&fixed.0);
            append_fields(fields, packet);
        }
        ToPlane::Hello(hello) => {
            let name = named(hello.name)?;
            let Capabilities {
                signals,
                abilities,
                fallback,
                max_programs,
            } = hello.capabilities;
            let fixed = fixed::<40>(HELLO, name.len())?
                .u64::<8>(hello.instance)
                .u32::<16>(signals.present().bits())
                .u32::<20>(max_programs)
                .u32::<24>(signals.inferred().bits())
                .u32::<28>(signals.degraded().bits())
                .u32::<32>(abilities.bits())
                .u32::<36>(fallback as u32);
            packet.extend_from_slice(&fixed.0);
            packet.extend_from_slice(name);
        }
        ToPlane::Created {
            flow,
            algorithm,
            ref info,
        } => started(CREATED, flow, algorithm, info, packet)?,
        ToPlane::Resumed {
            flow,
            algorithm,
            ref info,
        } => started(RESUMED, flow, algorithm, info, packet)?,
        ToPlane::MssChanged { flow: id, mss } => {
            if mss == 0 {
                return Err(EncodeError::Mss);
            }
            let fixed = flow::<20, 8, 12>(fixed(MSS_CHANGED, 0)?, id).u32::<16>(mss);
            packet.extend_from_slice(&fixed.0);
        }
        ToPlane::Faulted { flow: id, fault } => {
            let fixed = flow::<20, 8, 12>(fixed(FAULTED, 0)?, id).u32::<16>(fault);
            packet.extend_from_slice(&fixed.0);
        }
        ToPlane::Closed { flow: id } => {
            packet.extend_from_slice(&flow::<16, 8, 12>(fixed(CLOSED, 0)?, id).0);
        }
        ToPlane::Refused(ref refusal) => {
            packet.extend_from_slice(&refused(REFUSED_TO_PLANE, refusal)?);
        }
    }
    Ok(())
}

/// Appends one message of a plane's.
#[inline]
pub(crate) fn encode_to_datapath(
    message: &ToDatapath<'_>,
    packet: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    match *message {
        ToDatapath::Command {
            flow: id,
            switch,
            cwnd,
            rate,
            updates,
            withdraw,
        } => {
            let count = updates.iter().count();
            let flags = [
                (SWITCH, switch.is_some()),
                (CWND, cwnd.is_some()),
                (RATE, rate.is_some()),
                (WITHDRAW, withdraw),
            ];
            let flags = flags.iter().filter(|(_, set)| *set).map(|(flag, _)| flag);
            let fixed = fixed::<40>(COMMAND, count.saturating_mul(10))?;
            let fixed = flow::<_, 8, 12>(fixed, id)
                .u16::<16>(flags.sum())
                .u16::<18>(u16::try_from(count).map_err(|_| EncodeError::TooLong)?)
                .u32::<20>(switch.unwrap_or_default())
                .u64::<24>(cwnd.unwrap_or_default())
                .u64::<32>(rate.unwrap_or_default());
            packet.extend_from_slice(&fixed.0);
            append_updates(updates, packet);
        }
        ToDatapath::Welcome(welcome) => {
            let fixed = fixed::<20>(WELCOME, 0)?
                .u64::<8>(welcome.instance)
                .u32::<16>(welcome.alive_us);
            packet.extend_from_slice(&fixed.0);
        }
        ToDatapath::Install {
            program,
            idle_restart,
            body,
        } => {
            let fixed = fixed::<16>(INSTALL, body.len())?
                .u32::<8>(numbered(program)?)
                .u32::<12>(if idle_restart { IDLE_RESTART } else { 0 });
            packet.extend_from_slice(&fixed.0);
            packet.extend_from_slice(body);
        }
        ToDatapath::Uninstall { program } => {
            let fixed = fixed::<12>(UNINSTALL, 0)?.u32::<8>(numbered(program)?);
            packet.extend_from_slice(&fixed.0);
        }
        ToDatapath::HandOver {
            flow: id,
            algorithm,
        } => {
            let algorithm = named(algorithm)?;
            let fixed = fixed::<16>(HAND_OVER, algorithm.len())?;
            packet.extend_from_slice(&flow::<_, 8, 12>(fixed, id).0);
            packet.extend_from_slice(algorithm);
        }
        ToDatapath::Refused(ref refusal) => {
            packet.extend_from_slice(&refused(REFUSED_TO_DATAPATH, refusal)?);
        }
    }
    Ok(())
}

#[inline]
fn append_fields(fields: Fields<'_>, packet: &mut Vec<u8>) {
    let start = packet.len();
    packet.resize(start + 8 * fields.len(), 0);
    fields.write(packet[start..].as_chunks_mut::<8>().0);
}

#[inline]
fn append_updates(updates: Updates<'_>, packet: &mut Vec<u8>) {
    for update in updates {
        let fixed = FixedMut::<10>::new()
            .u16::<0>(update.variable)
            .u64::<2>(update.value);
        packet.extend_from_slice(&fixed.0);
    }
}

/// Created or Resumed.
fn started(
    kind: u8,
    id: FlowId,
    algorithm: &str,
    info: &FlowInfo,
    packet: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let algorithm = named(algorithm)?;
    let fixed = fixed::<120>(kind, algorithm.len())?;
    let fixed = flow::<_, 8, 12>(fixed, id)
        .u32::<16>(info.mss)
        .u32::<20>(info.tag)
        .u64::<24>(info.cwnd)
        .u64::<32>(info.srtt_us)
        .u64::<40>(info.now_us)
        .array::<48, { address::BYTES }>(address::encode(info.local))
        .array::<76, { address::BYTES }>(address::encode(info.remote))
        .u64::<104>(info.rate)
        .u64::<112>(info.ssthresh.unwrap_or(u64::MAX));
    packet.extend_from_slice(&fixed.0);
    packet.extend_from_slice(algorithm);
    Ok(())
}

fn refused(kind: u8, refusal: &Refusal) -> Result<[u8; 24], EncodeError> {
    let fixed = fixed::<24>(kind, 0)?
        .u8::<8>(refusal.message)
        .u8::<9>(refusal.reason.code())
        .u16::<10>(if refusal.flow.is_some() { HAS_FLOW } else { 0 })
        .u32::<12>(refusal.program);
    Ok(match refusal.flow {
        Some(id) => flow::<_, 16, 20>(fixed, id).0,
        None => fixed.0,
    })
}
