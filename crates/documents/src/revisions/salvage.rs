//! Rebuilding the revisions of a damaged database.
//!
//! A revision is never changed, so any copy of its row will do. Pages also contain rows of removed
//! revisions: if all keys can be read, they tell which revisions existed; if not, removed ones may
//! reappear.

use std::collections::{BTreeMap, BTreeSet};

use model::{ChangeVector, CollectionName, Etag, lower_case};
use storage::{BulkWriter, RowId, Salvage};

use super::{
    chain::{self, Chain},
    row::{self, RevisionRow},
    schema::REVISIONS,
};
use crate::{
    compression::body::FindDictionary, database_record::DatabaseProgress, error::DocumentError,
};

/// What was found of the revisions of a database.
#[derive(Default)]
pub(crate) struct FoundRevisions {
    /// By primary key.
    rows: BTreeMap<Box<[u8]>, RowId>,
    /// Revisions of which only the key is left.
    pub(crate) lost: u64,
}

impl FoundRevisions {
    /// Adds a row found by the scan, if it is a revision that `is_possible`.
    pub(crate) fn row(
        &mut self,
        place: RowId,
        bytes: &[u8],
        is_possible: impl Fn(&RevisionRow<'_>) -> bool,
    ) {
        let Ok(revision) = row::read(bytes, &|_| None) else { return };
        let is_sound = !revision.lower_id().is_empty()
            && lower_case(revision.id()) == revision.lower_id()
            && revision.etag() != Etag::ZERO
            && revision.change_vector().parse::<ChangeVector>().is_ok();
        if is_sound && is_possible(&revision) {
            self.rows.insert(revision.primary_key().into(), place);
        }
    }

    /// The etags of all revisions found.
    pub(crate) fn etags(&self) -> BTreeSet<Etag> {
        self.rows.keys().map(|key| Etag(row::etag_of_key(key))).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Compares the remaining keys with the rows. Returns the number of unreadable key pages.
    pub(crate) fn compare(&mut self, salvage: &Salvage) -> u64 {
        let mut listed: BTreeSet<Box<[u8]>> = BTreeSet::new();
        let unreadable = salvage.table_keys(&REVISIONS, &mut |key, _| {
            listed.insert(key.into());
        });
        self.lost = listed.iter().filter(|key| !self.rows.contains_key(*key)).count() as u64;
        let are_keys_gone = listed.is_empty() && salvage.findings().is_anything_lost();
        if unreadable == 0 && !are_keys_gone {
            self.rows.retain(|key, _| listed.contains(key));
        }
        unreadable
    }

    /// Drops compressed rows whose dictionary was not found.
    pub(crate) fn leave_out_unreadable(&mut self, salvage: &Salvage, find: FindDictionary<'_, '_>) {
        self.rows.retain(|_, place| {
            let Some(bytes) = salvage.row(*place) else { return true };
            let is_lost = row::read(&bytes, &|name| find(name))
                .is_ok_and(|revision| revision.body().is_err());
            self.lost += u64::from(is_lost);
            !is_lost
        });
    }

    /// Writes the rows and their index entries; merges what they know into progress and names.
    /// Returns the number of revisions. `is_alive` returns whether a document lives, by its
    /// lower-cased id.
    pub(crate) fn write(
        &self,
        salvage: &Salvage,
        writer: &mut BulkWriter<'_>,
        (progress, names): (&mut DatabaseProgress, &mut BTreeMap<u32, CollectionName>),
        is_alive: impl Fn(&str) -> bool,
        find: FindDictionary<'_, '_>,
    ) -> Result<u64, DocumentError> {
        let mut written = 0;
        let mut open: Option<(String, Chain)> = None;
        for place in self.rows.values() {
            // It was readable before; the disk may have deteriorated since.
            let Some(bytes) = salvage.row(*place) else { continue };
            let revision = row::read(&bytes, &|name| find(name))?;
            writer.transaction()?.table_mut(&REVISIONS).insert_new(&bytes)?;
            written += 1;
            learn(&revision, progress, names)?;
            let id = revision.lower_id();
            let count = match open.take() {
                Some((open_id, chain)) if open_id == id => chain.count,
                Some((open_id, chain)) => {
                    close(writer, &open_id, chain)?;
                    0
                }
                None => 0,
            };
            let is_in_bin = revision.is_deletion() && !is_alive(id);
            let deletion = if is_in_bin { revision.etag() } else { Etag::ZERO };
            open = Some((id.to_owned(), Chain { count: count + 1, deletion }));
        }
        if let Some((id, chain)) = open {
            close(writer, &id, chain)?;
        }
        Ok(written)
    }
}

fn close(writer: &mut BulkWriter<'_>, id: &str, chain: Chain) -> Result<(), DocumentError> {
    chain::replace(writer.transaction()?, id, Chain::default(), chain)
}

fn learn(
    revision: &RevisionRow<'_>,
    progress: &mut DatabaseProgress,
    names: &mut BTreeMap<u32, CollectionName>,
) -> Result<(), DocumentError> {
    let number = revision.collection_number();
    if !names.contains_key(&number)
        && let Some(metadata) = revision.body()?.root().get_object("@metadata")?
        && let Some(name) = metadata.get_str("@collection")?
        && let Ok(name) = CollectionName::new(name)
    {
        names.insert(number, name);
    }
    progress.last_etag = progress.last_etag.max(revision.etag());
    progress.newest_collection = progress.newest_collection.max(number);
    if let Ok(change_vector) = revision.change_vector().parse() {
        progress.change_vector = progress.change_vector.merge(&change_vector);
    }
    Ok(())
}
