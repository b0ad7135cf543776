//! Throughput of a user-space TCP on one core: it sends to the kernel's TCP in another namespace, over a TUN device, or
//! over a pair of virtual Ethernet interfaces through AF_XDP.
//!
//! ```sh
//! sudo cargo run --release -p fairwater-utcp --example throughput -- 10
//! sudo cargo run --release -p fairwater-utcp --example throughput -- 10 xdp
//! ```
//!
//! Prints the rate that arrives and the CPU time of the sending thread. Writing to a TUN device runs the kernel's
//! receiver inside the call: that is in the CPU time. `xdp-native` has the interface's driver run the program.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_datapath::Connection as Plane;
use fairwater_netlink::{Namespace, TunKind, TunOffloads, add_address, bring_up, make_tun};
use fairwater_utcp::EndpointConfig;
use fairwater_utcp::io::{DescriptorPort, Driver, PacketPort, Pause};

const KERNEL: [u8; 4] = [10, 9, 0, 1];
const OURS: [u8; 4] = [10, 9, 0, 2];
const MTU: u16 = 1500;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let lasts = Duration::from_secs(seconds);
    match arguments.next().as_deref() {
        None => over_tun(lasts),
        Some("xdp") => over_xdp(lasts, false),
        Some("xdp-native") => over_xdp(lasts, true),
        Some(other) => Err(format!("`{other}` is neither `xdp` nor `xdp-native`").into()),
    }
}

fn over_tun(lasts: Duration) -> Result<(), Box<dyn Error>> {
    let namespace = Namespace::new()?;
    let (device, listener) = namespace.inside(|| -> std::io::Result<_> {
        let device = make_tun("utcp0", TunKind::Ip, TunOffloads::None)?.0;
        bring_up("utcp0")?;
        add_address("utcp0", KERNEL.into(), 24)?;
        let listener = TcpListener::bind(SocketAddr::from((KERNEL, 80)))?;
        Ok((device, listener))
    })??;
    run(DescriptorPort::new(device, MTU), listener, lasts)
}

#[cfg(feature = "af-xdp")]
fn over_xdp(lasts: Duration, is_native: bool) -> Result<(), Box<dyn Error>> {
    use std::os::fd::AsFd;

    use fairwater_netlink::{
        add_neighbour, complete_checksums, enter, ethernet_address, index_of, make_veth,
    };
    use fairwater_utcp::io::{XdpConfig, XdpPort};

    let (own, kernel) = (Namespace::new()?, Namespace::new()?);
    enter(own.as_fd())?;
    make_veth("utcp0", "kernel0", kernel.as_fd())?;
    bring_up("utcp0")?;
    let mac = ethernet_address("utcp0")?;
    let (next_hop, listener) = kernel.inside(|| -> std::io::Result<_> {
        bring_up("kernel0")?;
        complete_checksums("kernel0")?;
        add_address("kernel0", KERNEL.into(), 24)?;
        add_neighbour("kernel0", OURS.into(), mac)?;
        let listener = TcpListener::bind(SocketAddr::from((KERNEL, 80)))?;
        Ok((ethernet_address("kernel0")?, listener))
    })??;
    let port = XdpPort::new(&XdpConfig {
        interface: index_of("utcp0")?,
        queue: 0,
        own: mac,
        next_hop,
        mtu: MTU,
        is_native,
    })?;
    run(port, listener, lasts)
}

#[cfg(not(feature = "af-xdp"))]
fn over_xdp(_: Duration, _: bool) -> Result<(), Box<dyn Error>> {
    Err("AF_XDP needs `--features af-xdp`".into())
}

fn run<P: PacketPort>(
    port: P,
    listener: TcpListener,
    lasts: Duration,
) -> Result<(), Box<dyn Error>> {
    let receiver = thread::spawn(move || -> std::io::Result<u64> {
        let (mut stream, _) = listener.accept()?;
        let mut block = vec![0; 1 << 18];
        let mut all = 0;
        loop {
            match stream.read(&mut block) {
                Ok(0) | Err(_) => return Ok(all),
                Ok(count) => all += count as u64,
            }
        }
    });
    let config = Driver::<P>::datapath_config("throughput", 1);
    // Without a plane: under the library's Cubic.
    let plane = Plane::seqpacket(config, "/nonexistent/plane", 0);
    let begun = Instant::now();
    let mut driver = Driver::new(EndpointConfig::default(), plane, port, begun)?;
    let to = SocketAddr::from((KERNEL, 80));
    let id = driver.connect(SocketAddr::from((OURS, 40_000)), to, "cubic")?;
    let block = vec![0; 1 << 18];
    let before = thread_cpu();
    while begun.elapsed() < lasts {
        driver.write(id, &block)?;
        driver.turn(Pause::UpTo(Duration::from_millis(1)))?;
    }
    let cpu = thread_cpu().saturating_sub(before);
    let took = begun.elapsed();
    let connection = driver.endpoint().connection(id).ok_or("it is gone")?;
    let counters = connection.counters();
    driver.abort(id)?;
    driver.turn(Pause::None)?;
    let received = receiver.join().map_err(|_| "the receiver panicked")??;
    println!(
        "{:.2} Gbit/s received, {:.0} % of one core, {} of {} segments sent again",
        received as f64 * 8e-9 / took.as_secs_f64(),
        100.0 * cpu.as_secs_f64() / took.as_secs_f64(),
        counters.retransmissions,
        counters.segments,
    );
    Ok(())
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
