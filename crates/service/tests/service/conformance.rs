//! Datapaths whose signals do not move as they say.

use fairwater_plane::*;
use fairwater_proto::{Capabilities, Hello, SignalQuality, ToPlane};
use fairwater_service::{Config, PeerId, Service, ServiceNotice};

use crate::direct::Commands;
use crate::support::*;

const PROGRAM: &str = "
(def (Report (volatile acked 0) (rate 0) (rtt 0) (volatile lost 0) (volatile timeout false)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= Report.rate Flow.rate_outgoing)
  (:= Report.rtt (if (< Flow.rtt_sample_us +infinity) Flow.rtt_sample_us 0))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (:= Report.timeout Flow.was_timeout)
  (report))";

struct Watcher;

struct WatcherFlow;

impl Algorithm for Watcher {
    fn name(&self) -> &str {
        "watcher"
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        Box::new(WatcherFlow)
    }
}

impl Flow for WatcherFlow {
    fn on_report(&mut self, _: &Report, _: &mut Control) {}
}

fn service() -> Service {
    let mut plane = Plane::new();
    plane
        .add(|programs| {
            programs.add("watch", PROGRAM)?;
            Ok(Watcher)
        })
        .unwrap();
    let config = Config {
        instance: INSTANCE,
        ..Config::default()
    };
    Service::new(plane, config)
}

fn introduced(service: &mut Service, capabilities: Capabilities) -> PeerId {
    let peer = service.connect(0).unwrap();
    let hello = Hello {
        name: "liar",
        instance: 1,
        capabilities,
    };
    service.say(peer, &ToPlane::Hello(hello));
    service.receive();
    peer
}

/// The n-th report of a flow: time, and the fields for acked, rate, RTT, losses and timeouts.
fn said(flow: FlowId, program: u32, n: u64, fields: &[u64]) -> ToPlane<'_> {
    ToPlane::Reported {
        flow,
        program,
        time_us: Some(n * 10_000),
        cwnd: 10_000,
        rate: 0,
        fields: fields.into(),
    }
}

fn unmoved(service: &mut Service) -> Vec<String> {
    let notices = service.drain_notices();
    let unmoved = notices.filter(|n| matches!(n, ServiceNotice::SignalUnmoved { .. }));
    unmoved.map(|notice| notice.to_string()).collect()
}

/// What comes of 200 reports of a flow in 2 s.
fn after_reports(capabilities: Capabilities, fields: impl Fn(u64) -> [u64; 5]) -> Vec<String> {
    let mut service = service();
    let peer = introduced(&mut service, capabilities);
    let program = start(&mut service, peer, id(0, 1), "");
    for n in 0..200 {
        service.say(peer, &said(id(0, 1), program, n, &fields(n)));
    }
    unmoved(&mut service)
}

#[test]
fn an_exact_signal_that_stands_still_is_named_once() {
    let mut service = service();
    let peer = introduced(&mut service, Capabilities::ALL);
    for slot in 0..3 {
        let program = start(&mut service, peer, id(slot, 1), "");
        for n in 0..200 {
            let fields = [1448 * (1 + n % 3), 0, 20_000 + n, 0, 0];
            service.say(peer, &said(id(slot, 1), program, n, &fields));
        }
    }
    assert_eq!(
        unmoved(&mut service),
        [
            "datapath liar calls Flow.rate_outgoing exact, but Flow.rate_outgoing did not move \
             in 128 reports of a flow of watcher, in which other signals did"
        ]
    );
    // A datapath that comes back is another: it is told again.
    let again = introduced(&mut service, Capabilities::ALL);
    let program = start(&mut service, again, id(0, 1), "");
    for n in 0..200 {
        service.say(again, &said(id(0, 1), program, n, &[n, 0, 20_000, 0, 0]));
    }
    assert_eq!(unmoved(&mut service).len(), 1);
}

#[test]
fn an_rtt_that_is_never_measured_is_named() {
    let notices = after_reports(Capabilities::ALL, |n| [1448 * n, 1_000_000 + n, 0, 0, 0]);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("Flow.rtt_sample_us"), "{notices:?}");
}

