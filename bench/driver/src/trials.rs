//! The trials: measurements that need a separate server, which they start, stop or kill. Not here:
//! works on a running server, see `works`.

mod changes;
mod cluster;
mod compression;
mod database;
mod many_databases;
mod map_reduce;
mod packages;
mod restart;
mod time_series;

use std::path::Path;

use report::Better;

use crate::{error::DriverError, server::Program};

/// One value for each of [`TrialFacts::figures`].
pub(crate) type Figures = Vec<f64>;

/// The kinds of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    StartEmpty,
    StartLarge,
    StartKilled,
    ManyDatabases,
    Compression,
    TimeSeriesSize,
    ChangesNotified,
    ChangesIdle,
    IndexSize,
    Packages,
    ReduceDays,
    ReduceChange,
    ReduceReplace,
    ClusterSetup,
    ClusterVisible,
    ClusterExchange,
    ClusterBulk,
    ClusterCatchUp,
    ClusterIdle,
}

/// A trial, its names and the figures it reports.
pub(crate) struct TrialFacts {
    pub(crate) trial: Trial,
    /// The name on the command line.
    pub(crate) key: &'static str,
    /// The title in the table.
    pub(crate) title: &'static str,
    pub(crate) figures: &'static [(&'static str, Better)],
    /// Takes minutes: skipped in quick runs that do not name it.
    pub(crate) is_long: bool,
    /// RavenDB refuses a feature that it needs without a licence.
    pub(crate) needs_licence: bool,
}

/// The trials of databases, in the order in which they are run.
pub(crate) static TRIALS: &[TrialFacts] = &[
    TrialFacts {
        trial: Trial::StartEmpty,
        key: "start-empty",
        title: START_EMPTY,
        figures: &[("s to ready", Better::Less)],
        is_long: false,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::Compression,
        key: "compression",
        title: COMPRESSION,
        figures: compression::FIGURES,
        is_long: false,
        needs_licence: true,
    },
    TrialFacts {
        trial: Trial::TimeSeriesSize,
        key: "timeseries-size",
        title: TIME_SERIES_SIZE,
        figures: time_series::SIZE_FIGURES,
        is_long: true,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::ChangesNotified,
        key: "changes-1000",
        title: CHANGES_NOTIFIED,
        figures: changes::TOLD_FIGURES,
        is_long: true,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::ChangesIdle,
        key: "changes-idle",
        title: CHANGES_IDLE,
        figures: changes::IDLE_FIGURES,
        is_long: true,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::StartKilled,
        key: "start-killed",
        title: START_KILLED,
        figures: restart::KILLED_FIGURES,
        is_long: true,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::ManyDatabases,
        key: "many-databases",
        title: MANY_DATABASES,
        figures: many_databases::FIGURES,
        is_long: true,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::StartLarge,
        key: "start-large",
        title: START_LARGE,
        figures: restart::LARGE_FIGURES,
        is_long: true,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::ClusterSetup,
        key: "cluster-setup",
        title: CLUSTER_SETUP,
        figures: cluster::SETUP_FIGURES,
        is_long: false,
        needs_licence: true,
    },
    TrialFacts {
        trial: Trial::ClusterVisible,
        key: "cluster-visible",
        title: CLUSTER_VISIBLE,
        figures: cluster::VISIBLE_FIGURES,
        is_long: false,
        needs_licence: true,
    },
    TrialFacts {
        trial: Trial::ClusterExchange,
        key: "cluster-exchange",
        title: CLUSTER_EXCHANGE,
        figures: cluster::EXCHANGE_FIGURES,
        is_long: false,
        needs_licence: true,
    },
    TrialFacts {
        trial: Trial::ClusterBulk,
        key: "cluster-bulk",
        title: CLUSTER_BULK,
        figures: cluster::BULK_FIGURES,
        is_long: true,
        needs_licence: true,
    },
    TrialFacts {
        trial: Trial::ClusterCatchUp,
        key: "cluster-catch-up",
        title: CLUSTER_CATCH_UP,
        figures: cluster::CATCH_UP_FIGURES,
        is_long: true,
        needs_licence: true,
    },
    TrialFacts {
        trial: Trial::ClusterIdle,
        key: "cluster-idle",
        title: CLUSTER_IDLE,
        figures: cluster::IDLE_FIGURES,
        is_long: true,
        needs_licence: true,
    },
];

