//! Instructions per ACK, counted by valgrind: the same on every machine and at every load.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Which of the two runs.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Side {
    /// Our datapath.
    Ours,
    /// libccp.
    Peer,
}

/// Instructions per ACK, or `–` where there was nothing to count them with.
pub(crate) struct Count(Option<u64>);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(count) => write!(f, "{count}"),
            None => f.write_str("–"),
        }
    }
}

/// Runs this program under valgrind.
pub(crate) struct Counter {
    this: Option<PathBuf>,
}

impl Counter {
    /// The fewest ACKs that are counted; the same again and half more follow.
    const ACKS: u64 = 20_000;

    /// Says why if there is none.
    pub(crate) fn find() -> Self {
        let found = Command::new("valgrind")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !found {
            eprintln!("instructions are not counted: valgrind is not installed");
        }
        Self {
            this: std::env::current_exe().ok().filter(|_| found),
        }
    }

    /// What one more ACK costs: start and warm-up are in both of two runs.
    pub(crate) fn per_ack(&self, side: Side, program: &str) -> Count {
        let few = self.count(side, program, Self::ACKS);
        let many = self.count(side, program, 2 * Self::ACKS);
        let more = few.zip(many).and_then(|(few, many)| many.checked_sub(few));
        Count(more.map(|more| more / Self::ACKS))
    }

    fn count(&self, side: Side, program: &str, acks: u64) -> Option<u64> {
        let side = match side {
            Side::Ours => "ours",
            Side::Peer => "peer",
        };
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(self.this.as_ref()?)
            .args(["datapath", "--alone", side, "--only", program])
            .args([OsString::from("--acks"), acks.to_string().into()])
            .stdin(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        // `==12345== Collected : 123456789`
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|line| line.contains("Collected :"))?;
        line.split_whitespace().last()?.parse().ok()
    }
}
