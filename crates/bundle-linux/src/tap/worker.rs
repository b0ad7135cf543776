//! The thread that moves frames between the devices and the sendbox.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::Duration;

use fairwater_bundle::{ModeChange, Sendbox, SendboxStatus};
use fairwater_datapath::PlaneLink;
use fairwater_kernel::now_ns;
use fairwater_net::Time;
use fairwater_proto::link::Poller;
use fairwater_service::Stopper;

use super::device::Device;
use super::diversion::Diversion;
use super::frame::{FlowHash, Frame};
use super::super_packet::VirtioHeader;
use crate::socket::MessageSocket;
use crate::thread::Questions;

/// Bytes of the longest frame with its header.
const FRAME: usize = 1 << 17;
/// Super-packets are cut into pieces that take no longer than this at their bundle's rate: others wait for as long.
const PIECE: Duration = Duration::from_micros(500);
/// Frames that are read, and those that are written, before the other is looked at and the heartbeat is given.
const BUDGET: usize = 64;
/// Messages that are received in one turn.
const MESSAGES: usize = 256;
/// After a longer stall what is queued is older than what senders have repaired meanwhile.
const OLD: Duration = Duration::from_millis(250);
/// The longest time that what is queued may take to leave at the end.
const DRAIN: Duration = Duration::from_millis(500);

/// What the thread has counted; others read it.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounts {
    received: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    stalls: AtomicU64,
}

impl WorkerCounts {
    pub(crate) fn stalls(&self) -> u64 {
        self.stalls.load(Relaxed)
    }

    pub(crate) fn added_to(&self, status: SendboxStatus) -> SendboxStatus {
        SendboxStatus {
            received: self.received.load(Relaxed),
            written: self.written.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            stalls: self.stalls(),
            ..status
        }
    }
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) devices: Vec<Device>,
    pub(crate) diversion: Diversion,
    pub(crate) sendbox: Sendbox<Frame>,
    pub(crate) socket: MessageSocket,
    pub(crate) link: PlaneLink,
    pub(crate) hash: FlowHash,
    pub(crate) counts: Arc<WorkerCounts>,
    pub(crate) changed: Sender<ModeChange>,
    pub(crate) stop: Stopper,
    /// Frames read before are not sent any more.
    pub(crate) discard_before: Time,
}

fn now() -> Time {
    Time::from_nanos(now_ns())
}

fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}

impl Worker {
    /// Works until it is stopped, or a device is gone.
    pub(crate) fn run(mut self, questions: &Questions<Self>) {
        // A device that is gone leaves nothing to do.
        let _ = self.work(questions);
        self.finish();
    }

    fn work(&mut self, questions: &Questions<Self>) -> io::Result<()> {
        const WAKE: u64 = 0;
        let mut buffer = vec![0; FRAME];
        let mut poller = Poller::new()?;
        poller.add(&self.stop, WAKE)?;
        poller.add(&self.socket.as_fd(), WAKE)?;
        for device in &self.devices {
            poller.add(&device.as_fd(), WAKE)?;
        }
        poller.add(&self.link, WAKE)?;
        let mut turn_began = now();
        while !self.stop.is_asked() {
            let before = std::mem::replace(&mut turn_began, now());
            if self.diversion.beat() {
                self.restart(before, &mut buffer)?;
            }
            let is_more = self.read_frames(&mut buffer)?;
            self.read_messages();
            for question in questions.try_iter() {
                question(self);
            }
            let time = now();
            self.link
                .exchange(self.sendbox.datapath_mut(), micros(time));
            if self.sendbox.next_timeout() <= time {
                self.sendbox.on_timer(time);
            }
            let is_more = self.write_frames() | is_more;
            self.tell();
            if is_more || !self.link.prepare_to_wait() {
                continue;
            }
            let until = self.next_timer().since(now());
            poller.wait_precisely(until.min(self.diversion.interval()))?;
        }
        Ok(())
    }

    fn next_timer(&self) -> Time {
        let datapath = self.sendbox.datapath().next_timeout();
        let datapath = datapath.map(|us| Time::from_nanos(us.saturating_mul(1_000)));
        let sendbox = self.sendbox.next_timeout();
        datapath.map_or(sendbox, |at| at.min(sendbox))
    }

    /// Reads what has come; whether there may be more.
    fn read_frames(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let mut is_more = false;
        for index in 0..self.devices.len() {
            for left in (0..BUDGET).rev() {
                let Some((header, frame)) = self.devices[index].read(buffer)? else {
                    break;
                };
                is_more |= left == 0;
                // The host's own frames, such as for neighbours, go nowhere.
                if frame.first().is_none_or(|first| first & 1 == 1) {
                    continue;
                }
                self.counts.received.fetch_add(1, Relaxed);
                let time = now();
                let parsed = Frame::parse((header, frame), (index, time), self.hash);
                match parsed {
                    Some(parsed) => self.enqueue(time, parsed),
                    None => self.write(index, header, frame),
                }
            }
        }
        Ok(is_more)
    }

