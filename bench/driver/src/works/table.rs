//! The table of the works: their names, and the figures of each.

use super::indexes::{INDEX_WORKS, IndexWork};
use crate::{options::Size, outcome::Figure};

/// The kinds of works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    NewDatabase,
    BulkInsertSmall,
    BulkInsertNode,
    BulkInsertSustained,
    PutMany,
    PutOne,
    BulkDocs,
    PatchMany,
    PatchQuery,
    CountMany,
    TimeSeriesAppend,
    TimeSeriesBulk,
    TimeSeriesHours,
    TimeSeriesDays,
    TimeSeriesWhole,
    ComparePut,
    SubscriptionRead,
    SubscriptionLatency,
    AttachmentUp,
    AttachmentDown,
    GetOne,
    GetRandom,
    /// On indexes and queries.
    Index(IndexWork),
}

/// A work, its names and the figures it reports.
pub(crate) struct WorkFacts {
    pub(crate) work: Work,
    /// The name on the command line.
    pub(crate) key: &'static str,
    /// The title in the table.
    pub(crate) title: &'static str,
    pub(crate) figures: &'static [Figure],
}

pub(super) const DOCUMENTS: &[Figure] =
    &[Figure::Rate("documents"), Figure::ServerTimeEach, Figure::DriverTimeEach];
const DOCUMENTS_OF_A_CLIENT: &[Figure] =
    &[Figure::Rate("documents"), Figure::ServerTimeEach, Figure::ClientTimeEach];
const DOCUMENTS_WITH_LATENCY: &[Figure] = &[
    Figure::Rate("documents"),
    Figure::LatencyPercentile(50),
    Figure::LatencyPercentile(99),
    Figure::ServerTimeEach,
    Figure::DriverTimeEach,
];
pub(super) const REQUESTS_WITH_LATENCY: &[Figure] = &[
    Figure::Rate("requests"),
    Figure::LatencyPercentile(50),
    Figure::LatencyPercentile(99),
    Figure::ServerTimeEach,
    Figure::DriverTimeEach,
];

const POINTS: &[Figure] = &[Figure::Rate("points"), Figure::ServerTimeEach, Figure::DriverTimeEach];
const POINTS_WITH_LATENCY: &[Figure] = &[
    Figure::Rate("points"),
    Figure::LatencyPercentile(50),
    Figure::LatencyPercentile(99),
    Figure::ServerTimeEach,
    Figure::DriverTimeEach,
];
/// Many points at little cost each, so the cost per query is reported.
const POINTS_OF_A_QUERY: &[Figure] = &[Figure::Rate("points"), Figure::ServerTimeEach];

const CONTENTS_WITH_MEMORY: &[Figure] = &[
    Figure::Rate("contents"),
    Figure::LatencyPercentile(50),
    Figure::LatencyPercentile(99),
    Figure::ServerTimeEach,
    Figure::MemoryGrowth,
];

/// All works on documents, in the order in which they are run.
pub(crate) static WORKS: &[WorkFacts] = &[
    facts(Work::NewDatabase, "new-database", &[Figure::MillisecondsEach, Figure::ServerTimeEach]),
    facts(Work::BulkInsertSmall, "bulk-insert-small", DOCUMENTS),
    facts(Work::BulkInsertNode, "bulk-insert-node", DOCUMENTS_OF_A_CLIENT),
    facts(Work::PutMany, "put-64", DOCUMENTS_WITH_LATENCY),
    facts(Work::PutOne, "put-1", DOCUMENTS_WITH_LATENCY),
    facts(Work::BulkDocs, "bulk-docs", DOCUMENTS_WITH_LATENCY),
    facts(Work::PatchMany, "patch-64", REQUESTS_WITH_LATENCY),
    facts(Work::PatchQuery, "patch-query", DOCUMENTS),
    facts(Work::CountMany, "counters-64", REQUESTS_WITH_LATENCY),
    facts(Work::TimeSeriesAppend, "timeseries-append", POINTS_WITH_LATENCY),
    facts(Work::TimeSeriesBulk, "timeseries-bulk", POINTS),
    facts(Work::TimeSeriesHours, "timeseries-hours", POINTS_OF_A_QUERY),
    facts(Work::TimeSeriesDays, "timeseries-days", POINTS_OF_A_QUERY),
    facts(Work::TimeSeriesWhole, "timeseries-whole", POINTS_OF_A_QUERY),
    facts(Work::ComparePut, "compare-exchange", REQUESTS_WITH_LATENCY),
    facts(Work::SubscriptionRead, "subscription-read", DOCUMENTS),
    facts(Work::SubscriptionLatency, "subscription-latency", DOCUMENTS_WITH_LATENCY),
    facts(Work::AttachmentUp, "attachment-up", CONTENTS_WITH_MEMORY),
    facts(Work::AttachmentDown, "attachment-down", CONTENTS_WITH_MEMORY),
    facts(Work::GetOne, "get-one", REQUESTS_WITH_LATENCY),
    facts(Work::GetRandom, "get-random", REQUESTS_WITH_LATENCY),
    // The last one, because it causes the most background work on the servers.
    facts(Work::BulkInsertSustained, "bulk-insert-sustained", DOCUMENTS),
];

