//! Queries: plan a syntax tree, run it over a transaction, stream the rows.
//!
//! Collection queries need no index: all documents, those of a collection, and those selected by
//! id. All others run on one; [`needed_index`] returns the automatic index that a query needs. What
//! is not supported yet is rejected with [`QueryError::NotSupportedYet`], with the position in the
//! query.
//!
//! Invariant: planning is pure and complete; whatever is rejected is rejected before the first row.
//!
//! | file | what |
//! |---|---|
//! | `plan` | a tree and its parameters to a [`Plan`] that needs no more decisions |
//! | `condition`, `id_selection` | a condition on ids to the set of ids it selects |
//! | `needed_index`, `group_by` | the automatic index that a query needs |
//! | `group_script` | `key()`, `count()` and `sum()` in scripts that produce the results of groups |
//! | `index_condition`, `search_words`, `sought_value`, `searched_fields`, `index_fields` | a condition to an index query |
//! | `lucene_condition` | the text of `lucene()` to an index query |
//! | `index_order` | `order by` on an index |
//! | `spatial_clause`, `projected_distance` | spatial conditions, orders by distance, distances of rows |
//! | `paging` | which rows of the result are requested, and the totals that are reported |
//! | `distinct` | rows equal to earlier ones are dropped |
//! | `projection`, `projected_row`, `planned_include`, `include_path` | `select` of plain fields and `include` of documents |
//! | `revision_includes`, `counter_includes`, `value_includes` | `include` of revisions, of counters, of compare exchange values |
//! | `projected_counter` | `counter()` in `select` |
//! | `exchange_value` | `cmpxchg()` in conditions and in `select` |
//! | `row_document` | the source of a row: a document, or a result of a reduce |
//! | `row_script`, `filter_script` | rows that a script produces or selects, and what `load` loads for them |
//! | `requested_notes`, `row_notes`, `highlight` | `include highlight()` and `include explanations()` |
//! | `log_query` | a query that is evaluated on one document at a time, as subscriptions do |
//! | `update_clause` | `update { … }`: a patch of each selected document |
//! | `filtered_rows`, `row_counts` | the rows that pass a filter, and what was filtered out |
//! | `page_rows` | the rows of one page, from an iterator that may be resumed after an error |
//! | `stored_projection`, `script_fields` | values stored in an index, for a projection and for a script |
//! | `shown_entries`, `term_text` | entries and terms as responses show them |
//! | `entry_rows` | one row per document, where an index has several entries for it |
//! | `series_includes` | `include timeseries()` |
//! | `time_series` | queries over time series in `select` |
//! | `result_kind` | whether a query returns rows, facets or suggestions |
//! | `facet_plan`, `facet_ranges`, `facet_setup`, `facet_order`, `facet_query` | facets |
//! | `suggestion_query` | suggestions |
//! | `more_like_this`, `more_like_options`, `term_statistics` | `moreLikeThis()`: documents that share significant words |
//! | `method_options` | options that methods take as JSON |
//! | `collection_execution`, `index_execution`, `index_rows`, `result` | the rows |
//! | `planned_query`, `planned_source` | a query that was planned, to be run again on the same snapshots |

#![forbid(unsafe_code)]

mod collection_execution;
mod condition;
mod counted_rows;
mod counter_includes;
mod distinct;
mod document_path;
mod entry_rows;
mod error;
mod exchange_value;
mod facet_order;
mod facet_plan;
mod facet_query;
mod facet_ranges;
mod facet_setup;
mod filter_script;
mod filtered_rows;
mod group_by;
mod group_script;
mod highlight;
mod id_selection;
mod include_path;
mod included_documents;
mod included_values;
mod index_condition;
mod index_execution;
mod index_fields;
mod index_order;
mod index_rows;
mod loaded;
mod log_query;
mod lucene_condition;
mod made_object;
mod method_options;
mod more_like_options;
mod more_like_this;
mod needed_index;
mod page_rows;
mod paging;
mod parameters;
mod plan;
mod planned_include;
mod planned_query;
mod planned_source;
mod projected_counter;
mod projected_distance;
mod projected_row;
mod projection;
mod requested_notes;
mod result;
mod result_kind;
mod revision_includes;
mod row;
mod row_counts;
mod row_document;
mod row_metadata;
mod row_notes;
mod row_script;
mod script_fields;
mod search_words;
mod searched_fields;
mod series_includes;
mod shown_entries;
mod sought_value;
mod spatial_clause;
mod stored_projection;
mod suggestion_query;
mod term_statistics;
mod term_text;
mod time_series;
mod update_clause;
mod value_includes;

pub use collection_execution::{execute, execute_plan};
pub use counter_includes::{
    CounterIncludes, CountersOfDocument, IncludedCounter, IncludedCounters,
};
pub use error::{Family, QueryError};
pub use facet_query::{CountedFacet, FacetResult, FacetValue, facets_of_index};
pub use id_selection::{IdList, IdSelection, IdSelector};
pub use include_path::IncludePath;
pub use included_values::IncludedValues;
pub use index_execution::{IndexSnapshot, RowOptions, execute_on_index};
pub use log_query::{Includes, LogQuery, LogSources, Tried};
pub use needed_index::needed_index;
pub use paging::{PageWindow, Paging};
pub use plan::{
    Plan, RowOrder, ShownRows, SourceDocuments, names_time_series, page_window, parse,
    parse_update, plan,
};
pub use planned_include::{PlannedInclude, wants_timings};
pub use planned_query::PlannedQuery;
pub use projection::{ProjectedField, Projection};
pub use result::{IndexFacts, QueryResult, ResultFacts, SeriesOptions};
pub use result_kind::{ResultKind, result_kind};
pub use revision_includes::{IncludedRevisions, RevisionIncludes};
pub use row::Row;
pub use row_document::RowDocument;
pub use row_notes::{FieldFragments, Notes};
pub use row_script::{BoundScripts, QueryScripts, contains_script};
pub use searched_fields::SearchedFields;
pub use series_includes::{IncludedSeries, SeriesInclude, SeriesIncludes, SeriesPart};
pub use shown_entries::{
    ENTRIES_MAX, ScanCounts, ShownEntries, ShownEntry, count_scanned, entries_of_index,
};
pub use stored_projection::ProjectionBehavior;
pub use suggestion_query::{SuggestedTerms, SuggestionResult, suggestions_of_index};
pub use term_statistics::{BaseEntry, ComparedField, TermStatistics};
pub use term_text::term_text;
pub use time_series::{Numbers, RollupPolicy, SeriesForm, SeriesSettings, write_number};
pub use update_clause::take_update;
