//! Whether an open database takes writes of clients.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// Why a database takes no writes of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WritesRefused {
    /// Its files are an older copy than what other nodes have, for this reason.
    Lost(Arc<str>),
    /// It is about to leave this node.
    Leaving,
}

/// See the module. It is entered for each write until the write is in the queue, so that all that were let in have been
/// queued before it is closed.
#[derive(Default)]
pub(crate) struct WriteGate(RwLock<Option<WritesRefused>>);

/// Keeps the writes of clients out of a database until it is dropped.
pub struct PausedWrites(Arc<WriteGate>);

impl WriteGate {
    /// Submits a write, unless writes are refused.
    pub(crate) fn enter<T>(&self, submit: impl FnOnce() -> T) -> Result<T, WritesRefused> {
        let refused = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match &*refused {
            Some(reason) => Err(reason.clone()),
            None => Ok(submit()),
        }
    }

    /// Refuses writes for good. The first reason counts.
    pub(crate) fn refuse(&self, reason: &str) {
        let mut refused = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*refused, Some(WritesRefused::Lost(_))) {
            *refused = Some(WritesRefused::Lost(reason.into()));
        }
    }

    /// Refuses writes for a while.
    ///
    /// # Errors
    /// They are refused already.
    pub(crate) fn pause(self: &Arc<Self>) -> Result<PausedWrites, WritesRefused> {
        let mut refused = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match &*refused {
            Some(reason) => Err(reason.clone()),
            None => {
                *refused = Some(WritesRefused::Leaving);
                Ok(PausedWrites(Arc::clone(self)))
            }
        }
    }
}

impl Drop for PausedWrites {
    fn drop(&mut self) {
        let mut refused = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        if *refused == Some(WritesRefused::Leaving) {
            *refused = None;
        }
    }
}

impl fmt::Debug for PausedWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PausedWrites")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_when_it_is_dropped_unless_writes_are_refused_for_good_meanwhile() {
        let gate = Arc::new(WriteGate::default());
        assert_eq!(gate.enter(|| 7), Ok(7));
        let pause = gate.pause().unwrap();
        assert_eq!(gate.enter(|| 7), Err(WritesRefused::Leaving));
        assert_eq!(gate.pause().unwrap_err(), WritesRefused::Leaving);
        drop(pause);
        assert_eq!(gate.enter(|| 7), Ok(7));
        let pause = gate.pause().unwrap();
        gate.refuse("older");
        drop(pause);
        gate.refuse("another reason");
        assert_eq!(gate.enter(|| 7), Err(WritesRefused::Lost("older".into())));
        assert!(gate.pause().is_err());
    }

    #[test]
    fn a_write_that_was_let_in_is_submitted_before_a_pause_begins() {
        let gate = Arc::new(WriteGate::default());
        let (submitting, submits) = std::sync::mpsc::channel();
        let submitted = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                gate.enter(|| {
                    submitting.send(()).unwrap();
                    std::thread::yield_now();
                    submitted.store(true, std::sync::atomic::Ordering::SeqCst);
                })
            });
            submits.recv().unwrap();
            let _paused = gate.pause().unwrap();
            assert!(submitted.load(std::sync::atomic::Ordering::SeqCst));
        });
    }
}
