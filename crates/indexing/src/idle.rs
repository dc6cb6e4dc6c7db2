//! Automatic indexes that are no longer queried: they become idle, and are deleted later.
//!
//! Idle is relative: an index is idle when other automatic indexes of the database were queried
//! much later. So a quiet night makes none of them idle. An idle index continues to index, and a
//! query makes it active again.

use std::{sync::Arc, time::Duration};

use model::ticks::TICKS_PER_SECOND;

use crate::{
    auto_definition::AutoIndexDefinition, index::Index, index_kind::IndexKind, index_set::IndexSet,
};

/// How long automatic indexes are kept.
#[derive(Clone, Copy, Debug)]
pub struct AutoIndexLimits {
    /// When a wider index answers their queries.
    pub superseded_kept: Duration,
    /// They become idle when others were queried this much later.
    pub idle_after: Duration,
    /// They are deleted when they are idle and have not been queried for this long.
    pub idle_kept: Duration,
}

impl Default for AutoIndexLimits {
    fn default() -> Self {
        Self {
            superseded_kept: Duration::from_secs(15),
            idle_after: Duration::from_secs(30 * 60),
            idle_kept: Duration::from_secs(72 * 3600),
        }
    }
}

type Auto = (Arc<Index>, AutoIndexDefinition);

impl IndexSet {
    /// Marks automatic indexes as idle, and returns the names of those to delete.
    pub fn update_idle_state(&self, limits: &AutoIndexLimits) -> Vec<String> {
        let autos = self.automatic();
        let newest = autos.iter().map(|(index, _)| index.last_query_ticks()).max();
        let Some(newest) = newest else { return Vec::new() };
        let now = self.context.platform.clock.now().ticks();
        let mut unneeded = Vec::new();
        for (index, definition) in &autos {
            let asked = index.last_query_ticks();
            let is_idle = is_longer(newest - asked, limits.idle_after);
            index.set_idle(is_idle);
            let is_forgotten = is_idle && is_longer(newest - asked, limits.idle_kept);
            let is_superseded = is_longer(now - asked, limits.superseded_kept)
                && autos.iter().any(|other| supersedes(other, index, definition));
            if is_forgotten || is_superseded {
                unneeded.push(index.name().to_owned());
            }
        }
        unneeded
    }

    fn automatic(&self) -> Vec<Auto> {
        let automatic = |index: Arc<Index>| match index.kind().as_ref() {
            IndexKind::Auto(definition) => Some((index, definition.clone())),
            IndexKind::Static(_) => None,
        };
        self.all().into_iter().filter_map(automatic).collect()
    }
}

/// Whether `other` can answer every query of the index and is at least as far.
fn supersedes(other: &Auto, index: &Arc<Index>, definition: &AutoIndexDefinition) -> bool {
    let (wider, of_wider) = other;
    !Arc::ptr_eq(wider, index)
        && of_wider.covers(definition)
        && !definition.covers(of_wider)
        && wider.answers()
        && index.progress() <= wider.progress()
}

fn is_longer(ticks: i64, time: Duration) -> bool {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    seconds.saturating_mul(TICKS_PER_SECOND) <= ticks
}
