//! How much of the server's memory each part may use: every bound follows from one limit.
//!
//! The limit is the smallest of the setting, the control group's and the machine's. An eighth of it
//! is left free: for what the kernel holds for the process, and for growth that is noticed late. Of
//! the rest these may take at most:
//!
//! | part | for |
//! |---|---|
//! | a quarter | `unflushed`: page versions that the data files do not have yet |
//! | a quarter | `work`: temporary memory that grows with data or clients |
//! | a sixteenth | `small_bodies`: small request bodies |
//! | an eighth | `system_unflushed`: the same as `unflushed`, of the server's own environment |
//!
//! and, together with what databases take that are being opened, all of them what is left besides code, connections, queues, open databases, caches
//! and the allocator's overhead: that is not counted but measured continuously
//! ([`UncountedMemory`]).
//!
//! What databases take once they are open is measured like that, too. But those that are not small may take at most half
//! of the limit together, by what their records say ([`DatabaseMemory`]).
//!
//! All work draws from a part of `work` ([`MemoryBudget::part`]) that is half of it, so that no
//! single kind of work starves the others: request bodies, responses, open transactions,
//! batches of indexes, definitions, and changes of large records. Heaps of patches' scripts have a part of the whole that leaves room for all
//! other work, since they can wait and requests are refused. What is small and bounded in number is
//! not counted; each user defines its own threshold.

use std::sync::Arc;

use commands::{CommitQueueOptions, ThreadLimits};
use database::{DatabaseMemory, MemoryLevel, MemoryPressure, UncountedMemory};
use platform::{MemoryLimit, MemoryLimitSource, Platform};
use script::MEMORY_BYTES_MAX_DEFAULT;
use settings::{MemorySettings, Settings};
use storage::MemoryBudget;

use crate::error::EngineError;

/// Fraction of the limit that is left free.
const FREE_PART: u64 = 8;
/// Of one database's unflushed changes, unless a setting says otherwise.
const UNFLUSHED_BYTES_MAX: u64 = 256 << 20;
/// Fraction of the limit for all unflushed changes.
const UNFLUSHED_PART: u64 = 4;
/// Fraction of the limit for unflushed changes of the server's own environment, and the most of it. Each change of a
/// record holds it twice: as an entry of the log, and as the record; and the next changes begin before those are flushed.
const SYSTEM_UNFLUSHED_PART: u64 = 8;
const SYSTEM_UNFLUSHED_BYTES_MAX: u64 = 256 << 20;
/// Fraction of the limit for open databases.
const DATABASES_PART: u64 = 2;
/// Fraction of the limit that those which are being opened leave to everything else, and the one of what is left free that
/// small ones may take.
const DATABASES_LEAVE_PART: u64 = 8;
const SMALL_DATABASES_PART: u64 = 16;
/// Fraction of the limit for work.
const WORK_PART: u64 = 4;
/// Fraction of the limit for small request bodies.
const SMALL_BODIES_PART: u64 = 16;
/// Fraction of the memory for work that one kind of work may use.
const KIND_PART: u64 = 2;
/// Fraction of the limit that is left to indexes.
const INDEXING_PART: u64 = 32;
/// Fraction of the limit for the scripts of one thread.
const SCRIPT_PART: u64 = 16;
/// Memory counts as low when less than this is left, whatever the limit.
const LOW_BYTES_MAX: u64 = 2 << 30;
/// Fraction of the limit for connections, with what is not counted of their requests and responses.
const CONNECTIONS_PART: u64 = 8;
/// The uncounted memory of each; and of one that is encrypted, which has buffers and a client's certificates.
const CONNECTION_BYTES: u64 = 32 << 10;
const ENCRYPTED_CONNECTION_BYTES: u64 = 96 << 10;
/// Fraction of the limit for messages that wait for slow clients of the Changes API.
const CHANGES_PART: u64 = 16;
/// Fraction of the limit for the record of one database: a change of it holds it several times.
const RECORD_PART: u64 = 64;
/// A larger record would make each change of it slow.
const RECORD_BYTES_MAX: usize = 64 << 20;
/// With fewer connections the server would be unusable.
const CONNECTIONS_MIN: usize = 64;
/// Bounds of a connection's send buffer; the system doubles it for its own needs.
const SEND_BUFFER_BYTES_MIN: usize = 64 << 10;
const SEND_BUFFER_BYTES_MAX: usize = 2 << 20;
/// Within the bounds, the fraction of the limit for a send buffer.
const SEND_BUFFER_PART: u64 = 2048;
/// With less memory, what the allocator retains of freed memory would be a large part.
const KEEPING_FREED_BYTES_MIN: u64 = 2 << 30;
/// Divides the memory by this for the number of response threads: what one of them may need
/// temporarily, such as for a row of large documents that a script produces.
const ANSWER_THREAD_BYTES: u64 = 128 << 20;
/// More threads than this do not produce more responses.
const ANSWER_THREADS_MAX: usize = 16;
/// Threads that commit start at once up to these numbers: they mostly wait for disks.
const COMMIT_THREADS_PER_CORE: usize = 4;
const COMMIT_THREADS_MIN: usize = 24;
/// Divides the memory by this for the number of threads that commit where all of them take long.
const COMMIT_THREAD_BYTES: u64 = 4 << 20;
/// Fraction of the limit for the heaps of patches' scripts that run at the same time, and their number however
/// little that is.
const PATCHES_PART: u64 = 4;
const PATCHES_MIN: usize = 2;
/// Fraction of the limit that these heaps leave to others.
const PATCHES_LEAVE_PART: u64 = 8;
/// More threads than this are of no use to any disk.
const COMMIT_THREADS_MAX: usize = 1024;
/// Fraction of the limit for what is kept decrypted of one database, and the most of it.
const PLAINTEXT_PART: u64 = 64;
const PLAINTEXT_BYTES_MAX: usize = 32 << 20;
/// Assumed when the system does not say how much memory it has.
const UNKNOWN_LIMIT_BYTES: u64 = 4 << 30;

