//! Metrics of an open database, of its indexes and of its collections.

use database::{Database, DiskSpaceReading};
use model::{IndexState, IndexType, NamedEnum as _, ticks};
use storage::ReadTransaction;
use wire::{index_shapes::IndexStatistics, statistics_shapes::CollectionStatistics};

use crate::{
    api_error::ApiError,
    handlers::{
        index_faults::{Known, all_known, statistics_of_faulty},
        indexes::statistics_of,
        notifications,
        statistics::{collections_with_bytes, of_database},
    },
    measures::{
        Amount::{Bytes, Fact, Milliseconds, Real, Seconds, Whole, Word},
        Measure,
    },
    server_state::ServerState,
};

/// Metrics of a database.
///
/// # Errors
///
/// Errors of reading its files.
pub(crate) fn of_one(
    state: &ServerState,
    name: &str,
    database: &Database,
) -> Result<Vec<Measure>, ApiError> {
    let statistics = of_database(database)?;
    let up_time = state.engine.clock().monotonic().saturating_sub(database.opened_after());
    let last_backup = state.engine.last_backup_ticks(&database.record())?;
    let now = state.engine.clock().now().ticks();
    let seconds = |last: i64| (now.saturating_sub(last).max(0) / ticks::TICKS_PER_SECOND) as f64;
    let since_backup = last_backup.map(seconds);
    let mut measures = vec![
        Measure::text("DatabaseName", name),
        Measure::text("DatabaseId", statistics.database_id),
        Measure::gauge(
            (
                "UptimeInSec",
                "ravendb_database_uptime_seconds",
                "How long the database has been open.",
            ),
            Whole(up_time.as_secs()),
        ),
        Measure::gauge(
            (
                "TimeSinceLastBackupInSec",
                "ravendb_database_time_since_last_backup_seconds",
                "How long ago its last scheduled backup was made.",
            ),
            Seconds(since_backup),
        ),
        count(
            "Counts.Documents",
            "ravendb_database_documents_count",
            "Documents.",
            statistics.documents_count,
        ),
        count(
            "Counts.Revisions",
            "ravendb_database_revisions_count",
            "Revisions of documents.",
            statistics.revisions_count.unwrap_or(0),
        ),
        count(
            "Counts.Attachments",
            "ravendb_database_attachments_count",
            "Attachments.",
            statistics.attachments_count,
        ),
        count(
            "Counts.UniqueAttachments",
            "ravendb_database_unique_attachments_count",
            "Contents of attachments, each once.",
            statistics.contents_count,
        ),
    ];
    let notices = notifications::counts(state, database);
    measures.extend([
        count("Counts.Alerts", "ravendb_database_alerts_count", "Alerts.", notices.alerts),
        count(
            "Counts.PerformanceHints",
            "ravendb_database_performance_hints_count",
            "Hints about performance.",
            notices.hints,
        ),
        // There is one node.
        count(
            "Counts.ReplicationFactor",
            "ravendb_database_replication_factor",
            "Nodes that host it.",
            1,
        ),
    ]);
    measures.extend(rates(database));
    measures.extend(index_counts(database)?);
    measures.extend(storage(database));
    Ok(measures)
}

fn count(place: &'static str, name: &'static str, help: &'static str, count: u64) -> Measure {
    Measure::gauge((place, name, help), Whole(count))
}

fn rates(database: &Database) -> Vec<Measure> {
    let activity = database.activity();
    let now = activity.now();
    let requests = activity.requests.read(now);
    let per_second = |meter: &platform::Meter| Real(meter.read(now).one_minute);
    vec![
        Measure::gauge(
            (
                "Statistics.DocPutsPerSec",
                "ravendb_database_statistics_doc_puts_per_second",
                "Documents put per second in the last minute.",
            ),
            per_second(&activity.documents.puts),
        ),
        Measure::gauge(
            (
                "Statistics.MapIndexIndexesPerSec",
                "ravendb_database_statistics_map_index_indexes_per_second",
                "Entries that indexes without a reduce created per second in the last minute.",
            ),
            per_second(&activity.indexed),
        ),
        Measure::gauge(
            (
                "Statistics.MapReduceIndexMappedPerSec",
                "ravendb_database_statistics_map_reduce_index_mapped_per_second",
                "Rows that indexes with a reduce mapped per second in the last minute.",
            ),
            per_second(&activity.mapped),
        ),
        Measure::gauge(
            (
                "Statistics.MapReduceIndexReducedPerSec",
                "ravendb_database_statistics_map_reduce_index_reduced_per_second",
                "Rows that they reduced per second in the last minute.",
            ),
            per_second(&activity.reduced),
        ),
        Measure::gauge(
            (
                "Statistics.RequestsPerSec",
                "ravendb_database_statistics_requests_per_second",
                "Requests per second in the last minute.",
            ),
            Real(requests.one_minute),
        ),
        Measure::gauge(
            (
                "Statistics.RequestsCount",
                "ravendb_database_statistics_requests_count",
                "Requests since the database was opened.",
            ),
            Whole(requests.count),
        ),
        Measure::gauge(
            (
                "Statistics.RequestAverageDurationInMs",
                "ravendb_database_statistics_request_average_duration_seconds",
                "How long requests took on average since the database was opened.",
            ),
            Milliseconds(activity.average_request_ms()),
        ),
    ]
}

