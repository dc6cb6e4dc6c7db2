//! Observing a query from outside: it stops when it is killed, and the items it examines are
//! counted.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::error::SearchError;

/// Long loops report each entry and term that they examine to it, and check whether to continue.
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
