//! A plane at work in a thread of its own while a benchmark runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use fairwater_linux::Options;
use fairwater_plane::{
    Algorithm, Control, Flow, FlowInfo, Plane, PlaneError, ProgramId, Programs, Report,
};
use rustix::time::{ClockId, clock_gettime};

/// Longest time between two looks at whether to stop.
const TURN: Duration = Duration::from_millis(50);

/// A plane that runs until dropped.
pub(crate) struct Hosted {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Work>>,
}

/// What a plane did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    /// CPU time of its thread since it was attached.
    pub(crate) cpu: Duration,
    /// Reports handled.
    pub(crate) reports: u64,
}

impl Hosted {
    /// Registers the algorithms that `fill` adds to a plane.
    pub(crate) fn start(
        fill: impl FnOnce(&mut Plane) -> Result<(), PlaneError> + Send + 'static,
        options: Options,
    ) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let (tell, told) = mpsc::channel::<anyhow::Result<()>>();
        let thread = std::thread::spawn(move || {
            let mut plane = Plane::new();
            let attached = fill(&mut plane)
                .map_err(anyhow::Error::from)
                .and_then(|()| Ok(fairwater_linux::server(plane, options)?));
            match attached {
                Ok((mut server, _)) => {
                    let before = cpu_time();
                    let _ = tell.send(Ok(()));
                    while !stopping.load(Ordering::Acquire) && server.turn(TURN).is_ok() {}
                    let reports = server.service().plane().algorithms().iter();
                    Work {
                        cpu: cpu_time().saturating_sub(before),
                        reports: reports.map(|a| a.statistics().reports).sum(),
                    }
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                    Work::default()
                }
            }
        });
        told.recv()??;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

/// Of this thread.
fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(used.tv_sec).unwrap_or(0),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}

impl Hosted {
    /// Ends the plane and tells what it did.
    pub(crate) fn stop(mut self) -> Work {
        self.stop.store(true, Ordering::Release);
        self.thread
            .take()
            .and_then(|t| t.join().ok())
            .unwrap_or_default()
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A fixed window under one program, whose reports are read and dropped.
pub(crate) struct Fixed {
    name: String,
    program: ProgramId,
    window_packets: u64,
}

impl Fixed {
    pub(crate) fn build(
        programs: &mut Programs,
        name: &str,
        source: &str,
        window_packets: u64,
    ) -> Result<Self, fairwater_plane::AlgorithmError> {
        let program = programs.add(name, source)?.id();
        Ok(Self {
            name: name.to_owned(),
            program,
            window_packets,
        })
    }
}

struct Dropped;

impl Flow for Dropped {
    fn on_report(&mut self, _report: &Report<'_>, _control: &mut Control<'_>) {}
}

impl Algorithm for Fixed {
    fn name(&self) -> &str {
        &self.name
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control<'_>) -> Box<dyn Flow> {
        control.switch(self.program);
        control.set_cwnd(self.window_packets * u64::from(info.mss));
        Box::new(Dropped)
    }
}
