//! The programs of all algorithms of a datapath, and their loading into the kernel.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use fairwater_exec::ebpf::{Host, Insn, fit, generate};
use fairwater_exec::frame::FrameLayout;
use fairwater_lang::{Program, SignalSet};
use fairwater_plane::{HostedAlgorithm, ProgramId};
use libbpf_rs::libbpf_sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::{KernelError, MAX_ALGORITHMS, MAX_PROGRAMS};

/// A program on its way into the kernel.
#[derive(Debug, Clone, Copy)]
pub struct NamedProgram<'a> {
    /// The algorithm's name.
    pub algorithm: &'a str,
    /// The program's name.
    pub name: &'a str,
    /// The program.
    pub program: &'a Program,
    /// Whether its flows restart after an idle period.
    pub idle_restart: bool,
}

/// The programs of a datapath's algorithms, in the order of the kernel's arrays.
#[derive(Debug)]
pub struct ProgramSet<'a> {
    programs: Vec<NamedProgram<'a>>,
    table: ProgramTable,
}

impl<'a> ProgramSet<'a> {
    /// Those of these algorithms, each with its index in the plane.
    ///
    /// # Errors
    /// There are more than a kernel side has room for.
    pub fn new(algorithms: &[(usize, &'a HostedAlgorithm)]) -> Result<Self, KernelError> {
        let mut table = ProgramTable::default();
        let mut programs = Vec::new();
        for (algorithm, hosted) in algorithms {
            let algorithm = u32::try_from(*algorithm).unwrap_or(u32::MAX);
            for (index, loaded) in (0..).zip(hosted.programs()) {
                table.0.push(ProgramId::new(algorithm, index));
                programs.push(NamedProgram {
                    algorithm: hosted.name(),
                    name: loaded.name(),
                    program: loaded.program(),
                    idle_restart: hosted.requirements().idle_restart,
                });
            }
        }
        if programs.len() > MAX_PROGRAMS || algorithms.len() > MAX_ALGORITHMS {
            return Err(KernelError::TooManyPrograms {
                algorithms: algorithms.len(),
                programs: programs.len(),
            });
        }
        Ok(Self { programs, table })
    }

    /// The programs, by index.
    #[must_use]
    pub fn programs(&self) -> &[NamedProgram<'a>] {
        &self.programs
    }

    /// The identities of the programs, by index.
    #[must_use]
    pub fn table(&self) -> &ProgramTable {
        &self.table
    }

    /// The frame in which all of them fit.
    #[must_use]
    pub fn layout(&self) -> FrameLayout {
        fit(self.programs.iter().map(|named| named.program))
    }

    /// The signals that some program reads.
    #[must_use]
    pub fn signals(&self) -> SignalSet {
        let read = self.programs.iter().map(|named| named.program.signals);
        read.fold(SignalSet::EMPTY, SignalSet::union)
    }

    /// Loads each program as `target` says for its index, and puts it into `array`.
    ///
    /// # Errors
    /// A program does not fit, or the kernel refuses it.
    pub fn install<H: Host>(
        &self,
        layout: FrameLayout,
        array: &MapHandle,
        target: impl Fn(u32) -> Target<H>,
    ) -> Result<(), KernelError> {
        for (index, named) in (0u32..).zip(&self.programs) {
            let loaded = load(named, layout, &target(index))?;
            array
                .update(
                    &index.to_ne_bytes(),
                    &loaded.as_raw_fd().to_ne_bytes(),
                    MapFlags::ANY,
                )
                .map_err(KernelError::bpf("install a program"))?;
        }
        Ok(())
    }
}

/// The programs of all algorithms, by their index in the kernel's arrays.
#[derive(Debug, Clone, Default)]
pub struct ProgramTable(Vec<ProgramId>);

impl ProgramTable {
    /// The program of an index; `None` past the end.
    #[must_use]
    pub fn at(&self, index: u32) -> Option<ProgramId> {
        self.0.get(index as usize).copied()
    }

    /// Index of a program.
    #[must_use]
    pub fn index(&self, program: ProgramId) -> Option<u32> {
        let index = self.0.iter().position(|known| *known == program)?;
        u32::try_from(index).ok()
    }
}

/// What kind of kernel program a generated program becomes.
#[derive(Debug, Clone, Copy)]
pub struct Target<H> {
    /// The code around the program.
    pub host: H,
    /// The kernel's type of program, `BPF_PROG_TYPE_…`.
    pub kind: u32,
    /// `expected_attach_type`: programs that call each other have the same.
    pub attach_type: u32,
    /// BTF id of the structure whose member the program implements; 0 for none.
    pub attach_btf_id: u32,
}

/// Generates and loads a program.
///
/// # Errors
/// The program does not fit, or the kernel refuses it; the error then has the verifier's log.
pub fn load<H: Host>(
    named: &NamedProgram<'_>,
    layout: FrameLayout,
    target: &Target<H>,
) -> Result<OwnedFd, KernelError> {
    let code =
        generate(named.program, layout, &target.host).map_err(|source| KernelError::Generate {
            algorithm: named.algorithm.to_owned(),
            program: named.name.to_owned(),
            source,
        })?;
    submit(named.name, &code, target, None).or_else(|_| {
        let mut log = vec![0u8; 1 << 20];
        submit(named.name, &code, target, Some(&mut log)).map_err(|source| {
            let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
            KernelError::Refused {
                algorithm: named.algorithm.to_owned(),
                program: named.name.to_owned(),
                source,
                log: String::from_utf8_lossy(&log[..end]).into_owned(),
            }
        })
    })
}

fn submit<H>(
    name: &str,
    code: &[Insn],
    target: &Target<H>,
    log: Option<&mut [u8]>,
) -> io::Result<OwnedFd> {
    let kernel_name: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .take(15)
        .collect();
    let kernel_name = CString::new(kernel_name)?;
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        attempts: 1,
        expected_attach_type: target.attach_type,
        attach_btf_id: target.attach_btf_id,
        ..Default::default()
    };
    if let Some(log) = log {
        options.log_level = 1;
        options.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
        options.log_buf = log.as_mut_ptr().cast();
    }
    #[expect(unsafe_code, reason = "libbpf's loader takes raw instructions")]
    // SAFETY: `Insn` is laid out as `bpf_insn`; all pointers outlive the call; the descriptor
    // that comes back has no other owner.
    unsafe {
        let fd = libbpf_sys::bpf_prog_load(
            target.kind,
            kernel_name.as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr().cast(),
            code.len() as libbpf_sys::size_t,
            &raw mut options,
        );
        if fd < 0 {
            Err(io::Error::from_raw_os_error(-fd))
        } else {
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }
}

/// Maps that a generated program's code refers to.
#[derive(Debug, Clone, Copy)]
pub struct ProgramMaps<'a> {
    /// The flows' frames.
    pub frames: BorrowedFd<'a>,
    /// The ring of events.
    pub events: BorrowedFd<'a>,
    /// The plane's page.
    pub page: BorrowedFd<'a>,
}
