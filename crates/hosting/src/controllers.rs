//! Who controls the flows of hosted algorithms, as the kernel side says.

use fairwater_linux::{FlowState, observe};
use fairwater_results::{ControllerSample, FallbackCause};

/// Samples who controls every flow of an algorithm on this machine's TCP.
#[must_use]
pub fn sample_controllers() -> Vec<ControllerSample> {
    let mut samples = Vec::new();
    for plane in observe::planes() {
        let absent = match (plane.alive, process_lives(plane.pid)) {
            (true, _) => None,
            (false, true) => Some(FallbackCause::Silent),
            (false, false) => Some(FallbackCause::Ended),
        };
        samples.extend(plane.flows.iter().map(|flow| ControllerSample {
            congestion_control: plane.name.clone(),
            local_port: flow.local.port(),
            fallback: match flow.state {
                FlowState::Faulted => Some(FallbackCause::Failed),
                FlowState::Fallback => absent.or(Some(FallbackCause::Silent)),
                FlowState::Starting | FlowState::Running => absent,
            },
        }));
    }
    samples
}

/// Whether the process exists, and is not only waiting to be reaped.
fn process_lives(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}
