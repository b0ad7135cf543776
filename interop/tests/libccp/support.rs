//! libccp joined to a service, in memory or over datagrams, and algorithms of one program.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use fairwater_interop::cases::Case;
use fairwater_plane::{Algorithm, Control, Field, Flow, FlowInfo, Plane, Programs, Report, Var};
use fairwater_service::{Config, PeerId, Service};
use libccp::{Connection, Datapath, DatapathBuilder, DatapathOps, Primitives};

/// Reports the sum of twenty ACKs.
pub(crate) const COUNT: &str = "
(def (Report (acked 0)) (num_invoked 0))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= num_invoked (+ num_invoked 1))
  (fallthrough))
(when (== num_invoked 20) (report))";

/// What libccp's callbacks write down of a flow.
pub(crate) struct Controls {
    pub(crate) cwnd: u32,
    pub(crate) rate: u32,
}

impl libccp::CongestionOps for Controls {
    fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd;
    }

    fn set_rate_abs(&mut self, rate: u32) {
        self.rate = rate;
    }
}

/// What libccp says, to be taken out.
type SentMessages = Arc<Mutex<Vec<Vec<u8>>>>;

struct Mailbox(SentMessages);

impl DatapathOps for Mailbox {
    fn send_msg(&mut self, message: &[u8]) {
        lock(&self.0).push(message.to_vec());
    }
}

fn lock(said: &SentMessages) -> MutexGuard<'_, Vec<Vec<u8>>> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

fn init(ops: impl DatapathOps + 'static) -> Datapath {
    keep_large_allocations_fresh();
    let builder = DatapathBuilder::default().with_ops(ops);
    builder.with_id(7).init().unwrap()
}

/// The crate takes the places of its connections from malloc as they are, and reads them as if
/// they were zero. They are where they come from pages of their own, which glibc gives to what is
/// large by a bound that rises with what was freed before, unless it is set.
#[expect(unsafe_code, reason = "a setting of the C library")]
fn keep_large_allocations_fresh() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: takes no pointers, and glibc locks the heap while it sets this.
        let set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 17) };
        assert_eq!(set, 1);
    });
}

/// A libccp whose messages go through memory.
pub(crate) struct InMemory {
    pub(crate) libccp: Datapath,
    said: SentMessages,
    peer: PeerId,
    /// Messages that libccp would not take.
    pub(crate) errors: Vec<String>,
}

impl InMemory {
    pub(crate) fn new(service: &mut Service) -> Self {
        let said = SentMessages::default();
        let libccp = init(Mailbox(Arc::clone(&said)));
        Self {
            libccp,
            said,
            peer: service.connect(0).unwrap(),
            errors: Vec::new(),
        }
    }

    /// Messages go to and fro until there are none.
    pub(crate) fn exchange(
        said: &SentMessages,
        libccp: &Datapath,
        service: &mut Service,
        peer: PeerId,
    ) -> Vec<String> {
        let mut errors = Vec::new();
        loop {
            let messages = std::mem::take(&mut *lock(said));
            for message in &messages {
                service.on_packet(peer, message, 1_000);
            }
            let mut heard = Vec::new();
            while let Some((to, packet)) = service.poll_transmit() {
                assert_eq!(to, peer);
                heard.push(packet.to_vec());
            }
            if messages.is_empty() && heard.is_empty() {
                return errors;
            }
            for mut packet in heard {
                if let Err(error) = libccp.recv_msg(&mut packet) {
                    errors.push(error.to_string());
                }
            }
        }
    }

    pub(crate) fn settle(&mut self, service: &mut Service) {
        let errors = Self::exchange(&self.said, &self.libccp, service, self.peer);
        self.errors.extend(errors);
    }

    pub(crate) fn line(&self) -> ServiceLink<'_> {
        ServiceLink {
            libccp: &self.libccp,
            said: &self.said,
            peer: self.peer,
        }
    }
}

/// The way between one libccp and a service, while flows borrow the former.
#[derive(Clone, Copy)]
pub(crate) struct ServiceLink<'a> {
    pub(crate) libccp: &'a Datapath,
    said: &'a SentMessages,
    peer: PeerId,
}

impl<'a> ServiceLink<'a> {
    pub(crate) fn start(self, algorithm: &str) -> Connection<'a, Controls> {
        start(self.libccp, algorithm)
    }

    /// Nothing that the plane says is wrong for libccp.
    pub(crate) fn settle(self, service: &mut Service) {
        let errors = InMemory::exchange(self.said, self.libccp, service, self.peer);
        assert_eq!(errors, [""; 0]);
    }
}

/// What every flow says that its segments have, bytes: not the usual size.
pub(crate) const MSS: u32 = 1200;

pub(crate) fn start<'a>(libccp: &'a Datapath, algorithm: &str) -> Connection<'a, Controls> {
    let controls = Controls {
        cwnd: 14_600,
        rate: 0,
    };
    let info = libccp::FlowInfo::default()
        .with_mss(MSS)
        .with_init_cwnd(14_600)
        .with_cong_alg(algorithm)
        .unwrap();
    Connection::start(libccp, controls, info).unwrap()
}

