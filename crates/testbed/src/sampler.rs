//! The state of TCP sockets, by `inet_diag`: what the kernel itself says of them.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_net::Time;
use fairwater_results::{CongestionState, SocketSample};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags, nlas::Nla,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use crate::clock::{Clock, thread_cpu};
use crate::packet::FIRST_PORT;
use fairwater_netlink::{Namespace, Netlink, enter};

/// Samples of each measured flow, in order of time.
pub(crate) type Samples = Vec<Vec<SocketSample>>;

/// A thread that samples the measured flows of the hosts that send. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    samples: Arc<Mutex<Samples>>,
    thread: Option<JoinHandle<io::Result<Duration>>>,
}

impl Sampler {
    pub(crate) fn start(
        hosts: &[Namespace],
        clock: Clock,
        flows: usize,
        ipv6: bool,
        period: Duration,
    ) -> io::Result<Self> {
        let namespaces = hosts.iter().map(|host| host.as_fd().try_clone_to_owned());
        let namespaces = namespaces.collect::<io::Result<Vec<_>>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let samples = Arc::new(Mutex::new(vec![Vec::new(); flows]));
        let (seen_stop, shared) = (Arc::clone(&stop), Arc::clone(&samples));
        let thread = thread::Builder::new()
            .name("lab-sampler".to_owned())
            .spawn(move || {
                // A socket stays in the namespace in which it was made.
                let of_each = namespaces.iter().map(|namespace| {
                    enter(namespace.as_fd())?;
                    Netlink::new(NETLINK_SOCK_DIAG)
                });
                let mut of_each = of_each.collect::<io::Result<Vec<_>>>()?;
                while !seen_stop.load(Ordering::Relaxed) {
                    let at = clock.now();
                    let mut sampled = Vec::new();
                    for netlink in &mut of_each {
                        sampled.extend(sample(netlink, ipv6, at)?);
                    }
                    let mut series = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    for (port, sample) in sampled {
                        let flow = port.checked_sub(FIRST_PORT).map(usize::from);
                        if let Some(flow) = flow.and_then(|flow| series.get_mut(flow)) {
                            flow.push(sample);
                        }
                    }
                    drop(series);
                    thread::sleep(period);
                }
                Ok(thread_cpu())
            })?;
        Ok(Sampler {
            stop,
            samples,
            thread: Some(thread),
        })
    }

    /// The last sample of a flow.
    pub(crate) fn latest(&self, flow: usize) -> Option<SocketSample> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.get(flow)?.last().cloned()
    }

    /// Stops; all samples, and the CPU time that taking them took.
    ///
    /// # Errors
    /// What made it fail.
    pub(crate) fn finish(mut self) -> io::Result<(Samples, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        let cpu = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result?,
            _ => return Err(io::Error::other("the sampler's thread panicked")),
        };
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((std::mem::take(&mut *samples), cpu))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its failure was seen, or nobody is left to see it.
            let _ = thread.join();
        }
    }
}

/// The connected sockets of the netlink socket's namespace, by local port.
fn sample(netlink: &mut Netlink, ipv6: bool, at: Time) -> io::Result<Vec<(u16, SocketSample)>> {
    let request = InetRequest {
        family: if ipv6 { AF_INET6 } else { AF_INET },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO | ExtensionFlags::CONG,
        states: StateFlags::ESTABLISHED,
        socket_id: if ipv6 {
            SocketId::new_v6()
        } else {
            SocketId::new_v4()
        },
    };
    let mut sampled = Vec::new();
    netlink.dump(SockDiagMessage::InetRequest(request), |answer| {
        if let SockDiagMessage::InetResponse(response) = answer
            && let Some(sample) = read(&response, at)
        {
            sampled.push((response.header.socket_id.source_port, sample));
        }
    })?;
    Ok(sampled)
}

fn read(response: &InetResponse, at: Time) -> Option<SocketSample> {
    let mut congestion_control = String::new();
    let mut tcp_info = None;
    for attribute in &response.nlas {
        match attribute {
            Nla::Congestion(name) => congestion_control.clone_from(name),
            Nla::TcpInfo(info) => tcp_info = Some(info),
            _ => {}
        }
    }
    let info = tcp_info?;
    Some(SocketSample {
        at,
        congestion_control,
        cwnd_packets: info.snd_cwnd,
        mss_bytes: info.snd_mss,
        // The kernel's word for "none yet".
        ssthresh_packets: (info.snd_ssthresh < 0x7fff_ffff).then_some(info.snd_ssthresh),
        state: CongestionState::from_kernel(info.ca_state),
        srtt_us: info.rtt,
        // The kernel's word for "no limit" is all ones.
        pacing_bps: (info.pacing_rate != u64::MAX).then(|| info.pacing_rate.saturating_mul(8)),
        delivery_bps: info.delivery_rate.saturating_mul(8),
        retransmissions: info.total_retrans,
    })
}
