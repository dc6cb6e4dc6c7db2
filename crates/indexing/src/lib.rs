//! Indexes: their definitions, how they follow the document log, and their state.
//!
//! An index has an environment of its own. In its turn it reads the document log where it stopped
//! last time, maps documents to entries, and commits entries and progress in one transaction. So it
//! can be deleted, reset, or found damaged without touching documents, and after a crash it
//! continues from its own files. A few threads give turns to all indexes of the process.
//!
//! Plain threads and callbacks; the server decides how to wait.
//!
//! | file | what |
//! |---|---|
//! | `auto_definition`, `auto_grouping`, `auto_shape` | automatic indexes: names, extension, storage in a record |
//! | `static_definition`, `static_fields`, `empty_values` | static definitions before they are compiled |
//! | `mapper`, `auto_map`, `linq_map`, `js_map` | what turns a document into entries |
//! | `reduce` | map-reduce: rows by key, results kept current |
//! | `output` | results of a reduce as documents |
//! | `spatial_fields` | spatial fields |
//! | `source` | what is mapped, documents, counters or segments of time series, and their logs |
//! | `segment_source` | a segment of a time series as maps see it |
//! | `segment_key`, `known_keys` | the keys of segments in an index; finding deleted ones |
//! | `map_context`, `references`, `map_again` | what maps can read besides a document, what they have read; mapping again when that changes |
//! | `position` | how far an index is in the logs that it follows |
//! | `index_value`, `entry_writer` | values of documents as terms |
//! | `index_record`, `index_files`, `definition_format` | what an index stores about itself, and where |
//! | `index_change` | changes that listeners of an index are notified of |
//! | `index`, `index_core`, `index_kind`, `indexer`, `index_work` | one index and its turns |
//! | `mapped`, `map_lanes` | the output of maps for a document; mapping on several threads |
//! | `batch_log`, `batch_outcome`, `fan_out` | statistics and results of the last batches; documents with very many entries |
//! | `definition_views` | the compiled form of a definition; merging with others |
//! | `trial`, `trial_index` | trying a definition on some documents, without an index or with one in memory |
//! | `turns` | [`Turns`]: only so many threads do something at a time |
//! | `indexing_pool` | the threads of all indexes |
//! | `index_set`, `index_opening` | all indexes of a database |
//! | `replacement` | side-by-side replacement of indexes |
//! | `idle` | automatic indexes that are no longer queried |
//! | `reopening` | reopening of failed indexes |
#![forbid(unsafe_code)]

mod attachment_reading;
mod auto_definition;
mod auto_grouping;
mod auto_map;
mod auto_shape;
mod batch_log;
mod batch_memory;
mod batch_outcome;
mod begun_batch;
mod compiled_size;
mod definition_format;
mod definition_views;
mod empty_values;
mod entry_writer;
mod error;
mod fan_out;
mod idle;
mod index;
mod index_change;
mod index_core;
mod index_event;
mod index_files;
mod index_kind;
mod index_opening;
mod index_record;
mod index_set;
mod index_value;
mod index_work;
mod indexer;
mod indexing_pool;
mod js_map;
mod known_keys;
mod known_tombstones;
mod leftovers;
mod linq_map;
mod loaded_rows;
mod map_again;
mod map_context;
mod map_lanes;
mod mapped;
mod mapper;
mod output;
mod output_room;
mod ownership;
mod position;
mod reduce;
mod references;
mod reopening;
mod replacement;
mod segment_key;
mod segment_source;
mod source;
mod spatial_fields;
mod static_definition;
mod static_fields;
mod tombstones;
mod trial;
mod trial_index;
mod turns;

pub use auto_definition::{AutoField, AutoFieldSource, AutoFieldWays, AutoIndexDefinition};
pub use auto_grouping::{Aggregate, ArrayGroups, AutoGrouping, GroupKey};
pub use auto_map::{exact_field_name, search_field_name};
pub use batch_log::{
    BATCHES_KEPT, BatchEnd, BatchFacts, BatchRates, BatchTimes, BatchTotals, IndexedBatch,
};
pub use compiled_size::{compiled_bytes, texts_of};
pub use definition_format::DefinitionFormat;
pub use definition_views::{fields_of, plain_map_of, source_of};
pub use entry_writer::{EntryWriter, array_mark_name, is_array_mark, time_field_name};
pub use error::IndexError;
pub use fan_out::FanOut;
pub use idle::AutoIndexLimits;
pub use index::{Index, IndexContext};
pub use index_change::IndexChange;
pub use index_event::WaitReply;
pub use index_kind::IndexKind;
pub use index_record::{ERRORS_MAX, IndexRecord, IndexingAction, IndexingError};
pub use index_set::{
    AutoChoice, FaultyIndex, INDEXES_MAX, IndexSet, IndexSetContext, IndexSetEvent, OnIndexEvent,
    OnOpen,
};
pub use index_value::{IndexValue, for_each_value};
pub use indexing_pool::IndexingPool;
pub use linq::PlainMap;
pub use linq_map::is_stored;
pub use map_context::MapContext;
pub use mapper::{Follows, MapError, Mapper};
pub use output::{NoOutputs, OutputError, OutputQueue};
pub use position::Position;
pub use reduce::{
    MappedRows, RESULT_FIELD, ReduceItems, ReduceNode, ReduceRow, ReduceTree, Reducer,
};
pub use source::{SourceItem, SourceKind};
pub use static_definition::{REPLACEMENT_PREFIX, is_javascript, source_type_of};
pub use static_fields::static_field_options;
pub use tombstones::{IndexCondition, IndexNeeds};
pub use trial::{TRIAL_ITEMS, Trial, TrialFailure, TrialSource, try_definition};
pub use trial_index::{TrialIndex, TrialRefusal};
pub use turns::{Turn, Turns};
