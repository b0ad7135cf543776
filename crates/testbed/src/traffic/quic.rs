//! Bulk flows of QUIC, whose ends the caller brings: this crate knows no QUIC stack.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_netlink::enter;
use fairwater_results::SocketSample;

use super::FlowSpec;
use super::user::UserLog;
use crate::clock::Clock;
use crate::emulator::{Urgency, ask_for_punctuality};
use crate::error::TestbedError;
use crate::path::Path;

/// What stands before the name of an algorithm whose flows are QUIC connections.
pub const QUIC: &str = "quic:";

/// How long a receiver may take until it listens.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a thread that waits looks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Both ends of QUIC connections. Each call has a thread of its own, in the network namespace of its end, and returns
/// soon after `stop` is set.
pub trait QuicEnds: fmt::Debug + Send + Sync {
    /// Takes what one connection to `at` brings; calls `listening` as soon as one may come.
    ///
    /// # Errors
    /// What kept it from receiving.
    fn receive(
        &self,
        at: SocketAddr,
        listening: &mut dyn FnMut(),
        stop: &AtomicBool,
    ) -> Result<(), String>;

    /// Sends as much as the path takes, and tells `sample` each 10 ms where the connection stands.
    ///
    /// # Errors
    /// What kept it from sending.
    fn send(
        &self,
        flow: &QuicFlow,
        stop: &AtomicBool,
        sample: &mut dyn FnMut(QuicState),
    ) -> Result<(), String>;
}

/// A QUIC connection that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuicFlow {
    /// The sender's address, by whose port the lab knows the flow.
    pub from: SocketAddr,
    /// The receiver's.
    pub to: SocketAddr,
    /// What controls it, as the ends know it.
    pub algorithm: String,
    /// How long it sends.
    pub duration: Duration,
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicState {
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Bytes of a packet at most, UDP payload.
    pub mtu: u16,
    /// Smoothed RTT.
    pub srtt: Duration,
}

/// The flows of a run. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct QuicFlows {
    stop: Arc<AtomicBool>,
    senders: Vec<JoinHandle<Result<Vec<SocketSample>, String>>>,
    receivers: Vec<JoinHandle<Result<(), String>>>,
}

impl QuicFlows {
    pub(crate) fn start(
        path: &Path,
        ends: &Arc<dyn QuicEnds>,
        flows: &[FlowSpec<'_>],
        clock: Clock,
    ) -> Result<Self, TestbedError> {
        let mut all = Self {
            stop: Arc::default(),
            senders: Vec::new(),
            receivers: Vec::new(),
        };
        for flow in flows {
            let receiver = all.receiver(path, ends, flow);
            all.receivers.push(receiver.map_err(|e| flow.failed(e))?);
            let sender = all.sender(path, ends, flow, clock);
            all.senders.push(sender.map_err(|e| flow.failed(e))?);
        }
        Ok(all)
    }

    /// A thread that receives, and listens already.
    fn receiver(
        &self,
        path: &Path,
        ends: &Arc<dyn QuicEnds>,
        flow: &FlowSpec<'_>,
    ) -> Result<JoinHandle<Result<(), String>>, String> {
        let namespace = namespace(&path.receiver)?;
        let at = SocketAddr::new(path.receiver_address, flow.server_port());
        let (ends, stop) = (Arc::clone(ends), Arc::clone(&self.stop));
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("lab-receiver".to_owned())
            .spawn(move || {
                ask_for_punctuality(Urgency::Traffic);
                enter(namespace.as_fd()).map_err(|error| error.to_string())?;
                let mut listening = || {
                    // Nobody waits any longer if this fails.
                    let _ = tell.send(());
                };
                ends.receive(at, &mut listening, &stop)
            })
            .map_err(|error| error.to_string())?;
        if told.recv_timeout(LISTEN_TIMEOUT).is_ok() {
            return Ok(thread);
        }
        self.stop.store(true, Ordering::Relaxed);
        match thread.join() {
            Ok(Err(reason)) => Err(reason),
            Ok(Ok(())) => Err("the receiver does not listen".to_owned()),
            Err(_) => Err("the receiver's thread panicked".to_owned()),
        }
    }

    fn sender(
        &self,
        path: &Path,
        ends: &Arc<dyn QuicEnds>,
        flow: &FlowSpec<'_>,
        clock: Clock,
    ) -> Result<JoinHandle<Result<Vec<SocketSample>, String>>, String> {
        let namespace = namespace(&path.sender)?;
        let (ends, stop) = (Arc::clone(ends), Arc::clone(&self.stop));
        let name = flow.congestion_control.to_owned();
        let start = flow.start;
        let end = flow
            .stop
            .map_or(flow.duration, |stop| stop.min(flow.duration));
        let flow = QuicFlow {
            from: SocketAddr::new(path.sender_address, flow.source_port()),
            to: SocketAddr::new(path.receiver_address, flow.server_port()),
            algorithm: name.strip_prefix(QUIC).unwrap_or(&name).to_owned(),
            duration: end.saturating_sub(start),
        };
        let begun = Instant::now();
        let send = move || {
            ask_for_punctuality(Urgency::Traffic);
            enter(namespace.as_fd()).map_err(|error| error.to_string())?;
            while let Some(left) = start.checked_sub(begun.elapsed()) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(Vec::new());
                }
                thread::sleep(left.min(STOP_CHECK_INTERVAL));
            }
            let mut samples = Vec::new();
            let mut sample = |state| samples.push(sample(clock, &name, state));
            ends.send(&flow, &stop, &mut sample)?;
            Ok(samples)
        };
        let thread = thread::Builder::new().name("lab-quic".to_owned());
        thread.spawn(send).map_err(|error| error.to_string())
    }

    /// What was sent, once all flows have ended.
    pub(crate) fn finished(&mut self) -> Result<Option<UserLog>, String> {
        if self.senders.iter().any(|thread| !thread.is_finished()) {
            return Ok(None);
        }
        let mut log = UserLog::default();
        for sender in self.senders.drain(..) {
            let samples = sender.join().map_err(|_| "a sender's thread panicked")??;
            log.samples.push(samples);
            // QUIC sends data again, never packets.
            log.retransmissions.push(0);
        }
        self.stop.store(true, Ordering::Relaxed);
        for receiver in self.receivers.drain(..) {
            receiver
                .join()
                .map_err(|_| "a receiver's thread panicked")??;
        }
        Ok(Some(log))
    }
}

impl Drop for QuicFlows {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Failures were seen, or nobody is left to see them.
        for sender in self.senders.drain(..) {
            let _ = sender.join();
        }
        for receiver in self.receivers.drain(..) {
            let _ = receiver.join();
        }
    }
}

fn namespace(of: &fairwater_netlink::Namespace) -> Result<OwnedFd, String> {
    let namespace = of.as_fd().try_clone_to_owned();
    namespace.map_err(|error| error.to_string())
}

fn sample(clock: Clock, name: &str, state: QuicState) -> SocketSample {
    let small = |value: u128| u32::try_from(value).unwrap_or(u32::MAX);
    let mss = u32::from(state.mtu.max(1));
    SocketSample {
        at: clock.now(),
        congestion_control: name.to_owned(),
        cwnd_packets: small(u128::from(state.cwnd_bytes / u64::from(mss))),
        mss_bytes: mss,
        ssthresh_packets: None,
        state: None,
        srtt_us: small(state.srtt.as_micros()),
        pacing_bps: None,
        delivery_bps: 0,
        retransmissions: 0,
    }
}
