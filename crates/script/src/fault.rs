//! Errors that pass through JavaScript, kept aside so that they come out unchanged.
//!
//! A host's error, or damage found in a document, is thrown as a JavaScript error that the script
//! may catch. If the script does not catch it, the caller gets the original error instead of its
//! text.

use std::cell::RefCell;

use rquickjs::{Ctx, Exception};

use crate::error::ScriptError;

thread_local! {
    /// The last such error of the run on this thread, with the message it was thrown with.
    static LAST: RefCell<Option<(String, ScriptError)>> = const { RefCell::new(None) };
}

/// Throws `error` in the script and keeps it.
pub(crate) fn raise(ctx: &Ctx<'_>, error: ScriptError) -> rquickjs::Error {
    let message = error.to_string();
    let thrown = Exception::throw_message(ctx, &message);
    LAST.with_borrow_mut(|last| *last = Some((message, error)));
    thrown
}

/// Discards the error of an earlier run.
pub(crate) fn forget() {
    LAST.with_borrow_mut(|last| *last = None);
}

/// The kept error, if `message` is the one that the script did not catch.
pub(crate) fn take(message: &str) -> Option<ScriptError> {
    LAST.with_borrow_mut(|last| match last {
        Some((thrown, _)) if thrown == message => last.take().map(|(_, error)| error),
        Some(_) | None => None,
    })
}
