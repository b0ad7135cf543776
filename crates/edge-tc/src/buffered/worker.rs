//! The thread that moves frames between the device and the box.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use fairwater_kernel::now_ns;
use fairwater_net::Time;
use fairwater_proto::link::Poller;
use fairwater_service::Stopper;

use super::data_plane::DataPlane;
use super::device::Device;
use super::frame::{self, FrameInfo};
use super::redirection::Redirection;

/// Bytes of the longest frame with its headers: segmentation offload leaves 64 KiB, more with none of the headers.
const FRAME: usize = 1 << 17;
/// Frames that are read, and those that are written, before the other is looked at and the heartbeat is given.
const BUDGET: usize = 64;
/// Time between two looks for connections that have ended.
const SWEEP: Duration = Duration::from_secs(1);
/// A connection that the box does not know is over if it is that old: its SYN may wait in the device until then.
const UNKNOWN_FOR: Duration = Duration::from_secs(2);

/// What the thread has counted; others read it.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounts {
    /// Frames read from the device.
    pub(crate) received: AtomicU64,
    /// Frames written to the device.
    pub(crate) written: AtomicU64,
    /// Frames that could not be written.
    pub(crate) unwritten: AtomicU64,
    /// Times that packets may have passed, as the thread was held up.
    pub(crate) stalls: AtomicU64,
    /// The thread has ended by itself: the device is gone.
    pub(crate) is_broken: AtomicBool,
}

/// What is done with the box between two turns.
pub(crate) type Question = Box<dyn FnOnce(Time, &mut DataPlane) + Send>;

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) device: Device,
    pub(crate) redirection: Redirection,
    pub(crate) plane: DataPlane,
    pub(crate) counts: Arc<WorkerCounts>,
    pub(crate) stop: Stopper,
    headers: Vec<u8>,
    swept: Time,
}

fn now() -> Time {
    Time::from_nanos(now_ns())
}

impl Worker {
    pub(crate) fn new(
        device: Device,
        redirection: Redirection,
        plane: DataPlane,
        counts: Arc<WorkerCounts>,
        stop: Stopper,
    ) -> Self {
        Self {
            device,
            redirection,
            plane,
            counts,
            stop,
            headers: Vec::new(),
            swept: now(),
        }
    }

    /// Works until it is stopped, or the device is gone.
    pub(crate) fn run(mut self, questions: &Receiver<Question>) {
        // Timers are exact to a microsecond, not to 50.
        let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
        if self.work(questions).is_err() {
            self.counts.is_broken.store(true, Relaxed);
        }
        self.finish();
    }

    fn work(&mut self, questions: &Receiver<Question>) -> io::Result<()> {
        const WAKE: u64 = 0;
        let mut buffer = vec![0; FRAME];
        let mut poller = Poller::new()?;
        poller.add(&self.stop, WAKE)?;
        poller.add(&self.device.as_fd(), WAKE)?;
        poller.add(&self.plane.link, WAKE)?;
        while !self.stop.is_asked() {
            if self.redirection.beat() {
                self.restart(&mut buffer)?;
            }
            let is_more = self.read_frames(&mut buffer)?;
            for question in questions.try_iter() {
                question(now(), &mut self.plane);
            }
            // The descriptor of a link that ends leaves the poller with it.
            self.plane.exchange(now());
            let time = now();
            if self.plane.next_timer().is_some_and(|at| at <= time) {
                self.plane.edge.on_timer(time);
            }
            let is_more = self.write_frames() | is_more;
            self.housekeep();
            if is_more || !self.plane.prepare_to_wait() {
                continue;
            }
            let most = self.redirection.interval();
            let until = self.plane.next_timer().map(|at| at.since(now()));
            poller.wait_precisely(until.unwrap_or(most).min(most))?;
        }
        Ok(())
    }

    /// Reads what has come; whether there may be more.
    fn read_frames(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..BUDGET {
            let Some(length) = self.device.read(buffer)? else {
                return Ok(false);
            };
            let packet = buffer.get_mut(..length).unwrap_or_default();
            // The host's own packets, such as for neighbours, go nowhere.
            let Some((info, frame)) = frame::decode(packet) else {
                continue;
            };
            self.counts.received.fetch_add(1, Relaxed);
            if self.plane.on_frame(now(), &info, frame) {
                self.write(&info, frame);
            }
        }
        Ok(true)
    }

    /// Writes what the box has to send; whether there may be more.
    fn write_frames(&mut self) -> bool {
        for _ in 0..BUDGET {
            let Some(outgoing) = self.plane.edge.poll_transmit(now()) else {
                return false;
            };
            let info = FrameInfo::plain(outgoing.interface, outgoing.direction);
            self.write(&info, &outgoing.bytes);
        }
        true
    }

    fn write(&mut self, info: &FrameInfo, frame: &[u8]) {
        let parts = frame::encode(info, frame, &mut self.headers);
        let written = parts.is_some_and(|[addresses, rest]| {
            let slices = [&self.headers[..], addresses, rest].map(IoSlice::new);
            self.device.write(&slices).is_ok()
        });
        let count = if written {
            &self.counts.written
        } else {
            &self.counts.unwritten
        };
        count.fetch_add(1, Relaxed);
    }

    /// Begins anew after a time in which packets may have passed the box.
    fn restart(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.counts.stalls.fetch_add(1, Relaxed);
        self.redirection.bump();
        // What waited is older than what has passed meanwhile.
        while self.device.read(buffer)?.is_some() {
            self.redirection.beat();
        }
        self.plane.edge.forget(|_| true);
        self.redirection.beat();
        Ok(())
    }

    /// Forgets connections that have ended, in the box and in the kernel.
    fn housekeep(&mut self) {
        let time = now();
        if time.since(self.swept) < SWEEP {
            return;
        }
        self.swept = time;
        self.plane.edge.expire(time);
        let edge = &self.plane.edge;
        // What cannot be read now can be the next time.
        let _ = self
            .redirection
            .sweep(|key, age| age >= UNKNOWN_FOR && !edge.knows(key));
    }

    /// Lets go of all connections: what the box has not sent yet leaves, and packets pass from then on.
    fn finish(&mut self) {
        self.redirection.end();
        let mut buffer = vec![0; FRAME];
        // What waits in the device goes on; a device that is gone has nothing.
        while let Ok(true) = self.read_frames(&mut buffer) {}
        self.plane.edge.let_go(now());
        while self.write_frames() {}
        self.plane.edge.forget(|_| true);
        self.plane.exchange(now());
    }
}
