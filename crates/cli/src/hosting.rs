//! Algorithms on this machine's TCP: the plane, and a thread for it, beside the processes of those
//! in Python.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_algorithms::Choice;
use fairwater_linux::{LinuxError, Options, SIGNALS, Session};
use fairwater_plane::{
    Aggregate, Algorithm, Control, Ecn, Flow, FlowInfo, Key, Plane, PlaneError, SignalSet,
};

use crate::algorithm::Chosen;
use crate::failure::Failure;
use crate::guest::Guest;

/// The longest that a turn of the plane sleeps, and so the latest that it notices a signal.
pub(crate) const TURN: Duration = Duration::from_millis(50);

/// A plane for that datapath, which has these signals, with these algorithms, each under the name
/// before it.
pub(crate) fn plane(
    datapath: &str,
    signals: SignalSet,
    algorithms: &[(String, Chosen)],
) -> Result<Plane, Failure> {
    let named = algorithms
        .iter()
        .map(|(name, chosen)| (name.as_str(), &chosen.choice));
    plane_of(datapath, signals, named).map_err(|error| Failure::BadInput(error.to_string()))
}

/// A plane for that datapath, which has these signals, with these algorithms, each under the name
/// before it.
///
/// # Errors
/// What [`Plane::add`] says of the first that it refuses.
pub fn plane_of<'a>(
    datapath: &str,
    signals: SignalSet,
    algorithms: impl IntoIterator<Item = (&'a str, &'a Choice)>,
) -> Result<Plane, PlaneError> {
    let mut plane = Plane::new(datapath, signals);
    for (name, choice) in algorithms {
        plane.add(|programs| {
            Ok(Named {
                name: name.to_owned(),
                algorithm: choice.build(programs)?,
            })
        })?;
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

/// Algorithms at work beside what this process does; they end when this is finished or dropped.
#[derive(Debug)]
pub(crate) struct Hosting {
    names: Vec<String>,
    /// By algorithm, whether its flows need ECN.
    need_ecn: Vec<bool>,
    own: Option<Attached>,
    guests: Vec<Guest>,
}

impl Hosting {
    /// Attaches the algorithms: those of Rust in a thread of this process, each of those in Python
    /// in a process of its own.
    pub(crate) fn start(
        algorithms: &[(String, Chosen)],
        options: Options,
    ) -> Result<Self, Failure> {
        let all = plane("linux", SIGNALS, algorithms)?;
        let need_ecn = all.algorithms().iter().map(|a| a.ecn() == Ecn::Required);
        let own: Vec<_> = algorithms
            .iter()
            .filter(|(_, chosen)| !chosen.is_python)
            .cloned()
            .collect();
        let attached = match own.is_empty() {
            true => None,
            false => Some(Attached::start(plane("linux", SIGNALS, &own)?, options)?),
        };
        let mut names = attached.iter().flat_map(Attached::names);
        let mut hosting = Self {
            names: Vec::new(),
            need_ecn: need_ecn.collect(),
            own: None,
            guests: Vec::new(),
        };
        for each in algorithms {
            if each.1.is_python {
                let guest = Guest::start(std::slice::from_ref(each), &options)?;
                hosting.names.extend_from_slice(guest.names());
                hosting.guests.push(guest);
            } else {
                hosting.names.extend(names.next().cloned());
            }
        }
        hosting.own = attached;
        Ok(hosting)
    }

    /// The kernel's names of the algorithms, in their order.
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
    pub(crate) fn finish(self) -> Vec<String> {
        let mut notices = self.own.map(Attached::finish).unwrap_or_default();
        notices.extend(
            self.guests
                .into_iter()
                .filter_map(|guest| guest.finish().news),
        );
        notices
    }
}

/// A plane at work in a thread of its own; it ends when this is finished or dropped.
#[derive(Debug)]
pub struct Attached {
    names: Vec<String>,
    notices: Receiver<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Attached {
    /// Attaches the plane's algorithms to this machine's TCP.
    ///
    /// # Errors
    /// What the machine lacks, a name that is taken, or a call that failed. Nothing is left
    /// attached then.
    pub fn start(plane: Plane, options: Options) -> Result<Self, AttachError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let (notify, notices) = mpsc::channel();
        let asked = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("plane".to_owned())
            .spawn(move || work(plane, options, &asked, &tell, &notify))
            .map_err(AttachError::Thread)?;
        let mut attached = Self {
            names: Vec::new(),
            notices,
            stop,
            thread: Some(thread),
        };
        match told.recv_timeout(Duration::from_secs(60)) {
            Ok(Ok(names)) => {
                attached.names = names;
                Ok(attached)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(RecvTimeoutError::Timeout) => Err(AttachError::Late),
            Err(RecvTimeoutError::Disconnected) => Err(AttachError::Panicked),
        }
    }

    /// The kernel's names of the algorithms, in the plane's order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What went wrong with flows since this was last asked, each as the plane says it.
    pub fn notices(&self) -> Vec<String> {
        self.notices.try_iter().collect()
    }

    /// Detaches; returns what [`Attached::notices`] would.
    pub fn finish(mut self) -> Vec<String> {
        let panicked = self.end();
        let mut notices = self.notices();
        if panicked {
            notices.push("the plane panicked; its flows went on under Reno".to_owned());
        }
        notices
    }

    /// Ends the thread; whether it panicked.
    fn end(&mut self) -> bool {
        self.stop.store(true, Release);
        self.thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.end();
    }
}

/// Why algorithms could not be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The Linux datapath refused.
    #[error(transparent)]
    Linux(#[from] LinuxError),
    /// The plane's thread could not be started.
    #[error("the plane's thread: {0}")]
    Thread(std::io::Error),
    /// The kernel took too long.
    #[error("the algorithms were not attached within a minute")]
    Late,
    /// A defect of ours.
    #[error("attaching the algorithms panicked")]
    Panicked,
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Linux(error) => error.into(),
            other => Self::Other(other.to_string()),
        }
    }
}

fn work(
    plane: Plane,
    options: Options,
    stop: &AtomicBool,
    tell: &mpsc::Sender<Result<Vec<String>, LinuxError>>,
    notify: &mpsc::Sender<String>,
) {
    let mut session = match Session::attach(plane, options) {
        Ok(session) => session,
        Err(error) => {
            // Nobody listens any more only when the whole process is ending.
            let _ = tell.send(Err(error));
            return;
        }
    };
    let _ = tell.send(Ok(session.names().map(str::to_owned).collect()));
    while !stop.load(Acquire) {
        session.turn(TURN);
        for notice in session.plane_mut().drain_notices() {
            // As above.
            let _ = notify.send(notice.to_string());
        }
    }
}
