//! Features of the kernel and the process that Fairwater needs; `fairwater doctor` prints them.

use std::path::Path;
use std::{fs, io};

use fairwater_plane::Fallback;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType};
use libbpf_rs::{MapHandle, MapType, libbpf_sys};

/// One feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Name of the feature.
    pub name: &'static str,
    /// Part of Fairwater that needs it.
    pub needed_for: &'static str,
    /// Whether the Linux datapath needs it.
    pub required: bool,
    /// What was found, or why the feature is missing.
    pub found: Result<String, String>,
}

/// All features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The features, the most basic first.
    pub features: Vec<Feature>,
}

/// The first required feature that is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this machine cannot run the Linux datapath: {reason} (needed for {needed_for}); `fairwater doctor` lists all requirements"
)]
pub struct Missing {
    /// What is missing and how to provide it.
    pub reason: String,
    /// Part of Fairwater that needs it.
    pub needed_for: &'static str,
}

/// Name of the feature that the fallback depends on.
const CUBIC: &str = "Cubic's kfuncs";

impl Probe {
    /// What controls the flows of Linux TCP while no program does: the kernel's own Cubic where eBPF may
    /// call it, Reno elsewhere.
    #[must_use]
    pub fn fallback(&self) -> Fallback {
        let cubic = self.features.iter().find(|f| f.name == CUBIC);
        if cubic.is_some_and(|feature| feature.found.is_ok()) {
            Fallback::Cubic
        } else {
            Fallback::Reno
        }
    }

    /// Whether the Linux datapath can run.
    ///
    /// # Errors
    /// The first required feature that is missing.
    pub fn require(&self) -> Result<(), Missing> {
        let missing = self.features.iter().filter(|f| f.required);
        for feature in missing {
            if let Err(reason) = &feature.found {
                return Err(Missing {
                    reason: reason.clone(),
                    needed_for: feature.needed_for,
                });
            }
        }
        Ok(())
    }
}

/// The kernel's description of its own types.
const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";
/// The same of Cubic, where it is a module and loaded.
const CUBIC_MODULE_BTF: &str = "/sys/kernel/btf/tcp_cubic";

/// Examines the kernel and the process in about 30 ms; leaves nothing loaded.
#[must_use]
pub fn probe() -> Probe {
    // libbpf would print an error if the file were absent.
    let btf = match Path::new(VMLINUX_BTF).exists() {
        true => Btf::from_vmlinux(),
        false => Err(io::Error::from(io::ErrorKind::NotFound).into()),
    };
    let mut features = hook(&btf);
    features.extend(maps());
    features.extend(options(&btf));
    Probe { features }
}

fn required(
    name: &'static str,
    needed_for: &'static str,
    found: Result<String, String>,
) -> Feature {
    Feature {
        name,
        needed_for,
        required: true,
        found,
    }
}

fn optional(
    name: &'static str,
    needed_for: &'static str,
    found: Result<String, String>,
) -> Feature {
    Feature {
        required: false,
        ..required(name, needed_for, found)
    }
}

/// What it takes to run code at the kernel's congestion control hook.
fn hook(btf: &libbpf_rs::Result<Btf<'_>>) -> Vec<Feature> {
    let no_btf = || "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)".to_owned();
    let registers = has_struct(btf, "bpf_struct_ops_tcp_congestion_ops")
        && has_struct(btf, "tcp_congestion_ops");
    let arguments = btf.as_ref().ok().and_then(cong_control_arguments);
    vec![
        required("Linux", "everything", release()),
        required("root", "loading eBPF and opening namespaces", privileged()),
        required(
            "BTF",
            "finding the kernel's structures",
            match btf {
                Ok(_) => Ok(VMLINUX_BTF.to_owned()),
                Err(_) => Err(no_btf()),
            },
        ),
        required(
            "struct_ops",
            "registering a congestion control",
            match btf {
                Err(_) => Err(no_btf()),
                Ok(_) if registers => Ok("tcp_congestion_ops".to_owned()),
                Ok(_) => Err(
                    "the kernel cannot register a TCP congestion control by struct_ops \
                     (CONFIG_BPF_JIT, CONFIG_BPF_SYSCALL, Linux 5.6)"
                        .to_owned(),
                ),
            },
        ),
        required(
            "cong_control with ack and flag",
            "reading the ACK's signals",
            match arguments {
                Some(4) => Ok("cong_control(sk, ack, flag, rs)".to_owned()),
                Some(_) => Err("cong_control has the signature of a kernel before 6.10".to_owned()),
                None => Err("the BTF does not describe cong_control".to_owned()),
            },
        ),
        required("eBPF JIT", "running programs at native speed", jit()),
    ]
}

