//! The machines that code is generated for.

use std::sync::OnceLock;

use cranelift_codegen::isa::{self, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable, SetError};

use super::Error;

/// A machine that code can be generated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The one that this runs on, with the instructions that it has.
    Host,
    /// Any x86-64 under Linux.
    X86_64,
    /// Any aarch64 under Linux.
    Aarch64,
}

impl Target {
    pub(super) fn isa(self) -> Result<OwnedTargetIsa, Error> {
        let builder = match self {
            Self::Host => {
                cranelift_native::builder().map_err(|why| Error::Target(why.to_owned()))?
            }
            Self::X86_64 => named("x86_64-unknown-linux-gnu")?,
            Self::Aarch64 => named("aarch64-unknown-linux-gnu")?,
        };
        let flags = flags().map_err(|error| Error::Target(error.to_string()))?;
        builder
            .finish(flags)
            .map_err(|error| Error::Target(error.to_string()))
    }
}

/// This machine, whose abilities are asked for once.
pub(super) fn host() -> Result<&'static dyn TargetIsa, Error> {
    static HOST: OnceLock<OwnedTargetIsa> = OnceLock::new();
    if let Some(isa) = HOST.get() {
        return Ok(&**isa);
    }
    let isa = Target::Host.isa()?;
    Ok(&**HOST.get_or_init(|| isa))
}

fn named(triple: &str) -> Result<isa::Builder, Error> {
    isa::lookup_by_name(triple).map_err(|error| Error::Target(error.to_string()))
}

fn flags() -> Result<settings::Flags, SetError> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed")?;
    // Frames are small, but as large as a program demands: a large one is touched page by page.
    flags.enable("enable_probestack")?;
    flags.set("probestack_strategy", "inline")?;
    flags.set("unwind_info", "false")?;
    let checked = if cfg!(debug_assertions) {
        "true"
    } else {
        "false"
    };
    flags.set("enable_verifier", checked)?;
    Ok(settings::Flags::new(flags))
}
