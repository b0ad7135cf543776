//! A user-space TCP against the kernel's over AF_XDP, on a pair of virtual Ethernet interfaces. Needs root; skipped
//! elsewhere, unless `FAIRWATER_REQUIRE_PRIVILEGED=1`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use fairwater_datapath::Connection as Plane;
use fairwater_netlink::{
    Namespace, add_address, add_neighbour, bring_up, complete_checksums, enter, ethernet_address,
    index_of, make_veth,
};
use fairwater_utcp::EndpointConfig;
use fairwater_utcp::io::{Driver, Pause, XdpConfig, XdpPort};

const KERNEL: [u8; 4] = [10, 9, 0, 1];
const OURS: [u8; 4] = [10, 9, 0, 2];
const BYTES: usize = 3_000_000;

/// The port, a listener of the kernel's, and its namespace. The calling thread enters another.
fn site(is_native: bool) -> io::Result<(XdpPort, XdpConfig, TcpListener, Namespace)> {
    let (own, kernel) = (Namespace::new()?, Namespace::new()?);
    enter(own.as_fd())?;
    make_veth("utcp0", "kernel0", kernel.as_fd())?;
    bring_up("utcp0")?;
    let mac = ethernet_address("utcp0")?;
    let (next_hop, listener) = kernel.inside(|| -> io::Result<_> {
        bring_up("kernel0")?;
        complete_checksums("kernel0")?;
        add_address("kernel0", KERNEL.into(), 24)?;
        add_neighbour("kernel0", OURS.into(), mac)?;
        let listener = TcpListener::bind(SocketAddr::from((KERNEL, 80)))?;
        Ok((ethernet_address("kernel0")?, listener))
    })??;
    let config = XdpConfig {
        interface: index_of("utcp0")?,
        queue: 0,
        own: mac,
        next_hop,
        mtu: 1500,
        is_native,
    };
    Ok((XdpPort::new(&config)?, config, listener, kernel))
}

/// Runs a test in a thread of its own, whose namespace the test changes.
fn with_site(is_native: bool, test: impl FnOnce(XdpPort, XdpConfig, TcpListener) + Send + 'static) {
    let in_thread = move || match site(is_native) {
        Ok((port, config, listener, _kernel)) => test(port, config, listener),
        Err(error) => {
            let required = std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED");
            assert!(required.is_none_or(|value| value != "1"), "{error}");
            eprintln!("skipped: no AF_XDP socket can be made: {error}");
        }
    };
    thread::spawn(in_thread).join().unwrap();
}

fn byte_at(offset: usize) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 16) as u8
}

fn content() -> Vec<u8> {
    (0..BYTES).map(byte_at).collect()
}

/// Sends to the kernel, which sends all back.
fn exchange(port: XdpPort, listener: TcpListener) {
    let echo = thread::spawn(move || {
        let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        all == content()
    });
    let config = Driver::<XdpPort>::datapath_config("utcp-xdp-test", 1);
    let plane = Plane::seqpacket(config, "/nonexistent/plane", 0);
    let begun = Instant::now();
    let mut driver = Driver::new(EndpointConfig::default(), plane, port, begun).unwrap();
    let from = SocketAddr::from((OURS, 40_000));
    let id = driver.connect(from, (KERNEL, 80).into(), "cubic").unwrap();
    let sent = content();
    let (mut written, mut read) = (0, Vec::new());
    let mut buffer = vec![0; 1 << 16];
    while !driver.endpoint().connection(id).unwrap().is_read_finished() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it hangs");
        if written < BYTES {
            written += driver.write(id, &sent[written..]).unwrap();
            if written == BYTES {
                driver.endpoint_mut().shutdown(id).unwrap();
            }
        }
        driver.turn(Pause::UpTo(Duration::from_millis(5))).unwrap();
        let count = driver.read(id, &mut buffer).unwrap();
        read.extend_from_slice(&buffer[..count]);
    }
    assert!(echo.join().unwrap(), "the kernel received something else");
    assert!(read == sent, "something else came back");
    // What is no TCP is the kernel's neighbour discovery.
    let statistics = driver.endpoint().statistics();
    assert_eq!(
        (statistics.bad_checksums, statistics.stray),
        (0, 0),
        "{statistics:?}"
    );
}

#[test]
fn the_kernel_answers_over_generic_xdp() {
    with_site(false, |port, _, listener| exchange(port, listener));
}

#[test]
fn the_kernel_answers_over_native_xdp() {
    with_site(true, |port, _, listener| exchange(port, listener));
}

/// Nothing of a port is left: the queue can be taken again, and only once at a time.
#[test]
fn a_queue_is_free_again_when_its_port_is_gone() {
    with_site(false, |port, config, listener| {
        assert!(XdpPort::new(&config).is_err(), "the queue was given twice");
        drop(port);
        let begin = Instant::now();
        let again = loop {
            match XdpPort::new(&config) {
                Ok(port) => break port,
                // The kernel lets go of a socket's queue some time after it is closed.
                Err(error) => assert!(begin.elapsed() < Duration::from_secs(10), "{error}"),
            }
            thread::sleep(Duration::from_millis(10));
        };
        exchange(again, listener);
    });
}

#[test]
fn what_cannot_be_had_is_refused() {
    with_site(false, |port, config, _| {
        drop(port);
        for wrong in [
            XdpConfig {
                mtu: 9000,
                ..config
            },
            XdpConfig { queue: 7, ..config },
            XdpConfig {
                interface: 9999,
                ..config
            },
        ] {
            assert!(XdpPort::new(&wrong).is_err(), "{wrong:?}");
        }
    });
}
