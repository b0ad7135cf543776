//! The router between two hosts: moves real packets through [`fairwater_net::Link`]s on time.
//!
//! One thread a direction reads packets from one host's device as they come and writes them to
//! the other's when they are due. All rates and delays are reckoned in virtual time by the link;
//! a thread that wakes late writes late, which the lateness says, but changes no rate.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_net::{Link, LinkConfig, Packet, Time};
use fairwater_results::{Lateness, PacketLog, PacketRecord};
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::{Clock, thread_cpu};
use crate::packet::IpPacket;
use crate::path::Path;

/// Flows that can be told apart on one link.
pub(crate) const MAX_FLOWS: usize = 64;

/// Packets read before those that are due are looked at again.
const READ_BATCH: usize = 32;

/// The longest sleep: how late a request to stop can be seen.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// Bytes of each flow that left the bottleneck so far.
#[derive(Debug)]
pub(crate) struct LiveBytes([AtomicU64; MAX_FLOWS]);

impl LiveBytes {
    pub(crate) fn of(&self, flow: usize) -> u64 {
        self.0
            .get(flow)
            .map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }
}

/// Two running threads. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct Emulator {
    stop: Arc<AtomicBool>,
    forward: Option<JoinHandle<io::Result<DirectionLog>>>,
    reverse: Option<JoinHandle<io::Result<DirectionLog>>>,
    pub(crate) live: Arc<LiveBytes>,
}

/// What one thread recorded.
#[derive(Debug)]
struct DirectionLog {
    packets: PacketLog,
    lateness_ns: Histogram<u64>,
    cpu: Duration,
    real_time: bool,
}

/// What an emulator recorded.
#[derive(Debug)]
pub(crate) struct EmulatorLog {
    /// The bottleneck's packets.
    pub(crate) packets: PacketLog,
    /// How long after it was due each packet of both directions was handed over, ns.
    pub(crate) lateness_ns: Histogram<u64>,
    /// The CPU time of both threads. It includes the hosts' reception of the packets, which the
    /// kernel does inside the write to the device.
    pub(crate) cpu: Duration,
    /// Whether both threads had real-time priority.
    pub(crate) real_time: bool,
}

impl Emulator {
    /// Joins the hosts of `path` by a link in each direction; the sender has `flows` flows
    /// to measure.
    pub(crate) fn start(
        path: &Path,
        clock: Clock,
        links: [&LinkConfig; 2],
        flows: usize,
    ) -> io::Result<Self> {
        let devices = [&path.sender_device, &path.receiver_device];
        Self::between(devices, clock, links, flows)
    }

    /// Joins two devices by a link in each direction.
    pub(crate) fn between(
        [near, far]: [&OwnedFd; 2],
        clock: Clock,
        [forward, reverse]: [&LinkConfig; 2],
        flows: usize,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let live = Arc::new(LiveBytes([const { AtomicU64::new(0) }; MAX_FLOWS]));
        let direction = |name: &str, from: &OwnedFd, to: &OwnedFd, link, bottleneck: bool| {
            let direction = Direction {
                clock,
                stop: Arc::clone(&stop),
                from: from.try_clone()?,
                to: to.try_clone()?,
                link,
                spare: Vec::new(),
                lateness_ns: lateness_histogram()?,
                bottleneck: bottleneck.then(|| Bottleneck {
                    flows,
                    log: PacketLog::default(),
                    live: Arc::clone(&live),
                }),
            };
            thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || direction.run())
        };
        let mut emulator = Emulator {
            forward: Some(direction(
                "lab-forward",
                near,
                far,
                Link::new(forward),
                true,
            )?),
            stop: Arc::clone(&stop),
            reverse: None,
            live: Arc::clone(&live),
        };
        emulator.reverse = Some(direction(
            "lab-reverse",
            far,
            near,
            Link::new(reverse),
            false,
        )?);
        Ok(emulator)
    }

    /// Whether either thread has ended, which only a failure makes it do.
    pub(crate) fn has_failed(&self) -> bool {
        let ended =
            |thread: &Option<JoinHandle<_>>| thread.as_ref().is_none_or(|t| t.is_finished());
        ended(&self.forward) || ended(&self.reverse)
    }

    /// Stops both threads.
    ///
    /// # Errors
    /// What made one of them fail.
    pub(crate) fn finish(mut self) -> io::Result<EmulatorLog> {
        self.stop.store(true, Ordering::Relaxed);
        let forward = join(self.forward.take())?;
        let reverse = join(self.reverse.take())?;
        let mut lateness_ns = forward.lateness_ns;
        lateness_ns
            .add(&reverse.lateness_ns)
            .map_err(io::Error::other)?;
        Ok(EmulatorLog {
            packets: forward.packets,
            lateness_ns,
            cpu: forward.cpu + reverse.cpu,
            real_time: forward.real_time && reverse.real_time,
        })
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in [self.forward.take(), self.reverse.take()]
            .into_iter()
            .flatten()
        {
            // Its failure was seen, or nobody is left to see it.
            let _ = thread.join();
        }
    }
}

fn join(thread: Option<JoinHandle<io::Result<DirectionLog>>>) -> io::Result<DirectionLog> {
    thread
        .ok_or_else(|| io::Error::other("the emulator's thread was never started"))?
        .join()
        .map_err(|_| io::Error::other("the emulator's thread panicked"))?
}

