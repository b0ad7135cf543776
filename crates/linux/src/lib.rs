//! Linux TCP as a datapath, through eBPF struct_ops.
//!
//! [`LinuxTcp`] is a direct datapath of a [`fairwater_service::Server`]. Each algorithm of its plane is registered as a Linux congestion control
//! under its own name (`fw_cubic`), which `setsockopt(TCP_CONGESTION)`, the sysctl
//! `net.ipv4.tcp_congestion_control` and `ip route … congctl` select. There is no kernel module
//! and no clang at run time: the kernel side (`bpf/`) is fixed, and each datapath program is
//! generated as raw eBPF and tail-called for the flows that run it.
//!
//! ```text
//!   ACK ─▶ fw_cong_control ── signals ─▶ frame ◀──── stage ──── plane
//!                │ tail call                │                     ▲
//!                ▼                          ▼                     │
//!            program ── cwnd, rate ─▶ tcp_sock     report ─▶ ring ┘
//! ```
//!
//! A frame is one flow's memory, mapped into the plane: commands are written there and act at
//! the next ACK, without a system call. A plane that is killed or silent leaves its flows under
//! the fallback, the kernel's own Cubic, and takes them back when it returns.

mod cgroups;
mod compiled;
mod congestion_controls;
mod error;
mod kernel_side;
mod kernel_types;
mod layout;
mod migration;
mod moved;
pub mod observe;
mod options;
pub mod probe;
mod skeleton;
mod tcp;

pub use congestion_controls::native_default;
pub use error::LinuxError;
pub use fairwater_kernel::FlowState;
pub use migration::MigrationCounts;
pub use moved::MovedConnections;
pub use options::Options;
pub use tcp::{CAPABILITIES, LinuxTcp, NAME, server};

/// The signals that the Linux datapath has: all.
pub const SIGNALS: fairwater_lang::SignalSet = fairwater_lang::SignalSet::ALL;
