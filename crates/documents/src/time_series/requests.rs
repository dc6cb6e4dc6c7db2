//! What a caller requests of time series, and the results.

use std::fmt;

use model::{
    ChangeVector, CollectionName, DocumentId, DocumentIdTooLong, TimeSeriesName, date,
    ticks::TICKS_PER_MILLISECOND,
};
use timeseries::{Entries, VALUES_MAX};

use super::{MOMENT_MAX, series::RolledUp};

/// The longest tag that is accepted, in bytes.
const TAG_BYTES_ACCEPTED: usize = timeseries::TAG_BYTES_MAX - 1;

/// Moments from one to another, both included, in milliseconds since 0001-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MomentRange {
    /// The first moment of the range.
    pub from: i64,
    /// The last moment of the range.
    pub to: i64,
}

impl MomentRange {
    /// All moments of the calendar, from the year 1 to 9999.
    pub const ALL: Self = Self { from: 0, to: MOMENT_MAX };

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.to < self.from
    }

    /// Whether it has the moment.
    pub fn contains(&self, moment: i64) -> bool {
        self.from <= moment && moment <= self.to
    }

    /// Whether it includes every moment of the other.
    pub fn includes(&self, other: &Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// The permission to write a rollup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollupRight {
    /// None.
    None,
    /// Allowed: documents of these collections have the policy.
    OfCollections(Vec<CollectionName>),
    /// The policy itself writes.
    OfPolicy,
}

/// A change of one series; deletions come first.
#[derive(Clone, Debug)]
pub struct TimeSeriesChange {
    /// The document, which must exist.
    pub id: DocumentId,
    /// The name of the series; it is created if it does not exist.
    pub name: TimeSeriesName,
    /// Ranges to delete, both ends included.
    pub deletes: Vec<MomentRange>,
    /// Entries to write, in any order; each replaces an existing one of the same moment, and the
    /// last of several of the same moment wins.
    pub appends: Entries,
    /// Values to add to those of an incremental series.
    pub increments: Entries,
    /// Entries of another database: each replaces an existing one of the same moment, and in an incremental series
    /// of the same tag.
    pub imported: Entries,
    /// The permission to write a rollup.
    pub rollup_right: RollupRight,
    /// For a rollup: its progress including these entries.
    pub rolled_up: Option<RolledUp>,
    /// Whether nothing happens, instead of an error, if there is no such document.
    pub ignores_missing: bool,
}

impl TimeSeriesChange {
    /// A change of the series that does nothing yet.
    pub fn new(id: DocumentId, name: TimeSeriesName) -> Self {
        Self {
            id,
            name,
            deletes: Vec::new(),
            appends: Entries::default(),
            increments: Entries::default(),
            imported: Entries::default(),
            rollup_right: RollupRight::None,
            rolled_up: None,
            ignores_missing: false,
        }
    }

    /// Approximate bytes that it adds to a transaction.
    pub fn size_bytes(&self) -> usize {
        /// A moment, one value and part of a tag; compression removes much of it.
        const ENTRY_BYTES: usize = 16;
        let entries = self.appends.len() + self.increments.len() + self.imported.len();
        (entries + self.deletes.len()) * ENTRY_BYTES
    }

    /// Validates the change.
    pub(crate) fn check(&self) -> Result<(), InvalidTimeSeries> {
        if self.name.is_rollup() && self.rollup_right == RollupRight::None {
            return Err(InvalidTimeSeries::ReservedName { name: self.name.to_string() });
        }
        if !self.appends.is_empty() && self.name.is_incremental() {
            return Err(InvalidTimeSeries::AppendToIncremental);
        }
        if !self.increments.is_empty() && !self.name.is_incremental() {
            return Err(InvalidTimeSeries::IncrementOfOrdinary);
        }
        for entry in self.appends.iter().chain(self.increments.iter()).chain(self.imported.iter()) {
            if entry.values.is_empty() {
                let (id, name) = (self.id.to_string(), self.name.to_string());
                return Err(InvalidTimeSeries::NoValues { id, name });
            }
            if VALUES_MAX < entry.values.len() {
                return Err(InvalidTimeSeries::TooManyValues { count: entry.values.len() });
            }
            if entry.values.iter().any(|value| value.is_nan()) {
                let (timestamp_ms, values) = (entry.timestamp_ms, entry.values.to_vec());
                return Err(InvalidTimeSeries::NotANumber { timestamp_ms, values });
            }
            if let Some(tag) = entry.tag
                && TAG_BYTES_ACCEPTED < tag.len()
            {
                let (id, name) = (self.id.to_string(), self.name.to_string());
                return Err(InvalidTimeSeries::TagTooLong { tag: tag.to_owned(), id, name });
            }
            if !MomentRange::ALL.contains(entry.timestamp_ms) {
                return Err(InvalidTimeSeries::OutsideTheCalendar);
            }
        }
        Ok(())
    }
}