    fn enqueue(&mut self, time: Time, frame: Frame) {
        let destination = frame.destination();
        if !frame.is_super_packet() {
            return self.enqueue_piece(time, destination, frame);
        }
        let rate = self.sendbox.rate_to(destination);
        let most = rate.map_or(u64::MAX, |rate| (rate as f64 * PIECE.as_secs_f64()) as u64);
        let mut pieces = Vec::new();
        frame.cut(most, self.hash, &mut |piece| pieces.push(piece));
        for piece in pieces {
            self.enqueue_piece(time, destination, piece);
        }
    }

    fn enqueue_piece(&mut self, time: Time, destination: IpAddr, frame: Frame) {
        // What belongs to no bundle goes on.
        if let Err(frame) = self.sendbox.enqueue(time, destination, frame) {
            self.write(frame.device, frame.header, &frame.bytes);
        }
    }

    fn read_messages(&mut self) {
        let mut buffer = [0; MessageSocket::BUFFER];
        for _ in 0..MESSAGES {
            let Some(received) = self.socket.receive(&mut buffer) else {
                return;
            };
            let message = buffer.get(..received.length).unwrap_or_default();
            // What is refused the box counts.
            let _ = self.sendbox.on_message(received.at, received.from, message);
        }
    }

    /// Writes what the sendbox lets go; whether there may be more now.
    fn write_frames(&mut self) -> bool {
        for _ in 0..BUDGET {
            let Some(frame) = self.sendbox.poll(now()) else {
                return false;
            };
            if frame.read_at < self.discard_before {
                self.counts.dropped.fetch_add(1, Relaxed);
                continue;
            }
            self.write(frame.device, frame.header, &frame.bytes);
        }
        true
    }

    fn write(&self, device: usize, header: VirtioHeader, frame: &[u8]) {
        let written = self
            .devices
            .get(device)
            .is_some_and(|device| device.write(header, frame));
        let count = if written {
            &self.counts.written
        } else {
            &self.counts.dropped
        };
        count.fetch_add(1, Relaxed);
    }

    /// Sends messages, and tells of changes and drops.
    fn tell(&mut self) {
        while let Some(message) = self.sendbox.poll_message() {
            self.socket.send(message.to, &message.bytes);
        }
        while let Some(change) = self.sendbox.poll_change() {
            // Nobody may listen any more.
            let _ = self.changed.send(change);
        }
        let dropped = self.sendbox.drain_dropped().count() as u64;
        if dropped > 0 {
            self.counts.dropped.fetch_add(dropped, Relaxed);
        }
    }

    /// Begins anew after a time in which packets may have passed the box.
    fn restart(&mut self, stalled_at: Time, buffer: &mut [u8]) -> io::Result<()> {
        self.counts.stalls.fetch_add(1, Relaxed);
        // What waited is older than what has passed meanwhile.
        for device in &self.devices {
            while device.read(buffer)?.is_some() {
                self.counts.dropped.fetch_add(1, Relaxed);
            }
        }
        let time = now();
        if time.since(stalled_at) > OLD {
            self.discard_before = time;
        }
        self.diversion.beat();
        Ok(())
    }

    /// Lets packets pass; what is queued leaves first.
    fn finish(&mut self) {
        self.diversion.end();
        let mut buffer = vec![0; FRAME];
        let end = now() + DRAIN;
        while let Ok(true) = self.read_frames(&mut buffer) {}
        while self.sendbox.queued_bytes() > 0 && now() < end {
            let time = now();
            if self.sendbox.next_timeout() <= time {
                self.read_messages();
                self.sendbox.on_timer(time);
            }
            if !self.write_frames() {
                let wait = self.sendbox.next_timeout().since(now());
                std::thread::sleep(wait.min(Duration::from_millis(1)));
            }
        }
        self.tell();
        self.link
            .exchange(self.sendbox.datapath_mut(), micros(now()));
    }

    pub(crate) fn status(&self, numbers: &[u32]) -> SendboxStatus {
        let status = |number: &u32| Some((*number, self.sendbox.status(*number)?));
        SendboxStatus {
            bundles: numbers.iter().filter_map(status).collect(),
            refusals: *self.sendbox.refusals(),
            passed: self.diversion.passed(),
            clock_jumps: self.sendbox.clock_jumps(),
            ..SendboxStatus::default()
        }
    }
}
