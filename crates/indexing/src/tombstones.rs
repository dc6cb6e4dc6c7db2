//! Which tombstones the indexes of a database still need, and indexes that have missed some.
//!
//! An index knows every deletion up to where it is in its logs, and every one up to where the database was
//! when the index began: it has read nothing older. Invariant: what lies behind that in its logs is
//! complete. The cleaner of tombstones asks [`IndexSet::tombstone_needs`] first; an index that finds in
//! the documents that some of those that it needed are gone is of no use, and begins anew.

use documents::TombstoneKind;
use model::{CollectionName, Etag};

use crate::{
    index::Index,
    index_kind::mapper_of,
    index_set::{FaultyIndex, IndexSet},
    known_tombstones::known_up_to,
    source::Followed,
};

/// Which tombstones an index still needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexNeeds {
    /// The name of the index; empty for all of a database that is being closed.
    pub index: String,
    /// Why it may need them for long.
    pub condition: IndexCondition,
    /// It knows all deletions up to here.
    pub known: Etag,
    /// Of what, and of which collections; none is all of them.
    pub logs: Vec<(TombstoneKind, Vec<CollectionName>)>,
}

/// What an index does, as far as tombstones are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexCondition {
    /// It follows its logs.
    Running,
    /// It was paused.
    Paused,
    /// Its definition says that it does nothing.
    Disabled,
    /// It stopped because of errors.
    Failed,
    /// It could not be opened, so it is not known how far it is.
    Faulty,
}

impl IndexCondition {
    /// A word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Paused => "Paused",
            Self::Disabled => "Disabled",
            Self::Failed => "Error",
            Self::Faulty => "Faulty",
        }
    }
}

fn logs_of(followed: &Followed) -> Vec<(TombstoneKind, Vec<CollectionName>)> {
    followed.logs().map(|(kind, names)| (kind.into(), names.to_vec())).collect()
}

fn everything() -> Vec<(TombstoneKind, Vec<CollectionName>)> {
    TombstoneKind::ALL.into_iter().map(|kind| (kind, Vec::new())).collect()
}

impl Index {
    fn tombstone_needs(&self) -> IndexNeeds {
        let progress = self.core.lock();
        let condition = if progress.record.has_failed || progress.failure.is_some() {
            IndexCondition::Failed
        } else if progress.is_disabled {
            IndexCondition::Disabled
        } else if progress.is_paused {
            IndexCondition::Paused
        } else {
            IndexCondition::Running
        };
        let known = known_up_to(&progress.record, self.core.began_at);
        drop(progress);
        let index = self.name().to_owned();
        IndexNeeds { index, condition, known, logs: logs_of(&self.core.followed) }
    }
}

impl IndexSet {
    /// Which tombstones its indexes need, also those that could not be opened. No index is opened, closed
    /// or begun meanwhile; one that begins later needs none that are there now. Blocks while an index is
    /// opened.
    pub fn tombstone_needs(&self) -> Vec<IndexNeeds> {
        let _changing = self.change();
        let listed = self.lock();
        if listed.is_closed {
            let (index, condition) = (String::new(), IndexCondition::Faulty);
            return vec![IndexNeeds { index, condition, known: Etag::ZERO, logs: everything() }];
        }
        let indexes: Vec<_> = listed.indexes.values().cloned().collect();
        let faulty: Vec<_> = listed.faulty.values().cloned().collect();
        drop(listed);
        let open = indexes.iter().map(|index| index.tombstone_needs());
        open.chain(faulty.iter().map(|faulty| self.needs_of_faulty(faulty))).collect()
    }

    fn needs_of_faulty(&self, faulty: &FaultyIndex) -> IndexNeeds {
        let mapper = mapper_of(&faulty.kind, self.scripts());
        let logs = mapper.map(|mapper| logs_of(&Followed::by(mapper.as_ref())));
        IndexNeeds {
            index: faulty.name.clone(),
            condition: IndexCondition::Faulty,
            known: Etag::ZERO,
            logs: logs.unwrap_or_else(|_| everything()),
        }
    }
}
