//! What the environment's I/O cost lately: a bounded ring per kind of operation.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use platform::{Clock, Timestamp};

/// Operations remembered per environment.
const RECENT_MAX: usize = 256;

/// What an I/O operation was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// A journal record, written and synced.
    JournalWrite,
    /// Pages written to the data file.
    DataFlush,
    /// The data file synced.
    DataSync,
    /// A journal record compressed (no I/O, but part of the cost of a commit).
    Compression,
}

/// One finished operation.
#[derive(Clone, Debug)]
pub struct IoOperation {
    /// What it was for.
    pub kind: IoKind,
    /// Name of the file inside the environment's directory.
    pub file: Arc<str>,
    /// Length of the file, in bytes, when it was written.
    pub file_bytes: u64,
    /// Bytes written (for [`IoKind::Compression`]: bytes going in).
    pub bytes: u64,
    /// When it started.
    pub start: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

/// The one place through which the environment's writes and syncs pass.
pub(crate) struct IoMeter {
    clock: Arc<dyn Clock>,
    recent: Mutex<VecDeque<IoOperation>>,
}

impl IoMeter {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, recent: Mutex::new(VecDeque::with_capacity(RECENT_MAX)) }
    }

    /// Runs the operation and remembers what it cost, whether it succeeded or not.
    pub(crate) fn measure<T>(
        &self,
        kind: IoKind,
        file: &Arc<str>,
        file_bytes: u64,
        bytes: u64,
        operation: impl FnOnce() -> T,
    ) -> T {
        let start = self.clock.now();
        let began = self.clock.monotonic();
        let result = operation();
        let duration = self.clock.monotonic().saturating_sub(began);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(IoOperation {
            kind,
            file: file.clone(),
            file_bytes,
            bytes,
            start,
            duration,
        });
        result
    }

    /// The newest operations, oldest first.
    pub(crate) fn recent(&self) -> Vec<IoOperation> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().cloned().collect()
    }
}
