//! Benchmarks on real kernel TCP. Every figure is a ratio or a difference taken in one run, in
//! alternation, as the median of several rounds with its spread; see `bench/README.md`.

#![expect(clippy::print_stdout, reason = "a command's output")]

mod ack_cost;
mod agent_cpu;
mod bulk;
mod bundle;
mod datapath;
mod edge;
mod fallback;
mod fidelity;
mod flows;
mod hosted;
mod loopback;
mod plane;
mod quic;
mod reaction;
mod record;
mod sim;
mod statistics;
mod switching;
mod transports;
mod utcp;

use clap::{Parser, Subcommand};

/// Benchmarks of Fairwater on this machine's TCP; needs root and Linux 6.10.
#[derive(Debug, Parser)]
#[command(name = "fairwater-bench")]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Kernel ns per ACK of a program, above an empty `cong_control`.
    AckCost(ack_cost::Arguments),
    /// CPU of the plane, and of the machine against the kernel's own algorithm, at many flows.
    AgentCpu(agent_cpu::Arguments),
    /// Throughput through a sendbox, by a TAP device and in the kernel, as a ratio to plain forwarding.
    Bundle(bundle::throughput::Arguments),
    /// How long nothing arrives when a sendbox hangs, and when it is killed.
    BundleGap(bundle::gap::Arguments),
    /// CPU, memory and time to start of boxes with many bundles that send nothing.
    BundleIdle(bundle::idle::Arguments),
    /// ns per ACK of the datapath library, against libccp; needs no root.
    Datapath(datapath::Arguments),
    /// Throughput through the edge at a guest's port, as a ratio to plain forwarding.
    Edge(edge::throughput::Arguments),
    /// CPU of the machine while many connections of a guest pass the edge, and without it.
    EdgeConnections(edge::connections::Arguments),
    /// What established connections keep while a guest opens half-connections, and without the edge.
    EdgeFlood(edge::flood::Arguments),
    /// Connections of a guest while the edge's process is killed and started again and again.
    EdgeRestarts(edge::restarts::Arguments),
    /// Throughput under the fallback after the plane was killed, against the kernel's Cubic.
    Fallback(fallback::Arguments),
    /// Throughput and queueing delay on an emulated path, against the kernel's own.
    Fidelity(fidelity::Arguments),
    /// Memory of many live flows, and the time to attach and detach with them.
    Flows(flows::Arguments),
    /// Throughput over loopback as a ratio to the same algorithm in the kernel.
    Loopback(loopback::Arguments),
    /// Reports per second of one core, against portus; needs no root.
    PlaneRate(plane::RateArguments),
    /// CPU of an idle plane, and of one that hears 6,400 reports in a second; needs no root.
    PlaneCpu(plane::Arguments),
    /// ns per ACK frame of noq's controllers and throughput over loopback, against noq's own Cubic;
    /// needs no root.
    Quic(quic::Arguments),
    /// Transfers over noq while the plane's process is killed and started again and again; needs no
    /// root.
    QuicKills(quic::kills::Arguments),
    /// Packet-hops per second of the simulator on one core, and its memory; needs no root.
    Sim(sim::Arguments),
    /// From an ACK of Linux TCP that is reported to the plane's answer.
    Reaction(reaction::Arguments),
    /// Throughput, stalls and fallbacks of flows whose algorithm is changed again and again.
    Switching(switching::Arguments),
    /// Window of one algorithm on Linux TCP, on a TCP in user space and on QUIC (figure 8 of CCP).
    Transports(transports::Arguments),
    /// A TCP in user space against the kernel's, and against itself in the simulator; needs no BTF.
    Utcp(utcp::Arguments),
    /// From a report to the update that answers it, against portus; needs no root.
    RoundTrip(plane::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().benchmark {
        Benchmark::AckCost(arguments) => ack_cost::run(&arguments),
        Benchmark::AgentCpu(arguments) => agent_cpu::run(&arguments),
        Benchmark::Bundle(arguments) => bundle::throughput::run(&arguments),
        Benchmark::BundleGap(arguments) => bundle::gap::run(&arguments),
        Benchmark::BundleIdle(arguments) => bundle::idle::run(&arguments),
        Benchmark::Datapath(arguments) => datapath::run(&arguments),
        Benchmark::Edge(arguments) => edge::throughput::run(&arguments),
        Benchmark::EdgeConnections(arguments) => edge::connections::run(&arguments),
        Benchmark::EdgeFlood(arguments) => edge::flood::run(&arguments),
        Benchmark::EdgeRestarts(arguments) => edge::restarts::run(&arguments),
        Benchmark::Fallback(arguments) => fallback::run(&arguments),
        Benchmark::Fidelity(arguments) => fidelity::run(&arguments),
        Benchmark::Flows(arguments) => flows::run(&arguments),
        Benchmark::Loopback(arguments) => loopback::run(&arguments),
        Benchmark::PlaneCpu(arguments) => plane::cpu(&arguments),
        Benchmark::PlaneRate(arguments) => plane::rate(&arguments),
        Benchmark::Reaction(arguments) => reaction::run(&arguments),
        Benchmark::Switching(arguments) => switching::run(&arguments),
        Benchmark::Quic(arguments) => quic::run(&arguments),
        Benchmark::QuicKills(arguments) => quic::kills::run(&arguments),
        Benchmark::Sim(arguments) => sim::run(&arguments),
        Benchmark::Transports(arguments) => transports::run(&arguments),
        Benchmark::Utcp(arguments) => utcp::run(&arguments),
        Benchmark::RoundTrip(arguments) => plane::round_trip(&arguments),
    }
}
