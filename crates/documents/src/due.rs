//! Documents with something to do at a time: `@expires`, `@refresh` and `@archive-at`.
//!
//! ```text
//! tree Due       what, time, lower-cased id       -> nothing
//!   what         1 byte: 'e' expire, 'r' refresh, 'a' archive
//!   time         8 bytes, ticks of UTC, big-endian
//! ```
//!
//! Invariant: the tree holds each live document under the times in its metadata, and nothing else.
//! So the cost of finding due documents is proportional to their number. The tree is maintained
//! even when no action is configured.

use std::ops::Bound;

use blittable::{BlittableBuf, Document, Edit, Value, modify};
use model::{DocumentFlags, DocumentId, date};
use storage::{Transaction, TreeName, WriteTransaction};

use crate::{
    error::DocumentError,
    metadata::{ARCHIVE_AT, EXPIRES, METADATA, REFRESH},
    read,
    requests::{ExpectedVersion, RequestedId},
    write::{DocumentWriter, Marks},
};

const TIME_BYTES: usize = 8;

/// The action to apply to a document at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueAction {
    /// Delete it.
    Expire,
    /// Store it again without the time, so that everything that follows it sees it again.
    Refresh,
    /// Store it again, marked as archived and without the time.
    Archive,
}

impl DueAction {
    const ALL: [Self; 3] = [Self::Expire, Self::Refresh, Self::Archive];

    /// The property of the metadata that holds the time.
    pub(crate) fn property(self) -> &'static str {
        match self {
            Self::Expire => EXPIRES,
            Self::Refresh => REFRESH,
            Self::Archive => ARCHIVE_AT,
        }
    }

    fn kind(self) -> u8 {
        match self {
            Self::Expire => b'e',
            Self::Refresh => b'r',
            Self::Archive => b'a',
        }
    }
}

/// The times of one document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DueTimes([Option<i64>; DueAction::ALL.len()]);

impl DueTimes {
    /// Reads the times in a document's metadata. A value that is not a date is ignored.
    pub(crate) fn of(body: &Document<'_>) -> Result<Self, DocumentError> {
        let mut times = [None; DueAction::ALL.len()];
        let Some(metadata) = body.root().get_object(METADATA)? else { return Ok(Self(times)) };
        for (time, action) in times.iter_mut().zip(DueAction::ALL) {
            if let Some(Value::String(text)) = metadata.get(action.property())? {
                *time = date::parse(&text.as_cow()?).map(date::ParsedDate::utc_ticks);
            }
        }
        Ok(Self(times))
    }

    fn of_action(&self, action: DueAction) -> Option<i64> {
        let times = DueAction::ALL.into_iter().zip(self.0);
        times.into_iter().find(|(one, _)| *one == action)?.1
    }

    /// The keys of the document in the tree.
    pub(crate) fn keys(&self, lower_id: &str) -> impl Iterator<Item = Vec<u8>> {
        let times = DueAction::ALL.into_iter().zip(self.0);
        times.filter_map(move |(action, time)| Some(key(action, time?, lower_id)))
    }
}

pub(crate) fn tree() -> TreeName {
    TreeName::from("Due")
}

fn key(action: DueAction, ticks: i64, lower_id: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + TIME_BYTES + lower_id.len());
    key.push(action.kind());
    // No date is before the year 1, but its time zone may move it there.
    key.extend_from_slice(&ticks.max(0).to_be_bytes());
    key.extend_from_slice(lower_id.as_bytes());
    key
}

/// The documents that are due at or before a moment, earliest first.
///
/// # Errors
/// Storage errors; each entry may be damaged.
pub fn due<'t, T: Transaction>(
    tx: &'t T,
    action: DueAction,
    until_ticks: i64,
) -> Result<impl Iterator<Item = Result<DocumentId, DocumentError>> + use<'t, T>, DocumentError> {
    let behind = key(action, until_ticks.saturating_add(1), "");
    let entries = tx.tree(&tree())?.range(Bound::Included(&[action.kind()]))?;
    let keys = entries.map(|entry| entry.map(|(key, _)| key));
    let due = keys.take_while(move |key| key.as_ref().map_or(true, |key| *key < behind));
    Ok(due.map(|key| {
        let key = key?;
        let id = key.get(1 + TIME_BYTES..).and_then(|id| std::str::from_utf8(id).ok());
        let id = id.ok_or(DocumentError::Corrupt { detail: "a time belongs to no document" })?;
        Ok(DocumentId::new(id)?)
    }))
}

