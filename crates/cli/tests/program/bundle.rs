//! `fairwater bundle` between two sites, with real TCP over an emulated link.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_net::{Capacity, Limit, LinkConfig, QueueConfig, Rate};
use fairwater_netlink::Interfaces;
use fairwater_testbed::{Family, Machine, TwoSites};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Running, alone, fairwater, privileged};

/// RTT of the link without queues.
const RTT: Duration = Duration::from_millis(20);

/// The longest gap that a hung sendbox may make: 50 ms, and the turn of a machine that is busy with tests.
const HUNG: Duration = Duration::from_millis(65);

/// Two sites with files for boxes.
struct Bundled {
    sites: TwoSites,
    folder: tempfile::TempDir,
}

impl Bundled {
    /// `None` where the machine cannot run it.
    fn new(queue: &str) -> Option<Self> {
        if !privileged() {
            return None;
        }
        let rate = Capacity::Rate(Rate::from_bps(24_000_000).unwrap());
        let link = |limit| LinkConfig::new(rate.clone(), QueueConfig::DropTail(limit), RTT / 2);
        let links = [
            link(Limit::Bytes(180_000)),
            LinkConfig::new(
                rate.clone(),
                QueueConfig::DropTail(Limit::Unlimited),
                RTT / 2,
            ),
        ];
        let this = Self {
            sites: TwoSites::new([&links[0], &links[1]]).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        this.key("a.key");
        this.write_send(&format!("queue = {queue}"));
        let receive = format!(
            "[receivebox]\nports = [\"wan0\"]\n[[bundle]]\n{}from = [\"10.1.0.0/24\", \"fd01::/64\"]\n",
            common("a.key")
        );
        fs::write(this.file("receive.toml"), receive).unwrap();
        Some(this)
    }

    fn write_send(&self, more: &str) {
        let send = format!(
            "[sendbox]\nports = [\"lan0\"]\n[[bundle]]\n{}receivebox = \"192.0.2.2\"\nalgorithm = \"copa\"\n{more}\n",
            common("a.key")
        );
        fs::write(self.file("send.toml"), send).unwrap();
    }

    fn key(&self, name: &str) {
        let made = fairwater(&["bundle", "key", self.file(name).to_str().unwrap()]);
        assert!(made.status.success(), "{made:?}");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, machine: Machine, role: &str) -> Running {
        let (file, socket) = (self.file(&format!("{role}.toml")), self.file(role));
        let log = fs::File::create(self.file(&format!("{role}.log"))).unwrap();
        let start = || {
            Command::new(env!("CARGO_BIN_EXE_fairwater"))
                .args(["bundle", role])
                .arg(file)
                .arg("--socket")
                .arg(&socket)
                .stdin(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap()
        };
        let running = Running(self.sites.namespace(machine).inside(start).unwrap());
        eventually("the box answers", || status(&socket).is_some());
        running
    }

    fn boxes(&self) -> [Running; 2] {
        [
            self.start(Machine::ReceiverRouter, "receive"),
            self.start(Machine::SenderRouter, "send"),
        ]
    }

    fn await_mode(&self, mode: &str) {
        eventually(mode, || {
            // A box on a busy machine may be asked again.
            let status = status(&self.file("send"));
            status.is_some_and(|it| {
                let found = it["bundles"][0]["mode"].as_str();
                found.is_some_and(|found| found.starts_with(mode))
            })
        });
    }

    fn log(&self, role: &str) -> String {
        fs::read_to_string(self.file(&format!("{role}.log"))).unwrap()
    }

    /// Median delay of small datagrams, and how many were lost.
    fn ping(&self, from: Machine) -> (Duration, usize) {
        let found = self
            .sites
            .ping(from, Family::V4, (60, Duration::from_millis(50)));
        let found = found.unwrap();
        let mut delays: Vec<_> = found.iter().filter_map(|ping| ping.delay).collect();
        delays.sort();
        (delays[delays.len() / 2], found.len() - delays.len())
    }

    /// Names of the interfaces at the sender's router.
    fn interfaces(&self) -> Vec<String> {
        let listed = || Interfaces::new().unwrap().list().unwrap();
        let namespace = self.sites.namespace(Machine::SenderRouter);
        let listed = namespace.inside(listed).unwrap();
        listed.into_iter().map(|it| it.name).collect()
    }
}

fn common(key: &str) -> String {
    format!("name = \"it\"\nnumber = 7\nkey = \"{key}\"\nto = [\"10.2.0.0/24\", \"fd02::/64\"]\n")
}

fn status(socket: &Path) -> Option<Value> {
    let arguments = ["bundle", "status", "--json", "--socket"];
    let output = fairwater(&[&arguments[..], &[socket.to_str().unwrap()]].concat());
    let boxes: Value = serde_json::from_slice(&output.stdout).ok()?;
    boxes.get(0).cloned()
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The longest time between two datagrams that arrive at the receiver's host, and how many were lost: about one each
/// millisecond from the sender's host, of which none waits for others as nothing else is sent.
fn gap(bundled: &Bundled, disturb: impl FnOnce() + Send) -> (Duration, usize) {
    let count = 1500;
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(500));
            disturb();
        });
        let interval = Duration::from_millis(1);
        let sites = &bundled.sites;
        sites
            .ping(Machine::Sender, Family::V4, (count, interval))
            .unwrap()
    });
    let answered = found.iter().filter(|ping| ping.delay.is_some());
    let sent: Vec<_> = answered.map(|ping| ping.sent).collect();
    let longest = sent.windows(2).map(|pair| pair[1] - pair[0]).max();
    (longest.unwrap_or(Duration::MAX), found.len() - sent.len())
}

