//! Answers about indexes: their statistics, progress, errors and terms.

use model::{IndexLockMode, IndexPriority, IndexSourceType, IndexState, IndexType, NamedEnum as _};
use serde_json::{Map, Value, json};

use crate::{index_performance::IndexBatch, size_text::SizeText};

/// The progress of an index in one collection.
#[derive(Clone, Debug)]
pub struct CollectionProgress {
    /// The collection, or `@all_docs`.
    pub collection: String,
    /// Every change up to here is indexed.
    pub last_etag: u64,
    /// Documents not indexed yet.
    pub lag: u64,
    /// Deletions not indexed yet.
    pub tombstone_lag: u64,
    /// Documents in the collection.
    pub documents: u64,
    /// Tombstones in the collection.
    pub tombstones: u64,
    /// Deleted ranges of time series not indexed yet.
    pub deleted_range_lag: u64,
    /// Deleted ranges of time series in the collection.
    pub deleted_ranges: u64,
}

impl CollectionProgress {
    /// Whether anything is not indexed yet.
    pub fn is_behind(&self) -> bool {
        0 < self.lag + self.tombstone_lag + self.deleted_range_lag
    }

    /// The etag up to which deleted ranges are indexed; 0 if there are none.
    fn deleted_range_etag(&self) -> u64 {
        if self.deleted_ranges == 0 { 0 } else { self.last_etag }
    }
}

/// An index in the statistics of a database.
#[derive(Clone, Debug)]
pub struct IndexSummary {
    /// Its name.
    pub name: String,
    /// Whether it is stale.
    pub is_stale: bool,
    /// Its lock mode.
    pub lock_mode: IndexLockMode,
    /// Its priority.
    pub priority: IndexPriority,
    /// Its state.
    pub state: IndexState,
    /// Its type.
    pub index_type: IndexType,
    /// What it reads.
    pub source_type: IndexSourceType,
    /// When it last indexed; `None` if never.
    pub last_indexing_time: Option<String>,
}

impl IndexSummary {
    /// An element of `Indexes` in the statistics of a database.
    pub fn to_json(&self) -> Value {
        json!({
            "IsStale": self.is_stale, "Name": self.name, "LockMode": self.lock_mode.name(),
            "Priority": self.priority.name(), "State": self.state.name(), "Type": self.index_type.name(),
            "SourceType": self.source_type.name(), "LastIndexingTime": self.last_indexing_time
        })
    }
}

/// The statistics of an index.
#[derive(Clone, Debug)]
pub struct IndexStatistics {
    /// Its name.
    pub name: String,
    /// Documents mapped, including failures.
    pub map_attempts: u64,
    /// Documents that failed.
    pub map_errors: u64,
    /// Rows reduced, including failures.
    pub reduce_attempts: u64,
    /// Rows that failed.
    pub reduce_errors: u64,
    /// The largest number of entries of one document.
    pub outputs_max: u64,
    /// By collection.
    pub collections: Vec<CollectionProgress>,
    /// When it was last queried; `None` if never.
    pub last_querying_time: Option<String>,
    /// When it last indexed; `None` if never.
    pub last_indexing_time: Option<String>,
    /// When it was created.
    pub created: String,
    /// Its state.
    pub state: IndexState,
    /// Its priority.
    pub priority: IndexPriority,
    /// Its lock mode.
    pub lock_mode: IndexLockMode,
    /// Its type.
    pub index_type: IndexType,
    /// What it reads.
    pub source_type: IndexSourceType,
    /// `Running`, `Paused` or `Disabled`.
    pub status: &'static str,
    /// Whether it is stale.
    pub is_stale: bool,
    /// Whether it has stopped because of errors.
    pub is_invalid: bool,
    /// Number of entries.
    pub entries: u64,
    /// Number of stored errors.
    pub errors: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Current rate of documents mapped per second.
    pub mapped_per_second: f64,
    /// Current rate of rows reduced per second.
    pub reduced_per_second: f64,
    /// The last batch since the index was opened.
    pub last_batch: Option<IndexBatch>,
    /// The search engine requested by its definition.
    pub search_engine: &'static str,
    /// The collection to which results are written.
    pub output_collection: Option<String>,
    /// The id pattern of documents that refer to the results.
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
            "State": self.state.name(), "Priority": self.priority.name(), "CreatedTimestamp": self.created,
            "LastIndexingTime": self.last_indexing_time, "IsStale": self.is_stale,
            "LockMode": self.lock_mode.name(), "Type": self.index_type.name(),
            "SearchEngineType": self.search_engine,
            "Status": self.status, "EntriesCount": self.entries, "ErrorsCount": self.errors,
            "SourceType": self.source_type.name(), "ReferencedCollections": [],
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
            "Name": self.name, "Type": self.index_type.name(), "SourceType": self.source_type.name()
        })
    }
}
