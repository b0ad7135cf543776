//! What holds of every link.

use std::time::Duration;

use fairwater_proto::link::{Link, LinkError, MAX_PACKET, Poller};

/// Longer than any wait that ends well.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A packet of that length, told apart by its number.
pub(crate) fn packet(number: usize, length: usize) -> Vec<u8> {
    let bytes = (0..length).map(|i| (i ^ number) as u8);
    bytes.collect()
}

/// Waits until a packet is there, and receives it.
pub(crate) fn wait_for(link: &mut dyn Link) -> Vec<u8> {
    let mut poller = Poller::new().unwrap();
    poller.add(link, 7).unwrap();
    let mut buffer = vec![0; MAX_PACKET];
    let received = loop {
        match link.receive(&mut buffer) {
            Err(LinkError::WouldBlock) => {}
            received => break received,
        }
        if link.prepare_to_wait() {
            let tokens: Vec<_> = poller.wait(Some(LONG)).unwrap().collect();
            assert_eq!(tokens.first(), Some(&7), "nothing came");
        }
    };
    poller.remove(link).unwrap();
    buffer.truncate(received.unwrap());
    buffer
}

/// Both ends of a link, freshly joined.
pub(crate) fn behaves(a: &mut dyn Link, b: &mut dyn Link) {
    let mut buffer = vec![0; MAX_PACKET];
    assert_eq!(a.receive(&mut buffer), Err(LinkError::WouldBlock));
    assert_eq!(b.receive(&mut buffer), Err(LinkError::WouldBlock));

    // In order, both ways, of every length.
    for length in [1, 7, 8, 9, 96, 1024, 65_537, MAX_PACKET] {
        a.send(&packet(1, length)).unwrap();
        assert_eq!(wait_for(b), packet(1, length));
        b.send(&packet(2, length)).unwrap();
        b.send(&packet(3, 5)).unwrap();
        assert_eq!(wait_for(a), packet(2, length));
        assert_eq!(wait_for(a), packet(3, 5));
    }
    assert_eq!(a.send(&vec![0; MAX_PACKET + 1]), Err(LinkError::TooLong));

    // A peer that does not read is told of, and everything that was sent arrives.
    let mut sent = 0;
    let full = loop {
        match a.send(&packet(sent, 100 + sent % 50)) {
            Ok(()) => sent += 1,
            Err(why) => break why,
        }
    };
    assert_eq!(full, LinkError::WouldBlock);
    assert!(sent > 0);
    for number in 0..sent {
        let length = b.receive(&mut buffer).unwrap();
        assert_eq!(buffer[..length], packet(number, 100 + number % 50));
    }
    assert_eq!(b.receive(&mut buffer), Err(LinkError::WouldBlock));
    a.send(b"room again").unwrap();

    // What does not fit the buffer is lost, alone.
    a.send(b"x").unwrap();
    assert_eq!(b.receive(&mut [0; 4]), Err(LinkError::TooLong));
    assert_eq!(b.receive(&mut [0; 4]), Ok(1));
}
