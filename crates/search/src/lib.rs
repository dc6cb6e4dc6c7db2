//! search: an inverted index on one storage environment.
//!
//! An index holds *entries*, numbered upwards. Each entry has *terms* in *fields* (null, texts,
//! numbers) and is found by them. The crate knows neither documents nor maps: callers pass in
//! entries with the id of the document they come from, and get entries and ids back.
//!
//! Writing: [`FieldSet`] → [`EntryBuilder`] → [`IndexBatch::put`] → [`IndexBatch::apply`] inside a
//! `WriteTransaction`. Reading: [`IndexReader`] over any transaction, with a [`Query`].
//!
//! Invariants: every posting has its forward record and vice versa ([`check()`]); the results of an
//! index do not depend on how its changes were divided into batches, except for the order of
//! entries that were put again.
//!
//! | file | what |
//! |---|---|
//! | `trees`, `term`, `state`, `fields` | the trees on disk |
//! | `postings`, `record`, `stored` | the bytes in them |
//! | `entry`, `batch`, `term_table`, `apply` | how changes are applied |
//! | `reader`, `entry_view` | fields, terms and entries |
//! | `query`, `plan`, `term_match`, `phrase`, `cursor`, `entry_set`, `interrupt` | how a query finds entries |
//! | `search`, `sorted_stream` | the first few of them, or all |
//! | `sort`, `sorted_walk`, `grouped_walk`, `walk_bounds`, `best_hits`, `alphanumeric`, `scoring` | the order of results |
//! | `boosts` | entries that count more than others |
//! | `explain` | why an entry has its score |
//! | `place`, `spatial_search`, `distance`, `distance_walk` | places and shapes: stored, found, nearest first |
//! | `facets`, `suggest` | further queries over matches and terms |
//! | `analysis` | how texts become terms |
//! | `check` | whether everything is consistent |
#![forbid(unsafe_code)]

mod alphanumeric;
pub mod analysis;
mod apply;
mod batch;
mod best_hits;
mod boosts;
mod check;
mod cursor;
mod distance;
mod distance_walk;
mod entry;
mod entry_set;
mod entry_view;
mod error;
mod explain;
mod facets;
mod fields;
mod grouped_walk;
mod ids;
mod interrupt;
mod phrase;
mod place;
mod plan;
mod postings;
mod query;
mod reader;
mod record;
mod scoring;
mod search;
mod sort;
mod sorted_stream;
mod sorted_walk;
mod spatial_search;
mod state;
mod stored;
mod suggest;
mod term;
mod term_match;
mod term_table;
mod trees;
mod varint;
mod walk_bounds;

#[cfg(test)]
mod tests;

pub use crate::{
    apply::Applied,
    batch::{BATCH_BYTES_MAX, IndexBatch},
    boosts::BOOST_MAX,
    check::{IndexReport, check},
    distance::{DistanceFrom, Location},
    entry::{ENTRY_BYTES_MAX, EntryBuilder},
    entry_view::{EntryView, FieldTerms},
    error::SearchError,
    explain::Explanation,
    facets::{FACET_TERMS_MAX, Facet, Matches, NumberSummary},
    fields::{
        DOCUMENT_ID_FIELD, FIELD_NAME_BYTES_MAX, FIELDS_MAX, Field, FieldOptions, FieldSet,
        Indexing,
    },
    ids::{EntryId, FieldId},
    place::{SpatialLayout, cell_names},
    query::{LikeWord, PhraseWord, QUERY_DEPTH_MAX, Query, TermRange},
    reader::{FieldInfo, IndexReader, TermCount},
    search::{Hit, Hits, Scoring},
    sort::{Sort, SortBy, SortKey},
    sorted_stream::SortedStream,
    stored::StoredValues,
    suggest::{SUGGESTIONS_MAX, StringDistance, SuggestOptions, Suggestion},
    term::{TERM_BYTES_MAX, TermKind, TermValue},
};
