//! Author code is run so that what it does wrong harms its own flows alone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Flow, Reason};

/// Runs author code; a panic becomes a reason.
pub(crate) fn contain<T>(author: impl FnOnce() -> T) -> Result<T, Reason> {
    catch_unwind(AssertUnwindSafe(author)).map_err(|payload| {
        let reason = Reason::Panicked(message(payload.as_ref()));
        // The payload's destructor is author code too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        reason
    })
}

fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "with no message".to_owned())
}

/// Says goodbye to a flow; a panic in it has nobody left to harm.
pub(crate) fn close(mut author: Box<dyn Flow>) {
    let _ = contain(|| author.on_close());
    discard(author);
}

/// Drops what an author made.
pub(crate) fn discard<T>(author: T) {
    let _ = contain(|| drop(author));
}
