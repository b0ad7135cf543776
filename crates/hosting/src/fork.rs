//! What a forked child of a process that hosts algorithms must not do.
//!
//! An algorithm in Python may fork. The child has a copy of the plane: if it returned from the
//! algorithm's call, it would go on as a second plane of the same flows, with the same heartbeat,
//! and nobody would stop it.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

thread_local! {
    static RUNS_PLANE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this process has hosted a plane.
static HOSTS_PLANE: AtomicBool = AtomicBool::new(false);

static FORKED_PLANE: AtomicBool = AtomicBool::new(false);

/// Marks the calling thread as one that runs a plane on this machine's TCP.
pub(crate) fn mark_plane_thread() {
    RUNS_PLANE.set(true);
    HOSTS_PLANE.store(true, Relaxed);
}

/// Whether this process hosts a plane, or has.
pub(crate) fn hosts_plane() -> bool {
    HOSTS_PLANE.load(Relaxed)
}

/// To be called in a forked child, on the thread that forked. Returns whether the parent hosts a
/// plane: the child then has copies of descriptors that keep its algorithms registered.
pub fn on_fork_in_child() -> bool {
    if RUNS_PLANE.get() {
        FORKED_PLANE.store(true, Relaxed);
    }
    HOSTS_PLANE.load(Relaxed)
}

/// Ends the process, without running anything else, if it is a forked copy of a plane. To be
/// called where an algorithm's call returns to the plane.
#[inline]
pub fn exit_forked_plane() {
    if FORKED_PLANE.load(Relaxed) {
        signal_hook::low_level::exit(0);
    }
}
