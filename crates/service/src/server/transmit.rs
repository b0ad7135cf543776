//! Sending what the service has for its peers.

use std::time::Duration;

use fairwater_proto::link::LinkError;

use super::Server;
use crate::peer::PeerId;

/// How often a peer whose link is full is tried at each turn, before it is tried at growing
/// intervals: a peer that reads makes room soon.
const PROMPT_TRIES: u32 = 16;

/// The first interval after that; no link tells when it has room.
const FIRST_RETRY_US: u64 = 1_000;

/// Doublings of that interval: up to 64 ms.
const DOUBLINGS: u32 = 6;

/// A peer whose link had no room.
#[derive(Debug)]
pub(super) struct Blocked {
    peer: PeerId,
    /// When to try again.
    retry_us: u64,
}

impl Server {
    pub(super) fn transmit(&mut self) {
        self.unblock();
        while let Some((peer, packet)) = self.service.poll_transmit() {
            match self.links.send(peer, packet) {
                // What is too long for the link is too long for ever.
                Ok(()) | Err(LinkError::TooLong) => {}
                Err(LinkError::WouldBlock) => self.block(peer),
                Err(LinkError::Gone | LinkError::Broken) => self.lose(peer),
            }
        }
    }

    /// The longest that the server may wait, for the sake of blocked peers.
    pub(super) fn next_retry(&self) -> Option<Duration> {
        (!self.blocked.is_empty()).then_some(Duration::from_micros(FIRST_RETRY_US))
    }

    fn block(&mut self, peer: PeerId) {
        self.service.retry(peer);
        let tries = self.links.count_failure(peer);
        let now_us = self.now_us();
        let retry_us = match tries.checked_sub(PROMPT_TRIES) {
            None => now_us,
            Some(late) => now_us + (FIRST_RETRY_US << late.min(DOUBLINGS)),
        };
        self.blocked.push(Blocked { peer, retry_us });
    }

    fn unblock(&mut self) {
        if self.blocked.is_empty() {
            return;
        }
        let now_us = self.now_us();
        let Self {
            blocked, service, ..
        } = self;
        blocked.retain(|blocked| {
            let due = blocked.retry_us <= now_us;
            if due {
                service.writable(blocked.peer);
            }
            !due
        });
    }
}
