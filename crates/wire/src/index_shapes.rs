//! Answers about indexes: their statistics, progress, errors and terms.

use serde_json::{Map, Value, json};

use crate::index_definition::{
    IndexLockMode, IndexPriority, IndexSourceType, IndexState, IndexType,
};
use crate::index_performance::IndexBatch;
use crate::size_text::SizeText;

/// How far an index is in one collection.
#[derive(Clone, Debug)]
pub struct CollectionProgress {
    /// The collection, or `@all_docs`.
    pub collection: String,
    /// Every change up to here is indexed.
    pub last_etag: u64,
    /// Documents behind it.
    pub lag: u64,
    /// Deletions behind it.
    pub tombstone_lag: u64,
    /// Documents that there are.
    pub documents: u64,
    /// Deletions that are remembered.
    pub tombstones: u64,
    /// Deleted ranges of time series behind it.
    pub deleted_range_lag: u64,
    /// Deleted ranges of time series that are remembered.
    pub deleted_ranges: u64,
}

impl CollectionProgress {
    /// Whether something is not indexed.
    pub fn is_behind(&self) -> bool {
        0 < self.lag + self.tombstone_lag + self.deleted_range_lag
    }

    /// Up to where deleted ranges are indexed; 0 when there are none.
    fn deleted_range_etag(&self) -> u64 {
        if self.deleted_ranges == 0 { 0 } else { self.last_etag }
    }
}

/// What the statistics of a database tell of an index.
#[derive(Clone, Debug)]
pub struct IndexSummary {
    /// Its name.
    pub name: String,
    /// Whether changes are missing.
    pub is_stale: bool,
    /// Its lock.
    pub lock_mode: IndexLockMode,
    /// Its priority.
    pub priority: IndexPriority,
    /// In which state it is.
    pub state: IndexState,
    /// Its kind.
    pub index_type: IndexType,
    /// What it is over.
    pub source_type: IndexSourceType,
    /// When it last indexed; `None` for never.
    pub last_indexing_time: Option<String>,
}

impl IndexSummary {
    /// An element of `Indexes` in the statistics of a database.
    pub fn to_json(&self) -> Value {
        json!({
            "IsStale": self.is_stale, "Name": self.name, "LockMode": self.lock_mode,
            "Priority": self.priority, "State": self.state, "Type": self.index_type,
            "SourceType": self.source_type, "LastIndexingTime": self.last_indexing_time
        })
    }
}

/// What is told of an index.
#[derive(Clone, Debug)]
pub struct IndexStatistics {
    /// Its name.
    pub name: String,
    /// Documents mapped, those that failed included.
    pub map_attempts: u64,
    /// Documents that failed.
    pub map_errors: u64,
    /// Rows that were reduced, those that failed included.
    pub reduce_attempts: u64,
    /// Rows that failed.
    pub reduce_errors: u64,
    /// The most entries of one document.
    pub outputs_max: u64,
    /// By collection.
    pub collections: Vec<CollectionProgress>,
    /// When it was last asked; `None` for never.
    pub last_querying_time: Option<String>,
    /// When it last indexed; `None` for never.
    pub last_indexing_time: Option<String>,
    /// When it was created.
    pub created: String,
    /// In which state it is.
    pub state: IndexState,
    /// Its priority.
    pub priority: IndexPriority,
    /// Its lock.
    pub lock_mode: IndexLockMode,
    /// Its kind.
    pub index_type: IndexType,
    /// What it is over.
    pub source_type: IndexSourceType,
    /// `Running`, `Paused` or `Disabled`.
    pub status: &'static str,
    /// Whether changes are missing.
    pub is_stale: bool,
    /// Whether it stopped because of errors.
    pub is_invalid: bool,
    /// Entries.
    pub entries: u64,
    /// Errors that are kept.
    pub errors: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Documents mapped per second lately.
    pub mapped_per_second: f64,
    /// Rows reduced per second lately.
    pub reduced_per_second: f64,
    /// The last batch since it was opened.
    pub last_batch: Option<IndexBatch>,
    /// The engine that its definition asks for.
    pub search_engine: &'static str,
    /// The collection that results are written to.
    pub output_collection: Option<String>,
    /// How documents are named that refer to them.
    pub output_pattern: Option<String>,
    /// The collection of those documents.
    pub references_collection: Option<String>,
}

