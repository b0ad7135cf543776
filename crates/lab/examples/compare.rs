//! Runs the kernel's Reno and Cubic over a link, prints the results and writes a report:
//! `cargo run -p fairwater-lab --example compare -- "48mbit 20ms 1bdp" report.html`.

#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairwater_lab::{Candidate, Comparison, run};
use fairwater_results::report;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let link = arguments
        .next()
        .unwrap_or_else(|| "48mbit 20ms 1bdp".to_owned());
    let candidates = ["reno", "cubic"].map(|name| Candidate {
        label: format!("kernel:{name}"),
        congestion_control: name.to_owned(),
    });
    let mut comparison = Comparison::new(link.parse()?, candidates.into());
    comparison.duration = Duration::from_secs(10);
    let results = run(&comparison, &AtomicBool::new(false), &mut |_| ())?;
    for run in &results.runs {
        println!(
            "{}: {:.1} Mbit/s, {:.1} % of the link, queueing delay {:.1} ms at the median",
            run.name,
            run.throughput_bps / 1e6,
            run.utilisation * 100.0,
            run.queueing_delay_ms.p50,
        );
    }
    if let Some(file) = arguments.next() {
        std::fs::write(file, report::comparison(&results))?;
    }
    Ok(())
}
