//! Randomness, all of it from the seed.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What a stream of random numbers is for. Each of them has a stream of its own, so that another
/// flow or edge at the end of the list changes nothing for those before it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// The arrivals and sizes of a flow's requests.
    Requests = 1,
    /// When a flow starts.
    Start = 2,
    /// Loss, marks and the like of an edge.
    Edge = 3,
    /// Initial sequence numbers and the like of a flow's connections.
    Numbers = 4,
    /// Secrets and queues of a bundle's boxes.
    Bundle = 5,
}

/// The stream of the `index`th flow or edge for that purpose.
pub(crate) fn stream(seed: u64, purpose: Purpose, index: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream((purpose as u64) << 56 | index as u64);
    rng
}