/// The kinds of memory that kernel and plane share.
fn maps() -> Vec<Feature> {
    vec![
        required(
            "memory-mapped arrays",
            "sharing flow state with the plane without system calls",
            create_map(MapType::Array, libbpf_sys::BPF_F_MMAPABLE),
        ),
        required("ring buffer", "reports", create_map(MapType::RingBuf, 0)),
        required(
            "queues",
            "allocating flow slots",
            create_map(MapType::Queue, 0),
        ),
    ]
}

/// What single commands need, or parts of the datapath that can do without.
fn options(btf: &libbpf_rs::Result<Btf<'_>>) -> Vec<Feature> {
    let present = |path: &str, absent: &str| match Path::new(path).exists() {
        true => Ok("present".to_owned()),
        false => Err(absent.to_owned()),
    };
    vec![
        optional(CUBIC, "the fallback; without them it is Reno", cubic(btf)),
        optional(
            "TCP iterator",
            "`attach --move-existing` and taking over sockets after a crash",
            match has_struct(btf, "bpf_iter__tcp") {
                true => Ok("iter/tcp".to_owned()),
                false => Err("the kernel has no iter/tcp (Linux 5.9)".to_owned()),
            },
        ),
        optional(
            "/dev/net/tun",
            "`try`: the emulated link",
            present(
                "/dev/net/tun",
                "/dev/net/tun is absent (CONFIG_TUN; modprobe tun)",
            ),
        ),
        optional(
            "network namespaces",
            "`try`: sender, router and receiver on one machine",
            present(
                "/proc/self/ns/net",
                "the kernel has no network namespaces (CONFIG_NET_NS)",
            ),
        ),
        optional("iperf3", "`try`: traffic", on_path("iperf3")),
        optional(
            "tcx",
            "`edge`: programs at the ports of guests (Linux 6.6)",
            match has_struct(btf, "tcx_link") {
                true => Ok("tcx links".to_owned()),
                false => Err("this kernel has no tcx: use Linux 6.6 or later".to_owned()),
            },
        ),
    ]
}

fn release() -> Result<String, String> {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    match parse_release(&release) {
        Some(version) if version < (6, 10) => {
            Err(format!("the kernel is {release}; 6.10 or newer is needed"))
        }
        _ => Ok(release),
    }
}

/// Major and minor of "6.18.44-fc".
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn privileged() -> Result<String, String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .and_then(|v| u64::from_str_radix(v.trim(), 16).ok())
        .unwrap_or(0);
    // capabilities(7): CAP_NET_ADMIN 12, CAP_SYS_ADMIN 21, CAP_PERFMON 38, CAP_BPF 39.
    let has = |bit: u32| effective & (1 << bit) != 0;
    if has(12) && (has(21) || (has(38) && has(39))) {
        Ok("the process has the capabilities".to_owned())
    } else {
        Err("this process is not root; run it with sudo".to_owned())
    }
}

