//! ACKs of the guest, divided where marks of the peer's data change (RFC 8257 §3.2, vCC appendix A.7).

use fairwater_wire::{EcnCodepoint, Seq, TcpFlags};

use super::template::{Fields, Template};
use super::{Buffers, Outgoing, Passing};
use crate::Direction;
use crate::controlled::ControlledFlow;
use crate::track::Flow;

/// Notes marks of the peer's data, and echoes them in the guest's ACKs: the passing one acknowledges as much as has the
/// same mark, and pure ACKs of the rest follow (vCC §2, "Buffer ACKs").
pub(crate) fn echo_marks(
    buffers: &mut Buffers,
    controlled: &mut ControlledFlow,
    (interface, flow): (u32, &Flow),
    passing: &mut Passing<'_>,
) {
    let Some(echo) = &mut controlled.echo else {
        return;
    };
    let segment = passing.segment;
    if passing.direction == Direction::ToGuest {
        let is_marked = passing.field == EcnCodepoint::Ce;
        echo.on_data(segment.seq, segment.end(), is_marked);
        return;
    }
    if !segment.has(TcpFlags::ACK) || segment.has(TcpFlags::RST) {
        return;
    }
    let mut echoed = echo.on_ack(segment.ack).into_iter();
    let Some(first) = echoed.next() else {
        return;
    };
    let template = if first.ack == segment.ack {
        None
    } else {
        Template::new(&passing.packet(), passing.link(), &segment)
    };
    let Some(mut template) = template else {
        let mut rewriter = passing.rewriter();
        rewriter.set_flags(flags(first.ece), TcpFlags::ECE);
        return;
    };
    let clock = segment.options.timestamps;
    // RFC 9293 §3.8.6: the right edge stays where the guest has it.
    let window = |ack: Seq| {
        let units = segment.ack.bytes_since(ack) >> flow.guest_scale();
        let units = u16::try_from(units).unwrap_or(u16::MAX);
        segment.window.saturating_add(units)
    };
    for ack in echoed {
        template.set_acknowledgement(ack.ack, window(ack.ack));
        let fields = Fields {
            seq: flow.sender().nxt(),
            flags: flags(ack.ece),
            ecn: EcnCodepoint::NotEct,
            clock: clock.map(|(value, _)| value),
            sack: &[],
            urgent: None,
        };
        if let Some(bytes) = template.write(&fields, &[]) {
            buffers.push(Outgoing {
                interface,
                direction: Direction::FromGuest,
                is_ethernet: template.is_ethernet(),
                bytes,
            });
        }
    }
    let mut rewriter = passing.rewriter();
    rewriter.set_ack(first.ack);
    rewriter.set_window(window(first.ack));
    rewriter.set_flags(flags(first.ece), TcpFlags::ECE);
}

fn flags(ece: bool) -> TcpFlags {
    if ece {
        TcpFlags::ACK | TcpFlags::ECE
    } else {
        TcpFlags::ACK
    }
}
