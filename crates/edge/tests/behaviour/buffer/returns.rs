//! Connections that the box holds no longer: the plane is silent, nothing arrives, memory is short, time is over.

use fairwater_edge::Direction::ToGuest;
use fairwater_edge::buffer::{BufferConfig, ReturnReason};
use fairwater_net::Time;

use super::packets::{NEXT, ack, data, held, returned, said, sizes};
use crate::plane::{Box, constant};
use crate::support::{Fields, MSS, ms, syn};

#[test]
fn a_silent_plane_lets_go_and_takes_again() {
    let mut it = held(2);
    it.sent(&data(NEXT, 5));
    it.poll();
    // A loss is known, and hidden.
    it.now = ms(40);
    let duplicate = Fields {
        sack: vec![(NEXT + MSS, NEXT + 2 * MSS)],
        ..ack(NEXT)
    };
    assert_eq!(it.pass(ToGuest, duplicate.packet(ToGuest)), None);
    it.is_alive = false;
    it.now = ms(5_000);
    let end = NEXT + 5 * MSS;
    let duplicate = Fields {
        window: 5_001,
        ..duplicate
    };
    it.received(&duplicate);
    assert_eq!(it.edge.held().0, 0);
    assert_eq!(returned(&it, ReturnReason::Released), 1);
    // What was held leaves, and the guest is told of the loss.
    let left: Vec<_> = it.poll().iter().map(said).collect();
    let to_guest = left.iter().filter(|said| said.direction == ToGuest);
    let sacks: Vec<_> = to_guest.map(|said| said.sack.clone()).collect();
    assert_eq!(sacks, vec![vec![(NEXT + MSS, NEXT + 2 * MSS)]; 3]);
    assert_eq!(
        left.iter().map(|said| said.payload).max(),
        Some(MSS as usize)
    );
    // The guest repairs it, and sees the peer's answers.
    assert!(it.sent(&data(NEXT, 1)).is_some());
    it.received(&ack(end));
    assert!(it.sent(&data(end, 1)).is_some());
    it.is_alive = true;
    it.serve();
    it.received(&ack(end + MSS));
    it.sent(&data(end + MSS, 1));
    it.received(&ack(end + 2 * MSS));
    assert_eq!(it.sent(&data(end + 2 * MSS, 1)), None);
    assert_eq!(sizes(&mut it), [(end + 2 * MSS, MSS as usize)]);
}

/// What the box sends again does not arrive, as after a change of the path's MTU: the guest is left to itself.
#[test]
fn a_guest_is_left_to_itself_where_the_box_makes_no_progress() {
    let mut it = held(4);
    it.sent(&data(NEXT, 3));
    it.poll();
    let mut timers = 0;
    while let Some(at) = it.edge.next_timer() {
        it.now = at;
        it.edge.on_timer(at);
        it.serve();
        it.poll();
        timers += 1;
        assert!(timers < 20);
    }
    assert_eq!(returned(&it, ReturnReason::Stalled), 1);
    assert_eq!(it.edge.held(), (0, 0));
    assert!(it.sent(&data(NEXT, 1)).is_some());
    assert!(it.sent(&data(NEXT + 3 * MSS, 1)).is_some());
}

#[test]
fn memory_is_bounded_and_the_oldest_goes_first() {
    let config = BufferConfig {
        max_flow_bytes: 20 * MSS as usize,
        max_bytes: 500_000,
        ..BufferConfig::default()
    };
    let mut it = Box::buffering(&constant(u64::from(2 * MSS)), config);
    for port in 1_000..1_200 {
        let of = |fields: Fields| Fields {
            guest_port: port,
            ..fields
        };
        it.sent(&of(syn(0, None, true)));
        it.received(&of(syn(0, Some(1), true)));
        it.sent(&of(data(1, 0)));
        // More than the guest was told of, and than is held.
        for n in 0..30 {
            it.sent(&of(data(1 + n * MSS, 1)));
            assert!(
                it.edge.held().1 <= config.max_bytes + 100_000,
                "{:?}",
                it.edge.held()
            );
        }
        it.poll();
        assert!(it.edge.held().1 <= config.max_bytes);
    }
    let statistics = it.edge.buffer_statistics();
    assert_eq!(statistics.begun, 200);
    let (held, _) = it.edge.held();
    assert_eq!(returned(&it, ReturnReason::Memory), 200 - held as u64);
    assert!(held >= 10);
    // Those that went back pass.
    let of_first = Fields {
        guest_port: 1_000,
        ..data(1, 1)
    };
    assert!(it.sent(&of_first).is_some());
}

#[test]
fn a_connection_that_is_forgotten_is_not_held() {
    let mut it = held(2);
    it.sent(&data(NEXT, 5));
    it.poll();
    // Another connection on the same ports, and a long silence.
    it.open_with(&syn(500_000, None, true), &syn(0, Some(500_001), true));
    it.sent(&data(1, 1));
    it.edge.expire(Time::from_millis(100_000_000));
    assert_eq!(it.edge.held(), (0, 0));
    assert_eq!(it.edge.next_timer(), None);
    assert_eq!(it.poll(), []);
}
