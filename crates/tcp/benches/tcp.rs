//! What a segment costs the simulated TCP: sender, receiver and controller together, over a wire
//! that is a queue and no more.

use std::collections::VecDeque;
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use fairwater_net::Time;
use fairwater_sim::Native;
use fairwater_sim::native::NativeController;
use fairwater_tcp::{Receiver, Segment, Sender, TcpConfig};

fn main() {
    divan::main();
}

const SEGMENTS: u64 = 100_000;
const SPACING: Duration = Duration::from_micros(10);

/// Carries a transfer at a segment each 10 µs over 10 ms, of which the one in `lost` is lost.
fn transfer(native: Native, lost: u64) -> u64 {
    let config = TcpConfig {
        handshake: false,
        ..TcpConfig::default()
    };
    let mut sender = Sender::new(&config, Time::ZERO);
    let mut receiver = Receiver::new(&config, Time::ZERO);
    let mut controller = NativeController::new(native, &config);
    let mut data: VecDeque<(Time, Segment)> = VecDeque::new();
    let mut acks: VecDeque<(Time, Segment)> = VecDeque::new();
    sender.write(SEGMENTS * u64::from(config.mss));
    sender.close();
    let (mut now, mut free, mut sent) = (Time::ZERO, Time::ZERO, 0);
    let delay = Duration::from_millis(5);
    while !sender.is_finished() {
        while let Some(segment) = sender.poll_transmit(now) {
            sent += 1;
            free = free.max(now) + SPACING;
            if sent % lost != 0 {
                data.push_back((free + delay, segment));
            }
        }
        let timer = [sender.next_timer(), receiver.next_timer()];
        let arrivals = [data.front().map(|d| d.0), acks.front().map(|a| a.0)];
        let Some(next) = timer.into_iter().chain(arrivals).flatten().min() else {
            break;
        };
        now = now.max(next);
        if arrivals[0] == Some(next) {
            if let Some((_, segment)) = data.pop_front() {
                receiver.on_segment(now, &segment, false);
            }
        } else if arrivals[1] == Some(next) {
            if let Some((_, ack)) = acks.pop_front() {
                sender.on_segment(now, &ack);
            }
        } else {
            sender.on_timer(now);
            receiver.on_timer(now);
        }
        while let Some(ack) = receiver.poll_transmit(now) {
            acks.push_back((now + delay, ack));
        }
        if let Some(invocation) = sender.poll_invocation() {
            sender.set_controls(controller.on_invocation(&invocation));
        }
    }
    sent
}

/// An item is a segment, with its half of an ACK.
#[divan::bench(args = [Native::Constant(1_448_000), Native::Reno, Native::Cubic])]
fn clean(bencher: Bencher<'_, '_>, native: &Native) {
    bencher
        .counter(ItemsCount::new(SEGMENTS))
        .bench(|| transfer(*native, u64::MAX));
}

#[divan::bench(args = [Native::Constant(1_448_000), Native::Reno, Native::Cubic])]
fn one_in_a_hundred_lost(bencher: Bencher<'_, '_>, native: &Native) {
    bencher
        .counter(ItemsCount::new(SEGMENTS))
        .bench(|| transfer(*native, 100));
}
