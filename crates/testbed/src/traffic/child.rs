//! Child processes inside a namespace, which do not outlive the lab.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use fairwater_netlink::enter;

/// A child process that is killed when this is dropped, and when the thread that made it ends, by
/// whatever means.
#[derive(Debug)]
pub(super) struct NamespacedChild {
    child: Child,
}

/// A child that ended.
#[derive(Debug)]
pub(super) struct Exited {
    pub(super) status: ExitStatus,
    /// User and system CPU time.
    pub(super) cpu: Duration,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl NamespacedChild {
    /// Runs `command` in `namespace`, its output kept for [`NamespacedChild::exited`]. The calling
    /// thread must live as long as the child is wanted.
    pub(super) fn spawn(command: &mut Command, namespace: BorrowedFd<'_>) -> io::Result<Self> {
        let namespace = namespace.try_clone_to_owned()?;
        let parent = rustix::process::getpid();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in a terminal goes to the lab, which then ends its children.
            .process_group(0);
        #[expect(unsafe_code, reason = "a namespace is entered between fork and exec")]
        // SAFETY: what runs there only makes system calls: it allocates nothing, takes no lock
        // and touches no memory but its own.
        unsafe {
            command.pre_exec(move || {
                enter(namespace.as_fd())?;
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // The parent may have gone before it was listened to.
                if rustix::process::getppid() == Some(parent) {
                    Ok(())
                } else {
                    Err(io::Error::from(rustix::io::Errno::SRCH))
                }
            });
        }
        Ok(NamespacedChild {
            child: command.spawn()?,
        })
    }

    /// The child's standard output, to read while it runs.
    pub(super) fn stdout(&mut self) -> Option<&mut impl Read> {
        self.child.stdout.as_mut()
    }

    /// How it ended, once it has. To be asked no more after that.
    pub(super) fn exited(&mut self) -> io::Result<Option<Exited>> {
        let pid = Pid::from_child(&self.child);
        // The CPU time must be read while the dead process is still to be waited for.
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(pid), peek)?.is_none() {
            return Ok(None);
        }
        let cpu = cpu_time(pid)?;
        let mut stdout = String::new();
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_string(&mut stdout)?;
        }
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut stderr)?;
        }
        Ok(Some(Exited {
            status: self.child.wait()?,
            cpu,
            stdout,
            stderr,
        }))
    }
}

impl Drop for NamespacedChild {
    fn drop(&mut self) {
        // It may have ended already; there is nothing else to do about an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// User and system time of a process, from `/proc/PID/stat` (`proc_pid_stat(5)`, fields 14, 15).
fn cpu_time(pid: Pid) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    let ticks = stat
        // The name, in parentheses, may hold anything.
        .rsplit_once(')')
        .map(|(_, fields)| fields.split_whitespace().skip(11).take(2))
        .and_then(|mut fields| {
            let user: u64 = fields.next()?.parse().ok()?;
            let system: u64 = fields.next()?.parse().ok()?;
            Some(user + system)
        })
        .ok_or_else(|| io::Error::other("/proc/PID/stat has no CPU times"))?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}
