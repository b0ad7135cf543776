//! Flows that are bundles: the aggregate traffic between two sites (Bundler), behind a rate limiter.

use fairwater_plane::FlowInfo;

/// Whether the flow is a bundle: it has no address here, and its receivebox's there. A transport that knows of no
/// address has neither. Its sendbox holds a rate and no window, so that
/// more than a window may be in flight.
pub(crate) fn is_bundle(info: &FlowInfo) -> bool {
    info.local.ip().is_unspecified() && !info.remote.ip().is_unspecified()
}
