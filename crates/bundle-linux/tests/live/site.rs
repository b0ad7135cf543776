//! Two sites, a pair of interfaces between them, and the boxes of one bundle in one process.

use std::collections::VecDeque;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairwater_bundle::{
    BundleSecret, ChannelConfig, Prefix, ReceiveBundleConfig, Receivebox, SendBundleConfig,
    SendBundleStatus, SendboxControl,
};
use fairwater_bundle_linux::{
    BoxError, Framing, HtbOptions, HtbSendbox, KernelReceivebox, ReceiveOptions,
};
use fairwater_kernel::tcx::Hook;
use fairwater_net::Time;
use fairwater_netlink::{Namespace, add_address, bring_up, enter, index_of, make_veth};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::plane::{Plane, constant_rate};

pub(crate) const PORT: &str = "site0";
pub(crate) const SENDER: &str = "10.77.0.1";
pub(crate) const RECEIVER: &str = "10.77.0.2";
pub(crate) const BUNDLE: u32 = 7;
/// How long feedback is under way: the network between the sites.
const WAY: Duration = Duration::from_millis(20);

/// The time by `CLOCK_MONOTONIC`, as the programs have it.
pub(crate) fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned())
}

/// Tests of times run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// Two namespaces.
pub(crate) struct Sites {
    _alone: MutexGuard<'static, ()>,
    pub(crate) sender: Namespace,
    pub(crate) receiver: Namespace,
}

impl Sites {
    /// `None`, with a reason printed, where namespaces cannot be made.
    pub(crate) fn new() -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, receiver) = match (Namespace::new(), Namespace::new()) {
            (Ok(sender), Ok(receiver)) => (sender, receiver),
            (Err(error), _) | (_, Err(error)) => {
                let required = std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED");
                assert!(required.is_none_or(|value| value != "1"), "{error}");
                eprintln!("skipped: namespaces cannot be made: {error}");
                return None;
            }
        };
        let set_up = |name: &str, address: &str| {
            add_address(name, address.parse().unwrap(), 24).unwrap();
            bring_up(name).unwrap();
            bring_up("lo").unwrap();
        };
        let made = sender.inside(|| {
            make_veth(PORT, PORT, receiver.as_fd()).unwrap();
            set_up(PORT, SENDER);
        });
        made.unwrap();
        receiver.inside(|| set_up(PORT, RECEIVER)).unwrap();
        Some(Self {
            _alone: alone,
            sender,
            receiver,
        })
    }

    /// Files by which another process enters the namespaces.
    pub(crate) fn paths(&self) -> [String; 2] {
        let process = std::process::id();
        [&self.sender, &self.receiver]
            .map(|site| format!("/proc/{process}/fd/{}", site.as_fd().as_raw_fd()))
    }
}

fn channel(instance: u64) -> ChannelConfig {
    ChannelConfig {
        bundle: BUNDLE,
        secret: BundleSecret([5; 32]),
        instance,
    }
}

fn prefix(address: &str) -> Prefix {
    let address: IpAddr = address.parse().unwrap();
    Prefix::new(address, 32).unwrap()
}

pub(crate) fn send_config(rate: u64) -> SendBundleConfig {
    let receivebox: SocketAddr = "10.77.0.2:4000".parse().unwrap();
    let mut config = SendBundleConfig::new(channel(11), receivebox, vec![prefix(RECEIVER)]);
    config.assured_rate = rate;
    config
}

/// The boxes of both sites. They tell each other what they have to within this process.
pub(crate) struct Boxes {
    pub(crate) sendbox: HtbSendbox,
    pub(crate) control: SendboxControl,
    pub(crate) kernel_receivebox: KernelReceivebox,
    receivebox: Receivebox,
    /// Feedback under way, and when it arrives.
    under_way: VecDeque<(Time, Vec<u8>)>,
    plane: Plane,
}

impl Boxes {
    /// Boxes at the sites whose namespaces these files are, for a bundle that has a rate of its own, bytes/s. The
    /// calling thread is in the sender's namespace afterwards.
    pub(crate) fn new(
        paths: &[String; 2],
        rate: u64,
        options: &HtbOptions,
    ) -> Result<Self, BoxError> {
        let [sender, receiver] = paths.each_ref().map(|path| File::open(path).unwrap());
        let configs = [ReceiveBundleConfig {
            channel: channel(22),
            sources: vec![prefix(SENDER)],
            destinations: vec![prefix(RECEIVER)],
        }];
        let options_there = ReceiveOptions {
            framing: Framing::Ethernet,
            ..ReceiveOptions::default()
        };
        let mut kernel_receivebox = KernelReceivebox::load(&configs, &options_there)?;
        enter(receiver.as_fd()).unwrap();
        let port = index_of(PORT).unwrap();
        kernel_receivebox.attach(port, Hook::Ingress).unwrap();
        enter(sender.as_fd()).unwrap();
        let configs_here = [send_config(rate)];
        let (plane, datapath) = Plane::new(&constant_rate(rate));
        let control = SendboxControl::new(&configs_here, datapath, plane.peer)?;
        Ok(Self {
            sendbox: HtbSendbox::attach(PORT, &configs_here, options)?,
            control,
            kernel_receivebox,
            receivebox: Receivebox::new(&configs)?,
            under_way: VecDeque::new(),
            plane,
        })
    }

    /// Works until this time.
    pub(crate) fn run_until(&mut self, end: Time) {
        let (there, here): (SocketAddr, SocketAddr) = (
            "10.77.0.2:4000".parse().unwrap(),
            "10.77.0.1:4000".parse().unwrap(),
        );
        while now() < end {
            let time = now();
            self.kernel_receivebox.turn(&mut self.receivebox).unwrap();
            while let Some(message) = self.receivebox.poll_message() {
                self.under_way.push_back((time + WAY, message.bytes));
            }
            self.sendbox.read(&mut self.control).unwrap();
            while let Some((at, _)) = self.under_way.front()
                && *at <= time
            {
                let (at, bytes) = self.under_way.pop_front().unwrap();
                self.control.on_message(at, there, &bytes).unwrap();
            }
            self.sendbox.turn(time, &mut self.control).unwrap();
            while let Some(message) = self.control.poll_message() {
                // The first messages name no instance of the receivebox, which greets then.
                let _ = self.receivebox.on_message(time, here, &message.bytes);
            }
            let time_us = time.as_nanos() / 1_000;
            self.plane.serve(self.control.datapath_mut(), time_us);
            while let Some(change) = self.control.poll_change() {
                println!("{change}");
            }
            let wait = self
                .sendbox
                .next_timeout()
                .since(now())
                .min(Duration::from_millis(10));
            let wait = Timespec {
                tv_sec: 0,
                tv_nsec: i64::try_from(wait.as_nanos()).unwrap(),
            };
            let mut ready = [
                PollFd::from_borrowed_fd(self.sendbox.readable(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.kernel_receivebox.readable(), PollFlags::IN),
            ];
            poll(&mut ready, Some(&wait)).unwrap();
        }
    }

    pub(crate) fn status(&self) -> SendBundleStatus {
        self.control.status(BUNDLE).unwrap()
    }
}
