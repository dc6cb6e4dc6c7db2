//! Errors that pass through JavaScript: kept aside, so that they come out as they went in.
//!
//! A host's error, or damage found in a document, is thrown as a JavaScript error that the script may
//! catch. When it leaves the script uncaught, the original is given to the caller instead of its text.

use std::cell::RefCell;

use rquickjs::{Ctx, Exception};

use crate::error::ScriptError;

thread_local! {
    /// The last such error of the run on this thread, with the message that it was thrown under.
    static LAST: RefCell<Option<(String, ScriptError)>> = const { RefCell::new(None) };
}

/// Throws `error` in the script and remembers it.
pub(crate) fn raise(ctx: &Ctx<'_>, error: ScriptError) -> rquickjs::Error {
    let message = error.to_string();
    let thrown = Exception::throw_message(ctx, &message);
    LAST.with_borrow_mut(|last| *last = Some((message, error)));
    thrown
}

/// Forgets what an earlier run left behind.
pub(crate) fn forget() {
    LAST.with_borrow_mut(|last| *last = None);
}

/// The remembered error, when `message` is what the script let through.
pub(crate) fn take(message: &str) -> Option<ScriptError> {
    LAST.with_borrow_mut(|last| match last {
        Some((thrown, _)) if thrown == message => last.take().map(|(_, error)| error),
        Some(_) | None => None,
    })
}