/// Entries to copy from one series to another.
#[derive(Clone, Debug)]
pub struct CopyTimeSeries {
    /// The document that has them.
    pub id: DocumentId,
    /// The name of the series in that document.
    pub name: TimeSeriesName,
    /// The document that receives them, which must exist.
    pub destination_id: DocumentId,
    /// The name of the series in that document.
    pub destination_name: TimeSeriesName,
    /// The range to copy.
    pub range: MomentRange,
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSeriesWritten {
    /// The document, as the request writes its id.
    pub id: DocumentId,
    /// The version of the last change; absent when nothing was changed.
    pub change_vector: Option<ChangeVector>,
    /// Whether the document gained or lost a series: its own version is then the last one.
    pub is_document_touched: bool,
}

/// Why a change is invalid.
#[derive(Clone, Debug, PartialEq)]
pub enum InvalidTimeSeries {
    /// The name is reserved for rollups.
    ReservedName {
        /// The name.
        name: String,
    },
    /// The name is too long.
    NameTooLong(DocumentIdTooLong),
    /// An incremental series accepts only increments.
    AppendToIncremental,
    /// An ordinary series accepts no increments.
    IncrementOfOrdinary,
    /// An entry without values.
    NoValues {
        /// The document.
        id: String,
        /// The series.
        name: String,
    },
    /// An entry with too many values.
    TooManyValues {
        /// The number of its values.
        count: usize,
    },
    /// A value that is no number.
    NotANumber {
        /// The moment of the entry.
        timestamp_ms: i64,
        /// Its values.
        values: Vec<f64>,
    },
    /// A tag that is too long.
    TagTooLong {
        /// The tag.
        tag: String,
        /// The document.
        id: String,
        /// The series.
        name: String,
    },
    /// A moment before the year 1 or after the year 9999.
    OutsideTheCalendar,
    /// So many nodes have incremented at one moment that their entries do not fit into a segment.
    TooManyAtOneMoment,
}

impl fmt::Display for InvalidTimeSeries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedName { name } => write!(
                formatter,
                "Illegal time series name : '{name}'. Time series names cannot contain '@' \
                 character, since this character is reserved for time series rollups."
            ),
            Self::NameTooLong(DocumentIdTooLong { .. }) => write!(
                formatter,
                "The name of a time series cannot have more than {} bytes",
                model::DOCUMENT_ID_BYTES_MAX
            ),
            Self::AppendToIncremental => {
                formatter.write_str("Cannot perform append operations on Incremental Time Series")
            }
            Self::IncrementOfOrdinary => formatter
                .write_str("Cannot perform increment operations on Non Incremental Time Series"),
            Self::NoValues { id, name } => write!(
                formatter,
                "The entries of '{name}' time-series for document '{id}' must contain at least one \
                 value"
            ),
            Self::TooManyValues { count } => write!(
                formatter,
                "Specified argument was out of the range of valid values. (Parameter \
                 'TimeSeriesValuesSegment can handle up to {VALUES_MAX} values, but had: {count}')"
            ),
            Self::NotANumber { timestamp_ms, values } => {
                let moment = date::format(timestamp_ms.saturating_mul(TICKS_PER_MILLISECOND));
                let values: Vec<String> = values.iter().map(|value| value.to_string()).collect();
                write!(
                    formatter,
                    "Failed to append TimeSeries entry. TimeSeries entries cannot have \
                     'double.NaN' as one of their values. Failed on Timestamp : '{moment}', \
                     Values : [{}]. ",
                    values.join(", ")
                )
            }
            Self::TagTooLong { tag, id, name } => write!(
                formatter,
                "Tag '{tag}' is too big (max {} bytes) for document '{id}' in time series: {name} \
                 (Parameter 'tag')",
                timeseries::TAG_BYTES_MAX
            ),
            Self::OutsideTheCalendar => formatter
                .write_str("The moment of a time series entry lies outside of the years 1 to 9999"),
            Self::TooManyAtOneMoment => formatter
                .write_str("Too many nodes have incremented a time series at the same moment"),
        }
    }
}
