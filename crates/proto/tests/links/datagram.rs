//! Unix datagrams.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use fairwater_proto::link::datagram::{Address, Batch, Datapath, PlaneSocket, Presence, Sender};
use fairwater_proto::link::{Link, LinkError, MAX_PACKET, Poller};
use tempfile::tempdir;

use crate::support::{LONG, packet, wait_for};

/// The packets of a batch, and who can be answered.
fn received(agent: &mut PlaneSocket, batch: &mut Batch) -> Vec<(Option<Sender>, Option<Vec<u8>>)> {
    let batch = agent.receive(batch).unwrap();
    assert_eq!(batch.is_empty(), batch.iter().len() == 0);
    batch
        .iter()
        .map(|(from, bytes)| (from.cloned(), bytes.map(<[u8]>::to_vec)))
        .collect()
}

/// A socket of this process's user.
fn sender(path: impl AsRef<Path>) -> Sender {
    Sender {
        address: Address::new(path).unwrap(),
        user: rustix::process::getuid().as_raw(),
    }
}

#[test]
fn an_agent_hears_many_and_answers_each() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("ccp/agent");
    let mut agent = PlaneSocket::bind(&path).unwrap();
    assert_eq!(agent.path(), path);
    let mut batch = Batch::new(8, MAX_PACKET);
    assert_eq!(received(&mut agent, &mut batch), []);

    let mut datapaths: Vec<_> = (0..5)
        .map(|i| Datapath::bind(directory.path().join(format!("dp{i}")), &path).unwrap())
        .collect();
    for (i, datapath) in datapaths.iter_mut().enumerate() {
        datapath.send(&packet(i, 96 + i)).unwrap();
    }
    let packets = received(&mut agent, &mut batch);
    assert_eq!(packets.len(), 5);
    for (i, (from, bytes)) in packets.iter().enumerate() {
        assert_eq!(bytes.as_ref(), Some(&packet(i, 96 + i)));
        let from = from.as_ref().unwrap();
        let own = directory.path().join(format!("dp{i}"));
        assert_eq!(*from, sender(&own));
        assert_eq!(from.address.to_string(), own.to_str().unwrap());
        agent
            .peer(from)
            .unwrap()
            .send(&packet(100 + i, 20))
            .unwrap();
    }
    for (i, datapath) in datapaths.iter_mut().enumerate() {
        assert_eq!(wait_for(datapath), packet(100 + i, 20));
    }
    datapaths[0].send(&packet(9, MAX_PACKET)).unwrap();
    let packets = received(&mut agent, &mut batch);
    assert_eq!(packets[0].1.as_ref(), Some(&packet(9, MAX_PACKET)));
}

#[test]
fn a_burst_comes_in_batches_and_goes_until_the_queue_is_full() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("agent");
    let mut agent = PlaneSocket::bind(&path).unwrap();
    let own = directory.path().join("dp");
    let mut datapath = Datapath::bind(&own, &path).unwrap();
    let mut sent = 0;
    let full = loop {
        match datapath.send(&packet(sent, 16)) {
            Ok(()) => sent += 1,
            Err(why) => break why,
        }
    };
    assert_eq!(full, LinkError::WouldBlock);
    let mut batch = Batch::new(4, 64);
    let mut next = 0;
    loop {
        let packets = received(&mut agent, &mut batch);
        if packets.is_empty() {
            break;
        }
        assert!(packets.len() == 4 || next + packets.len() == sent);
        for (_, bytes) in packets {
            assert_eq!(bytes, Some(packet(next, 16)));
            next += 1;
        }
    }
    assert_eq!(next, sent);

    // The other way, until nothing more goes.
    let mut peer = agent.peer(&sender(&own)).unwrap();
    let packets: Vec<_> = (0..64).map(|i| packet(i, 16)).collect();
    let mut sent = 0;
    let full = loop {
        match peer.send(&packets[sent % 64]) {
            Ok(()) => sent += 1,
            Err(why) => break why,
        }
    };
    assert_eq!(full, LinkError::WouldBlock);
    for i in 0..sent {
        let mut buffer = [0; 64];
        let length = datapath.receive(&mut buffer).unwrap();
        assert_eq!(buffer[..length], packets[i % 64]);
    }
    let long = vec![0; MAX_PACKET + 1];
    assert_eq!(peer.send(&long), Err(LinkError::TooLong));
}

