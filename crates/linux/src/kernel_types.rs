//! Offsets in the running kernel that generated code uses, from the kernel's BTF.

use std::ffi::OsStr;

use libbpf_rs::btf::types::{Composite, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType};

use crate::LinuxError;

/// Offsets and ids in the running kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelTypes {
    /// BTF id of `tcp_congestion_ops`, which generated programs attach to.
    pub(crate) ops: u32,
    /// Member index of `cong_control`.
    pub(crate) cong_control: u32,
    /// Member index of `set_state`.
    pub(crate) set_state: u32,
    /// Offset in `tcp_sock`, bytes, as are the following.
    pub(crate) icsk_ca_priv: i16,
    pub(crate) snd_cwnd: i16,
    pub(crate) snd_cwnd_clamp: i16,
    pub(crate) mss_cache: i16,
    pub(crate) sk_pacing_rate: i16,
    pub(crate) sk_max_pacing_rate: i16,
    pub(crate) sk_pacing_status: i16,
}

impl KernelTypes {
    /// Reads `/sys/kernel/btf/vmlinux`, about 10 ms.
    ///
    /// # Errors
    /// The BTF cannot be read, or lacks a name.
    pub(crate) fn read() -> Result<Self, LinuxError> {
        let btf = Btf::from_vmlinux().map_err(LinuxError::bpf("read the kernel's BTF"))?;
        let ops = structure(&btf, "tcp_congestion_ops")?;
        let member = |name: &str| {
            ops.iter()
                .position(|m| m.name == Some(OsStr::new(name)))
                .and_then(|at| u32::try_from(at).ok())
                .ok_or_else(|| LinuxError::NoBtf(format!("tcp_congestion_ops.{name}")))
        };
        let tcp = structure(&btf, "tcp_sock")?;
        let icsk = structure(&btf, "inet_connection_sock")?;
        let sock = structure(&btf, "sock")?;
        // tcp_sock begins with inet_connection_sock, which begins with inet_sock and sock.
        Ok(Self {
            ops: u32::from(ops.type_id()),
            cong_control: member("cong_control")?,
            set_state: member("set_state")?,
            icsk_ca_priv: offset(&btf, icsk, "icsk_ca_priv")?,
            snd_cwnd: offset(&btf, tcp, "snd_cwnd")?,
            snd_cwnd_clamp: offset(&btf, tcp, "snd_cwnd_clamp")?,
            mss_cache: offset(&btf, tcp, "mss_cache")?,
            sk_pacing_rate: offset(&btf, sock, "sk_pacing_rate")?,
            sk_max_pacing_rate: offset(&btf, sock, "sk_max_pacing_rate")?,
            sk_pacing_status: offset(&btf, sock, "sk_pacing_status")?,
        })
    }
}

fn structure<'b>(btf: &'b Btf<'_>, name: &str) -> Result<Struct<'b>, LinuxError> {
    btf.type_by_name::<Struct<'b>>(name)
        .or_else(|| {
            btf.type_by_kind::<Struct<'b>>()
                .find(|s| s.name() == Some(OsStr::new(name)))
        })
        .ok_or_else(|| LinuxError::NoBtf(format!("struct {name}")))
}

fn offset(btf: &Btf<'_>, within: Struct<'_>, name: &str) -> Result<i16, LinuxError> {
    let missing = || {
        let of = within
            .name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        LinuxError::NoBtf(format!("{of}.{name}"))
    };
    let bits = find(btf, within.into(), name).ok_or_else(missing)?;
    i16::try_from(bits / 8).map_err(|_| missing())
}

/// The offset of a member in bits, unnamed structs and unions included.
fn find(btf: &Btf<'_>, within: Composite<'_>, name: &str) -> Option<u32> {
    within.iter().find_map(|member| {
        let MemberAttr::Normal { offset } = member.attr else {
            return None;
        };
        match member.name {
            Some(n) if n == OsStr::new(name) => Some(offset),
            Some(n) if !n.is_empty() => None,
            _ => {
                let inner = btf
                    .type_by_id::<BtfType<'_>>(member.ty)?
                    .skip_mods_and_typedefs();
                Some(offset + find(btf, Composite::try_from(inner).ok()?, name)?)
            }
        }
    })
}