#[test]
fn what_moves_or_need_not_move_or_is_not_called_exact_is_not_named() {
    // Nothing is lost, nothing times out, and the path is as even as can be.
    let even = |_| [1448, 1_000_000, 20_000, 0, 0];
    assert_eq!(after_reports(Capabilities::ALL, even), [""; 0]);
    // The rate came late.
    let late = |n| [1448 * n, u64::from(n > 100) * 1_000_000, 20_000, 0, 0];
    assert_eq!(after_reports(Capabilities::ALL, late), [""; 0]);
    // Nothing at all moved: there is no telling.
    assert_eq!(after_reports(Capabilities::ALL, |_| [0; 5]), [""; 0]);

    let mut honest = Capabilities::ALL;
    let rate = Signal::RateOutgoing;
    honest.signals = honest.signals.with(rate, SignalQuality::Degraded);
    let none = |n| [1448 * n, 0, 20_000, 0, 0];
    assert_eq!(after_reports(honest, none), [""; 0]);
}

#[test]
fn flows_that_report_little_are_no_evidence() {
    let mut service = service();
    let peer = introduced(&mut service, Capabilities::ALL);
    // Each is new, and has measured no rate yet.
    for slot in 0..300 {
        let program = start(&mut service, peer, id(slot, 1), "");
        for n in 0..2 {
            let at = 2 * u64::from(slot) + n;
            service.say(peer, &said(id(slot, 1), program, at, &[1448, 0, 0, 0, 0]));
        }
    }
    assert_eq!(unmoved(&mut service), [""; 0]);
}

#[test]
fn a_direct_datapath_is_judged_likewise() {
    let mut service = service();
    let (datapath, _) = service.register("direct", Capabilities::ALL);
    let (flow, info) = (id(0, 1), info(10_000));
    let mut commands = Commands::default();
    let created = Event::Created {
        flow,
        algorithm: 0,
        info: &info,
    };
    service.on_event(datapath, created, &mut commands);
    for n in 0..200 {
        let fields = [0, 1_000_000 + n, 20_000, 0, 0];
        let report = RawReport {
            program: ProgramId::new(0, 0),
            time_us: n * 10_000,
            cwnd: 10_000,
            rate: 0,
            fields: &fields,
        };
        service.on_event(datapath, Event::Reported { flow, report }, &mut commands);
    }
    let notices = unmoved(&mut service);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0].starts_with("datapath direct calls Ack.bytes_acked exact"),
        "{notices:?}"
    );
}

/// A field that several signals must move for is evidence against each of them; one that explains
/// more than the others is the one that is named.
#[test]
fn the_signal_that_explains_most_is_named_and_those_that_explain_the_same_together() {
    const TANGLED: &str = "
        (def (Report (volatile acked 0) (volatile both 0) (rate 0)))
        (when true
          (:= Report.acked (+ Report.acked Ack.bytes_acked))
          (:= Report.both (* Ack.bytes_acked (* Flow.rate_incoming Flow.rate_outgoing)))
          (:= Report.rate (+ Ack.now 0))
          (report))";
    let said_of = |fields: fn(u64) -> [u64; 3]| {
        let mut plane = Plane::new();
        plane
            .add(|programs| {
                programs.add("tangled", TANGLED)?;
                Ok(Watcher)
            })
            .unwrap();
        let config = Config {
            instance: INSTANCE,
            ..Config::default()
        };
        let mut service = Service::new(plane, config);
        let peer = introduced(&mut service, Capabilities::ALL);
        let program = start(&mut service, peer, id(0, 1), "");
        for n in 0..200 {
            service.say(peer, &said(id(0, 1), program, n, &fields(n)));
        }
        unmoved(&mut service)
    };
    let nothing_acked = said_of(|n| [0, 0, n]);
    assert_eq!(nothing_acked.len(), 1, "{nothing_acked:?}");
    assert!(nothing_acked[0].contains("calls Ack.bytes_acked exact"));
    let one_rate = said_of(|n| [1448, 0, n]);
    assert_eq!(one_rate.len(), 1, "{one_rate:?}");
    let either = "calls Flow.rate_incoming or Flow.rate_outgoing exact";
    assert!(one_rate[0].contains(either), "{one_rate:?}");
}
