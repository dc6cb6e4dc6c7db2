//! Mapping items again when a document or compare exchange value that they read has changed.

use std::time::Duration;

use cluster_state::ChangedValue;

use crate::{
    batch_log::BatchEnd,
    batch_outcome::BatchOutcome,
    error::IndexError,
    indexer::Indexer,
    map_context::MapContext,
    references::{self, LookedAt},
    source,
};

/// The number of documents that read a changed one, looked up at once.
const LOOKING_TAKEN: usize = 1024;

/// Where to continue mapping the documents again that read something that changed.
#[derive(Clone)]
pub(crate) struct Resume {
    changed: Changed,
    after: String,
}

/// Something that changed and that maps may have read.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) kind: LookedAt,
    /// The position of the change in its log.
    pub(crate) at: u64,
    /// Its lower-cased id or key.
    pub(crate) name: String,
}

impl Indexer {
    /// Adds the changes of compare exchange to the batch: documents that read a changed value are
    /// mapped again. `false` when the batch is full before all are done.
    pub(crate) fn take_values(
        &mut self,
        context: MapContext<'_>,
        outcome: &mut BatchOutcome,
        ends: Duration,
    ) -> Result<bool, IndexError> {
        let Some(values) = context.values else { return Ok(true) };
        // Every map would fail, and its document would be missing permanently.
        values.check()?;
        let last = values.last_change()?;
        // Items that are mapped for the first time see the newest values.
        let entries = self.core.environment.read();
        if references::is_any_looked_at(&entries, LookedAt::Values)? {
            for changed in values.changes_after(outcome.record.last_value)? {
                let ChangedValue { index: at, key: name, .. } = changed?;
                // Several may have changed at once: the record advances only when all are done.
                let before = at.saturating_sub(1);
                if outcome.record.last_value < before {
                    outcome.record.last_value = before;
                    if self.ends(outcome, ends) {
                        return Ok(false);
                    }
                }
                let changed = Changed { kind: LookedAt::Values, at, name };
                if self.is_done(&changed) {
                    continue;
                }
                outcome.changes += 1;
                if !self.map_again(&changed, context, outcome)? {
                    outcome.end = self.limit_of(outcome).unwrap_or(BatchEnd::Changes);
                    return Ok(false);
                }
            }
        }
        outcome.record.last_value = outcome.record.last_value.max(last);
        Ok(true)
    }

    /// Whether a change is before the one to continue with.
    fn is_done(&self, changed: &Changed) -> bool {
        self.resume.as_ref().is_some_and(|Resume { changed: next, .. }| {
            next.kind == changed.kind && next.at == changed.at && changed.name < next.name
        })
    }

    /// Maps the documents again that read what changed. `false` when the batch is full before all
    /// are done.
    pub(crate) fn map_again(
        &mut self,
        changed: &Changed,
        context: MapContext<'_>,
        outcome: &mut BatchOutcome,
    ) -> Result<bool, IndexError> {
        let source = self.core.mapper.source_kind();
        let entries = self.core.environment.read();
        let looked_at = (changed.kind, changed.name.as_str());
        let mut after = self.resume.take_if(|resume| resume.changed == *changed);
        loop {
            let from = after.as_ref().map(|resume| resume.after.as_str());
            let looking = references::looking_at(&entries, looked_at, from, LOOKING_TAKEN)?;
            let Some(last) = looking.last().cloned() else { return Ok(true) };
            for key in looking {
                if !outcome.mapped.contains(&key)
                    && let Some(item) = source::find(source, context.documents, &key)?
                    && self.is_mapped(&item)?
                {
                    outcome.changes += 1;
                    self.map(&item, context, outcome)?;
                }
            }
            after = Some(Resume { changed: changed.clone(), after: last });
            if self.limit_of(outcome).is_some() {
                self.resume = after;
                return Ok(false);
            }
        }
    }
}