/// The memory bounds of all parts of the server, derived from its memory limit.
pub struct MemoryPlan {
    /// How much memory is left, and what follows from that.
    pub pressure: Arc<MemoryPressure>,
    /// Where the limit comes from, in words.
    pub limited_by: &'static str,
    /// Limit of the unflushed changes of one database.
    pub unflushed_bytes_max: u64,
    /// Everything that is counted, together.
    pub process: Arc<MemoryBudget>,
    /// Everything that is not.
    pub uncounted: Arc<UncountedMemory>,
    /// The unflushed changes of all databases.
    pub unflushed: Arc<MemoryBudget>,
    /// The unflushed changes of the server's own environment, which is never refused to write because of databases.
    pub system_unflushed: Arc<MemoryBudget>,
    /// What databases take, as far as it depends on their records.
    pub databases: DatabaseMemory,
    /// Limits of the commit queue of one database.
    pub queue: CommitQueueOptions,
    /// All short-lived memory that grows with data or with the number of clients.
    pub work: Arc<MemoryBudget>,
    /// Large request bodies, a part of `work`.
    pub bodies: Arc<MemoryBudget>,
    /// Small request bodies, which are not part of `work`.
    pub small_bodies: Arc<MemoryBudget>,
    /// Responses that their clients have not read yet, a part of `work`.
    pub answers: Arc<MemoryBudget>,
    /// How many threads produce long responses.
    pub answer_threads_max: usize,
    /// How many connections there is memory for.
    pub connections_max: usize,
    /// Limit of what is queued for all clients of the Changes API, unless a setting says less.
    pub changes_bytes_max: usize,
    /// Limit of the record of one database, with its definitions.
    pub record_bytes_max: usize,
    /// How much may be sent on one connection before its client acknowledges it.
    pub send_buffer_bytes: usize,
    /// Open transactions of documents, a part of `work`.
    pub transactions: Arc<MemoryBudget>,
    /// What is decrypted of encrypted databases, a part of `work`.
    pub plaintext: Arc<MemoryBudget>,
    /// Limit of what is kept decrypted of one database, and of each of its indexes, between transactions.
    pub plaintext_bytes_max: usize,
    /// Batches of indexes with their transactions, a part of `work`.
    pub indexing: Arc<MemoryBudget>,
    /// Compiling definitions of indexes, a part of `work`.
    pub definitions: Arc<MemoryBudget>,
    /// Changes of large records, a part of `work`.
    pub records: Arc<MemoryBudget>,
    /// Limit of the scripts of one thread.
    pub script_bytes_max: usize,
    /// The heaps of patches' scripts, all but one.
    pub script_heaps: Arc<MemoryBudget>,
    /// How many threads commit the changes of all databases.
    pub commit_threads: ThreadLimits,
}

