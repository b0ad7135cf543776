//! Our plane at work.

use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use fairwater_plane::{Algorithm, Control, Field, Flow, FlowInfo, Plane, Report};
use fairwater_service::{Config, Endpoints, Server};

use super::{FIELDS, PROGRAM, Running, Saturated, thread_time};

/// The longest turn of a plane that runs by itself, as of the command `fairwater serve`.
const TURN: Duration = Duration::from_millis(50);

struct Reader {
    fields: Vec<Field>,
    answers: bool,
}

struct ReaderFlow {
    fields: Vec<Field>,
    sum: u64,
    answers: bool,
}

impl Algorithm for Reader {
    fn name(&self) -> &str {
        "reader"
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control<'_>) -> Box<dyn Flow> {
        Box::new(ReaderFlow {
            fields: self.fields.clone(),
            sum: 0,
            answers: self.answers,
        })
    }
}

impl Flow for ReaderFlow {
    fn on_report(&mut self, report: &Report<'_>, control: &mut Control<'_>) {
        let sum: u64 = self.fields.iter().map(|field| report[*field]).sum();
        self.sum = std::hint::black_box(self.sum.wrapping_add(sum));
        if self.answers {
            control.set_cwnd(14_600 + sum);
        }
    }
}

/// Looks for packets before waiting for at most `spin`.
pub(super) fn start(answers: bool, spin: Duration) -> anyhow::Result<Running> {
    let directory = tempfile::tempdir()?;
    let mut plane = Plane::new();
    plane.add(|programs| {
        let program = programs.add("read", PROGRAM)?;
        let fields = FIELDS.iter().map(|name| program.field(name));
        Ok(Reader {
            fields: fields.collect::<Result<_, _>>()?,
            answers,
        })
    })?;
    let (datagram, ring) = (directory.path().join("ccp"), directory.path().join("ring"));
    let endpoints = Endpoints {
        datagram: Some(datagram.clone()),
        ring: Some(ring.clone()),
        spin,
        ..Endpoints::default()
    };
    let mut server = Server::bind(plane, Config::default(), &endpoints)?;
    let stopper = server.stopper();
    let stopped = server.stopper();
    let (turns, asked) = mpsc::channel::<u64>();
    let (done, drained) = mpsc::channel();
    let (tell, thread_id) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = tell.send(rustix::thread::gettid());
        // Until the first request the plane runs by itself.
        while let Err(TryRecvError::Empty) = asked.try_recv() {
            server.turn(TURN)?;
            if stopped.is_asked() {
                return Ok(());
            }
        }
        let _ = done.send(Duration::ZERO);
        // Then it has its turn when its link is full, so that it never waits for the sender.
        while let Ok(reports) = asked.recv() {
            let until = server.service().statistics().reports + reports;
            let start = thread_time();
            while server.service().statistics().reports < until {
                server.turn(Duration::ZERO)?;
            }
            // Who does not listen any more has ended the round.
            let _ = done.send(thread_time().saturating_sub(start));
        }
        Ok::<_, std::io::Error>(())
    });
    Ok(Running {
        datagram,
        ring: Some(ring),
        thread: Some(thread_id.recv()?),
        saturated: Saturated {
            turns: Some(turns),
            drained,
        },
        stop: Some(Box::new(move || {
            stopper.stop();
            let _ = thread.join();
        })),
        directory,
    })
}
