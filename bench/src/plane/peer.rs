//! portus at work.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use anyhow::anyhow;
use portus::ipc::{BackendBuilder, Blocking, Ipc, unix};
use portus::lang::Scope;
use portus::{CongAlg, DatapathInfo, DatapathTrait, Report, RunBuilder};

use super::{FIELDS, Gate, PROGRAM, Running, Saturated};

struct Reader {
    gate: Mutex<Option<Gate>>,
    answers: bool,
}

struct ReaderFlow<I: Ipc> {
    datapath: portus::Datapath<I>,
    scope: Scope,
    gate: Option<Gate>,
    answers: bool,
}

impl<I: Ipc> CongAlg<I> for Reader {
    type Flow = ReaderFlow<I>;

    fn name() -> &'static str {
        "reader"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("read", PROGRAM.to_owned())])
    }

    fn new_flow(&self, mut datapath: portus::Datapath<I>, _: DatapathInfo) -> Self::Flow {
        let scope = datapath.set_program("read", None).unwrap_or_default();
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        ReaderFlow {
            datapath,
            scope,
            gate: gate.take(),
            answers: self.answers,
        }
    }
}

impl<I: Ipc> portus::Flow for ReaderFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        let fields = FIELDS.iter();
        let sum: u64 = fields
            .map(|name| report.get_field(name, &self.scope).unwrap_or_default())
            .sum();
        std::hint::black_box(sum);
        if let Some(gate) = &mut self.gate {
            gate.count();
        }
        if self.answers {
            let cwnd = 14_600 + u32::try_from(sum).unwrap_or(0);
            // The benchmark has ended when nobody is there to be told.
            let _ = self.datapath.update_field(&self.scope, &[("Cwnd", cwnd)]);
        }
    }
}

pub(super) fn start(answers: bool) -> anyhow::Result<Running> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (tell, drained) = mpsc::channel();
    let (turns, go) = mpsc::channel();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // portus puts every name into this directory.
    let name = format!("fairwater-bench-{}-{number}", std::process::id());
    let path = PathBuf::from("/tmp/ccp").join(&name);
    let socket = unix::Socket::<Blocking>::new(&name).map_err(|e| anyhow!("portus: {}", e.0))?;
    let agent = RunBuilder::new(BackendBuilder { sock: socket })
        .default_alg(Reader {
            gate: Mutex::new((!answers).then(|| Gate::new(tell, go))),
            answers,
        })
        .spawn_thread()
        .run()
        .map_err(|e| anyhow!("portus: {}", e.0))?;
    let bound = path.clone();
    Ok(Running {
        datagram: path,
        ring: None,
        thread: None,
        saturated: Saturated {
            turns: Some(turns),
            drained,
        },
        stop: Some(Box::new(move || {
            agent.kill();
            let _ = agent.wait();
            let _ = std::fs::remove_file(bound);
        })),
        directory: tempfile::tempdir()?,
    })
}