impl MemoryPlan {
    /// The plan for this machine and these settings.
    pub fn new(settings: &Settings, platform: &Platform) -> MemoryPlan {
        let system = platform.memory.limit().unwrap_or_else(|error| {
            tracing::warn!(%error, "the amount of memory is unknown");
            MemoryLimit { bytes: UNKNOWN_LIMIT_BYTES, source: MemoryLimitSource::Physical }
        });
        let asked = settings.database.unflushed_bytes_max;
        let mut plan = MemoryPlan::within(platform, system, &settings.memory, asked);
        if settings.security.certificate.is_some() {
            let factor = (ENCRYPTED_CONNECTION_BYTES / CONNECTION_BYTES) as usize;
            plan.connections_max = (plan.connections_max / factor).max(CONNECTIONS_MIN);
        }
        plan
    }

    fn within(
        platform: &Platform,
        system: MemoryLimit,
        settings: &MemorySettings,
        unflushed_asked: Option<u64>,
    ) -> MemoryPlan {
        let set = settings.limit_bytes.filter(|bytes| *bytes < system.bytes);
        let limit = MemoryLimit { bytes: set.unwrap_or(system.bytes), ..system };
        let limited_by = match (set, system.source) {
            (Some(_), _) => "Memory.LimitInMb",
            (None, MemoryLimitSource::ControlGroup) => "the control group",
            (None, MemoryLimitSource::Physical) => "the machine",
        };
        let bytes = limit.bytes;
        if bytes < KEEPING_FREED_BYTES_MIN {
            platform.memory.return_freed_at_once();
        }
        let low = settings.low_bytes.unwrap_or_else(|| (bytes / 5).min(LOW_BYTES_MAX));
        let standard = CommitQueueOptions::default();
        let part = |of: u64| usize::try_from(bytes / of).unwrap_or(usize::MAX);
        let unflushed_bytes_max =
            unflushed_asked.unwrap_or_else(|| (bytes / 8).min(UNFLUSHED_BYTES_MAX));
        let uncounted = Arc::new(UncountedMemory::new(platform, bytes));
        let unflushed_bytes = (bytes / UNFLUSHED_PART).max(unflushed_bytes_max);
        let process_bytes = bytes - bytes / FREE_PART;
        let process = MemoryBudget::of_process(process_bytes, Arc::clone(&uncounted) as _);
        let work = process.part(bytes / WORK_PART);
        let kind_bytes = work.bytes_max() / KIND_PART;
        let kind = || work.part_that_leaves(bytes / INDEXING_PART, kind_bytes);
        let (bodies, answers, transactions, definitions) = (kind(), kind(), kind(), kind());
        let (plaintext, records) = (kind(), kind());
        let plaintext_bytes_max = part(PLAINTEXT_PART).min(PLAINTEXT_BYTES_MAX);
        let indexing = work.part(kind_bytes);
        let small_bodies = process.part(bytes / SMALL_BODIES_PART);
        let script_heaps = process.part_reserved(bytes / PATCHES_LEAVE_PART, bytes / PATCHES_PART);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let unhurried = (COMMIT_THREADS_PER_CORE * cores).max(COMMIT_THREADS_MIN);
        let script_bytes_max = MEMORY_BYTES_MAX_DEFAULT.min(part(SCRIPT_PART));
        let commit_threads = ThreadLimits {
            unhurried,
            max: part(COMMIT_THREAD_BYTES).min(COMMIT_THREADS_MAX).max(unhurried),
            scripts: (part(PATCHES_PART) / script_bytes_max).max(PATCHES_MIN),
        };
        MemoryPlan {
            pressure: Arc::new(MemoryPressure::new(limit, low).counted_by(&process, &uncounted)),
            limited_by,
            unflushed_bytes_max,
            unflushed: process.part(unflushed_bytes),
            system_unflushed: process
                .part_assured((bytes / SYSTEM_UNFLUSHED_PART).min(SYSTEM_UNFLUSHED_BYTES_MAX)),
            databases: DatabaseMemory {
                open: MemoryBudget::new(bytes / DATABASES_PART),
                opening: process
                    .part_that_leaves(bytes / DATABASES_LEAVE_PART, bytes / DATABASES_PART),
                opening_small: process
                    .part_that_exceeds(bytes / SMALL_DATABASES_PART, bytes / DATABASES_PART),
            },
            process,
            uncounted,
            plaintext,
            plaintext_bytes_max,
            queue: CommitQueueOptions {
                bytes_max: standard.bytes_max.min(part(16)),
                transaction_bytes_max: standard.transaction_bytes_max.min(part(32)),
                ..standard
            },
            small_bodies,
            bodies,
            answer_threads_max: part(ANSWER_THREAD_BYTES).clamp(2, ANSWER_THREADS_MAX),
            work,
            answers,
            connections_max: part(CONNECTIONS_PART * CONNECTION_BYTES).max(CONNECTIONS_MIN),
            changes_bytes_max: part(CHANGES_PART),
            record_bytes_max: part(RECORD_PART).min(RECORD_BYTES_MAX),
            send_buffer_bytes: part(SEND_BUFFER_PART)
                .clamp(SEND_BUFFER_BYTES_MIN, SEND_BUFFER_BYTES_MAX),
            transactions,
            indexing,
            definitions,
            records,
            script_bytes_max,
            script_heaps,
            commit_threads,
        }
    }

