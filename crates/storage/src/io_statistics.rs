//! Recent I/O of the environment, per file: the newest operations individually, older ones as sums,
//! and the slow ones.
//!
//! Not here: reacting to slowness. Invariant: everything kept is bounded, whatever is written; a
//! slow reader misses some operations, and writing never waits for a reader.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use platform::{Clock, Timestamp};

/// Operations kept individually, per file. Once there are more, all of them are summed up.
const RECENT_MAX: usize = 256;
/// Sums kept per file.
const HISTORY_MAX: usize = 64;
/// Files kept; the least recently used one is dropped first.
const FILES_MAX: usize = 8;
/// Slow operations kept.
const SLOW_MAX: usize = 64;

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

impl IoKind {
    const ALL: [IoKind; 4] =
        [IoKind::JournalWrite, IoKind::DataFlush, IoKind::DataSync, IoKind::Compression];
}

/// One completed I/O operation.
#[derive(Clone, Debug)]
pub struct IoOperation {
    /// What it was for.
    pub kind: IoKind,
    /// Name of the file inside the environment's directory.
    pub file: Arc<str>,
    /// Length of the file, in bytes, when it was written.
    pub file_bytes: u64,
    /// Bytes written; for [`IoKind::Compression`] bytes of output.
    pub bytes: u64,
    /// For [`IoKind::Compression`] bytes of input, otherwise the same as `bytes`.
    pub bytes_before: u64,
    /// When it started.
    pub start: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

/// Operations of one kind on one file, summed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoSummary {
    /// What they were for.
    pub kind: IoKind,
    /// How many there were.
    pub operations: u64,
    /// When the first one started.
    pub start: Timestamp,
    /// When the last one ended.
    pub end: Timestamp,
    /// Bytes written; for [`IoKind::Compression`] bytes of output.
    pub bytes: u64,
    /// For [`IoKind::Compression`] bytes of input, otherwise the same as `bytes`.
    pub bytes_before: u64,
    /// Length of the file, in bytes, at the last one.
    pub file_bytes: u64,
    /// How long they took altogether.
    pub active: Duration,
    /// The duration of the longest one.
    pub longest: Duration,
    /// The duration of the shortest one.
    pub shortest: Duration,
}

/// The operations on one file.
#[derive(Clone, Debug)]
pub struct FileIo {
    /// Its name inside the environment's directory.
    pub file: Arc<str>,
    /// Whether the environment still has the file open.
    pub is_in_use: bool,
    /// The newest operations, oldest first.
    pub recent: Vec<IoOperation>,
    /// The operations before them, oldest first.
    pub history: Vec<IoSummary>,
}

/// A position in the sequence of an environment's operations, to continue reading from. The default
/// is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoPosition(u64);

#[derive(Default)]
struct FileState {
    /// The number of the newest operation.
    newest: u64,
    recent: VecDeque<(u64, IoOperation)>,
    history: VecDeque<IoSummary>,
}

#[derive(Default)]
struct State {
    /// Operations so far.
    count: u64,
    files: Vec<(Arc<str>, FileState)>,
    slow: VecDeque<(u64, IoOperation)>,
}

/// The one place through which the environment's writes and syncs pass.
pub(crate) struct IoMeter {
    clock: Arc<dyn Clock>,
    slow_min: Duration,
    state: Mutex<State>,
}

impl IoMeter {
    /// Operations that take `slow_min` or longer count as slow.
    pub(crate) fn new(clock: Arc<dyn Clock>, slow_min: Duration) -> Self {
        Self { clock, slow_min, state: Mutex::default() }
    }

    /// Runs the operation and records its cost, whether it succeeds or not.
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

