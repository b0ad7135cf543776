//! Throughput of a user-space TCP on one core: it sends to the kernel's TCP over a TUN device in a namespace.
//!
//! ```sh
//! sudo cargo run --release -p fairwater-utcp --example throughput -- 10
//! ```
//!
//! Prints the rate that arrives and the CPU time of the sending thread. Writing to a TUN device runs the kernel's
//! receiver inside the call: that is in the CPU time.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_datapath::Connection as Plane;
use fairwater_netlink::{Namespace, TunKind, TunOffloads, add_address, bring_up, make_tun};
use fairwater_utcp::EndpointConfig;
use fairwater_utcp::io::{DescriptorPort, Driver, Pause};

const KERNEL: [u8; 4] = [10, 9, 0, 1];
const OURS: [u8; 4] = [10, 9, 0, 2];
const MTU: u16 = 1500;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(10), |text| text.parse())?;
    let lasts = Duration::from_secs(seconds);
    let namespace = Namespace::new()?;
    let (device, listener) = namespace.inside(|| -> std::io::Result<_> {
        let device = make_tun("utcp0", TunKind::Ip, TunOffloads::None)?.0;
        bring_up("utcp0")?;
        add_address("utcp0", KERNEL.into(), 24)?;
        let listener = TcpListener::bind(SocketAddr::from((KERNEL, 80)))?;
        Ok((device, listener))
    })??;
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

    let config = Driver::<DescriptorPort>::datapath_config("throughput", 1);
    // Without a plane: under the library's Cubic.
    let plane = Plane::seqpacket(config, "/nonexistent/plane", 0);
    let port = DescriptorPort::new(device, MTU);
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
