//! Requests to other servers. The engine has no network: the caller makes them, within their limits.

use std::{
    fmt,
    io::Read,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use security::KeyPair;
use wire::NodeAddress;

/// A request.
#[derive(Debug)]
pub struct OutboundRequest {
    /// The method.
    pub method: &'static str,
    /// The server.
    pub server: NodeAddress,
    /// The path, which begins with a slash, and perhaps a query.
    pub path: String,
    /// The type of the body; empty without one.
    pub content_type: String,
    /// The body; several requests may have it.
    pub body: Arc<Vec<u8>>,
    /// The request fails when the answer is not complete after this time.
    pub time_max: Duration,
    /// Of the body of the answer no more than this is kept; the rest is read and dropped.
    pub answer_bytes_max: usize,
    /// What the client identifies itself with; `None`: what the server does.
    pub identity: Option<ClientIdentity>,
}

/// A certificate with its key, to connect with. Of equal certificates the key is the same.
#[derive(Clone)]
pub struct ClientIdentity(pub Arc<KeyPair>);

impl ClientIdentity {
    /// The thumbprint of the certificate.
    pub fn thumbprint(&self) -> &str {
        self.0.certificate().thumbprint()
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientIdentity").field(&self.thumbprint()).finish()
    }
}

impl PartialEq for ClientIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.thumbprint() == other.thumbprint()
    }
}

impl Eq for ClientIdentity {}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct OutboundAnswer {
    /// The status.
    pub status: u16,
    /// The beginning of its body.
    pub body: Vec<u8>,
}

/// An answer whose body is still to come.
pub struct OutboundStream {
    /// The status.
    pub status: u16,
    /// The body; reading it blocks.
    pub body: Box<dyn Read + Send>,
}

/// Whether an answer is still wanted; asked several times a second while it is waited for.
pub type StillWanted = Arc<dyn Fn() -> bool + Send + Sync>;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboundError {
    /// The caller no longer wants one.
    Canceled,
    /// It could not be sent, or the answer did not arrive.
    Failed {
        /// Why, for operators.
        message: String,
    },
}

impl fmt::Display for OutboundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutboundError::Canceled => f.write_str("The request was canceled."),
            OutboundError::Failed { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for OutboundError {}

/// Makes requests.
pub trait Outbound: Send + Sync {
    /// Makes a request, and waits for the answer. Blocks; ends soon after `cancel` is called.
    ///
    /// # Errors
    /// There is no answer in time.
    fn send(
        &self,
        request: OutboundRequest,
        cancel: &Cancel,
    ) -> Result<OutboundAnswer, OutboundError>;

    /// Makes a request whose answer may be of any length, and returns when it begins. Blocks, as reading its body does;
    /// both fail when nothing arrives for the time of the request, and soon after the answer is no longer wanted.
    ///
    /// # Errors
    /// The answer does not begin in time.
    fn open(
        &self,
        request: OutboundRequest,
        is_wanted: StillWanted,
    ) -> Result<OutboundStream, OutboundError>;
}

/// Ends work that waits. Cheap to clone.
#[derive(Clone, Default)]
pub struct Cancel {
    inner: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_canceled: bool,
    /// Called once it is canceled.
    notified: Option<Box<dyn FnOnce() + Send>>,
}

impl Cancel {
    /// Ends the work, and all work that is begun later.
    pub fn cancel(&self) {
        let notified = {
            let mut state = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_canceled = true;
            state.notified.take()
        };
        if let Some(notify) = notified {
            notify();
        }
    }

    /// Whether it was canceled.
    pub fn is_canceled(&self) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).is_canceled
    }

    /// Calls `notify` once it is canceled; at once if it was. Replaces what was to be called before.
    pub fn on_cancel(&self, notify: impl FnOnce() + Send + 'static) {
        let mut state = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match state.is_canceled {
            true => {
                drop(state);
                notify();
            }
            false => state.notified = Some(Box::new(notify)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn what_waits_is_notified_once() {
        let (cancel, count) = (Cancel::default(), Arc::new(AtomicU32::new(0)));
        let add = |by: u32| {
            let count = Arc::clone(&count);
            move || {
                count.fetch_add(by, Ordering::Relaxed);
            }
        };
        cancel.on_cancel(add(1));
        cancel.on_cancel(add(10));
        assert!(!cancel.is_canceled());
        cancel.cancel();
        cancel.cancel();
        assert!(cancel.is_canceled());
        cancel.on_cancel(add(100));
        assert_eq!(count.load(Ordering::Relaxed), 110);
    }
}