const fn facts(work: Work, key: &'static str, figures: &'static [Figure]) -> WorkFacts {
    let title = match work {
        Work::NewDatabase => "new database",
        Work::BulkInsertSmall => "bulk insert, 100k small documents",
        Work::BulkInsertNode => "bulk insert, 100k small documents, Node.js client",
        Work::BulkInsertSustained => "bulk insert, 1 KB cities, sustained",
        Work::PutMany => "PUT new 300-byte documents, 64 connections",
        Work::PutOne => "PUT new 300-byte documents, 1 connection",
        Work::BulkDocs => "bulk_docs, 100 documents of 300 bytes each, 4 connections",
        Work::PatchMany => "PATCH one of 100k documents by a script, 64 connections",
        Work::PatchQuery => "patch by query of 100k documents",
        Work::CountMany => "increment one of 1,000 counters, 64 connections",
        Work::TimeSeriesAppend => "append to time series, 1,000 points each, 4 connections",
        Work::TimeSeriesBulk => "bulk insert of 1M points of time series",
        Work::TimeSeriesHours => "min, max, avg of 10M points by hour, one query",
        Work::TimeSeriesDays => "min, max, avg of 10M points by day, one query",
        Work::TimeSeriesWhole => "min, max, avg of 10M points as a whole, one query",
        Work::ComparePut => "PUT new compare exchange values, 64 connections",
        Work::SubscriptionRead => "a subscription over 100k documents, batches of 4,096",
        Work::SubscriptionLatency => "from the response to a PUT to the worker with the document",
        Work::AttachmentUp => "PUT an attachment of 10 MB, 1 connection",
        Work::AttachmentDown => "GET an attachment of 10 MB, 1 connection",
        Work::GetOne => "GET one document, 64 connections",
        Work::GetRandom => "GET random of 100k documents, 64 connections",
        Work::Index(_) => panic!("works on indexes have a table of their own"),
    };
    WorkFacts { work, key, title, figures }
}

/// The title of the work of that key, for tables of data.
///
/// # Panics
/// When there is none: in a `static` that is an error of compilation.
pub(crate) const fn title(key: &str) -> &'static str {
    title_in(WORKS, key)
}

/// The same for works on indexes.
///
/// # Panics
/// Like [`title`].
pub(crate) const fn index_title(key: &str) -> &'static str {
    title_in(INDEX_WORKS, key)
}

const fn title_in(works: &[WorkFacts], key: &str) -> &'static str {
    let mut index = 0;
    while index < works.len() {
        if is_same(works[index].key.as_bytes(), key.as_bytes()) {
            return works[index].title;
        }
        index += 1;
    }
    panic!("no work has this key")
}

const fn is_same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

impl Work {
    /// Whether the bare server can do it, which returns one document for every GET, and responds to
    /// every PUT as if it had stored something; it does store attachments.
    pub(crate) fn needs_no_database(self) -> bool {
        match self {
            Self::PutMany
            | Self::PutOne
            | Self::AttachmentUp
            | Self::AttachmentDown
            | Self::GetOne
            | Self::GetRandom => true,
            Self::NewDatabase
            | Self::BulkInsertSmall
            | Self::BulkInsertNode
            | Self::BulkInsertSustained
            | Self::BulkDocs
            | Self::PatchMany
            | Self::PatchQuery
            | Self::CountMany
            | Self::TimeSeriesAppend
            | Self::TimeSeriesBulk
            | Self::TimeSeriesHours
            | Self::TimeSeriesDays
            | Self::TimeSeriesWhole
            | Self::ComparePut
            | Self::SubscriptionRead
            | Self::SubscriptionLatency
            | Self::Index(_) => false,
        }
    }

    pub(crate) fn rounds(self, size: &Size) -> usize {
        match self {
            Self::BulkInsertSustained => size.sustained_rounds,
            Self::NewDatabase
            | Self::BulkInsertSmall
            | Self::BulkInsertNode
            | Self::PutMany
            | Self::PutOne
            | Self::BulkDocs
            | Self::PatchMany
            | Self::PatchQuery
            | Self::CountMany
            | Self::TimeSeriesAppend
            | Self::TimeSeriesBulk
            | Self::TimeSeriesHours
            | Self::TimeSeriesDays
            | Self::TimeSeriesWhole
            | Self::ComparePut
            | Self::SubscriptionRead
            | Self::SubscriptionLatency
            | Self::AttachmentUp
            | Self::AttachmentDown
            | Self::GetOne
            | Self::GetRandom
            | Self::Index(_) => size.rounds,
        }
    }
}
