//! One TCP connection (RFC 9293).

mod arrive;
mod handshake;
mod transfer;
mod transmit;

use std::net::SocketAddr;

use fairwater_net::Time;
use fairwater_tcp::{Controls, Counters, Invocation};
use fairwater_wire::Seq;

use crate::buffers::{ReceiveBuffer, SendBuffer};
use crate::numbers::Clock;
use crate::{CloseReason, Config, State, StreamError};
use handshake::Handshake;
use transfer::Transfer;

/// Bytes of a TCP header, and of its timestamps with two no-operations (RFC 7323 appendix A).
pub(crate) const TCP_HEADER: u32 = 20;
pub(crate) const TIMESTAMPS: u32 = 12;

/// Least path MTU that is believed, bytes: Linux's `min_pmtu`, and IPv6's least (RFC 8200 §5).
const MIN_MTU_V4: u32 = 552;
const MIN_MTU_V6: u32 = 1280;

/// The numbers that a connection begins with. They should be unpredictable to whoever does not see its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// Initial sequence number (RFC 6528).
    pub isn: Seq,
    /// What is added to the clock in timestamps (RFC 7323 §5.4).
    pub timestamp_offset: u32,
}

/// One TCP connection. Packets and the time go in ([`Connection::on_segment`], [`Connection::on_timer`]), packets come
/// out ([`Connection::poll_transmit`]); the application writes and reads bytes.
///
/// After each event the caller takes [`Connection::poll_invocation`] to the controller, and its answer to
/// [`Connection::set_controls`]; then it polls for packets until there are no more. Nothing is read from a closed
/// connection that has not arrived in order before.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    local: SocketAddr,
    remote: SocketAddr,
    clock: Clock,
    /// Largest packet of the path, bytes.
    path_mtu: u32,
    phase: Phase,
    send: SendBuffer,
    receive: ReceiveBuffer,
    /// The application has no more to send.
    is_shut: bool,
    /// A reset is to be sent with that number; it ends nothing.
    stray_reset: Option<Seq>,
    /// The reset of a connection that was given up.
    last_reset: Option<(Seq, Seq)>,
}

#[derive(Debug)]
enum Phase {
    Opening(Handshake),
    Open(Box<Transfer>),
    Closed(CloseReason),
}

impl Connection {
    /// Begins a connection: the first packet to send is a SYN.
    #[must_use]
    pub fn connect(
        config: Config,
        (local, remote): (SocketAddr, SocketAddr),
        numbers: Numbers,
    ) -> Self {
        let handshake = Handshake::active(numbers.isn);
        Self::new(config, (local, remote), numbers, handshake)
    }

    fn new(
        mut config: Config,
        (local, remote): (SocketAddr, SocketAddr),
        numbers: Numbers,
        handshake: Handshake,
    ) -> Self {
        let most = fairwater_tcp::MAX_RECEIVE_WINDOW;
        config.tcp.receive_window = config.tcp.receive_window.clamp(1, most);
        Self {
            path_mtu: u32::from(config.mtu),
            config,
            local,
            remote,
            clock: Clock::new(numbers.timestamp_offset),
            phase: Phase::Opening(handshake),
            send: SendBuffer::default(),
            receive: ReceiveBuffer::default(),
            is_shut: false,
            stray_reset: None,
            last_reset: None,
        }
    }