/// The trials of indexes, in the order in which they are run.
pub(crate) static INDEX_TRIALS: &[TrialFacts] = &[
    TrialFacts {
        trial: Trial::IndexSize,
        key: "index-size",
        title: INDEX_SIZE,
        figures: packages::SIZE_FIGURES,
        is_long: false,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::Packages,
        key: "packages",
        title: PACKAGES,
        figures: packages::FIGURES,
        is_long: true,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::ReduceDays,
        key: "reduce-days",
        title: REDUCE_DAYS,
        figures: map_reduce::DAYS_FIGURES,
        is_long: true,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::ReduceChange,
        key: "reduce-change",
        title: REDUCE_CHANGE,
        figures: map_reduce::CHANGE_FIGURES,
        is_long: true,
        needs_licence: false,
    },
    TrialFacts {
        trial: Trial::ReduceReplace,
        key: "reduce-replace",
        title: REDUCE_REPLACE,
        figures: map_reduce::REPLACE_FIGURES,
        is_long: true,
        needs_licence: false,
    },
];

pub(crate) const START_EMPTY: &str = "start, empty data";
pub(crate) const START_LARGE: &str = "start, database of 5 GB cleanly closed";
pub(crate) const START_KILLED: &str = "start after kill -9, 256 MB of journal";
pub(crate) const MANY_DATABASES: &str = "200 databases in one process";
pub(crate) const COMPRESSION: &str = "100k similar documents of 300 bytes, compressed";
pub(crate) const TIME_SERIES_SIZE: &str = "10M points of time series, cleanly closed";
pub(crate) const CHANGES_NOTIFIED: &str = "1,000 listeners, 1,000 writes/s";
pub(crate) const CHANGES_IDLE: &str = "10,000 idle listeners";
pub(crate) const INDEX_SIZE: &str = "an index over 100k small documents, cleanly closed";
pub(crate) const PACKAGES: &str = "package search, 1,000,000 names";
pub(crate) const REDUCE_DAYS: &str = "map-reduce of 1,600,000 events into 1,000 days";
pub(crate) const REDUCE_CHANGE: &str = "map-reduce: from one changed row to its non-stale total";
pub(crate) const REDUCE_REPLACE: &str =
    "a map-reduce definition replaced under 500 writes/s and 500 queries/s";
pub(crate) const CLUSTER_SETUP: &str =
    "cluster of three: from nothing to a database that takes writes";
pub(crate) const CLUSTER_VISIBLE: &str =
    "cluster of three: a write on one node seen on another, 1,000 writes/s";
pub(crate) const CLUSTER_EXCHANGE: &str = "cluster of three: compare exchange, 64 connections";
pub(crate) const CLUSTER_BULK: &str = "cluster of three: bulk insert of 1,000,000 documents";
pub(crate) const CLUSTER_CATCH_UP: &str =
    "cluster of three: a node that was away for 1,000,000 documents";
pub(crate) const CLUSTER_IDLE: &str = "cluster of three: 100 databases that nobody uses";

impl Trial {
    /// All its rounds, with data below `parent`.
    pub(crate) async fn run(
        self,
        program: &Program,
        parent: &Path,
    ) -> Result<Vec<Figures>, DriverError> {
        match self {
            Self::StartEmpty => restart::start_empty(program, parent).await,
            Self::Compression => compression::run(program, parent).await,
            Self::TimeSeriesSize => time_series::size(program, parent).await.map(|one| vec![one]),
            Self::StartLarge => restart::start_large(program, parent).await,
            Self::StartKilled => restart::start_killed(program, parent).await,
            Self::ChangesNotified => changes::notified(program, parent).await.map(|one| vec![one]),
            Self::ChangesIdle => changes::idle(program, parent).await,
            Self::IndexSize => packages::index_size(program, parent).await.map(|one| vec![one]),
            Self::Packages => packages::run(program, parent).await.map(|one| vec![one]),
            Self::ReduceDays => map_reduce::days(program, parent).await.map(|one| vec![one]),
            Self::ReduceChange => map_reduce::change(program, parent).await.map(|one| vec![one]),
            Self::ReduceReplace => map_reduce::replace(program, parent).await.map(|one| vec![one]),
            Self::ClusterSetup => cluster::setup(program, parent).await,
            Self::ClusterVisible => cluster::visible(program, parent).await.map(|one| vec![one]),
            Self::ClusterExchange => cluster::exchange(program, parent).await.map(|one| vec![one]),
            Self::ClusterBulk => cluster::bulk(program, parent).await.map(|one| vec![one]),
            Self::ClusterCatchUp => cluster::catch_up(program, parent).await.map(|one| vec![one]),
            Self::ClusterIdle => cluster::idle(program, parent).await.map(|one| vec![one]),
            Self::ManyDatabases => many_databases::run(program, parent).await.map(|one| vec![one]),
        }
    }
}
