//! Versions that arrive, of documents that are in conflict, or are from now on.

use blittable::BlittableBuf;
use model::{Comparison, DocumentId};

use super::{
    CONFLICTS, conflicts_of, documents_in_conflict, has_same_content, resolve::KeepsLosers, row,
    row::ConflictRow, set_documents_in_conflict,
};
use crate::{
    error::DocumentError,
    replicated::{ReceivedVersion, without_lists},
    row::RowFields,
    write::{DocumentWriter, parsed},
};

impl DocumentWriter<'_> {
    /// The versions of a document in conflict.
    pub(super) fn versions_in_conflict(
        &mut self,
        id: &DocumentId,
    ) -> Result<Vec<ReceivedVersion>, DocumentError> {
        let rows = conflicts_of(self.transaction(), id)?;
        let owned = rows.iter().map(|row: &ConflictRow<'_>| {
            let version = (
                DocumentId::new(row.id())?,
                parsed(row.change_vector())?,
                row.body().map(|body| body.to_buf()),
            );
            Ok((version, row.last_modified_ticks(), row.flags(), row.collection_number()))
        });
        let owned = owned.collect::<Result<Vec<_>, DocumentError>>()?;
        let versions = owned.into_iter().map(|(version, last_modified_ticks, flags, number)| {
            let (id, change_vector, body) = version;
            let collection = self.collections.numbered(self.tx, number)?.name.clone();
            Ok(ReceivedVersion { id, change_vector, last_modified_ticks, flags, collection, body })
        });
        versions.collect()
    }

    /// Takes a version of a document that is in conflict; returns whether it was.
    pub(crate) fn receive_into_conflict(
        &mut self,
        received: &ReceivedVersion,
    ) -> Result<bool, DocumentError> {
        let versions = self.versions_in_conflict(&received.id)?;
        if versions.is_empty() {
            return Ok(false);
        }
        let of_received =
            |version: &ReceivedVersion| received.change_vector.compare(&version.change_vector);
        if versions.iter().any(|version| of_received(version) == Comparison::AlreadyMerged) {
            return Ok(true);
        }
        let (replaced, left): (Vec<_>, Vec<_>) =
            versions.into_iter().partition(|version| of_received(version) == Comparison::Update);
        if left.is_empty() {
            // If all had the same content, nothing is lost.
            let arrived = without_list_of(received)?;
            let is_same = replaced.iter().all(|version| {
                let bodies =
                    [version, &arrived].map(|one| one.body.as_ref().map(BlittableBuf::as_view));
                has_same_content(bodies[0].as_ref(), bodies[1].as_ref())
            });
            let keeps = if is_same { KeepsLosers::No } else { KeepsLosers::Yes };
            drop(self.take_conflict(&received.id, keeps)?);
            let etag = self.next_etag()?;
            self.store_over_conflict(received, etag)?;
            return Ok(true);
        }
        for version in &replaced {
            self.remove_version(version)?;
        }
        self.add_version(&without_list_of(received)?)?;
        Ok(true)
    }

    /// Puts two versions of a document into conflict. The stored one is no document any more.
    pub(crate) fn begin_conflict(
        &mut self,
        received: &ReceivedVersion,
        stored: &ReceivedVersion,
    ) -> Result<(), DocumentError> {
        let count = documents_in_conflict(self.transaction())? + 1;
        set_documents_in_conflict(self.tx, count)?;
        self.add_version(stored)?;
        self.add_version(&without_list_of(received)?)
    }

    fn add_version(&mut self, version: &ReceivedVersion) -> Result<(), DocumentError> {
        let number =
            self.collections.named(self.tx, &version.collection, &mut self.progress)?.number;
        let etag = self.next_etag()?;
        let fields = RowFields {
            lower_id: version.id.lower_cased(),
            id: version.id.as_str(),
            change_vector: version.change_vector.as_str(),
            flags: version.flags,
            collection_number: number,
            etag,
            last_modified_ticks: version.last_modified_ticks,
        };
        let body = version.body.as_ref().map(BlittableBuf::as_bytes);
        row::write(&mut self.row, &fields, body)?;
        self.tx.table_mut(&CONFLICTS).insert_new(&self.row)?;
        Ok(())
    }

    fn remove_version(&mut self, version: &ReceivedVersion) -> Result<(), DocumentError> {
        let text = version.change_vector.as_str();
        let rows = conflicts_of(self.transaction(), &version.id)?;
        let keys = rows.iter().filter(|row| row.change_vector() == text);
        let keys: Vec<Vec<u8>> = keys.map(ConflictRow::primary_key).collect();
        for key in keys {
            self.tx.table_mut(&CONFLICTS).delete(&key)?;
        }
        Ok(())
    }
}

/// The version without what its document lists, which each database lists by itself.
fn without_list_of(version: &ReceivedVersion) -> Result<ReceivedVersion, DocumentError> {
    let body = version.body.as_ref().map(|body| without_lists(&body.as_view())).transpose()?;
    Ok(ReceivedVersion { body, ..version.clone() })
}
