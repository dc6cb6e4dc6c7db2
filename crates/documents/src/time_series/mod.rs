//! Time series: entries of documents, each a moment, values and a tag.
//!
//! The entries of a series are stored in segments, see the crate `timeseries`; each is a row, with
//! a summary of its values, so that much can be aggregated without reading entries. A change
//! rewrites the segments that it touches.
//!
//! Invariants: the segments of a series are in order and do not overlap; entries of the same moment, which
//! only incremental series have, lie in one segment; a series that is recorded has entries, and the
//! metadata of its document names it.
//!
//! | file | what |
//! |---|---|
//! | `tables` | the tables and trees, drawn |
//! | `segment_row`, `deleted_range`, `series` | what is on disk, byte by byte |
//! | `read` | the segments and entries of a series, statistics |
//! | `requests` | requests and their results |
//! | `write` | changes of a series |
//! | `receive` | what another database has sent |
//! | `rewrite` | the segments of a part of a series |
//! | `rollup` | entries that a policy aggregates from others |
//! | `of_revision` | what revisions record of series |
//! | `check`, `salvage` | consistency checks; rebuilding |

mod check;
pub(crate) mod deleted_range;
mod of_revision;
mod read;
mod receive;
mod requests;
mod rewrite;
mod rollup;
mod salvage;
pub(crate) mod segment_row;
mod series;
pub(crate) mod tables;
mod write;

use model::ticks::{TICKS_MAX, TICKS_PER_MILLISECOND, UNIX_EPOCH_TICKS};

pub use deleted_range::DeletedRangeRow;
pub use read::{
    Series, SeriesReader, TimeSeriesEntry, deleted_ranges_count, segment_at, segments,
    segments_bytes, segments_count, series, series_names, series_of,
};
pub use receive::decode_segment;
pub use requests::{
    CopyTimeSeries, InvalidTimeSeries, MomentRange, RollupRight, TimeSeriesChange,
    TimeSeriesWritten,
};
pub use rollup::{
    Frame, ROLLUP_VALUES, Rollup, RollupStep, SeriesAt, moment_before, moment_behind, series_page,
};
pub use segment_row::SegmentRow;
pub use series::RolledUp;
pub use timeseries::{Entries, Entry, Summary, TAG_BYTES_MAX, VALUES_MAX};

pub(crate) use check::{check_time_series, read_whole};
pub(crate) use deleted_range::collection_number_of as collection_number_of_deleted;
pub(crate) use of_revision::{with_snapshot, without_snapshot};
pub(crate) use read::add_listing;
pub(crate) use salvage::GatheredTimeSeries;
pub(crate) use tables::{DELETED_RANGES, SEGMENTS, document_of_key, series_tree};

/// The moment at which 1970 begins, the epoch of scripts. Moments are counted in milliseconds.
pub const YEAR_1970_MS: i64 = UNIX_EPOCH_TICKS / TICKS_PER_MILLISECOND;
/// The last moment, the end of the year 9999.
pub const MOMENT_MAX: i64 = TICKS_MAX / TICKS_PER_MILLISECOND;