    /// This end's address.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    #[must_use]
    pub const fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Opening(handshake) => handshake.state(),
            Phase::Open(transfer) => transfer.state(),
            Phase::Closed(_) => State::Closed,
        }
    }

    /// Why the connection is closed, once it is.
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        match &self.phase {
            Phase::Closed(reason) => Some(*reason),
            _ => None,
        }
    }

    /// Takes bytes to send; how many, as far as there is room ([`Config::send_buffer`]).
    ///
    /// # Errors
    /// The sending side was shut down, or the connection is closed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        if let Phase::Closed(reason) = self.phase {
            return Err(StreamError::Closed(reason));
        }
        if self.is_shut {
            return Err(StreamError::Shutdown);
        }
        let count = bytes.len().min(self.writable());
        self.send.write(bytes.get(..count).unwrap_or(bytes));
        if let Phase::Open(transfer) = &mut self.phase {
            transfer.sender.write(count as u64);
        }
        Ok(count)
    }

    /// Bytes that [`Self::write`] takes now.
    #[must_use]
    pub fn writable(&self) -> usize {
        match self.phase {
            Phase::Closed(_) => 0,
            _ if self.is_shut => 0,
            _ => self.config.send_buffer.saturating_sub(self.send.len()),
        }
    }

    /// Moves bytes that have arrived in order to `out`; how many. 0 with room in `out` means that there are none now,
    /// and none to come if [`Self::is_read_finished`].
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let next = match &self.phase {
            Phase::Opening(_) => 0,
            Phase::Open(transfer) => transfer.receiver.delivered(),
            Phase::Closed(_) => self.receive.end(),
        };
        let count = self.receive.read(next, out);
        if let Phase::Open(transfer) = &mut self.phase {
            transfer.receiver.read(count as u64);
        }
        count
    }

    /// Bytes that [`Self::read`] has.
    #[must_use]
    pub fn readable(&self) -> u64 {
        match &self.phase {
            Phase::Opening(_) => 0,
            Phase::Open(transfer) => transfer.receiver.delivered() - self.receive.start(),
            Phase::Closed(_) => self.receive.end() - self.receive.start(),
        }
    }

    /// Whether all that will ever come was read: the peer has finished, or the connection is closed.
    #[must_use]
    pub fn is_read_finished(&self) -> bool {
        let comes_more = match &self.phase {
            Phase::Opening(_) => true,
            Phase::Open(transfer) => !transfer.receiver.is_finished(),
            Phase::Closed(_) => false,
        };
        !comes_more && self.readable() == 0
    }

    /// This end has no more to send: a FIN follows what was written. The peer's data goes on to arrive.
    pub fn shutdown(&mut self) {
        self.is_shut = true;
        if let Phase::Open(transfer) = &mut self.phase {
            transfer.sender.close();
        }
    }

    /// Gives the connection up: a reset is the last packet that is sent (RFC 9293 §3.10.5).
    pub fn abort(&mut self) {
        if let Phase::Open(transfer) = &self.phase
            && transfer.state().is_synchronized()
        {
            self.last_reset = Some((transfer.next_seq(), transfer.expected_seq()));
        } else if let Phase::Opening(handshake) = &self.phase {
            self.last_reset = handshake.reset();
        }
        self.close(CloseReason::Aborted);
    }

    /// Ends the connection. What has arrived in order can still be read.
    fn close(&mut self, reason: CloseReason) {
        let next = match &self.phase {
            Phase::Open(transfer) => transfer.receiver.delivered(),
            Phase::Opening(_) => 0,
            Phase::Closed(_) => return,
        };
        self.receive.truncate(next);
        self.send = SendBuffer::default();
        self.stray_reset = None;
        self.phase = Phase::Closed(reason);
    }

    /// When [`Self::on_timer`] is to be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        match &self.phase {
            Phase::Opening(handshake) => handshake.next_timeout(),
            Phase::Open(transfer) => transfer.next_timeout(),
            Phase::Closed(_) => None,
        }
    }

    /// Does what is due by `now`.
    pub fn on_timer(&mut self, now: Time) {
        let ended = match &mut self.phase {
            Phase::Opening(handshake) => handshake.on_timer(now, &self.config),
            Phase::Open(transfer) => transfer.on_timer(now, &self.config),
            Phase::Closed(_) => None,
        };
        if let Some(reason) = ended {
            if reason == CloseReason::TimedOut
                && let Phase::Open(transfer) = &self.phase
            {
                self.last_reset = Some((transfer.next_seq(), transfer.expected_seq()));
            }
            self.close(reason);
        }
    }

    /// What the controller is to be told; see [`fairwater_tcp::Sender::poll_invocation`].
    pub fn poll_invocation(&mut self) -> Option<Invocation> {
        self.transfer_mut()?.sender.poll_invocation()
    }

    /// The controller's answer: cwnd in bytes, the pacing rate in bytes/s, 0 for none.
    pub fn set_controls(&mut self, controls: Controls) {
        if let Some(transfer) = self.transfer_mut() {
            transfer.sender.set_controls(controls);
        }
    }

    /// Whether the sender restarts from a smaller window after an idle period (RFC 5681 §4.1).
    pub fn set_idle_restart(&mut self, idle_restart: bool) {
        if let Some(transfer) = self.transfer_mut() {
            transfer.sender.set_idle_restart(idle_restart);
        }
    }

    /// The controls in force, once data can flow.
    #[must_use]
    pub fn controls(&self) -> Option<Controls> {
        Some(self.transfer()?.sender.controls())
    }

    /// Smoothed RTT, µs; 0 before the first sample.
    #[must_use]
    pub fn srtt_us(&self) -> u64 {
        self.transfer()
            .map_or(0, |transfer| transfer.sender.srtt_us())
    }

    /// Bytes of data a segment, at most; 0 before the handshake is done.
    #[must_use]
    pub fn mss(&self) -> u32 {
        self.transfer().map_or(0, Transfer::mss)
    }

    /// Bytes that the peer has acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.transfer()
            .map_or(0, |transfer| transfer.sender.acked())
    }

    /// Bytes in flight: sent, and neither acknowledged nor declared lost.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.transfer()
            .map_or(0, |transfer| transfer.sender.in_flight())
    }

    /// What the sender counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.transfer()
            .map_or_else(Counters::default, |transfer| transfer.sender.counters())
    }

    /// The path takes packets of at most `mtu` bytes (RFC 1191, RFC 8201), by the report about the segment with the
    /// number `seq`. Reports about nothing in flight, of more than before, or of less than every path takes change
    /// nothing (RFC 5927 §7.2). Returns the new segment size, bytes of data.
    pub fn on_path_mtu(&mut self, mtu: u32, seq: Seq) -> Option<u32> {
        let least = if self.remote.is_ipv6() {
            MIN_MTU_V6
        } else {
            MIN_MTU_V4
        };
        let is_less = mtu < self.path_mtu && mtu >= least;
        let headers = self.ip_header() + TCP_HEADER;
        let transfer = self.transfer_mut()?;
        if !is_less || !transfer.is_in_flight(seq) {
            return None;
        }
        let mss = transfer.limit_mss(mtu - headers);
        self.path_mtu = mtu;
        Some(mss)
    }

    /// Whether a SYN with that number is later than all that the peer has sent (RFC 9293 §3.10.7.4).
    pub(crate) fn is_beyond(&self, seq: Seq) -> bool {
        self.transfer()
            .is_some_and(|transfer| seq.is_after(transfer.expected_seq()))
    }

    const fn ip_header(&self) -> u32 {
        if self.remote.is_ipv6() { 40 } else { 20 }
    }

    const fn transfer(&self) -> Option<&Transfer> {
        match &self.phase {
            Phase::Open(transfer) => Some(transfer),
            _ => None,
        }
    }

    const fn transfer_mut(&mut self) -> Option<&mut Transfer> {
        match &mut self.phase {
            Phase::Open(transfer) => Some(transfer),
            _ => None,
        }
    }
}