    /// Runs a compression, which returns the compressed length of `bytes_before` bytes.
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, operation: IoOperation) {
        let mut state = self.lock();
        state.count += 1;
        let number = state.count;
        if operation.duration >= self.slow_min {
            push_bounded(&mut state.slow, (number, operation.clone()), SLOW_MAX);
        }
        let file = state.file(&operation.file);
        file.newest = number;
        if file.recent.len() == RECENT_MAX {
            file.sum_up();
        }
        file.recent.push_back((number, operation));
    }

    /// The operations after `since`, per file in order of name, and the position to continue from.
    /// Reading from the start includes the sums of older ones; files without an operation since are
    /// left out.
    pub(crate) fn operations(&self, since: IoPosition) -> (Vec<FileIo>, IoPosition) {
        let state = self.lock();
        let from_start = since == IoPosition::default();
        let newer = |(number, _): &&(u64, IoOperation)| *number > since.0;
        let with_news = state.files.iter().filter(|(_, file)| file.newest > since.0);
        let mut files: Vec<FileIo> = with_news
            .map(|(name, file)| FileIo {
                file: name.clone(),
                is_in_use: true,
                recent: file.recent.iter().filter(newer).map(|(_, one)| one.clone()).collect(),
                history: match from_start {
                    true => file.history.iter().cloned().collect(),
                    false => Vec::new(),
                },
            })
            .collect();
        files.sort_by(|one, other| one.file.cmp(&other.file));
        (files, IoPosition(state.count))
    }

    /// The slow operations after `since`, oldest first, and the position to continue from.
    pub(crate) fn slow(&self, since: IoPosition) -> (Vec<IoOperation>, IoPosition) {
        let state = self.lock();
        let newer = state.slow.iter().filter(|(number, _)| *number > since.0);
        (newer.map(|(_, operation)| operation.clone()).collect(), IoPosition(state.count))
    }
}

impl State {
    fn file(&mut self, name: &Arc<str>) -> &mut FileState {
        let known = self.files.iter().position(|(known, _)| known == name);
        let at = known.unwrap_or_else(|| {
            if self.files.len() == FILES_MAX
                && let Some((oldest, _)) =
                    self.files.iter().enumerate().min_by_key(|(_, (_, file))| file.newest)
            {
                self.files.swap_remove(oldest);
            }
            self.files.push((name.clone(), FileState::default()));
            self.files.len() - 1
        });
        &mut self.files[at].1
    }
}

impl FileState {
    /// Replaces the individual operations with one sum per kind.
    fn sum_up(&mut self) {
        for kind in IoKind::ALL {
            let of_kind = self.recent.iter().map(|(_, one)| one).filter(|one| one.kind == kind);
            if let Some(summary) = of_kind.fold(None, IoSummary::with) {
                push_bounded(&mut self.history, summary, HISTORY_MAX);
            }
        }
        self.recent.clear();
    }
}

impl IoSummary {
    fn with(sum: Option<IoSummary>, operation: &IoOperation) -> Option<IoSummary> {
        let IoOperation { kind, file_bytes, bytes, bytes_before, start, duration, .. } = *operation;
        let end = start.plus(duration);
        let Some(sum) = sum else {
            let (active, longest, shortest) = (duration, duration, duration);
            let operations = 1;
            return Some(IoSummary {
                kind,
                operations,
                start,
                end,
                bytes,
                bytes_before,
                file_bytes,
                active,
                longest,
                shortest,
            });
        };
        Some(IoSummary {
            kind,
            operations: sum.operations + 1,
            start: sum.start.min(start),
            end: sum.end.max(end),
            bytes: sum.bytes + bytes,
            bytes_before: sum.bytes_before + bytes_before,
            file_bytes,
            active: sum.active + duration,
            longest: sum.longest.max(duration),
            shortest: sum.shortest.min(duration),
        })
    }
}

fn push_bounded<T>(ring: &mut VecDeque<T>, item: T, length_max: usize) {
    if ring.len() == length_max {
        ring.pop_front();
    }
    ring.push_back(item);
}

#[cfg(test)]
mod tests {
    use platform::{Platform, simulated::Simulation};

    use super::*;

