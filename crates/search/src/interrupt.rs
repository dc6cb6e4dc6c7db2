//! Stopping a query from outside: it was killed, or its time is over.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::error::SearchError;

/// A flag that long loops look at; without one they never stop early.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Option<Arc<AtomicBool>>);

impl Interrupt {
    pub(crate) fn new(flag: Arc<AtomicBool>) -> Self {
        Self(Some(flag))
    }

    pub(crate) fn check(&self) -> Result<(), SearchError> {
        match &self.0 {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(SearchError::Interrupted),
            _ => Ok(()),
        }
    }
}