/// The number of times in the tree.
pub(crate) fn times_count(tx: &impl Transaction) -> Result<u64, DocumentError> {
    Ok(tx.tree(&tree())?.len())
}

/// Checks that the tree holds a document under its times; returns their number.
pub(crate) fn check_document(
    tx: &impl Transaction,
    lower_id: &str,
    body: &Document<'_>,
) -> Result<u64, DocumentError> {
    let mut count = 0;
    for key in DueTimes::of(body)?.keys(lower_id) {
        if tx.tree(&tree())?.get(&key)?.is_none() {
            return Err(DocumentError::Corrupt { detail: "a document's time is not kept" });
        }
        count += 1;
    }
    Ok(count)
}

/// Adds the times of a new document.
pub(crate) fn note(
    tx: &mut WriteTransaction,
    lower_id: &str,
    body: &Document<'_>,
) -> Result<(), DocumentError> {
    for key in DueTimes::of(body)?.keys(lower_id) {
        tx.tree_mut(&tree())?.put(&key, &[])?;
    }
    Ok(())
}

impl DocumentWriter<'_> {
    /// Updates the tree for a document that is about to be stored, or deleted when there is no new
    /// body.
    pub(crate) fn reschedule(
        &mut self,
        id: &DocumentId,
        new: Option<&Document<'_>>,
        is_new: bool,
    ) -> Result<(), DocumentError> {
        let new = new.map(DueTimes::of).transpose()?.unwrap_or_default();
        let mut old = DueTimes::default();
        // Most databases have no times: skip reading the old version.
        if !is_new
            && self.has_due
            && let Some(document) = read::get(self.tx, id)?
        {
            old = DueTimes::of(&document.body()?)?;
        }
        if old == new {
            return Ok(());
        }
        for key in old.keys(id.lower_cased()) {
            self.tx.tree_mut(&tree())?.delete(&key)?;
        }
        for key in new.keys(id.lower_cased()) {
            self.tx.tree_mut(&tree())?.put(&key, &[])?;
            self.has_due = true;
        }
        Ok(())
    }

    /// Applies a due action to a document; `false` when it is no longer due, because the document
    /// was changed or deleted meanwhile.
    ///
    /// # Errors
    /// Storage errors; damaged rows.
    pub fn apply_due_action(
        &mut self,
        id: &DocumentId,
        action: DueAction,
    ) -> Result<bool, DocumentError> {
        let Some(document) = read::get(self.tx, id)? else { return Ok(false) };
        let time = DueTimes::of(&document.body()?)?.of_action(action);
        if time.is_none_or(|time| self.now_ticks() < time) {
            return Ok(false);
        }
        match action {
            DueAction::Expire => Ok(self.delete(id, &ExpectedVersion::Any)?.is_some()),
            DueAction::Refresh | DueAction::Archive => {
                let marks = match action {
                    DueAction::Archive => Marks::with(DocumentFlags::ARCHIVED),
                    DueAction::Expire | DueAction::Refresh => Marks::default(),
                };
                let body = without_time(&document.body()?, action)?;
                let id = RequestedId::Exactly(DocumentId::new(document.id())?);
                self.with_any_size(|writer| {
                    writer.put_marked(&id, &ExpectedVersion::Any, &body, marks)
                })?;
                Ok(true)
            }
        }
    }
}

fn without_time(document: &Document<'_>, action: DueAction) -> Result<BlittableBuf, DocumentError> {
    let path = [METADATA, action.property()];
    Ok(modify(document, &[Edit::Remove { path: &path }])?)
}
