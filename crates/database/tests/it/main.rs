//! The catalog and the registry over a disk in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod catalog;
mod cluster_transactions;
mod record_changes;
mod registry;
mod resources;
mod retention;
mod standing;
mod time_series_policies;

use std::sync::Arc;

use cluster_state::RecordDraft;
use commands::{CommitThreads, ThreadLimits};
use database::{
    CatalogError, Decision, IndexingOptions, NewDatabase, Replacement, ServerCatalog, WrittenRecord,
};
use indexing::{AutoIndexLimits, IndexingPool};
use model::{DatabaseName, DatabaseRecord};
use platform::Platform;

/// One thread that indexes.
fn indexing_on(platform: &Platform) -> IndexingOptions {
    IndexingOptions {
        pool: IndexingPool::new(Arc::clone(&platform.clock), 1),
        auto_limits: AutoIndexLimits::default(),
        is_disabled: false,
        on_event: Arc::new(|_, _| ()),
    }
}

/// One thread that commits.
fn commit_threads_on(platform: &Platform) -> Arc<CommitThreads> {
    CommitThreads::start(ThreadLimits { unhurried: 1, max: 1, scripts: 2 }, platform).unwrap()
}

/// A record as a client would send it.
fn record(name: &str) -> NewDatabase {
    NewDatabase {
        topology: None,
        name: DatabaseName::new(name).unwrap(),
        disabled: false,
        body: format!("{{\"DatabaseName\":\"{name}\"}}").into_bytes(),
        request_id: None,
    }
}

/// A change that disables a database or enables it.
fn toggle(disabled: bool) -> impl FnMut(&DatabaseRecord, &mut RecordDraft) -> Decision {
    move |record, draft| {
        draft.disabled = disabled;
        if record.disabled == disabled { Decision::Keep } else { Decision::Replace }
    }
}

/// Replaces the record of a database.
fn replace(
    catalog: &ServerCatalog,
    new: NewDatabase,
    expected: u64,
) -> Result<WrittenRecord, CatalogError> {
    let NewDatabase { name, disabled, body, request_id, .. } = new;
    catalog.replace(Replacement { name, expected, disabled, body, request_id }, |_| false)
}
