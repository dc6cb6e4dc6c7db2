//! The target figures, as data.

use report::{Bound, Limit};

use crate::{
    trials::{
        CHANGES_IDLE, CHANGES_NOTIFIED, CLUSTER_BULK, CLUSTER_CATCH_UP, CLUSTER_IDLE,
        CLUSTER_SETUP, CLUSTER_VISIBLE, COMPRESSION, INDEX_SIZE, PACKAGES, REDUCE_CHANGE,
        REDUCE_DAYS, REDUCE_REPLACE, START_EMPTY, START_KILLED, START_LARGE, TIME_SERIES_SIZE,
    },
    works::{index_title, title},
};

const RAVEN: &[&str] = &["ravendb"];
const BARE: &[&str] = &["bare"];

/// The title of the rows that are neither a work nor a trial.
pub(crate) const MEMORY: &str = "resident memory";

pub(crate) static LIMITS: &[Limit] = &[
    wanted(START_EMPTY, "s to ready", Bound::AtMost(0.1)),
    wanted(COMPRESSION, "of the plain rate", Bound::AtLeast(0.7)),
    wanted(COMPRESSION, "MB compressed", Bound::AtMostTimes(1.0, RAVEN)),
    wanted(CHANGES_NOTIFIED, "p99 ms, each watching its own", Bound::AtMost(50.0)),
    wanted(CHANGES_NOTIFIED, "missed, each watching its own", Bound::AtMost(0.0)),
    wanted(CHANGES_NOTIFIED, "p99 ms, each watching all", Bound::AtMost(50.0)),
    wanted(CHANGES_NOTIFIED, "missed, each watching all", Bound::AtMost(0.0)),
    wanted(CHANGES_IDLE, "MB resident", Bound::AtMost(300.0)),
    wanted(CHANGES_IDLE, "of the puts/s before", Bound::AtLeast(0.95)),
    wanted(TIME_SERIES_SIZE, "bytes a point", Bound::AtMost(4.0)),
    wanted(TIME_SERIES_SIZE, "bytes a point, compacted", Bound::AtMost(4.0)),
    wanted(START_LARGE, "GB on disk", Bound::AtLeast(5.0)),
    wanted(START_LARGE, "s to first document", Bound::AtMost(0.5)),
    wanted(START_KILLED, "MB in journals", Bound::AtLeast(256.0)),
    wanted(START_KILLED, "s to first document", Bound::AtMost(5.0)),
    wanted(MEMORY, "MB idle", Bound::AtMost(30.0)),
    wanted(MEMORY, "MB after 100k documents, without mapped files", Bound::AtMost(150.0)),
    wanted(title("new-database"), "ms each", Bound::AtMost(20.0)),
    wanted(title("bulk-insert-small"), "documents/s", Bound::AtLeastTimes(1.0, RAVEN)),
    wanted(title("bulk-insert-small"), "server CPU µs each", Bound::AtMost(5.0)),
    wanted(title("bulk-insert-node"), "documents/s", Bound::AtLeastTimes(1.0, RAVEN)),
    wanted(title("bulk-insert-node"), "server CPU µs each", Bound::AtMost(5.0)),
    wanted(title("bulk-insert-sustained"), "documents/s", Bound::AtLeast(150_000.0)),
    wanted_on("disk", title("put-64"), "documents/s", Bound::AtLeastTimes(5.0, RAVEN)),
    wanted_on("tmpfs", title("put-64"), "documents/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(title("put-64"), "server CPU µs each", Bound::AtMost(30.0)),
    wanted(title("patch-64"), "requests/s", Bound::AtLeastTimes(4.0, RAVEN)),
    wanted(title("patch-query"), "documents/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(title("counters-64"), "requests/s", Bound::AtLeastTimes(4.0, RAVEN)),
    wanted(title("timeseries-append"), "points/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(title("timeseries-bulk"), "points/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(title("timeseries-hours"), "points/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(title("timeseries-days"), "points/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(title("timeseries-whole"), "points/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(title("compare-exchange"), "requests/s", Bound::AtLeastTimes(4.0, RAVEN)),
    wanted(title("subscription-read"), "documents/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(title("subscription-latency"), "p50 ms", Bound::AtMost(3.0)),
    wanted(title("attachment-up"), "contents/s", Bound::AtLeastTimes(0.8, BARE)),
    wanted(title("attachment-up"), "MB of memory added", Bound::AtMost(20.0)),
    wanted(title("attachment-down"), "contents/s", Bound::AtLeastTimes(0.8, BARE)),
    wanted(title("attachment-down"), "MB of memory added", Bound::AtMost(20.0)),
    wanted(title("get-one"), "requests/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(title("get-one"), "requests/s", Bound::AtLeastTimes(0.8, BARE)),
    wanted(title("get-one"), "server CPU µs each", Bound::AtMostTimes(1.25, BARE)),
    wanted(title("get-random"), "requests/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(title("get-random"), "requests/s", Bound::AtLeastTimes(0.8, BARE)),
    wanted(title("get-random"), "server CPU µs each", Bound::AtMostTimes(1.25, BARE)),
    wanted(index_title("index-small"), "documents/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(index_title("index-small"), "server CPU µs each", Bound::AtMost(5.0)),
    wanted(index_title("index-large"), "documents/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(index_title("index-long-text"), "documents/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(index_title("write-visible"), "p50 ms", Bound::AtMost(5.0)),
    wanted(index_title("write-visible"), "p50 ms", Bound::AtMostTimes(1.0, RAVEN)),
    wanted(index_title("query-term"), "requests/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(index_title("query-range"), "requests/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(index_title("query-text"), "requests/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(index_title("query-prefix"), "requests/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(index_title("query-facet"), "requests/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(index_title("query-nearest"), "requests/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(index_title("map-reduce"), "documents/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(index_title("stream-collection"), "documents/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(index_title("stream-collection"), "MB of memory added", Bound::AtMost(20.0)),
    wanted(index_title("stream-index"), "documents/s", Bound::AtLeastTimes(2.0, RAVEN)),
    wanted(index_title("stream-index"), "MB of memory added", Bound::AtMost(20.0)),
    wanted(INDEX_SIZE, "MB of index", Bound::AtMostTimes(1.0, RAVEN)),
    wanted(PACKAGES, "names/s indexed", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(PACKAGES, "MB of index", Bound::AtMostTimes(1.0, RAVEN)),
    wanted(PACKAGES, "failed, 300 users", Bound::AtMost(0.0)),
    wanted(PACKAGES, "failed, 3,000 users", Bound::AtMost(0.0)),
    wanted(PACKAGES, "mean ms, 3,000 users", Bound::AtMost(50.0)),
    wanted(REDUCE_DAYS, "events/s", Bound::AtLeastTimes(3.0, RAVEN)),
    wanted(REDUCE_DAYS, "days with a wrong sum", Bound::AtMost(0.0)),
    wanted(REDUCE_CHANGE, "p50 ms, key of 1k", Bound::AtMost(10.0)),
    wanted(REDUCE_CHANGE, "p50 ms, key of 10k", Bound::AtMost(10.0)),
    wanted(REDUCE_CHANGE, "p50 ms, key of 100k", Bound::AtMost(10.0)),
    wanted(REDUCE_CHANGE, "p50 ms, key of 1M", Bound::AtMost(10.0)),
    wanted(REDUCE_CHANGE, "wrong totals", Bound::AtMost(0.0)),
    wanted(REDUCE_REPLACE, "failed", Bound::AtMost(0.0)),
    wanted(CLUSTER_SETUP, "s to a database on three nodes", Bound::AtMost(5.0)),
    wanted(CLUSTER_VISIBLE, "p50 ms", Bound::AtMost(3.0)),
    wanted(CLUSTER_VISIBLE, "p99 ms", Bound::AtMost(20.0)),
    wanted(CLUSTER_VISIBLE, "missed", Bound::AtMost(0.0)),
    wanted(CLUSTER_BULK, "of the rate of one node", Bound::AtLeast(0.6)),
    wanted(CLUSTER_CATCH_UP, "documents/s", Bound::AtLeast(150_000.0)),
    wanted(CLUSTER_IDLE, "% of a core, each node", Bound::AtMost(2.0)),
    wanted(CLUSTER_IDLE, "MB resident, each node", Bound::AtMost(60.0)),
];

const fn wanted(work: &'static str, figure: &'static str, bound: Bound) -> Limit {
    Limit { work, figure, mode: None, bound }
}

const fn wanted_on(
    mode: &'static str,
    work: &'static str,
    figure: &'static str,
    bound: Bound,
) -> Limit {
    Limit { work, figure, mode: Some(mode), bound }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        contest::MEMORY_FIGURES,
        trials::{INDEX_TRIALS, TRIALS},
        works::{INDEX_WORKS, WORKS},
    };

    #[test]
    fn every_limit_has_a_row_to_be_compared_with() {
        for limit in LIMITS {
            let exists = match limit.work {
                MEMORY => MEMORY_FIGURES.contains(&limit.figure),
                title => {
                    let of_work = WORKS.iter().chain(INDEX_WORKS).any(|facts| {
                        facts.title == title
                            && facts.figures.iter().any(|figure| figure.name() == limit.figure)
                    });
                    let of_trial =
                        TRIALS.iter().chain(INDEX_TRIALS).filter(|facts| facts.title == title).any(
                            |facts| facts.figures.iter().any(|(name, _)| *name == limit.figure),
                        );
                    of_work || of_trial
                }
            };
            assert!(exists, "{} · {}", limit.work, limit.figure);
        }
    }
}
