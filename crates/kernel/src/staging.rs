//! Writes the plane's commands into a flow's stage; the flow's next ACK applies them.
//!
//! The protocol is that of [`fairwater_exec::frame`]: the sequence is odd while the stage is being
//! written, and a command is merged with staged values that are not applied yet.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use fairwater_exec::frame::{self, Fault, FrameLayout};
use fairwater_plane::Command;

use crate::flows::Memory;
use crate::frame::Frame;
use crate::layout::NO_PROGRAM;

/// Stages `command` for the flow of that generation. Does nothing if another flow has the slot.
pub(crate) fn stage(frame: Frame<'_>, memory: &Memory, generation: u32, command: &Command) {
    let layout = memory.layout;
    if frame.generation() != generation {
        return;
    }
    if command.withdraw {
        // The program may overwrite the fault at the same time; the stage carries NO_PROGRAM too.
        frame.fault().fetch_or(Fault::Withdrawn as u32, AcqRel);
        frame.set_aggregate(None);
    }
    let sequence = frame.u32(frame::STAGE_SEQUENCE as usize);
    let begun = sequence.load(Relaxed);
    let merge = begun != frame.u32(frame::APPLIED as usize).load(Acquire)
        && frame.stage_generation().load(Relaxed) == generation;

    sequence.store(begun | 1, Relaxed);
    fence(Release);
    let program = frame.u32(frame::STAGE_PROGRAM as usize);
    let set = frame.u32(frame::STAGE_SET as usize);
    if !merge {
        frame.stage_generation().store(generation, Relaxed);
        program.store(frame.program(), Relaxed);
        set.store(0, Relaxed);
        clear_updates(frame, layout);
    }
    if let Some(next) = command.switch.and_then(|to| memory.programs.index(to)) {
        program.store(next, Relaxed);
        frame
            .u32(frame::STAGE_INSTALL as usize)
            .fetch_add(1, Relaxed);
        clear_updates(frame, layout);
    }
    if command.withdraw {
        program.store(NO_PROGRAM, Relaxed);
    }
    if let Some(cwnd) = command.cwnd {
        frame.u64(frame::STAGE_CWND as usize).store(cwnd, Relaxed);
        set.fetch_or(frame::SET_CWND, Relaxed);
    }
    if let Some(rate) = command.rate {
        frame.u64(frame::STAGE_RATE as usize).store(rate, Relaxed);
        set.fetch_or(frame::SET_RATE, Relaxed);
    }
    for &(variable, value) in &command.updates {
        let at = usize::from(variable);
        if at < layout.capacity() {
            let (word, bit) = layout.staged_bit(at);
            frame.u64(layout.staged_value(at)).store(value, Relaxed);
            frame
                .u64(layout.staged_mask() + 8 * word)
                .fetch_or(1 << bit, Relaxed);
        }
    }
    sequence.store((begun | 1).wrapping_add(1), Release);
}

fn clear_updates(frame: Frame<'_>, layout: FrameLayout) {
    for word in 0..layout.staged_words() {
        frame.u64(layout.staged_mask() + 8 * word).store(0, Relaxed);
    }
}
