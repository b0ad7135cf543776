//! Algorithms of this project on this machine's TCP: the plane, and a thread for it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_linux::{LinuxError, Options, Session};
use fairwater_plane::{Aggregate, Algorithm, Control, Ecn, Flow, FlowInfo, Key, Plane, SignalSet};

use crate::algorithm::Chosen;
use crate::failure::Failure;

/// The longest that a turn of the plane sleeps, and so the latest that it notices a signal.
pub(crate) const TURN: Duration = Duration::from_millis(50);

/// A plane for that datapath, which has these signals, with these algorithms, each under the name
/// before it.
pub(crate) fn plane(
    datapath: &str,
    signals: SignalSet,
    algorithms: &[(String, Chosen)],
) -> Result<Plane, Failure> {
    let mut plane = Plane::new(datapath, signals);
    for (name, chosen) in algorithms {
        plane
            .add(|programs| {
                Ok(Named {
                    name: name.clone(),
                    algorithm: chosen.choice.build(programs)?,
                })
            })
            .map_err(|error| Failure::BadInput(error.to_string()))?;
    }
    Ok(plane)
}

/// Refuses a name that comes a second time.
pub(crate) fn require_different(algorithms: &[(String, Chosen)]) -> Result<(), Failure> {
    let repeated = |(at, (name, _)): &(usize, &(String, Chosen))| {
        algorithms[..*at].iter().any(|(before, _)| before == name)
    };
    match algorithms.iter().enumerate().find(repeated) {
        Some((_, (name, _))) => Err(Failure::BadInput(format!(
            "{name} is asked for twice; one can have the name"
        ))),
        None => Ok(()),
    }
}

/// An algorithm under a name of our choice, so that one may run twice with other parameters.
struct Named {
    name: String,
    algorithm: Box<dyn Algorithm>,
}

impl Algorithm for Named {
    fn name(&self) -> &str {
        &self.name
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control<'_>) -> Box<dyn Flow> {
        self.algorithm.new_flow(info, control)
    }

    fn idle_restart(&self) -> bool {
        self.algorithm.idle_restart()
    }

    fn ecn(&self) -> Ecn {
        self.algorithm.ecn()
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        self.algorithm.aggregate_by(info)
    }

    fn new_aggregate(&self, key: &Key, info: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        self.algorithm.new_aggregate(key, info)
    }
}

/// A plane at work in a thread of its own; it ends when this is finished or dropped.
#[derive(Debug)]
pub(crate) struct Hosting {
    names: Vec<String>,
    /// By algorithm, whether its flows need ECN.
    need_ecn: Vec<bool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Hosting {
    /// Attaches the plane's algorithms.
    pub(crate) fn start(plane: Plane, options: Options) -> Result<Self, Failure> {
        let hosted = plane.algorithms().iter();
        let need_ecn = hosted.map(|a| a.ecn() == Ecn::Required).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let asked = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("plane".to_owned())
            .spawn(move || work(plane, options, &asked, &tell))
            .map_err(Failure::io("the plane's thread"))?;
        let mut hosting = Self {
            names: Vec::new(),
            need_ecn,
            stop,
            thread: Some(thread),
        };
        match told.recv_timeout(Duration::from_secs(60)) {
            Ok(Ok(names)) => {
                hosting.names = names;
                Ok(hosting)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(RecvTimeoutError::Timeout) => Err(Failure::Other(
                "the algorithms were not attached within a minute".to_owned(),
            )),
            Err(RecvTimeoutError::Disconnected) => Err(Failure::Other(
                "attaching the algorithms panicked".to_owned(),
            )),
        }
    }

    /// The kernel's names of the algorithms, in the plane's order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The kernel's names of those that receivers are to have too, for ECN.
    pub(crate) fn at_both_ends(&self) -> Vec<String> {
        let named = self.names.iter().zip(&self.need_ecn);
        let named = named.filter(|(_, needs_ecn)| **needs_ecn);
        named.map(|(name, _)| name.clone()).collect()
    }

    /// Detaches; returns what went wrong with flows meanwhile, one sentence each.
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.end()
    }

    fn end(&mut self) -> Vec<String> {
        self.stop.store(true, Release);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(notices)) => notices,
            Some(Err(_)) => vec!["the plane panicked; its flows went on under Reno".to_owned()],
            None => Vec::new(),
        }
    }
}

impl Drop for Hosting {
    fn drop(&mut self) {
        self.end();
    }
}

fn work(
    plane: Plane,
    options: Options,
    stop: &AtomicBool,
    tell: &mpsc::Sender<Result<Vec<String>, LinuxError>>,
) -> Vec<String> {
    let mut session = match Session::attach(plane, options) {
        Ok(session) => session,
        Err(error) => {
            // Nobody listens any more only when the whole process is ending.
            let _ = tell.send(Err(error));
            return Vec::new();
        }
    };
    let _ = tell.send(Ok(session.names().map(str::to_owned).collect()));
    let mut notices = Vec::new();
    while !stop.load(Acquire) {
        session.turn(TURN);
        notices.extend(
            session
                .plane_mut()
                .drain_notices()
                .map(|notice| notice.to_string()),
        );
    }
    notices
}
