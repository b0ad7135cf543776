//! Our plane at work.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use fairwater_plane::serve::{Config, Endpoints, Server};
use fairwater_plane::{Algorithm, Control, Field, Flow, FlowInfo, Plane, Report, SignalSet};

use super::{FIELDS, Meter, PROGRAM, Running};

struct Reader {
    fields: Vec<Field>,
    meter: Arc<Mutex<Option<Meter>>>,
    answers: bool,
}

struct ReaderFlow {
    fields: Vec<Field>,
    meter: Option<Meter>,
    answers: bool,
}

impl Algorithm for Reader {
    fn name(&self) -> &str {
        "reader"
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control<'_>) -> Box<dyn Flow> {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        Box::new(ReaderFlow {
            fields: self.fields.clone(),
            meter: meter.take(),
            answers: self.answers,
        })
    }
}

impl Flow for ReaderFlow {
    fn on_report(&mut self, report: &Report<'_>, control: &mut Control<'_>) {
        let sum: u64 = self.fields.iter().map(|field| report[*field]).sum();
        if let Some(meter) = &mut self.meter {
            meter.sum = meter.sum.wrapping_add(sum);
            meter.count();
        }
        if self.answers {
            control.set_cwnd(14_600 + sum);
        }
    }
}

pub(super) fn start(reports: u64, answers: bool) -> anyhow::Result<Running> {
    let directory = tempfile::tempdir()?;
    let (tell, measured) = mpsc::channel();
    let meter = Arc::new(Mutex::new(Some(Meter::new(reports, tell))));
    let mut plane = Plane::new("benchmark", SignalSet::ALL);
    plane.add(|programs| {
        let program = programs.add("read", PROGRAM)?;
        let fields = FIELDS.iter().map(|name| program.field(name));
        Ok(Reader {
            fields: fields.collect::<Result<_, _>>()?,
            meter,
            answers,
        })
    })?;
    let (datagram, ring) = (directory.path().join("ccp"), directory.path().join("ring"));
    let endpoints = Endpoints {
        datagram: Some(datagram.clone()),
        ring: Some(ring.clone()),
        spin: Duration::ZERO,
        ..Endpoints::default()
    };
    let mut server = Server::bind(plane, Config::default(), &endpoints)?;
    let stopper = server.stopper();
    let thread = std::thread::spawn(move || server.run());
    Ok(Running {
        datagram,
        ring: Some(ring),
        measured,
        stop: Some(Box::new(move || {
            stopper.stop();
            let _ = thread.join();
        })),
        _directory: directory,
    })
}
