//! How far a database was when a node of its group was last looked at: a node that has everything up to there has caught
//! up.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use model::{DatabaseId, Etag, NodeTag};

/// See the module.
#[derive(Default)]
pub(crate) struct LastLooks(Mutex<HashMap<(DatabaseId, NodeTag), Etag>>);

impl LastLooks {
    /// Notes the last etag of a database now, and returns that of the last look.
    pub(crate) fn look(&self, database: DatabaseId, node: NodeTag, last: Etag) -> Option<Etag> {
        self.lock().insert((database, node), last)
    }

    pub(crate) fn forget(&self, database: DatabaseId, node: NodeTag) {
        self.lock().remove(&(database, node));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(DatabaseId, NodeTag), Etag>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
