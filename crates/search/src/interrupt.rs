//! Watching a query from outside: it is stopped when it was killed, and what it looks at is counted.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::error::SearchError;

/// What long loops tell of each entry and term that they look at, and ask whether they are to go on.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    /// Without it nothing stops early.
    pub(crate) stop: Option<Arc<AtomicBool>>,
    /// Without it nothing is counted.
    pub(crate) scanned: Option<Arc<AtomicU64>>,
}

impl Interrupt {
    pub(crate) fn check(&self) -> Result<(), SearchError> {
        if let Some(scanned) = &self.scanned {
            scanned.fetch_add(1, Ordering::Relaxed);
        }
        match &self.stop {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(SearchError::Interrupted),
            _ => Ok(()),
        }
    }
}