fn index_counts(database: &Database) -> Result<Vec<Measure>, ApiError> {
    let all = all_statistics(database)?;
    let matching = |is_so: fn(&IndexStatistics) -> bool| {
        all.iter().filter(|index| is_so(index)).count() as u64
    };
    let is_auto = |index: &IndexStatistics| {
        matches!(index.index_type, IndexType::AutoMap | IndexType::AutoMapReduce)
    };
    let autos = matching(is_auto);
    Ok(vec![
        count("Indexes.Count", "ravendb_database_indexes_count", "Indexes.", all.len() as u64),
        count(
            "Indexes.StaleCount",
            "ravendb_database_indexes_stale_count",
            "Indexes that are stale.",
            matching(|index| index.is_stale),
        ),
        count(
            "Indexes.ErrorsCount",
            "ravendb_database_indexes_errors_count",
            "Stored errors of all indexes.",
            all.iter().map(|index| index.errors).sum(),
        ),
        count(
            "Indexes.StaticCount",
            "ravendb_database_indexes_static_count",
            "Static indexes.",
            all.len() as u64 - autos,
        ),
        count(
            "Indexes.AutoCount",
            "ravendb_database_indexes_auto_count",
            "Automatic indexes.",
            autos,
        ),
        count(
            "Indexes.IdleCount",
            "ravendb_database_indexes_idle_count",
            "Automatic indexes that are idle.",
            matching(|index| index.state == IndexState::Idle),
        ),
        count(
            "Indexes.DisabledCount",
            "ravendb_database_indexes_disabled_count",
            "Indexes that are disabled.",
            matching(|index| index.state == IndexState::Disabled),
        ),
        count(
            "Indexes.ErroredCount",
            "ravendb_database_indexes_errored_count",
            "Indexes that have failed.",
            matching(|index| index.state == IndexState::Error),
        ),
    ])
}

fn storage(database: &Database) -> Vec<Measure> {
    let documents = database.environment().statistics();
    let indexes = database.indexes().all();
    let of_indexes = || indexes.iter().map(|index| index.environment().statistics());
    let journals =
        documents.journal_bytes + of_indexes().map(|files| files.journal_bytes).sum::<u64>();
    let allocated: u64 = of_indexes().map(|files| files.data_file_bytes).sum();
    let used: u64 = of_indexes().map(|files| files.used_bytes()).sum();
    let DiskSpaceReading { free_bytes, .. } = database.disk_space();
    let bytes = |place, name, help, bytes| Measure::gauge((place, name, help), Bytes(bytes));
    vec![
        bytes(
            "Storage.DocumentsAllocatedDataFileInMb",
            "ravendb_database_storage_documents_allocated_data_file_bytes",
            "Bytes of the data file of the documents.",
            documents.data_file_bytes,
        ),
        bytes(
            "Storage.DocumentsUsedDataFileInMb",
            "ravendb_database_storage_documents_used_data_file_bytes",
            "Bytes of it in use.",
            documents.used_bytes(),
        ),
        bytes(
            "Storage.IndexesAllocatedDataFileInMb",
            "ravendb_database_storage_indexes_allocated_data_file_bytes",
            "Bytes of the data files of the indexes.",
            allocated,
        ),
        bytes(
            "Storage.IndexesUsedDataFileInMb",
            "ravendb_database_storage_indexes_used_data_file_bytes",
            "Bytes of them in use.",
            used,
        ),
        bytes(
            "Storage.TotalAllocatedStorageFileInMb",
            "ravendb_database_storage_total_allocated_storage_file_bytes",
            "Bytes of all files.",
            documents.data_file_bytes + allocated + journals,
        ),
        bytes(
            "Storage.TotalFreeSpaceInMb",
            "ravendb_database_storage_total_free_space_bytes",
            "Free bytes of its disk.",
            free_bytes,
        ),
    ]
}

fn all_statistics(database: &Database) -> Result<Vec<IndexStatistics>, ApiError> {
    let known = all_known(database.indexes());
    let of_one = |index: &Known| match index {
        Known::Open(index) => statistics_of(database, index),
        Known::Faulty(faulty) => Ok(statistics_of_faulty(faulty)),
    };
    known.iter().map(of_one).collect()
}