#[test]
fn one_who_does_not_read_delays_no_other() {
    let directory = tempdir().unwrap();
    let agent = PlaneSocket::bind(directory.path().join("agent")).unwrap();
    let own = |name: &str| directory.path().join(name);
    let peer = |name: &str| agent.peer(&sender(own(name))).unwrap();
    let _deaf = Datapath::bind(own("deaf"), agent.path()).unwrap();
    let mut other = Datapath::bind(own("other"), agent.path()).unwrap();
    let connected = UnixDatagram::bind(own("connected")).unwrap();
    connected.connect(agent.path()).unwrap();
    let mut deaf = peer("deaf");
    while deaf.send(&packet(1, 20_000)) != Err(LinkError::WouldBlock) {}
    peer("other").send(b"!").unwrap();
    assert_eq!(wait_for(&mut other), b"!");

    // Nor does one that hears the agent's own socket alone.
    let mut sent = 0;
    while peer("connected").send(b"?").is_ok() {
        sent += 1;
    }
    peer("other").send(b"!").unwrap();
    assert_eq!(wait_for(&mut other), b"!");
    for _ in 0..sent {
        assert_eq!(connected.recv(&mut [0; 8]).unwrap(), 1);
    }
}

/// The kernel charges all of them to the plane's one socket.
#[test]
fn connected_datapaths_that_do_not_read_delay_no_connected_datapath_that_does() {
    let directory = tempdir().unwrap();
    let plane = PlaneSocket::bind(directory.path().join("plane")).unwrap();
    let connect = |name: &str| {
        let path = directory.path().join(name);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.connect(plane.path()).unwrap();
        socket.set_nonblocking(true).unwrap();
        (socket, plane.peer(&sender(path)).unwrap())
    };
    let mut stuck: Vec<_> = (0..20).map(|i| connect(&format!("stuck{i}"))).collect();
    let (reader, mut to_reader) = connect("reader");
    for round in 0..2_000 {
        for (_, peer) in &mut stuck {
            let _ = peer.send(&packet(round, 40));
        }
        let expected = packet(round, 40 + round);
        assert_eq!(to_reader.send(&expected), Ok(()), "round {round}");
        let mut buffer = [0; 4096];
        let length = reader.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], expected);
    }
    // Who reads again is sent to again, from where it stopped.
    let (socket, peer) = &mut stuck[7];
    assert_eq!(peer.send(b"more"), Err(LinkError::WouldBlock));
    let unread = std::iter::from_fn(|| socket.recv(&mut [0; 64]).ok()).count();
    assert!((1..100).contains(&unread), "{unread}");
    assert_eq!(peer.send(b"more"), Ok(()));
}

/// A window that is read as a whole, and never packet by packet.
#[test]
fn a_connected_datapath_that_reads_in_bursts_is_sent_every_packet_in_order() {
    let directory = tempdir().unwrap();
    let plane = PlaneSocket::bind(directory.path().join("plane")).unwrap();
    let own = directory.path().join("own");
    let socket = UnixDatagram::bind(&own).unwrap();
    socket.connect(plane.path()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut peer = plane.peer(&sender(own)).unwrap();
    let (mut sent, mut read) = (0, 0);
    while sent < 3_000 {
        let packet = |index: usize| packet(index, 16 + index % 5_000);
        while sent < 3_000 && peer.send(&packet(sent)).is_ok() {
            sent += 1;
        }
        assert!(read < sent, "stuck at {sent}");
        let mut buffer = [0; 8192];
        while let Ok(length) = socket.recv(&mut buffer) {
            assert_eq!(buffer[..length], packet(read));
            read += 1;
        }
        assert_eq!(read, sent);
    }
}

#[test]
fn a_closed_socket_is_told_from_one_that_is_there() {
    let directory = tempdir().unwrap();
    let plane = PlaneSocket::bind(directory.path().join("plane")).unwrap();
    for connects in [false, true] {
        let own = directory.path().join(format!("own{connects}"));
        let socket = UnixDatagram::bind(&own).unwrap();
        if connects {
            socket.connect(plane.path()).unwrap();
        }
        let peer = plane.peer(&sender(&own)).unwrap();
        assert_eq!(peer.presence().unwrap(), Presence::Present);
        drop(socket);
        assert_eq!(peer.presence().unwrap(), Presence::Closed);
        std::fs::remove_file(&own).unwrap();
        assert_eq!(peer.presence().unwrap(), Presence::Unlinked);
    }
}

#[test]
fn odd_senders_are_told_apart() {
    let directory = tempdir().unwrap();
    let mut agent = PlaneSocket::bind(directory.path().join("agent")).unwrap();
    let mut poller = Poller::new().unwrap();
    poller.add(&agent, 3).unwrap();
    let unnamed = UnixDatagram::unbound().unwrap();
    unnamed.send_to(b"who am I", agent.path()).unwrap();
    unnamed.send_to(b"", agent.path()).unwrap();
    unnamed.send_to(&[0; 65], agent.path()).unwrap();
    assert_eq!(poller.wait(Some(LONG)).unwrap().collect::<Vec<_>>(), [3]);
    let packets = received(&mut agent, &mut Batch::new(8, 64));
    let expected = [
        (None, Some(b"who am I".to_vec())),
        (None, Some(vec![])),
        (None, None),
    ];
    assert_eq!(packets, expected);
}

#[test]
fn each_finds_the_other_after_a_restart() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("agent");
    let own = directory.path().join("dp");
    let sender = sender(&own);
    let mut datapath = Datapath::bind(&own, &path).unwrap();
    assert_eq!(datapath.send(b"there?"), Err(LinkError::Gone));
    for _ in 0..2 {
        let mut agent = PlaneSocket::bind(&path).unwrap();
        datapath.send(b"there?").unwrap();
        let packets = received(&mut agent, &mut Batch::new(8, 64));
        assert_eq!(packets, [(Some(sender.clone()), Some(b"there?".to_vec()))]);
        let mut peer = agent.peer(&sender).unwrap();
        assert_eq!(*peer.sender(), sender);
        peer.send(b"yes").unwrap();
        assert_eq!(wait_for(&mut datapath), b"yes");
        drop(agent);
        assert_eq!(datapath.send(b"there?"), Err(LinkError::Gone));

        drop(datapath);
        assert!(!own.exists());
        assert_eq!(peer.send(b"bye"), Err(LinkError::Gone));
        datapath = Datapath::bind(&own, &path).unwrap();
        peer.send(b"again").unwrap();
        assert_eq!(wait_for(&mut datapath), b"again");
    }
}

