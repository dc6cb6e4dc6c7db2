//! The value types that all crates share: ids, etags, change vectors, names and the texts of dates.
//!
//! Each type is parsed once at the boundary and upholds its rules from then on. No input, no
//! output, no clock: a date here is a number of ticks (100 ns since 0001-01-01T00:00:00Z) and its
//! text.
//!
//! | file | what |
//! |---|---|
//! | `etag` | the position of a change in one database's document log |
//! | `database_id`, `node_tag` | the origin of a change |
//! | `change_vector` | the version of a document across nodes |
//! | `allowed_paths` | which documents a filter of replication lets through |
//! | `attachment_name`, `content_hash` | names of attachments, and what identifies their content |
//! | `counter_name` | names of counters |
//! | `documents_compression` | which documents are compressed |
//! | `document_id`, `lower_case` | ids and the case folding that makes them case-insensitive |
//! | `index_definition`, `index_enumerations`, `spatial_options` | the definition of an index by an application |
//! | `recorded_indexes` | the indexes in a database record, with the automatic ones |
//! | `named_enum` | enumerations whose values have names in the protocol |
//! | `json_text` | JSON that is stored without being interpreted |
//! | `id_separator` | the separator in ids that the server numbers |
//! | `collection_name` | collections |
//! | `document_flags` | properties of a document besides its body |
//! | `retention_configuration` | when due documents expire, are refreshed and archived |
//! | `revisions_configuration` | which older versions of documents are kept |
//! | `time_series_name` | names of time series, and what they reveal about them |
//! | `time_series_configuration`, `time_series_policy` | how time series are aggregated, how long their entries are kept, and the names of their values |
//! | `database_name` | the rules for names of databases |
//! | `database_topology` | which nodes have a database |
//! | `database_record`, `record_configuration` | what all nodes know about a database, and what clients configured of it |
//! | `ticks` | what moments and durations are counted in |
//! | `date`, `time_span` | texts of moments and durations |
//! | `text_position` | line and column in a text, for error messages |
#![forbid(unsafe_code)]

mod allowed_paths;
mod attachment_name;
mod base64;
mod change_vector;
mod collection_name;
mod content_hash;
mod counter_name;
mod database_id;
mod database_lock_mode;
mod database_name;
mod database_record;
mod database_topology;
pub mod date;
mod document_flags;
mod document_id;
mod documents_compression;
mod etag;
mod id_separator;
mod index_definition;
mod index_enumerations;
mod json_text;
mod lower_case;
mod named_enum;
mod node_tag;
mod record_configuration;
mod recorded_indexes;
mod retention_configuration;
mod revisions_configuration;
mod spatial_options;
mod text_position;
pub mod ticks;
mod time_series_configuration;
mod time_series_name;
mod time_series_policy;
mod time_span;

pub use allowed_paths::{AllowedPaths, InvalidPath};
pub use attachment_name::{AttachmentName, InvalidAttachmentName};
pub use base64::{base64_bytes, base64_text};
pub use change_vector::{
    ChangeVector, ChangeVectorEntry, Comparison, InvalidChangeVector, TRANSACTION_NUMBER_TAG,
    TRANSACTION_TAG,
};
pub use collection_name::{
    ALL_DOCUMENTS_COLLECTION, CollectionName, EMPTY_COLLECTION, HILO_COLLECTION,
};
pub use content_hash::{CONTENT_HASH_TEXT_BYTES, ContentHash};
pub use counter_name::{CounterName, InvalidCounterName};
pub use database_id::{DATABASE_ID_TEXT_BYTES, DatabaseId};
pub use database_lock_mode::DatabaseLockMode;
pub use database_name::{DATABASE_NAME_CHARACTERS_MAX, DatabaseName, InvalidDatabaseName};
pub use database_record::{DatabaseRecord, RecordRequest};
pub use database_topology::{DatabaseTopology, NodeTask};
pub use document_flags::DocumentFlags;
pub use document_id::{DOCUMENT_ID_BYTES_MAX, DocumentId, DocumentIdTooLong};
pub use documents_compression::DocumentsCompression;
pub use etag::Etag;
pub use id_separator::IdSeparator;
pub use index_definition::{ALL_FIELDS, IndexDefinition, IndexFieldOptions};
pub use index_enumerations::{
    ArchivedDataProcessingBehavior, FieldIndexing, FieldStorage, IndexLockMode, IndexPriority,
    IndexSourceType, IndexState, IndexType, TermVector,
};
pub use json_text::JsonText;
pub use lower_case::lower_case;
pub use named_enum::NamedEnum;
pub use node_tag::{InvalidNodeTag, NodeTag};
pub use record_configuration::{RecordConfiguration, RecordSections, UnreadableSection};
pub use recorded_indexes::{
    AutoIndexFieldShape, AutoIndexShape, AutoSpatialShape, RecordedIndexes,
};
pub use retention_configuration::{RetentionConfiguration, RetentionConfigurations, RetentionKind};
pub use revisions_configuration::{RevisionsConfiguration, RevisionsRule};
pub use spatial_options::{SpatialFieldType, SpatialOptions, SpatialSearchStrategy, SpatialUnits};
pub use text_position::TextPosition;
pub use time_series_configuration::{TIME_SERIES_PROPERTY, TimeSeriesConfiguration};
pub use time_series_name::TimeSeriesName;
pub use time_series_policy::{CollectionPolicies, TimeSeriesPolicy, TimeValue};
pub use time_span::{InvalidTimeSpan, TimeSpan};