    /// Rejects requests that need much memory while hardly any is left.
    ///
    /// # Errors
    /// While less than the critical amount is left.
    pub fn refuse_when_critical(&self) -> Result<(), EngineError> {
        if self.pressure.level() < MemoryLevel::Critical {
            return Ok(());
        }
        Err(EngineError::MemoryCritical {
            left_bytes: self.pressure.reading().map_or(0, |reading| reading.left_bytes),
            limit_bytes: self.pressure.limit().bytes,
            limited_by: self.limited_by,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn plan(system_mb: u64, limit_mb: Option<u64>, unflushed_mb: Option<u64>) -> MemoryPlan {
        plan_on(&Platform::simulated(1).platform, system_mb, limit_mb, unflushed_mb)
    }

    fn plan_on(
        platform: &Platform,
        system_mb: u64,
        limit_mb: Option<u64>,
        unflushed_mb: Option<u64>,
    ) -> MemoryPlan {
        let system = MemoryLimit { bytes: system_mb * MB, source: MemoryLimitSource::ControlGroup };
        let limit_bytes = limit_mb.map(|mb| mb * MB);
        let settings = MemorySettings { limit_bytes, low_bytes: None };
        MemoryPlan::within(platform, system, &settings, unflushed_mb.map(|mb| mb * MB))
    }

    #[test]
    fn much_memory_changes_nothing_and_little_shrinks_every_bound() {
        let much = plan(64 << 10, None, None);
        assert_eq!(much.unflushed_bytes_max, 256 * MB);
        assert_eq!(much.queue, CommitQueueOptions::default());
        assert_eq!(much.pressure.low_bytes(), 2048 * MB);
        let little = plan(256, None, None);
        assert_eq!(little.unflushed_bytes_max, 32 * MB);
        assert_eq!(little.unflushed.bytes_max(), 64 * MB);
        assert_eq!(little.queue.bytes_max as u64, 16 * MB);
        assert_eq!(little.queue.transaction_bytes_max as u64, 8 * MB);
        assert_eq!(little.pressure.low_bytes(), 256 * MB / 5);
        assert_eq!(little.work.bytes_max(), 64 * MB);
        assert_eq!(little.bodies.bytes_max(), 32 * MB);
        assert_eq!(little.small_bodies.bytes_max(), 16 * MB);
        assert_eq!(little.answers.bytes_max(), 32 * MB);
        assert_eq!(little.changes_bytes_max as u64, 16 * MB);
        assert_eq!((little.connections_max, much.connections_max), (1024, 256 << 10));
        assert_eq!((little.answer_threads_max, much.answer_threads_max), (2, 16));
        let unhurried = little.commit_threads.unhurried;
        assert_eq!(little.commit_threads.max, unhurried.max(64));
        assert_eq!(much.commit_threads.max, unhurried.max(1024));
        assert_eq!((little.commit_threads.scripts, much.commit_threads.scripts), (4, 256));
        assert_eq!((little.send_buffer_bytes, much.send_buffer_bytes), (128 << 10, 2 << 20));
    }

    #[test]
    fn kinds_of_work_share_one_budget() {
        let plan = plan(256, None, None);
        let kinds = [&plan.bodies, &plan.transactions, &plan.indexing];
        let mut shares = kinds.map(|kind| kind.share(0));
        shares[0].try_grow_to(32 * MB).unwrap();
        let refused = shares[1].try_grow_to(25 * MB).unwrap_err();
        assert_eq!((refused.taken, refused.bytes_max), (57 * MB, 56 * MB));
        shares[1].try_grow_to(24 * MB).unwrap();
        shares[2].try_grow_to(8 * MB).unwrap();
    }

    #[test]
    fn heaps_of_scripts_leave_room_for_requests() {
        let plan = plan(256, None, None);
        let mut heaps = Vec::new();
        let mut others = plan.unflushed.share(0);
        others.try_grow_to(64 * MB).unwrap();
        let mut more = plan.process.share(0);
        more.try_grow_to(80 * MB).unwrap();
        loop {
            let mut heap = plan.script_heaps.share(0);
            if heap.try_grow_to(16 * MB).is_err() {
                break;
            }
            heaps.push(heap);
        }
        assert_eq!(heaps.len(), 3, "of the four that a quarter of the limit holds");
        plan.transactions.share(0).try_grow_to(24 * MB).unwrap();
    }

    #[test]
    fn the_smallest_limit_counts_and_says_whose_it_is() {
        let set = plan(1000, Some(500), None);
        assert_eq!((set.pressure.limit().bytes, set.limited_by), (500 * MB, "Memory.LimitInMb"));
        let group = plan(1000, Some(2000), None);
        assert_eq!(group.pressure.limit().bytes, 1000 * MB);
        assert_eq!(group.limited_by, "the control group");
    }

    #[test]
    fn where_there_is_little_memory_freed_memory_is_returned_at_once() {
        let returns_freed_at_once = |megabytes| {
            let simulation = Platform::simulated(1);
            plan_on(&simulation.platform, megabytes, None, None);
            simulation.memory.returns_freed_at_once()
        };
        assert!(returns_freed_at_once(256));
        assert!(!returns_freed_at_once(4096));
    }

    #[test]
    fn who_asks_for_more_unflushed_changes_gets_them() {
        let asked = plan(256, None, Some(200));
        assert_eq!(asked.unflushed_bytes_max, 200 * MB);
        assert_eq!(asked.unflushed.bytes_max(), 200 * MB);
    }
}