#[test]
fn a_path_left_behind_is_replaced_and_one_in_use_is_not() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("agent");
    drop(UnixDatagram::bind(&path).unwrap());
    assert!(path.exists());
    let agent = PlaneSocket::bind(&path).unwrap();
    let in_use = PlaneSocket::bind(&path).unwrap_err();
    assert_eq!(in_use.kind(), std::io::ErrorKind::AddrInUse);
    UnixDatagram::unbound()
        .unwrap()
        .send_to(b"", &path)
        .unwrap();

    // What another put in its place stays.
    std::fs::remove_file(&path).unwrap();
    let _other = UnixDatagram::bind(&path).unwrap();
    drop(agent);
    assert!(path.exists());
}

/// The user of a thread of its own (each thread has its own credentials).
const ANOTHER_USER: u32 = 65_534;

/// Runs something as another user; `None` without the rights to.
fn as_another_user<T: Send>(action: impl FnOnce() -> T + Send) -> Option<T> {
    let user = Some(rustix::process::Uid::from_raw(ANOTHER_USER));
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            rustix::thread::set_thread_res_uid(user, user, user).ok()?;
            Some(action())
        });
        thread.join().unwrap()
    })
}

/// Needs root, to act as another user.
#[test]
fn two_users_at_one_path_are_two_senders_and_the_owner_of_the_socket_is_answered() {
    let directory = tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    // The plane's own directory must not be open to others.
    let plane_directory = tempdir().unwrap();
    fs::set_permissions(plane_directory.path(), Permissions::from_mode(0o755)).unwrap();
    let mut plane = PlaneSocket::bind(plane_directory.path().join("plane")).unwrap();
    let plane_path = plane.path().to_owned();
    fs::set_permissions(&plane_path, Permissions::from_mode(0o666)).unwrap();
    let own = directory.path().join("own");

    let first = UnixDatagram::bind(&own).unwrap();
    first.send_to(b"first", &plane_path).unwrap();
    let mut peer = plane.peer(&sender(&own)).unwrap();
    let Some(second) = as_another_user(|| {
        fs::remove_file(&own).unwrap();
        let second = UnixDatagram::bind(&own).unwrap();
        second.send_to(b"second", &plane_path).unwrap();
        second
    }) else {
        eprintln!("not root: nothing was tested");
        return;
    };
    let second_sender = Sender {
        user: ANOTHER_USER,
        ..sender(&own)
    };
    let packets = received(&mut plane, &mut Batch::new(8, 64));
    let expected = [
        (Some(sender(&own)), Some(b"first".to_vec())),
        (Some(second_sender.clone()), Some(b"second".to_vec())),
    ];
    assert_eq!(packets, expected);

    // The first socket is open still, though its path is the second's.
    peer.send(b"to the first").unwrap();
    assert_eq!(peer.presence().unwrap(), Presence::Closed);
    assert!(plane.peer(&sender(&own)).is_err());
    drop(first);
    assert_eq!(peer.send(b"to the first"), Err(LinkError::Gone));

    let mut peer = plane.peer(&second_sender).unwrap();
    peer.send(b"to the second").unwrap();
    let mut buffer = [0; 64];
    let length = second.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"to the second");
}
