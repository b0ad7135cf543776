//! Every interleaving of the two ends, and every value that relaxed loads may return.

use std::sync::Arc;

use loom::sync::Notify;
use loom::thread;

use super::memory::Heap;
use super::spsc::{Consumer, Producer};
use crate::link::LinkError;

fn ring(words: usize) -> (Producer<Arc<Heap>>, Consumer<Arc<Heap>>) {
    let heap = Arc::new(Heap::new(words));
    (Producer::new(Arc::clone(&heap)), Consumer::new(heap))
}

/// Packets of 1, 9 and 1 bytes: 7 words, which wrap in a ring of 4.
const PACKETS: [&[u8]; 3] = [b"a", b"bcdefghij", b"k"];

/// Up to three preemptions, which is where such races show; more take hours.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn loom_packets_arrive_whole_and_in_order() {
    model(|| {
        let (mut producer, mut consumer) = ring(4);
        let sender = thread::spawn(move || {
            for packet in PACKETS {
                while producer.push(packet) == Err(LinkError::WouldBlock) {
                    thread::yield_now();
                }
            }
        });
        let mut buffer = [0; 16];
        for packet in PACKETS {
            let length = loop {
                match consumer.pop(&mut buffer) {
                    Ok(length) => break length,
                    Err(why) => assert_eq!(why, LinkError::WouldBlock),
                }
                thread::yield_now();
            };
            assert_eq!(&buffer[..length], packet);
        }
        sender.join().unwrap();
    });
}

const TWO: [&[u8]; 2] = [b"a", b"b"];

/// A wake-up that is lost would leave the consumer waiting for ever, which loom reports.
#[test]
fn loom_no_wake_up_is_lost() {
    model(|| {
        let (mut producer, mut consumer) = ring(4);
        let wakeup = Arc::new(Notify::new());
        let own_wakeup = Arc::clone(&wakeup);
        let sender = thread::spawn(move || {
            for packet in TWO {
                if producer.push(packet).unwrap() {
                    wakeup.notify();
                }
            }
        });
        let mut buffer = [0; 16];
        for packet in TWO {
            let length = loop {
                match consumer.pop(&mut buffer) {
                    Ok(length) => break length,
                    Err(why) => assert_eq!(why, LinkError::WouldBlock),
                }
                if consumer.prepare_to_wait() {
                    own_wakeup.wait();
                }
            };
            assert_eq!(&buffer[..length], packet);
        }
        sender.join().unwrap();
    });
}