struct Direction {
    clock: Clock,
    stop: Arc<AtomicBool>,
    from: OwnedFd,
    to: OwnedFd,
    link: Link<IpPacket>,
    /// Buffers of packets that are gone, for those to come.
    spare: Vec<Vec<u8>>,
    lateness_ns: Histogram<u64>,
    bottleneck: Option<Bottleneck>,
}

/// What is recorded of the direction with the bottleneck.
struct Bottleneck {
    flows: usize,
    log: PacketLog,
    live: Arc<LiveBytes>,
}

impl Direction {
    fn run(mut self) -> io::Result<DirectionLog> {
        let real_time = ask_for_punctuality(Urgency::Network);
        while !self.stop.load(Ordering::Relaxed) {
            self.deliver()?;
            if self.accept()? == READ_BATCH {
                continue;
            }
            self.sleep()?;
        }
        Ok(DirectionLog {
            packets: self
                .bottleneck
                .map(|bottleneck| bottleneck.log)
                .unwrap_or_default(),
            lateness_ns: self.lateness_ns,
            cpu: thread_cpu(),
            real_time,
        })
    }

    /// Hands over the packets that are due.
    fn deliver(&mut self) -> io::Result<()> {
        let mut now = self.clock.now();
        while let Some(delivered) = self.link.poll(now) {
            let IpPacket { bytes, flow, .. } = delivered.packet;
            now = self.clock.now();
            let late = now.since(delivered.times.due);
            self.lateness_ns
                .saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
            match rustix::io::write(&self.to, &bytes) {
                // The host was short of memory, as a host may be: the packet is lost.
                Ok(_) | Err(Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
            self.spare.push(bytes);
            if let Some(bottleneck) = &mut self.bottleneck {
                let record = PacketRecord::delivered(flow, &delivered.times);
                bottleneck.log.push(record);
                if let Some(bytes) = bottleneck.live.0.get(usize::from(flow)) {
                    bytes.fetch_add(record.size_bytes.into(), Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Reads packets that wait, a batch at most; how many it read.
    fn accept(&mut self) -> io::Result<usize> {
        for count in 0..READ_BATCH {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.resize(BUFFER_BYTES, 0);
            let length = match rustix::io::read(&self.from, &mut bytes[..]) {
                Ok(length) => length,
                Err(Errno::AGAIN) => {
                    self.spare.push(bytes);
                    return Ok(count);
                }
                Err(error) => return Err(error.into()),
            };
            bytes.truncate(length);
            let flows = self.bottleneck.as_ref().map_or(0, |b| b.flows);
            let packet = IpPacket::new(bytes, flows);
            self.link.enqueue(self.clock.now(), packet);
            self.record_drops();
        }
        Ok(READ_BATCH)
    }

    fn record_drops(&mut self) {
        for dropped in self.link.drain_dropped() {
            let size = dropped.packet.size_bytes();
            if let Some(bottleneck) = &mut self.bottleneck {
                let record =
                    PacketRecord::dropped(dropped.packet.flow, dropped.at, size, dropped.reason);
                bottleneck.log.push(record);
            }
            self.spare.push(dropped.packet.bytes);
        }
    }

    /// Sleeps until a packet comes, the next is due, or a while has passed.
    fn sleep(&self) -> io::Result<()> {
        let next = self
            .link
            .next_departure()
            .unwrap_or(Time::from_nanos(u64::MAX));
        let until = next.since(self.clock.now()).min(LONGEST_SLEEP);
        let timeout = Timespec::try_from(until).map_err(io::Error::other)?;
        match poll(
            &mut [PollFd::new(&self.from, PollFlags::IN)],
            Some(&timeout),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A histogram of latenesses from a nanosecond to a minute, to three digits.
fn lateness_histogram() -> io::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(io::Error::other)
}

/// How late packets were handed over.
pub(crate) fn lateness(histogram_ns: &Histogram<u64>) -> Lateness {
    let ms = |ns: u64| ns as f64 / 1e6;
    Lateness {
        p50: ms(histogram_ns.value_at_quantile(0.5)),
        p99: ms(histogram_ns.value_at_quantile(0.99)),
        max: ms(histogram_ns.max()),
    }
}

/// Room for one packet of the devices' MTU.
const BUFFER_BYTES: usize = 2048;

/// How urgent a thread of the lab is, of those that are to be on time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// It moves packets.
    Network = 10,
    /// It sends or receives what they carry.
    Traffic = 5,
}

/// Asks that the calling thread be woken on time: timers to the nanosecond, and real-time
/// priority. Whether it got the priority; without, it still works, later.
pub(crate) fn ask_for_punctuality(urgency: Urgency) -> bool {
    // Refused by no kernel; the lateness would show it.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let priority = libc::sched_param {
        sched_priority: urgency as i32,
    };
    #[expect(unsafe_code, reason = "rustix cannot set a scheduling policy")]
    // SAFETY: the call reads one `sched_param` and concerns the calling thread alone.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_measured_up_to_a_minute() {
        let mut histogram = lateness_histogram().expect("fixed bounds");
        for late_ns in [0, 5_000_000, u64::MAX] {
            histogram.saturating_record(late_ns);
        }
        assert!(histogram.value_at_quantile(0.5).abs_diff(5_000_000) < 10_000);
        assert!(histogram.max() >= 60_000_000_000);
    }
}