    fn metered() -> (IoMeter, Simulation) {
        let simulation = Platform::simulated(1);
        let clock = simulation.platform.clock.clone();
        (IoMeter::new(clock, Duration::from_millis(100)), simulation)
    }

    fn write(meter: &IoMeter, simulation: &Simulation, file: &str, milliseconds: u64) {
        meter.measure(IoKind::JournalWrite, &file.into(), 1000, 10, || {
            simulation.clock.advance(Duration::from_millis(milliseconds));
        });
    }

    #[test]
    fn a_full_ring_becomes_a_sum_and_starts_again() {
        let (meter, simulation) = metered();
        for _ in 0..RECENT_MAX {
            write(&meter, &simulation, "a", 2);
        }
        let (files, _) = meter.operations(IoPosition::default());
        assert_eq!((files[0].recent.len(), files[0].history.len()), (RECENT_MAX, 0));
        write(&meter, &simulation, "a", 3);
        let (files, _) = meter.operations(IoPosition::default());
        assert_eq!((files[0].recent.len(), files[0].history.len()), (1, 1));
        let sum = &files[0].history[0];
        assert_eq!((sum.operations, sum.bytes), (RECENT_MAX as u64, RECENT_MAX as u64 * 10));
        assert_eq!(sum.longest, Duration::from_millis(2));
        assert_eq!(sum.active, Duration::from_millis(2) * RECENT_MAX as u32);
        assert!(sum.start < sum.end);
    }

    #[test]
    fn operations_are_summed_per_kind() {
        let (meter, simulation) = metered();
        for _ in 0..RECENT_MAX / 2 {
            write(&meter, &simulation, "a", 1);
            meter.measure_compression(&"a".into(), 100, || ((), 40));
        }
        write(&meter, &simulation, "a", 1);
        let (files, _) = meter.operations(IoPosition::default());
        let of = |kind| files[0].history.iter().find(|sum| sum.kind == kind).unwrap().clone();
        assert_eq!(of(IoKind::JournalWrite).operations, RECENT_MAX as u64 / 2);
        let compressed = of(IoKind::Compression);
        assert_eq!((compressed.bytes_before, compressed.bytes), (128 * 100, 128 * 40));
        assert_eq!(files[0].history.len(), 2);
    }

    #[test]
    fn a_reader_gets_new_operations_and_a_late_one_misses_those_summed_up() {
        let (meter, simulation) = metered();
        write(&meter, &simulation, "a", 1);
        let (_, position) = meter.operations(IoPosition::default());
        let (nothing, same) = meter.operations(position);
        assert!(nothing.is_empty() && same == position);
        write(&meter, &simulation, "b", 1);
        write(&meter, &simulation, "b", 1);
        let (files, next) = meter.operations(position);
        assert_eq!(files.len(), 1);
        assert_eq!((&*files[0].file, files[0].recent.len()), ("b", 2));
        for _ in 0..RECENT_MAX {
            write(&meter, &simulation, "b", 1);
        }
        let (files, _) = meter.operations(next);
        assert_eq!((files[0].recent.len(), files[0].history.len()), (2, 0));
    }

    #[test]
    fn slow_operations_are_kept_separately_and_everything_is_bounded() {
        let (meter, simulation) = metered();
        for number in 0..FILES_MAX + 3 {
            write(&meter, &simulation, &format!("file {number:02}"), 100);
            write(&meter, &simulation, &format!("file {number:02}"), 99);
        }
        let (files, _) = meter.operations(IoPosition::default());
        assert_eq!(files.len(), FILES_MAX);
        assert_eq!(&*files[0].file, "file 03");
        let (slow, position) = meter.slow(IoPosition::default());
        assert_eq!(slow.len(), FILES_MAX + 3);
        assert!(meter.slow(position).0.is_empty());
        for _ in 0..SLOW_MAX * 2 {
            write(&meter, &simulation, "a", 500);
        }
        assert_eq!(meter.slow(IoPosition::default()).0.len(), SLOW_MAX);
    }
}
