//! What every algorithm does at each loss, buffer and round trip, and what two do to each other:
//! tables that are snapshots. A change of one is a change of the simulator, or of an algorithm, and
//! is to be looked at: `cargo insta review`, or `INSTA_UPDATE=always cargo test` and a diff.

use std::fmt::Write;
use std::thread;

use fairwater_net::{Limit, Time};
use fairwater_plane::Plane;
use fairwater_sim::{Controller, Native, Outcome, Traffic, run};

use crate::support::{BOTTLENECK, Dumbbell, jain, plane, rate};

/// A controller, and what snapshots call it.
type Named = (String, Controller);

/// The plane's algorithms, but the one that does nothing of its own accord.
fn algorithms() -> impl Iterator<Item = &'static str> {
    let all = fairwater_algorithms::all().iter().map(|entry| entry.name);
    all.filter(|name| *name != "constant")
}

fn controllers() -> Vec<Named> {
    let natives = [("reno", Native::Reno), ("cubic", Native::Cubic)];
    let natives = natives.map(|(name, kind)| (format!("native-{name}"), Controller::Native(kind)));
    let of_plane = |name: &str| (format!("plane-{name}"), Controller::Plane(name.to_owned()));
    natives
        .into_iter()
        .chain(algorithms().map(of_plane))
        .collect()
}

fn hosting(controllers: &[&Controller]) -> Plane {
    if controllers
        .iter()
        .any(|g| matches!(g, Controller::Plane(_)))
    {
        plane(&algorithms().collect::<Vec<_>>())
    } else {
        Plane::new()
    }
}

/// Each job in a thread of its own, in the order of the jobs.
fn in_parallel<T: Send>(jobs: Vec<impl FnOnce() -> T + Send>) -> Vec<T> {
    thread::scope(|scope| {
        let running: Vec<_> = jobs.into_iter().map(|job| scope.spawn(job)).collect();
        running.into_iter().map(|job| job.join().unwrap()).collect()
    })
}

const MBIT: u64 = 12;

/// One flow for 12 s, of which the last 10 count.
fn alone(controller: &Controller, loss_per_mille: u32, buffer: f64, rtt_ms: u64) -> Outcome {
    let mut network = Dumbbell::new(MBIT, rtt_ms, 12.0).flow(controller.clone(), Traffic::Bulk);
    let bdp_bytes = rate(MBIT).bytes_in(network.rtt);
    network.limit = Limit::Bytes((bdp_bytes as f64 * buffer) as u64);
    network.loss_per_mille = loss_per_mille;
    let mut config = network.config(1);
    config.measure.from = Time::from_millis(2_000);
    run(&config, hosting(&[controller]), &mut ()).unwrap()
}

fn table(controller: &Controller) -> String {
    let mut table = format!(
        "{MBIT} Mbit/s\n\
         loss %  buffer BDP  RTT ms | utilisation %  queueing p50 ms  resent  timeouts\n"
    );
    for loss_per_mille in [0, 1, 10] {
        for buffer in [0.5, 1.0, 2.0] {
            for rtt_ms in [10, 40, 100] {
                let outcome = alone(controller, loss_per_mille, buffer, rtt_ms);
                let (edge, flow) = (&outcome.edges[BOTTLENECK], &outcome.flows[0]);
                // What holds for any of them: nothing passes that could not, or that was not sent.
                assert!(edge.utilisation <= 1.0, "{controller:?}: {edge:?}");
                assert!(flow.delivered_bytes > 0, "{controller:?}: {flow:?}");
                writeln!(
                    table,
                    "{:6.1}  {buffer:10.1}  {rtt_ms:6} | {:13.2}  {:15.3}  {:6}  {:8}",
                    f64::from(loss_per_mille) / 10.0,
                    edge.utilisation * 100.0,
                    edge.queueing_us.unwrap().p50 / 1_000.0,
                    flow.retransmissions,
                    flow.timeouts
                )
                .unwrap();
            }
        }
    }
    table
}

#[test]
fn each_algorithm_alone_at_each_loss_buffer_and_round_trip() {
    let controllers = controllers();
    let jobs = controllers
        .iter()
        .map(|(_, controller)| || table(controller));
    let tables = in_parallel(jobs.collect());
    for ((name, _), table) in controllers.iter().zip(tables) {
        insta::assert_snapshot!(name.as_str(), table);
    }
}

/// Two flows for 20 s over 40 ms, the second 777 ms behind; the last 15 s count. Who has more is of
/// this one phase: see the limits in docs/simulator.md.
fn together(first: &Controller, second: &Controller) -> Outcome {
    let network = Dumbbell::new(MBIT, 40, 20.0)
        .flow(first.clone(), Traffic::Bulk)
        .flow(second.clone(), Traffic::Bulk);
    let mut config = network.config(1);
    config.measure.from = Time::from_millis(5_000);
    config.flows[1].start = Time::from_millis(777);
    run(&config, hosting(&[first, second]), &mut ()).unwrap()
}

fn row(first: &Named, second: &Named) -> String {
    let outcome = together(&first.1, &second.1);
    let [one, two] = [0, 1].map(|index| outcome.flows[index].delivered_bytes as f64);
    let edge = &outcome.edges[BOTTLENECK];
    format!(
        "{:13} {:13} | {:5.2}  {:6.2}  {:5.3} | {:13.2}  {:15.3}  {:6}\n",
        first.0,
        second.0,
        100.0 * one / (one + two),
        100.0 * two / (one + two),
        jain(&outcome),
        edge.utilisation * 100.0,
        edge.queueing_us.unwrap().p50 / 1_000.0,
        outcome.flows.iter().map(|f| f.retransmissions).sum::<u64>()
    )
}

#[test]
fn each_pair_of_algorithms_at_one_bottleneck() {
    let controllers = controllers();
    let jobs = controllers.iter().enumerate().map(|(index, first)| {
        let others = &controllers[index..];
        move || others.iter().map(|second| row(first, second)).collect()
    });
    let rows: Vec<String> = in_parallel(jobs.collect());
    let head = format!(
        "{MBIT} Mbit/s, 40 ms, 1 BDP, the second 777 ms behind\n\
         first         second        | share  of 2nd   Jain | utilisation %  queueing p50 ms  \
         resent\n"
    );
    insta::assert_snapshot!("pairs", head + &rows.concat());
}
