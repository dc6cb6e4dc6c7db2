//! Storing the revisions that another database has sent.
//!
//! A version is kept once. The order of revisions is that of their arrival.

use model::{DocumentFlags, Etag};

use super::{
    chain::{self, Chain},
    read::revision_by_change_vector,
    remove::RevisionsToRemove,
    row::RevisionFields,
};
use crate::{
    error::DocumentError,
    read,
    replicated::{Origin, ReceivedRevision, ReceivedVersion},
    write::DocumentWriter,
};

impl DocumentWriter<'_> {
    pub(crate) fn receive_revision(
        &mut self,
        received: &ReceivedRevision,
    ) -> Result<(), DocumentError> {
        let ReceivedRevision { version, attachments } = received;
        let Some(body) = &version.body else { return Ok(()) };
        let change_vector = version.change_vector.as_str();
        if !self.makes_room_for(version, Origin::of(version.flags))? {
            return Ok(());
        }
        for attachment in attachments {
            self.link_received(&attachment.hash)?;
        }
        let mut stored = Vec::with_capacity(attachments.len());
        for attachment in attachments {
            stored.push((attachment, self.received_content_bytes(&attachment.hash)?));
        }
        let etag = self.next_etag()?;
        let number =
            self.add_received_revision(version, body.as_view().as_bytes(), (etag, version.flags))?;
        self.import_attachments_of_revision(&stored, change_vector, etag)?;
        self.add_received_to_chain(version, etag)?;
        let name = self.collections.numbered(self.tx, number)?.name.clone();
        match self.context.revisions.rule_of(&name) {
            Some(rule) => self.apply_limits(version.id.lower_cased(), rule).map(drop),
            None => Ok(()),
        }
    }

    /// Keeps a version that has lost a conflict, or the one that has won it, unless it is kept already. `body` is without
    /// its lists: what belongs to the document has versions of its own.
    pub(crate) fn keep_of_conflict(
        &mut self,
        version: &ReceivedVersion,
        body: &[u8],
        mark: DocumentFlags,
    ) -> Result<(), DocumentError> {
        if !self.makes_room_for(version, Origin::of(mark))? {
            return Ok(());
        }
        let kept = DocumentFlags::FROM_CLUSTER_TRANSACTION
            .with(DocumentFlags::REVERTED)
            .with(DocumentFlags::ARCHIVED);
        let flags = version.flags.without(version.flags.without(kept));
        let flags = flags | mark | DocumentFlags::HAS_REVISIONS | DocumentFlags::REVISION;
        let etag = self.next_etag()?;
        self.add_received_revision(version, body, (etag, flags))?;
        self.add_received_to_chain(version, etag)
    }

    /// Removes the revision of a version that says less than one of this origin; returns whether there is none then.
    fn makes_room_for(
        &mut self,
        version: &ReceivedVersion,
        origin: Origin,
    ) -> Result<bool, DocumentError> {
        let change_vector = version.change_vector.as_str();
        let known = revision_by_change_vector(self.transaction(), change_vector)?;
        match known.map(|known| (Origin::of(known.flags()), known.etag())) {
            Some((known, etag)) if known < origin => {
                self.remove_revisions(&version.id, RevisionsToRemove::One(etag))?;
                Ok(true)
            }
            Some(_) => Ok(false),
            None => Ok(true),
        }
    }

    /// Returns the number of the collection.
    fn add_received_revision(
        &mut self,
        version: &ReceivedVersion,
        body: &[u8],
        (etag, flags): (Etag, DocumentFlags),
    ) -> Result<u32, DocumentError> {
        let number =
            self.collections.named(self.tx, &version.collection, &mut self.progress)?.number;
        let fields = RevisionFields {
            lower_id: version.id.lower_cased(),
            id: version.id.as_str(),
            change_vector: version.change_vector.as_str(),
            flags: flags | DocumentFlags::FROM_REPLICATION,
            collection_number: number,
            last_modified_ticks: version.last_modified_ticks,
        };
        self.put_revision_row(&fields, body, etag)?;
        // Readers of the log also follow collections.
        self.collections.count(self.tx, number, 0, 0)?;
        Ok(number)
    }

    fn add_received_to_chain(
        &mut self,
        version: &ReceivedVersion,
        etag: Etag,
    ) -> Result<(), DocumentError> {
        let lower_id = version.id.lower_cased();
        let is_alive = read::get(self.transaction(), &version.id)?.is_some();
        let is_deletion = version.flags.contains(DocumentFlags::DELETE_REVISION) && !is_alive;
        let chain = chain::get(self.tx, lower_id)?;
        let deletion = if is_deletion { etag } else { Etag::ZERO };
        chain::replace(self.tx, lower_id, chain, Chain { count: chain.count + 1, deletion })?;
        if is_alive { self.mark_revised(&version.id) } else { Ok(()) }
    }
}
