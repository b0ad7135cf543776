//! The ring against a queue, and against peers that write what they like. Run under Miri too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;

use super::memory::{Heap, Memory, Ordering};
use super::spsc::{Consumer, Producer};
use crate::link::{LinkError, MAX_PACKET};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 512 },
        // Miri has no files to keep failures in.
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn ring(words: usize) -> (Arc<Heap>, Producer<Arc<Heap>>, Consumer<Arc<Heap>>) {
    let heap = Arc::new(Heap::new(words));
    let producer = Producer::new(Arc::clone(&heap));
    let consumer = Consumer::new(Arc::clone(&heap));
    (heap, producer, consumer)
}

#[derive(Debug, Clone)]
enum Step {
    Push(Vec<u8>),
    Pop(usize),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..40).prop_map(Step::Push),
        4 => (0..64usize).prop_map(Step::Pop),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn it_is_a_queue_of_bounded_room(power in 0..6u32, steps in vec(step(), 1..if cfg!(miri) { 30 } else { 200 })) {
        let words = 1usize << power;
        let (_, mut producer, mut consumer) = ring(words);
        let mut model = VecDeque::new();
        let mut waits = false;
        for step in steps {
            let used: usize = model.iter().map(|p: &Vec<u8>| 1 + p.len().div_ceil(8)).sum();
            prop_assert_eq!(consumer.is_pending(), !model.is_empty());
            match step {
                Step::Push(packet) => {
                    let needed = 1 + packet.len().div_ceil(8);
                    let expected = if needed > words {
                        Err(LinkError::TooLong)
                    } else if used + needed > words {
                        Err(LinkError::WouldBlock)
                    } else {
                        Ok(waits)
                    };
                    prop_assert_eq!(producer.push(&packet), expected);
                    if expected.is_ok() {
                        model.push_back(packet);
                        waits = false;
                    }
                }
                Step::Pop(room) => {
                    let mut buffer = vec![0; room];
                    let popped = consumer.pop(&mut buffer);
                    match model.pop_front() {
                        None => prop_assert_eq!(popped, Err(LinkError::WouldBlock)),
                        Some(packet) if packet.len() > room => {
                            prop_assert_eq!(popped, Err(LinkError::TooLong));
                        }
                        Some(packet) => {
                            prop_assert_eq!(popped, Ok(packet.len()));
                            prop_assert_eq!(&buffer[..packet.len()], &packet[..]);
                        }
                    }
                }
                Step::Wait => {
                    waits = consumer.prepare_to_wait();
                    prop_assert_eq!(waits, model.is_empty());
                }
            }
        }
    }

    /// Whatever a peer writes, each end reads within bounds, and once it has seen that the peer
    /// breaks the rules it says so for good.
    #[test]
    fn a_peer_that_writes_anything_breaks_its_own_ring_alone(
        pushed in vec(vec(any::<u8>(), 0..20), 0..6),
        tail in prop_oneof![0..64u64, any::<u64>(), Just(u64::MAX)],
        head in prop_oneof![0..64u64, any::<u64>(), Just(u64::MAX)],
        waiting: u32,
        words in vec((0..16usize, prop_oneof![0..200u64, any::<u64>()]), 0..16),
    ) {
        let (heap, mut producer, mut consumer) = ring(16);
        for packet in &pushed {
            let _ = producer.push(packet);
        }
        let control = heap.control();
        control.tail.0.store(tail, Ordering::Relaxed);
        control.head.0.store(head, Ordering::Relaxed);
        control.waiting.0.store(waiting, Ordering::Relaxed);
        for (at, word) in words {
            heap.words()[at].store(word, Ordering::Relaxed);
        }
        let mut buffer = [0; 128];
        let mut ended = None;
        for _ in 0..40 {
            let popped = consumer.pop(&mut buffer);
            if let Some(ended) = ended {
                prop_assert_eq!(popped, Err(ended));
            }
            match popped {
                Ok(length) => prop_assert!(length <= 15 * 8),
                Err(LinkError::TooLong) => {}
                Err(why) => ended = Some(why),
            }
        }
        prop_assert!(ended.is_some(), "a ring holds finitely many packets");
        prop_assert!(tail <= 16 || ended == Some(LinkError::Broken));
        let mut broken = false;
        for _ in 0..40 {
            let pushed = producer.push(b"12345678");
            prop_assert!(!broken || pushed == Err(LinkError::Broken));
            broken = pushed == Err(LinkError::Broken);
        }
    }
}

#[test]
fn a_length_beyond_what_was_published_is_a_breach() {
    for length in [9, 17, 24, MAX_PACKET as u64 + 1, u64::MAX - 8, u64::MAX] {
        let (heap, mut producer, mut consumer) = ring(64);
        producer.push(b"12345678").unwrap();
        heap.words()[0].store(length, Ordering::Relaxed);
        let mut buffer = [0; 1024];
        assert_eq!(
            consumer.pop(&mut buffer),
            Err(LinkError::Broken),
            "{length}"
        );
        assert!(consumer.is_pending());
        assert!(!consumer.prepare_to_wait());
    }
}

#[test]
fn threads_pass_packets_in_order() {
    let count: usize = if cfg!(miri) { 60 } else { 200_000 };
    let (_, mut producer, mut consumer) = ring(16);
    let packet = |i: usize| vec![i as u8; i % 50];
    let sender = thread::spawn(move || {
        for i in 0..count {
            while producer.push(&packet(i)).is_err() {
                thread::yield_now();
            }
        }
    });
    let mut buffer = [0; 64];
    for i in 0..count {
        let length = loop {
            match consumer.pop(&mut buffer) {
                Ok(length) => break length,
                Err(why) => assert_eq!(why, LinkError::WouldBlock),
            }
            thread::yield_now();
        };
        assert_eq!(buffer[..length], packet(i));
    }
    sender.join().unwrap();
}