/// Metrics of each index, with its name.
///
/// # Errors
/// As of a database.
pub(crate) fn of_indexes(
    state: &ServerState,
    database: &Database,
) -> Result<Vec<(String, Vec<Measure>)>, ApiError> {
    let now_ticks = state.engine.clock().now().ticks();
    let of_one = |index: &Known| {
        let (statistics, times) = match index {
            Known::Open(index) => (
                statistics_of(database, index)?,
                [index.last_query_ticks(), index.record().last_indexing_ticks],
            ),
            Known::Faulty(faulty) => (statistics_of_faulty(faulty), [0, 0]),
        };
        let since = times.map(|ticks| (ticks != 0).then(|| seconds_between(ticks, now_ticks)));
        Ok((statistics.name.clone(), index_measures(&statistics, since)))
    };
    all_known(database.indexes()).iter().map(of_one).collect()
}

fn seconds_between(before: i64, now: i64) -> f64 {
    ticks::to_duration(now.saturating_sub(before)).as_secs_f64()
}

fn index_measures(
    index: &IndexStatistics,
    [since_query, since_indexing]: [Option<f64>; 2],
) -> Vec<Measure> {
    let status = match index.status {
        "Running" => 0,
        "Paused" => 1,
        _ => 2,
    };
    vec![
        Measure::text("IndexName", index.name.as_str()),
        Measure::gauge(
            ("Priority", "ravendb_index_priority", "0 = Low, 1 = Normal, 2 = High."),
            Word(index.priority.name(), index.priority as i64),
        ),
        Measure::gauge(
            ("State", "ravendb_index_state", "0 = Normal, 1 = Disabled, 2 = Idle, 3 = Error."),
            Word(index.state.name(), index.state as i64),
        ),
        count("Errors", "ravendb_index_errors", "Stored errors.", index.errors),
        Measure::gauge(
            (
                "TimeSinceLastQueryInSec",
                "ravendb_index_time_since_last_query_seconds",
                "How long ago it was queried.",
            ),
            Seconds(since_query),
        ),
        Measure::gauge(
            (
                "TimeSinceLastIndexingInSec",
                "ravendb_index_time_since_last_indexing_seconds",
                "How long ago it indexed something.",
            ),
            Seconds(since_indexing),
        ),
        Measure::gauge(
            (
                "LockMode",
                "ravendb_index_lock_mode",
                "0 = Unlock, 1 = LockedIgnore, 2 = LockedError.",
            ),
            Word(index.lock_mode.name(), index.lock_mode as i64),
        ),
        Measure::gauge(
            ("IsInvalid", "ravendb_index_is_invalid", "Whether it has failed."),
            Fact(index.is_invalid),
        ),
        Measure::gauge(
            ("Status", "ravendb_index_status", "0 = Running, 1 = Paused, 2 = Disabled."),
            Word(index.status, status),
        ),
        Measure::gauge(
            (
                "MappedPerSec",
                "ravendb_index_mapped_per_second",
                "Documents mapped per second in the last minute.",
            ),
            Real(index.mapped_per_second),
        ),
        Measure::gauge(
            (
                "ReducedPerSec",
                "ravendb_index_reduced_per_second",
                "Rows reduced per second in the last minute.",
            ),
            Real(index.reduced_per_second),
        ),
        Measure::gauge(
            (
                "Type",
                "ravendb_index_type",
                "0 = None, 1 = AutoMap, 2 = AutoMapReduce, 3 = Map, 4 = MapReduce, 5 = Faulty, \
                 6 = JavaScriptMap, 7 = JavaScriptMapReduce.",
            ),
            Word(index.index_type.name(), index.index_type as i64),
        ),
        count("EntriesCount", "ravendb_index_entries_count", "Entries.", index.entries),
    ]
}

/// Metrics of each collection, with its name. Sizes are estimated where there are many documents.
///
/// # Errors
/// As of a database.
pub(crate) fn of_collections(
    tx: &ReadTransaction,
) -> Result<Vec<(String, Vec<Measure>)>, ApiError> {
    let of_one = |one: CollectionStatistics| {
        let total = one.documents_bytes + one.tombstones_bytes + one.revisions_bytes;
        let measures = vec![
            Measure::text("CollectionName", one.name.as_str()),
            count(
                "DocumentsCount",
                "ravendb_collection_documents_count",
                "Documents.",
                one.documents_count,
            ),
            count(
                "TotalSizeInBytes",
                "ravendb_collection_total_size_bytes",
                "Bytes of documents, tombstones and revisions.",
                total,
            ),
            count(
                "DocumentsSizeInBytes",
                "ravendb_collection_documents_size_bytes",
                "Bytes of documents.",
                one.documents_bytes,
            ),
            count(
                "TombstonesSizeInBytes",
                "ravendb_collection_tombstones_size_bytes",
                "Bytes of tombstones.",
                one.tombstones_bytes,
            ),
            count(
                "RevisionsSizeInBytes",
                "ravendb_collection_revisions_size_bytes",
                "Bytes of revisions.",
                one.revisions_bytes,
            ),
        ];
        (one.name, measures)
    };
    Ok(collections_with_bytes(tx)?.into_iter().map(of_one).collect())
}