impl IndexStatistics {
    /// An element of `/indexes/stats`.
    pub fn to_json(&self) -> Value {
        let is_reduce = matches!(
            self.index_type,
            IndexType::MapReduce | IndexType::JavaScriptMapReduce | IndexType::AutoMapReduce
        );
        let of_reduce = |number: u64| if is_reduce { json!(number) } else { Value::Null };
        json!({
            "Name": self.name, "MapAttempts": self.map_attempts,
            "MapSuccesses": self.map_attempts - self.map_errors, "MapErrors": self.map_errors,
            "MapReferenceAttempts": null, "MapReferenceSuccesses": null,
            "MapReferenceErrors": null, "ReduceAttempts": of_reduce(self.reduce_attempts),
            "ReduceSuccesses": of_reduce(self.reduce_attempts - self.reduce_errors),
            "ReduceErrors": of_reduce(self.reduce_errors),
            "ReduceOutputCollection": self.output_collection,
            "ReduceOutputReferencePattern": self.output_pattern,
            "PatternReferencesCollectionName": self.references_collection,
            "MappedPerSecondRate": self.mapped_per_second,
            "ReducedPerSecondRate": self.reduced_per_second,
            "MaxNumberOfOutputsPerDocument": self.outputs_max,
            "Collections": self.collections_json(), "LastQueryingTime": self.last_querying_time,
            "State": self.state, "Priority": self.priority, "CreatedTimestamp": self.created,
            "LastIndexingTime": self.last_indexing_time, "IsStale": self.is_stale,
            "LockMode": self.lock_mode, "Type": self.index_type,
            "SearchEngineType": self.search_engine,
            "Status": self.status, "EntriesCount": self.entries, "ErrorsCount": self.errors,
            "SourceType": self.source_type, "ReferencedCollections": [],
            "IsInvalidIndex": self.is_invalid,
            "Memory": {
                "DiskSize": SizeText::of(self.disk_bytes), "ThreadAllocations": SizeText::of(0),
                "MemoryBudget": SizeText::of(0)
            },
            "LastBatchStats": self.last_batch.as_ref().map(IndexBatch::to_summary_json)
        })
    }

    fn collections_json(&self) -> Value {
        let of_one = |progress: &CollectionProgress| {
            let shape = json!({
                "LastProcessedDocumentEtag": progress.last_etag,
                "LastProcessedTombstoneEtag": progress.last_etag,
                "LastProcessedTimeSeriesDeletedRangeEtag": progress.deleted_range_etag(),
                "DocumentLag": progress.lag,
                "TombstoneLag": progress.tombstone_lag
            });
            (progress.collection.clone(), shape)
        };
        Value::Object(self.collections.iter().map(of_one).collect::<Map<_, _>>())
    }

    /// An element of `/indexes/progress`.
    pub fn to_progress_json(&self) -> Value {
        let of_one = |progress: &CollectionProgress| {
            let shape = json!({
                "LastProcessedItemEtag": progress.last_etag,
                "LastProcessedTombstoneEtag": progress.last_etag,
                "LastProcessedTimeSeriesDeletedRangeEtag": progress.deleted_range_etag(),
                "NumberOfItemsToProcess": progress.lag,
                "NumberOfTombstonesToProcess": progress.tombstone_lag,
                "NumberOfTimeSeriesDeletedRangesToProcess": progress.deleted_range_lag,
                "TotalNumberOfItems": progress.documents,
                "TotalNumberOfTombstones": progress.tombstones,
                "TotalNumberOfTimeSeriesDeletedRanges": progress.deleted_ranges
            });
            (progress.collection.clone(), shape)
        };
        json!({
            "IsStale": self.is_stale, "IndexRunningStatus": self.status,
            "ProcessedPerSecond": self.mapped_per_second,
            "Collections": self.collections.iter().map(of_one).collect::<Map<_, _>>(),
            "Name": self.name, "Type": self.index_type, "SourceType": self.source_type
        })
    }
}