/// An ACK of 5 bytes, as in the tests of portus.
pub(crate) fn five_bytes() -> Primitives {
    Primitives::default()
        .with_bytes_acked(5)
        .with_rtt_sample_us(2)
}

pub(crate) fn ack(connection: &mut Connection<'_, Controls>) {
    invoke(connection, five_bytes());
}

pub(crate) fn invoke(connection: &mut Connection<'_, Controls>, primitives: Primitives) {
    let (cwnd, rate) = (connection.cwnd, connection.rate);
    connection.load_primitives(primitives.with_snd_cwnd(cwnd).with_snd_rate(rate.into()));
    connection.invoke().unwrap();
}

/// A libccp at a Unix datagram socket of its own.
pub(crate) struct OverDatagrams {
    pub(crate) libccp: Datapath,
    socket: UnixDatagram,
}

struct Sender {
    socket: UnixDatagram,
    /// Where to, unless the socket is connected.
    agent: Option<PathBuf>,
}

impl DatapathOps for Sender {
    fn send_msg(&mut self, message: &[u8]) {
        // As a datapath does: what an agent that is away cannot hear is lost.
        let _ = match &self.agent {
            Some(agent) => self.socket.send_to(message, agent),
            None => self.socket.send(message),
        };
    }
}

impl OverDatagrams {
    /// Sends each message to the agent's path.
    pub(crate) fn new(own: &Path, agent: &Path) -> Self {
        Self::at(UnixDatagram::bind(own).unwrap(), Some(agent.to_owned()))
    }

    /// Is connected to the agent's socket, and hears nobody else.
    pub(crate) fn connected(own: &Path, agent: &Path) -> Self {
        let socket = UnixDatagram::bind(own).unwrap();
        socket.connect(agent).unwrap();
        Self::at(socket, None)
    }

    fn at(socket: UnixDatagram, agent: Option<PathBuf>) -> Self {
        socket.set_nonblocking(true).unwrap();
        let sender = Sender {
            socket: socket.try_clone().unwrap(),
            agent,
        };
        let libccp = init(sender);
        Self { libccp, socket }
    }

    /// Hands libccp what came.
    pub(crate) fn receive(&self) {
        let mut buffer = vec![0; 1 << 15];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            self.libccp.recv_msg(&mut buffer[..length]).unwrap();
        }
    }
}

pub(crate) type Reports = Arc<Mutex<Vec<Vec<u64>>>>;
pub(crate) type Answer = fn(&Handles, &Report, &mut Control);

/// The handles of a [`One`].
pub(crate) struct Handles {
    pub(crate) fields: Vec<Field>,
    pub(crate) variables: Vec<Var>,
}

/// An algorithm of one program that writes down its reports and does as it is told.
pub(crate) struct One {
    name: &'static str,
    handles: Arc<Handles>,
    at_start: fn(&Handles, &mut Control),
    answer: Answer,
    reports: Reports,
}

pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) fields: &'static [&'static str],
    pub(crate) variables: &'static [&'static str],
    pub(crate) at_start: fn(&Handles, &mut Control),
    pub(crate) answer: Answer,
}

impl Script {
    pub(crate) fn new(source: &'static str, fields: &'static [&'static str]) -> Self {
        Self {
            name: "one",
            source,
            fields,
            variables: &[],
            at_start: |_, _| {},
            answer: |_, _, _| {},
        }
    }

    pub(crate) fn of(case: Case) -> Self {
        Self::new(case.source, case.fields)
    }

    pub(crate) fn add(self, plane: &mut Plane) -> Reports {
        let reports = Reports::default();
        let kept = Arc::clone(&reports);
        plane
            .add(move |programs: &mut Programs| {
                let program = programs.add(self.name, self.source)?;
                let fields = self.fields.iter().map(|f| program.field(f));
                let variables = self.variables.iter().map(|v| program.variable(v));
                Ok(One {
                    name: self.name,
                    handles: Arc::new(Handles {
                        fields: fields.collect::<Result<_, _>>()?,
                        variables: variables.collect::<Result<_, _>>()?,
                    }),
                    at_start: self.at_start,
                    answer: self.answer,
                    reports: kept,
                })
            })
            .unwrap();
        reports
    }

    pub(crate) fn serve(self) -> (Service, Reports) {
        let mut plane = Plane::new();
        let reports = self.add(&mut plane);
        (Service::new(plane, Config::default()), reports)
    }
}

impl Algorithm for One {
    fn name(&self) -> &str {
        self.name
    }

    fn new_flow(&self, _: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        (self.at_start)(&self.handles, control);
        Box::new(OneFlow {
            handles: Arc::clone(&self.handles),
            answer: self.answer,
            reports: Arc::clone(&self.reports),
        })
    }
}

struct OneFlow {
    handles: Arc<Handles>,
    answer: Answer,
    reports: Reports,
}

impl Flow for OneFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let values = self.handles.fields.iter().map(|field| report[*field]);
        self.reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(values.collect());
        (self.answer)(&self.handles, report, control);
    }
}

pub(crate) fn taken(reports: &Reports) -> Vec<Vec<u64>> {
    std::mem::take(&mut *reports.lock().unwrap_or_else(PoisonError::into_inner))
}