#[test]
fn the_queue_moves_to_the_sendbox_which_schedules_it() {
    let _alone = alone();
    let mut queued = Vec::new();
    for queue in ["\"fifo\"", "\"sfq\""] {
        let Some(bundled) = Bundled::new(queue) else {
            return;
        };
        let bulk = bundled.sites.bulk(Family::V4, 4).unwrap();
        thread::sleep(Duration::from_secs(2));
        let (before, _) = bundled.ping(Machine::SenderRouter);
        let _boxes = bundled.boxes();
        bundled.await_mode("control");
        thread::sleep(Duration::from_secs(3));
        let (began, bytes) = (Instant::now(), bulk.received());
        let (network, _) = bundled.ping(Machine::SenderRouter);
        let (whole, _) = bundled.ping(Machine::Sender);
        let rate = (bulk.received() - bytes) as f64 * 8e-6 / began.elapsed().as_secs_f64();
        println!(
            "{queue}: network {before:?} before, {network:?} with the box, {whole:?} from the host, {rate:.1} Mbit/s; {}",
            bundled.log("send")
        );
        assert!(before > RTT + Duration::from_millis(20), "{before:?}");
        assert!(network < RTT + Duration::from_millis(15), "{network:?}");
        assert!(rate > 15.0, "{rate}");
        queued.push(whole.saturating_sub(network));
    }
    let [fifo, sfq] = queued[..] else { panic!() };
    assert!(fifo > sfq + Duration::from_millis(5), "{fifo:?} {sfq:?}");
}

#[test]
fn a_sendbox_that_hangs_or_is_killed_lets_packets_pass_and_a_stopped_one_leaves_nothing() {
    let _alone = alone();
    let Some(bundled) = Bundled::new("\"sfq\"") else {
        return;
    };
    let interfaces = bundled.interfaces();
    let [_receive, send] = bundled.boxes();
    // A busy machine adds to the 50 ms: the least of three counts.
    let mut gaps = Vec::new();
    while gaps.len() < 3 && gaps.iter().all(|gap| *gap > HUNG) {
        let (hung, _) = gap(&bundled, || send.signal(Signal::STOP));
        println!("hung: {hung:?}");
        assert!(hung > Duration::from_millis(10), "nothing hung: {hung:?}");
        gaps.push(hung);
        send.signal(Signal::CONT);
        eventually("the box goes on", || {
            let status = status(&bundled.file("send"));
            status.is_some_and(|it| it["stalls"].as_u64() > Some(0))
        });
    }
    let hung = gaps.iter().min().unwrap();
    assert!(*hung <= HUNG, "{gaps:?}");
    let (killed, lost) = gap(&bundled, || send.signal(Signal::KILL));
    println!("killed: {killed:?}, {lost} lost");
    // 10 ms on an idle machine.
    assert!(killed <= Duration::from_millis(40), "{killed:?}");
    drop(send);
    let mut send = bundled.start(Machine::SenderRouter, "send");
    send.signal(Signal::INT);
    send.0.wait().unwrap();
    assert_eq!(bundled.interfaces(), interfaces);
    assert_eq!(bundled.ping(Machine::Sender).1, 0);
}

