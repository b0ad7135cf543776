//! What the two ends tell each other: ECN in the handshake, and the window.

use fairwater_net::Time;
use fairwater_tcp::{Controls, Ecn, Receiver, Segment, Sender, TcpConfig};

const MSS: u64 = 1_000;

fn config(ecn: Ecn) -> TcpConfig {
    TcpConfig {
        mss: 1_000,
        ecn,
        ..TcpConfig::default()
    }
}

/// After a handshake of two ends that are willing to use these kinds of ECN: whether data may be marked, and whether
/// a mark is echoed.
fn agreed(of_sender: Ecn, of_receiver: Ecn) -> (bool, bool) {
    let now = Time::ZERO;
    let mut sender = Sender::new(&config(of_sender), now);
    let mut receiver = Receiver::new(&config(of_receiver), now);
    sender.write(10 * MSS);
    let syn = sender.poll_transmit(now).unwrap();
    receiver.on_segment(now, &syn, false);
    let answer = receiver.poll_transmit(now).unwrap();
    assert!(syn.syn && answer.syn);
    sender.on_segment(now, &answer);
    let data = sender.poll_transmit(now).unwrap();
    receiver.on_segment(now, &data, true);
    let ack = receiver.poll_transmit(now).unwrap();
    (data.ect, ack.ece)
}

/// RFC 3168 §6.1.1: both ends must be willing.
#[test]
fn there_is_ecn_only_if_both_ends_are_willing() {
    for kind in [Ecn::Classic, Ecn::Dctcp] {
        assert_eq!(agreed(kind, kind), (true, true), "{kind:?}");
        assert_eq!(agreed(Ecn::Off, kind), (false, false), "{kind:?}");
        assert_eq!(agreed(kind, Ecn::Off), (false, false), "{kind:?}");
    }
    assert_eq!(agreed(Ecn::Off, Ecn::Off), (false, false));
}

/// A SYN that comes once more, without the offer that was lost on its way or taken back, changes nothing.
#[test]
fn the_first_syn_that_arrives_decides() {
    let now = Time::ZERO;
    let mut receiver = Receiver::new(&config(Ecn::Classic), now);
    let offer = Segment {
        syn: true,
        ece: true,
        cwr: true,
        ..Segment::default()
    };
    let bare = Segment {
        syn: true,
        ..Segment::default()
    };
    for syn in [&offer, &bare] {
        receiver.on_segment(now, syn, false);
        assert!(receiver.poll_transmit(now).unwrap().ece);
    }
    let mut receiver = Receiver::new(&config(Ecn::Classic), now);
    for syn in [&bare, &offer] {
        receiver.on_segment(now, syn, false);
        assert!(!receiver.poll_transmit(now).unwrap().ece);
    }
}

/// RFC 9293 §3.8.6: who has told of a window should not take it back, but a sender must put up with it. As in Linux
/// only a later acknowledgement does.
#[test]
fn a_later_acknowledgement_may_take_some_of_the_window_back() {
    let now = Time::ZERO;
    let mut sender = Sender::new(
        &TcpConfig {
            handshake: false,
            receive_window: 20 * MSS,
            ..config(Ecn::Off)
        },
        now,
    );
    sender.write(1 << 20);
    sender.set_controls(Controls {
        cwnd: 100 * MSS,
        rate: 0,
    });
    let mut send = |sender: &mut Sender| std::iter::from_fn(|| sender.poll_transmit(now)).count();
    assert_eq!(send(&mut sender), 20);
    let ack = |ack, window| Segment {
        ack: ack * MSS,
        window: window * MSS,
        ..Segment::default()
    };
    sender.on_segment(now, &ack(10, 20));
    assert_eq!((sender.send_window(), send(&mut sender)), (20 * MSS, 10));
    sender.on_segment(now, &ack(10, 15));
    assert_eq!(sender.send_window(), 20 * MSS);
    sender.on_segment(now, &ack(12, 10));
    assert_eq!((sender.send_window(), send(&mut sender)), (10 * MSS, 0));
    sender.on_segment(now, &ack(12, 19));
    assert_eq!((sender.send_window(), send(&mut sender)), (19 * MSS, 1));
}
