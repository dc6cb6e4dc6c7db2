//! Documents, tombstones and the document log, over a storage transaction.
//!
//! Functions and one writer; no threads, no queue, no clock (the caller passes the time). Any
//! transaction can read; one [`DocumentWriter`] inside a `WriteTransaction` writes.
//!
//! Invariants: every write takes a new etag, and the log in etag order holds exactly the newest
//! state of every live document and tombstone; counts per collection are exact; a live document
//! never has a tombstone in its collection.
//!
//! | file | what |
//! |---|---|
//! | `schema` | the tables and trees of a database, drawn |
//! | `row`, `database_record`, `collection_record`; `row_bytes` | what is on disk, byte by byte; reading it |
//! | `log/` | the change log: every stored change, in the order of etags |
//! | `read` | one document, collections, prefixes |
//! | `pending` | how much of the log lies behind an etag |
//! | `write/`, `requests` | putting and deleting |
//! | `cluster_documents` | documents of cluster-wide transactions |
//! | `output` | documents that indexes write |
//! | `change` | what a batch changed, for change listeners |
//! | `metadata` | which part of a client's metadata is kept |
//! | `listed` | what the metadata lists: attachments and the like |
//! | `collections` | names, numbers and counts of collections |
//! | `revisions` | older versions of documents |
//! | `due` | documents that expire or are refreshed at a given time |
//! | `import`, `import_deletions` | what a dump contains |
//! | `identities`, `hilo` | the two ways to number documents |
//! | `json` | a document as the protocol returns it |
//! | `field_path` | the path of a field, and what it finds in a document |
//! | `compression/` | compression of bodies, and its dictionaries |
//! | `attachments/` | attachments, and their contents in chunks |
//! | `counters/` | named numbers of documents that are incremented |
//! | `time_series/` | time series, their segments and deleted ranges |
//! | `replicated/` | what other databases have sent |
//! | `transactions` | which changes were made by one transaction |
//! | `tombstones` | removing tombstones that no reader needs |
//! | `check` | whether stored data is consistent |
//! | `damage`, `salvage` | which documents are damaged; rebuilding a database from what is left |
#![forbid(unsafe_code)]

mod attachments;
mod change;
mod check;
mod cluster_documents;
mod collection_record;
mod collections;
mod compression;
mod conflicts;
mod counters;
mod damage;
mod database_record;
mod due;
mod ensure;
mod error;
mod field_path;
mod forgotten_transactions;
mod hilo;
mod identities;
mod import;
mod import_deletions;
mod json;
mod listed;
pub mod log;
mod metadata;
mod output;
mod pending;
mod read;
mod replicated;
mod requests;
mod revisions;
mod row;
mod row_bytes;
mod salvage;
mod schema;
pub mod time_series;
mod tombstones;
mod transactions;
mod write;
mod write_tally;

pub use attachments::{
    AttachmentCounts, AttachmentRow, AttachmentTombstoneRow, AttachmentTransfer,
    CONTENT_CHUNK_BYTES, Content, ContentHasher, ContentNumber, CopiedAttachment, DeleteAttachment,
    DeletedAttachment, MovedAttachment, NewContent, PutAttachment, StoredAttachment, attachment,
    attachment_counts, attachments_of, attachments_of_revision, content, has_leftover_contents,
    hash_of, references_of,
};
pub use change::{
    Change, CounterChange, CounterChangeKind, DocumentChange, DocumentChangeKind, TimeSeriesChange,
    TimeSeriesChangeKind,
};
pub use check::{DocumentsReport, check};
pub use cluster_documents::{
    ClusterDocument, ClusterDocuments, ExecutedTransactions, check_document, executed_transactions,
    set_executed_transactions,
};
pub use collections::{CollectionStatistics, collection, collection_numbered, collections};
pub use compression::{
    Compression, DICTIONARIES_MAX, TrainedDictionary, dictionaries_count, train_dictionary,
};
pub use conflicts::{
    ConflictResolution, ConflictResolved, ConflictRow, ConflictedDocument, conflict_etag,
    conflicted_documents, conflicts_of, count_conflicts, has_conflicts, has_same_content,
    require_no_conflict,
};
pub use counters::{
    ChangeCounters, CounterDetail, CounterRow, CounterStep, CounterTombstoneRow, CounterValue,
    CountersChanged, counted_documents, counter, counters_count, counters_of,
    lacks_counted_documents, store_counted_documents,
};
pub use damage::{DamagedRow, RowKind, damaged_rows, is_database};
pub use database_record::{
    DatabaseIdentity, DatabaseProgress, database_identity, initialize, progress, read_identity,
    renew_identity,
};
pub use due::{DueAction, due};
pub use error::{DocumentError, ErrorKind};
pub use field_path::{FieldPath, FieldStep, Found};
pub use hilo::{HILO_CAPACITY_MAX, HILO_CAPACITY_MIN, HILO_END_MAX, HiLoRange, HiLoRequest};
pub use identities::identities;
pub use import::{
    Import, ImportKind, Imported, ImportedAttachment, ImportedCounters, ImportedVersion,
};
pub use import_deletions::{Deleted, ImportedDeletion};
pub use json::{
    DocumentPrinter, write_document_json, write_found_document_json, write_metadata_json,
    write_part_of_document_json, write_revision_json, write_revision_metadata_json,
};
pub use output::{OutputChange, OutputReferences, OutputWritten, REDUCE_OUTPUTS, is_output};
pub use pending::{ChangeCount, all_changes, pending_changes};
pub use read::{
    by_prefix, by_prefix_descending, get, get_tombstone, newest_first, newest_first_of_collection,
    version_of,
};
pub use replicated::{
    Received, ReceivedAttachment, ReceivedAttachmentTombstone, ReceivedBatch, ReceivedCounter,
    ReceivedCounterTombstone, ReceivedDeletedRange, ReceivedItem, ReceivedRevision,
    ReceivedSegment, ReceivedVersion, Source, SourceProgress, accepted_of, contained,
    contained_with_transactions, is_made_later, source_progress, sources,
};
pub use requests::{
    DeletedDocument, ExpectedVersion, IdentityName, PutDocument, RequestedId, StoredDocument,
};
pub use revisions::{
    RemovedRevisions, Reversion, RevisedVersion, RevisionRow, RevisionsToRemove, deleted_documents,
    previous_revision, revised_ids, revision_at, revision_by_change_vector, revision_count,
    revision_log_newest_first, revision_log_of_collection_newest_first, revisions_newest_first,
    revisions_of_collection_count, revisions_total, write_difference,
};
pub use row::{DetachedDocument, DocumentRow, TombstoneRow};
pub use salvage::{IDS_NAMED_MAX, NamedIds, SalvageReport, salvage};
pub use schema::TABLES;
pub use tombstones::{
    FoundTombstones, RemoveTombstones, TOMBSTONES_PER_COMMAND_MAX, TombstoneAt, TombstoneKind,
    last_removed_tombstone, removable_tombstones, tombstone_positions,
};
pub use transactions::TransactionEnds;
pub use write::{DocumentWriter, WriteContext};
pub use write_tally::{Stored, WriteTally};