fn has_struct(btf: &libbpf_rs::Result<Btf<'_>>, name: &str) -> bool {
    btf.as_ref()
        .is_ok_and(|b| b.type_by_name::<Struct<'_>>(name).is_some())
}

fn cong_control_arguments(btf: &Btf<'_>) -> Option<usize> {
    let ops = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = ops
        .iter()
        .find(|m| m.name.is_some_and(|n| n == "cong_control"))?;
    let pointer = btf.type_by_id::<Ptr<'_>>(member.ty)?;
    let pointee = pointer.referenced_type().skip_mods_and_typedefs();
    Some(FuncProto::try_from(pointee).ok()?.iter().count())
}

/// What `has_cubic` of `bpf/fallback.h` asks for.
const CUBIC_FUNCTIONS: [&str; 6] = [
    "cubictcp_init",
    "cubictcp_recalc_ssthresh",
    "cubictcp_cong_avoid",
    "cubictcp_state",
    "cubictcp_acked",
    "cubictcp_cwnd_event",
];

/// Whether eBPF may call the kernel's Cubic, built in or a module.
fn cubic(btf: &libbpf_rs::Result<Btf<'_>>) -> Result<String, String> {
    let missing = CUBIC_FUNCTIONS.into_iter().find(|function| {
        let found = |b: &Btf<'_>| b.type_by_name::<Func<'_>>(function).is_some();
        !btf.as_ref().is_ok_and(found)
    });
    match missing {
        None => Ok("built in".to_owned()),
        Some(_) if Path::new(CUBIC_MODULE_BTF).exists() => Ok("the module tcp_cubic".to_owned()),
        Some(function) => Err(format!(
            "the kernel does not offer `{function}` of its Cubic (CONFIG_TCP_CONG_CUBIC)"
        )),
    }
}

fn jit() -> Result<String, String> {
    match fs::read_to_string("/proc/sys/net/core/bpf_jit_enable") {
        Ok(value) if value.trim() == "0" => {
            Err("the eBPF JIT is off; sysctl net.core.bpf_jit_enable=1 turns it on".to_owned())
        }
        _ => Ok("on".to_owned()),
    }
}

fn create_map(ty: MapType, flags: u32) -> Result<String, String> {
    let (key, value, entries) = match ty {
        MapType::RingBuf => (0, 0, 4096),
        MapType::Queue => (0, 4, 1),
        _ => (4, 4, 1),
    };
    let options = libbpf_sys::bpf_map_create_opts {
        sz: std::mem::size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: flags,
        ..Default::default()
    };
    match MapHandle::create(ty, Some("fw_probe"), key, value, entries, &options) {
        Ok(_) => Ok("created one".to_owned()),
        Err(error) => Err(format!("the kernel refuses to create one: {error}")),
    }
}

fn on_path(command: &str) -> Result<String, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(command))
        .find(|file| file.is_file())
        .map(|file| file.display().to_string())
        .ok_or_else(|| format!("{command} is not installed; apt install {command}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(parse_release("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(parse_release("6.9.0"), Some((6, 9)));
        assert_eq!(parse_release("garbage"), None);
    }

    #[test]
    fn the_fallback_is_reno_where_the_kernels_cubic_is_not_to_be_called() {
        let fallback = |found| {
            let feature = Feature {
                name: CUBIC,
                needed_for: "the fallback",
                required: false,
                found,
            };
            let features = vec![feature];
            Probe { features }.fallback()
        };
        assert_eq!(fallback(Ok("built in".to_owned())), Fallback::Cubic);
        assert_eq!(fallback(Err("absent".to_owned())), Fallback::Reno);
        assert_eq!(Probe { features: vec![] }.fallback(), Fallback::Reno);
    }

    #[test]
    fn the_first_required_feature_that_is_missing_is_named() {
        let feature = |required, found: Result<&str, &str>| Feature {
            name: "x",
            needed_for: "all",
            required,
            found: found.map(str::to_owned).map_err(str::to_owned),
        };
        let probe = Probe {
            features: vec![
                feature(false, Err("optional")),
                feature(true, Ok("here")),
                feature(true, Err("first")),
                feature(true, Err("second")),
            ],
        };
        assert_eq!(probe.require().unwrap_err().reason, "first");
        assert!(
            Probe {
                features: vec![feature(false, Err("optional"))]
            }
            .require()
            .is_ok()
        );
    }
}
