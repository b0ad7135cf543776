//! What a report of six fields costs: to write, to read, and to pass to another thread.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairwater_proto::link::{self, Link, LinkError, MAX_PACKET, Poller, in_process, ring};
use fairwater_proto::{Dialect, FlowId, ToDatapath, ToPlane, Update};

const DIALECTS: [Dialect; 2] = [Dialect::Own, Dialect::Ccp];
const FLOW: FlowId = FlowId {
    slot: 7,
    generation: 3,
};
const FIELDS: [u64; 6] = [2896, 0, 20_500, 20_100, 5_900_000, 1];

fn main() {
    divan::main();
}

fn report() -> ToPlane<'static> {
    ToPlane::Reported {
        flow: FLOW,
        program: 1,
        time_us: Some(1_000_000),
        cwnd: 14_480,
        rate: 0,
        fields: (&FIELDS).into(),
    }
}

fn command() -> ToDatapath<'static> {
    const UPDATES: [Update; 1] = [Update {
        variable: 3,
        value: 5,
    }];
    ToDatapath::Command {
        flow: FLOW,
        switch: None,
        cwnd: Some(28_960),
        rate: Some(6_000_000),
        updates: (&UPDATES).into(),
        withdraw: false,
    }
}

/// Both can say it.
fn encoded(dialect: Dialect) -> Vec<u8> {
    let mut packet = Vec::new();
    assert_eq!(dialect.encode_to_plane(&report(), &mut packet), Ok(()));
    packet
}

#[divan::bench(args = DIALECTS)]
fn encode_report(bencher: Bencher<'_, '_>, dialect: Dialect) {
    let mut packet = Vec::with_capacity(1024);
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        packet.clear();
        dialect.encode_to_plane(black_box(&report()), &mut packet)
    });
}

#[divan::bench(args = DIALECTS)]
fn decode_report(bencher: Bencher<'_, '_>, dialect: Dialect) {
    let packet = encoded(dialect);
    let mut values = [0; 16];
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        for message in dialect.to_plane(black_box(&packet)) {
            if let Ok(ToPlane::Reported { fields, .. }) = message {
                fields.copy_to(&mut values);
            }
        }
        values[5]
    });
}

#[divan::bench(args = DIALECTS)]
fn encode_command(bencher: Bencher<'_, '_>, dialect: Dialect) {
    let mut packet = Vec::with_capacity(1024);
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        packet.clear();
        dialect.encode_to_datapath(black_box(&command()), &mut packet)
    });
}

#[divan::bench(args = DIALECTS)]
fn decode_command(bencher: Bencher<'_, '_>, dialect: Dialect) {
    let mut packet = Vec::new();
    assert_eq!(dialect.encode_to_datapath(&command(), &mut packet), Ok(()));
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        let messages = dialect.to_datapath(black_box(&packet));
        messages
            .filter_map(Result::ok)
            .map(|message| match message {
                ToDatapath::Command { updates, .. } => updates.iter().map(|u| u.value).sum(),
                _ => 0,
            })
            .sum::<u64>()
    });
}

/// The ends of a link over shared memory or over this process's own.
fn ends(kind: &str) -> std::io::Result<(Box<dyn Link>, Box<dyn Link>)> {
    if kind == "in process" {
        let (a, b) = in_process::pair()?;
        return Ok((Box::new(a), Box::new(b)));
    }
    let path = std::env::temp_dir().join(format!("fairwater-bench-{}", std::process::id()));
    let mut listener = ring::Listener::bind(&path, ring::DEFAULT_CAPACITY)?;
    let connecting = thread::spawn(|| ring::Ring::connect(path, Duration::from_secs(10)));
    loop {
        if let Some(a) = link::Listener::accept(&mut listener)? {
            let b = connecting.join().map_err(|_| ErrorKind::Other)??;
            return Ok((Box::new(a), Box::new(b)));
        }
    }
}

/// Reports decoded per second when another thread sends as many as it can.
#[divan::bench(args = ["shared memory", "in process"], sample_count = 20, sample_size = 1)]
fn transfer_reports(bencher: Bencher<'_, '_>, kind: &str) {
    const COUNT: u32 = 200_000;
    let bencher = bencher.counter(ItemsCount::new(COUNT));
    bencher
        .with_inputs(|| ends(kind).map_err(|why| panic!("no link: {why}")))
        .bench_local_values(|ends: Result<_, std::convert::Infallible>| {
            let Ok((mut receiver, mut sender)) = ends;
            let packet = encoded(Dialect::Own);
            let sending = thread::spawn(move || {
                for _ in 0..COUNT {
                    while sender.send(&packet) == Err(LinkError::WouldBlock) {
                        thread::yield_now();
                    }
                }
            });
            let mut buffer = vec![0; MAX_PACKET];
            let mut values = [0; 16];
            let mut received = 0;
            while received < COUNT {
                let Ok(length) = receiver.receive(&mut buffer) else {
                    thread::yield_now();
                    continue;
                };
                for message in Dialect::Own.to_plane(&buffer[..length]) {
                    if let Ok(ToPlane::Reported { fields, .. }) = message {
                        received += u32::from(fields.copy_to(&mut values) == FIELDS.len());
                    }
                }
            }
            assert!(sending.join().is_ok());
        });
}

/// A report one way and a command the other, by ends that wait for each other: without looking
/// first, and looking for as long as is usual.
#[divan::bench(args = ["waits", "looks first"], sample_count = 1000, sample_size = 20)]
fn round_trip(bencher: Bencher<'_, '_>, how: &str) {
    let spin = match how {
        "waits" => Duration::ZERO,
        _ => link::DEFAULT_SPIN,
    };
    let Ok((plane, datapath)) = ends("shared memory") else {
        return eprintln!("left out: no rings");
    };
    let report = encoded(Dialect::Own);
    let answering = thread::spawn(move || {
        let mut answer = Vec::new();
        let _ = Dialect::Own.encode_to_datapath(&command(), &mut answer);
        let mut plane = End::new(plane, spin);
        while plane.next().is_ok() && plane.link.send(&answer).is_ok() {}
    });
    let mut datapath = End::new(datapath, spin);
    bencher.bench_local(|| {
        assert_eq!(datapath.link.send(&report), Ok(()));
        datapath.next()
    });
    drop(datapath);
    assert!(answering.join().is_ok());
}

/// One end of a link, and what it waits with.
struct End {
    link: Box<dyn Link>,
    poller: Poller,
    spin: Duration,
    buffer: Vec<u8>,
}

impl End {
    fn new(link: Box<dyn Link>, spin: Duration) -> Self {
        let poller = Poller::new().unwrap_or_else(|why| panic!("{why}"));
        assert!(poller.add(&*link, 0).is_ok());
        Self {
            link,
            poller,
            spin,
            buffer: vec![0; MAX_PACKET],
        }
    }

    /// Waits for a packet.
    fn next(&mut self) -> Result<usize, LinkError> {
        loop {
            match self.link.receive(&mut self.buffer) {
                Err(LinkError::WouldBlock) => {}
                received => return received,
            }
            if !link::spin(self.spin, || self.link.is_pending()) && self.link.prepare_to_wait() {
                let woken = self.poller.wait(None).map_err(|_| LinkError::Gone)?;
                woken.for_each(drop);
            }
        }
    }
}
