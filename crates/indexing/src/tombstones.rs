//! Which tombstones the indexes of a database still need, and which have missed some.
//!
//! An index has seen every deletion up to its position in the logs, and every one up to the
//! database's position when the index was created: it has read nothing older. Invariant: its logs
//! are complete after that. The tombstone cleaner calls [`IndexSet::tombstone_needs`] first; an
//! index that finds that needed tombstones were removed is unusable, and is rebuilt.

use documents::TombstoneKind;
use model::{CollectionName, Etag};

use crate::{
    index::Index,
    index_kind::mapper_of,
    index_set::{FaultyIndex, IndexSet},
    known_tombstones::known_up_to,
    source::Followed,
};

/// The tombstones that an index still needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexNeeds {
    /// The name of the index; empty for all indexes of a database that is closing.
    pub index: String,
    /// Why it may need them for long.
    pub condition: IndexCondition,
    /// It has seen all deletions up to here.
    pub known: Etag,
    /// The kinds, and their collections; empty for all.
    pub logs: Vec<(TombstoneKind, Vec<CollectionName>)>,
}

/// The state of an index, as far as tombstones are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexCondition {
    /// It follows its logs.
    Running,
    /// It was paused.
    Paused,
    /// Its definition disables it.
    Disabled,
    /// It stopped because of errors.
    Failed,
    /// It could not be opened, so its progress is unknown.
    Faulty,
}

impl IndexCondition {
    /// The name for messages.
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
    /// The tombstones that the indexes need, including faulty ones. No index is opened, closed or
    /// created meanwhile; one that is created later needs none of the current ones. Blocks while an
    /// index is opened.
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