#[test]
fn a_bundle_is_released_without_its_receivebox_and_a_wrong_key_is_refused() {
    let _alone = alone();
    let Some(bundled) = Bundled::new("\"sfq\"") else {
        return;
    };
    let [receive, send] = bundled.boxes();
    let _bulk = bundled.sites.bulk(Family::V6, 2).unwrap();
    bundled.await_mode("control");
    receive.signal(Signal::KILL);
    drop(receive);
    bundled.await_mode("released");
    let log = bundled.log("send");
    assert!(log.contains("no feedback came for"), "{log}");
    let receive = bundled.start(Machine::ReceiverRouter, "receive");
    bundled.await_mode("control");
    drop(receive);
    let file = bundled.file("receive.toml");
    let text = fs::read_to_string(&file).unwrap();
    bundled.key("b.key");
    fs::write(&file, text.replace("a.key", "b.key")).unwrap();
    let _receive = bundled.start(Machine::ReceiverRouter, "receive");
    eventually("a refusal", || {
        let status = status(&bundled.file("receive"));
        status.is_some_and(|it| it["refused"][0][0] == "the message is not authentic")
    });
    bundled.await_mode("released");
    // Another algorithm's parameters need a restart; observing does not.
    bundled.write_send("observe = true");
    send.signal(Signal::HUP);
    bundled.await_mode("observe");
    bundled.write_send("algorithm = 3");
    send.signal(Signal::HUP);
    eventually("a refused reload", || {
        bundled.log("send").contains("Not reloaded")
    });
    bundled.await_mode("observe");
}

#[test]
fn a_sendbox_in_the_kernel_moves_the_queue_and_leaves_nothing() {
    let _alone = alone();
    let Some(bundled) = Bundled::new("\"sfq\"") else {
        return;
    };
    let file = bundled.file("send.toml");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace(
        "ports = [\"lan0\"]",
        "plane = \"kernel\"\nports = [\"wan0\"]",
    );
    fs::write(&file, text.replace("queue = \"sfq\"\n", "")).unwrap();
    let bulk = bundled.sites.bulk(Family::V4, 4).unwrap();
    thread::sleep(Duration::from_secs(2));
    let (before, _) = bundled.ping(Machine::Sender);
    let [_receive, send] = bundled.boxes();
    bundled.await_mode("control");
    thread::sleep(Duration::from_secs(3));
    let (began, bytes) = (Instant::now(), bulk.received());
    let (after, _) = bundled.ping(Machine::Sender);
    let rate = (bulk.received() - bytes) as f64 * 8e-6 / began.elapsed().as_secs_f64();
    println!(
        "{before:?} before, {after:?} with the box, {rate:.1} Mbit/s; {}",
        bundled.log("send")
    );
    assert_eq!(
        status(&bundled.file("send")).unwrap()["data_plane"],
        "kernel"
    );
    assert!(before > RTT + Duration::from_millis(20), "{before:?}");
    assert!(after < before - Duration::from_millis(20), "{after:?}");
    assert!(rate > 15.0, "{rate}");
    // The next one removes what a killed one leaves.
    send.signal(Signal::KILL);
    drop(send);
    let mut send = bundled.start(Machine::SenderRouter, "send");
    bundled.await_mode("control");
    send.signal(Signal::INT);
    send.0.wait().unwrap();
    let router = bundled.sites.namespace(Machine::SenderRouter);
    let is_left = || fairwater_bundle_linux::remove_leftovers("wan0").unwrap();
    assert!(!router.inside(is_left).unwrap());
}
