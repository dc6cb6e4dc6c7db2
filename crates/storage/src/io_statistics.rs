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
    /// Bytes written; for [`IoKind::Compression`] bytes that came out.
    pub bytes: u64,
    /// For [`IoKind::Compression`] bytes that went in, otherwise the same as `bytes`.
    pub bytes_before: u64,
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
        let (start, began) = (self.clock.now(), self.clock.monotonic());
        let result = operation();
        let duration = self.clock.monotonic().saturating_sub(began);
        let file = file.clone();
        let bytes_before = bytes;
        self.remember(IoOperation { kind, file, file_bytes, bytes, bytes_before, start, duration });
        result
    }

    /// Runs a compression, which tells how many bytes came out of `bytes_before`.
    pub(crate) fn measure_compression<T>(
        &self,
        file: &Arc<str>,
        bytes_before: u64,
        compress: impl FnOnce() -> (T, u64),
    ) -> T {
        let (start, began) = (self.clock.now(), self.clock.monotonic());
        let (result, bytes) = compress();
        let duration = self.clock.monotonic().saturating_sub(began);
        let (kind, file) = (IoKind::Compression, file.clone());
        self.remember(IoOperation {
            kind,
            file,
            file_bytes: 0,
            bytes,
            bytes_before,
            start,
            duration,
        });
        result
    }

    fn remember(&self, operation: IoOperation) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(operation);
    }

    /// The newest operations, oldest first.
    pub(crate) fn recent(&self) -> Vec<IoOperation> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().cloned().collect()
    }
}
