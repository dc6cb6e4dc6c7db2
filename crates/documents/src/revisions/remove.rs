//! Removing revisions: all of a deleted document at once, others in steps, so that no transaction
//! grows with the length of a history.

use model::{DocumentFlags, DocumentId, Etag, RevisionsRule};

use super::{
    chain,
    read::{oldest_first, revisions_newest_first},
    row::{self, RevisionRow},
    schema::REVISIONS,
};
use crate::{
    error::{DocumentError, corrupt},
    read,
    write::DocumentWriter,
};

/// The number of revisions that one step removes, and of keys held in memory meanwhile.
const STEP: u64 = 1024;

/// The decision about a revision, starting at the oldest.
pub(super) enum Verdict {
    Remove,
    Keep,
    /// This one and all newer ones stay.
    KeepRest,
}

/// The revisions of a document to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionsToRemove {
    /// All.
    All {
        /// Whether revisions that a client forced are removed, too.
        with_forced: bool,
    },
    /// Those created in a period.
    Between {
        /// The start of the period, in ticks of UTC.
        from: i64,
        /// The end of the period, inclusive.
        to: i64,
        /// Whether revisions that a client forced are removed, too.
        with_forced: bool,
    },
    /// The one with this etag.
    One(Etag),
    /// Those that the configuration does not keep. Without a rule for the collection these are all,
    /// or all but those that a client forced.
    Unwanted {
        /// Whether revisions that a client forced are removed, too.
        with_forced: bool,
    },
}

/// The result of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedRevisions {
    /// The number of the document's revisions before.
    pub scanned: u64,
    /// The number of removed revisions.
    pub removed: u64,
    /// Whether there may be more to remove: the step must be repeated.
    pub has_more: bool,
}

impl DocumentWriter<'_> {
    /// Removes revisions of a document, at most a thousand or so.
    ///
    /// # Errors
    /// Storage errors; damaged rows.
    pub fn remove_revisions(
        &mut self,
        id: &DocumentId,
        what: RevisionsToRemove,
    ) -> Result<RemovedRevisions, DocumentError> {
        let lower_id = id.lower_cased();
        let scanned = chain::get(self.tx, lower_id)?.count;
        let removed = match what {
            RevisionsToRemove::All { with_forced } => self.remove_all(lower_id, with_forced)?,
            RevisionsToRemove::Between { from, to, with_forced } => {
                self.remove_where(lower_id, STEP, &mut |revision| {
                    let is_then = (from..=to).contains(&revision.last_modified_ticks());
                    if is_then { without_rule(revision, with_forced) } else { Verdict::Keep }
                })?
            }
            RevisionsToRemove::One(etag) => self.remove_where(lower_id, 1, &mut |revision| {
                if revision.etag() == etag { Verdict::Remove } else { Verdict::Keep }
            })?,
            RevisionsToRemove::Unwanted { with_forced } => match self.rule_of_newest(id)? {
                Some(rule) => scanned - self.apply_limits(lower_id, &one_step_of(&rule))?,
                None => self.remove_all(lower_id, with_forced)?,
            },
        };
        let is_unwanted = matches!(what, RevisionsToRemove::Unwanted { .. });
        if is_unwanted && removed != 0 && removed == scanned {
            self.unmark(id)?;
        }
        Ok(RemovedRevisions { scanned, removed, has_more: removed == STEP })
    }

    /// One step of removing everything that no rule keeps.
    fn remove_all(&mut self, lower_id: &str, with_forced: bool) -> Result<u64, DocumentError> {
        self.remove_where(lower_id, STEP, &mut |revision| without_rule(revision, with_forced))
    }

    /// Removes all revisions of a document.
    pub(super) fn purge(&mut self, lower_id: &str) -> Result<(), DocumentError> {
        self.remove_where(lower_id, u64::MAX, &mut |_| Verdict::Remove).map(|_| ())
    }

    /// Removes at most `max` revisions of a document, oldest first; returns their number.
    pub(super) fn remove_where(
        &mut self,
        lower_id: &str,
        max: u64,
        decide: &mut dyn FnMut(&RevisionRow<'_>) -> Verdict,
    ) -> Result<u64, DocumentError> {
        let old = chain::get(self.tx, lower_id)?;
        let mut new = old;
        loop {
            let wanted = STEP.min(max - (old.count - new.count));
            let keys = self.keys_where(lower_id, wanted, decide)?;
            for key in &keys {
                if !self.tx.table_mut(&REVISIONS).delete(key)? {
                    return Err(corrupt("a revision that was read cannot be removed"));
                }
                self.remove_attachments_of_revision(Etag(row::etag_of_key(key)))?;
                if row::etag_of_key(key) == old.deletion.0 {
                    new.deletion = Etag::ZERO;
                }
            }
            let removed = keys.len() as u64;
            new.count = new.count.checked_sub(removed).ok_or(corrupt("a chain is too short"))?;
            if removed < wanted || removed == 0 {
                break;
            }
        }
        if new != old {
            chain::replace(self.tx, lower_id, old, new)?;
        }
        Ok(old.count - new.count)
    }

    fn keys_where(
        &self,
        lower_id: &str,
        max: u64,
        decide: &mut dyn FnMut(&RevisionRow<'_>) -> Verdict,
    ) -> Result<Vec<Vec<u8>>, DocumentError> {
        let mut keys = Vec::new();
        if max == 0 {
            return Ok(keys);
        }
        for revision in oldest_first(self.tx, lower_id)? {
            let revision = revision?;
            match decide(&revision) {
                Verdict::Remove => keys.push(revision.primary_key().to_vec()),
                Verdict::Keep => {}
                Verdict::KeepRest => break,
            }
            if keys.len() as u64 == max {
                break;
            }
        }
        Ok(keys)
    }

    /// The rule for the collection that a document is or was in.
    pub(super) fn rule_of_newest(
        &mut self,
        id: &DocumentId,
    ) -> Result<Option<RevisionsRule>, DocumentError> {
        let newest = revisions_newest_first(self.tx, id)?.next().transpose()?;
        let Some(number) = newest.map(|newest| newest.collection_number()) else {
            return Ok(None);
        };
        let name = &self.collections.numbered(self.tx, number)?.name;
        Ok(self.context.revisions.rule_of(name).copied())
    }

    /// Clears the flag of a document whose revisions are gone.
    fn unmark(&mut self, id: &DocumentId) -> Result<(), DocumentError> {
        let Some(document) = read::get(self.tx, id)? else { return Ok(()) };
        if !document.flags().contains(DocumentFlags::HAS_REVISIONS) {
            return Ok(());
        }
        let flags = document.flags().without(DocumentFlags::HAS_REVISIONS);
        let row = document.to_plain()?;
        self.rewrite(&row, flags).map(|_| ())
    }
}

/// The decision about a revision that no rule keeps.
fn without_rule(revision: &RevisionRow<'_>, with_forced: bool) -> Verdict {
    let is_forced = revision.flags().contains(DocumentFlags::FORCE_CREATED);
    if is_forced && !with_forced { Verdict::Keep } else { Verdict::Remove }
}

/// The rule, limited to what one write may remove.
fn one_step_of(rule: &RevisionsRule) -> RevisionsRule {
    RevisionsRule { removed_by_write_max: Some(STEP.cast_signed()), ..*rule }
}
