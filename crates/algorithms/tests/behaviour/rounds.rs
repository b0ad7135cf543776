//! Round trips as programs count them, whatever the application writes first: HyStart is held to a
//! kernel's, which counts by sequence numbers, and Vegas to itself without short messages.

use crate::support::driver::Driver;
use crate::support::kernel::{Cubic, Kernel};
use crate::support::path::{Application, Controller, MSS, Path, run};

/// What an application writes before it has always more to send.
#[derive(Debug, Clone, Copy)]
struct Opening {
    what: &'static str,
    written: Application,
    size: fn(usize) -> u64,
}

const BULK: u64 = 1 << 40;

/// Openings that differ from bulk data in sizes, in pauses, or in both.
const OPENINGS: [Opening; 6] = [
    Opening {
        what: "bulk from the start",
        written: |_| BULK,
        size: |_| MSS,
    },
    Opening {
        what: "a cookie of 37 bytes, bulk at once",
        written: |_| BULK,
        size: |packet| if packet == 0 { 37 } else { MSS },
    },
    Opening {
        what: "a cookie of 37 bytes, bulk after its ACK",
        written: |now_us| if now_us < 300_000 { 1 } else { BULK },
        size: |packet| if packet == 0 { 37 } else { MSS },
    },
    Opening {
        what: "five short messages, bulk with them in flight",
        written: |_| BULK,
        size: |packet| if packet < 5 { 100 } else { MSS },
    },
    Opening {
        what: "short messages at a low rate, then bulk",
        written: |now_us| {
            if now_us < 1_000_000 {
                now_us / 10_000
            } else {
                BULK
            }
        },
        size: |packet| if packet < 100 { 200 } else { MSS },
    },
    Opening {
        what: "a burst, a pause, bulk",
        written: |now_us| if now_us < 2_000_000 { 25 } else { BULK },
        size: |packet| if packet == 24 { 333 } else { MSS },
    },
];

/// Packets/s, RTT in ms and the queue in packets: 5 to 48 Mbit/s, 20 to 150 ms, 0.6 to 4 BDP.
const PATHS: [(u64, u64, usize); 8] = [
    (1_550, 65, 71),
    (2_000, 80, 160),
    (833, 100, 83),
    (4_000, 20, 160),
    (4_000, 150, 600),
    (416, 60, 60),
    (2_000, 40, 48),
    (1_000, 120, 480),
];

/// The first seconds of a flow, in packets.
#[derive(Debug)]
struct Start {
    lost: u64,
    /// The greatest.
    cwnd: u64,
}

fn start(opening: Opening, path: (u64, u64, usize), control: &mut dyn Controller) -> Start {
    let (packets_per_s, rtt_ms, queue) = path;
    let mut path = Path::new(packets_per_s, rtt_ms * 1_000, queue);
    path.application = opening.written;
    path.size = opening.size;
    let samples = run(path, control, 2.0 + 12.0 * rtt_ms as f64 / 1e3);
    Start {
        lost: samples.iter().map(|s| s.lost_now).sum(),
        cwnd: samples.iter().map(|s| s.cwnd).max().unwrap_or(0),
    }
}

/// The exit of slow start is the kernel's: as large a window, and no burst of losses.
#[test]
fn hystart_leaves_where_a_kernel_does_whatever_is_written_first() {
    for opening in OPENINGS {
        for path in PATHS {
            let kernel = start(opening, path, &mut Kernel::new(Cubic::default()));
            let ours = start(opening, path, &mut Driver::new("cubic"));
            let context = format!("{}, {path:?}: {ours:?}, a kernel {kernel:?}", opening.what);
            assert!(ours.lost <= kernel.lost + 8, "{context}");
            let ratio = ours.cwnd as f64 / kernel.cwnd as f64;
            assert!((0.95..1.05).contains(&ratio), "{context}");
        }
    }
}

/// Slow start ends where it does without short messages: these make no round trip longer. After
/// messages at a low rate it doubles from another window.
#[test]
fn vegas_ends_slow_start_at_the_same_window_whatever_is_written_first() {
    for path in PATHS {
        let bulk = start(OPENINGS[0], path, &mut Driver::new("vegas"));
        for opening in OPENINGS {
            let found = start(opening, path, &mut Driver::new("vegas"));
            let context = format!("{}, {path:?}: {found:?}, bulk {bulk:?}", opening.what);
            assert!(found.lost <= bulk.lost + 8, "{context}");
            let least = match opening.what.contains("low rate") {
                true => 0.5,
                false => 0.95,
            };
            let ratio = found.cwnd as f64 / bulk.cwnd as f64;
            assert!((least..1.05).contains(&ratio), "{context}");
        }
    }
}
