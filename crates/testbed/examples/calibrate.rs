//! Measures how true the emulator is on this machine, from 1 to 500 Mbit/s, and prints a table:
//! `cargo run --release -p fairwater-testbed --example calibrate -- [SECONDS]`.

#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::time::Duration;

use fairwater_testbed::calibrate;

/// What is promised: the rate within 1 %, the delay within 0.2 ms at the median.
const RATE_WITHIN: f64 = 0.01;
const DELAY_WITHIN_US: f64 = 200.0;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).unwrap_or_else(|| "3".to_owned());
    let duration = Duration::from_secs_f64(seconds.parse()?);
    println!(
        "{:>8} {:>7} {:>12} {:>12} {:>12} {:>12} {:>8}  within 1 %, 0.2 ms",
        "Mbit/s", "RTT ms", "rate error %", "delay +µs", "p99 +µs", "late p99 ms", "steal %",
    );
    for (rate, rtt) in [
        ("1", "20"),
        ("10", "20"),
        ("48", "20"),
        ("96", "20"),
        ("100", "1"),
        ("200", "20"),
        ("500", "20"),
        ("500", "1"),
    ] {
        let link = format!("{rate}mbit {rtt}ms 2000pkt").parse()?;
        let measured = calibrate(&link, duration)?;
        let within = measured.rate_error.abs() <= RATE_WITHIN
            && measured.delay_error_p50_us.abs() <= DELAY_WITHIN_US;
        println!(
            "{rate:>8} {rtt:>7} {:>12.3} {:>12.1} {:>12.1} {:>12.3} {:>8.2}  {}",
            measured.rate_error * 100.0,
            measured.delay_error_p50_us,
            measured.delay_error_p99_us,
            measured.lateness_ms.p99,
            measured.steal * 100.0,
            if within { "yes" } else { "NO" },
        );
    }
    Ok(())
}
