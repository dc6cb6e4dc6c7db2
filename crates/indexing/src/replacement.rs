//! Side-by-side replacement of indexes whose definition changed: the old one answers until the new
//! one has caught up and replaces it.
//!
//! The swap is one transaction in the files of the new index ([`Index::end_replacement`]).
//! [`Arrangement::of`] reads what is on disk before, during and after it.

use std::{path::Path, sync::Arc};

use crate::{
    error::IndexError,
    index::Index,
    index_change::IndexChange,
    index_files::{self, IndexFiles, Owner},
    index_kind::{IndexKind, mapper_of},
    index_opening::OpenedPair,
    index_set::{IndexSet, IndexSetEvent},
    static_definition::REPLACEMENT_PREFIX,
};

/// The key of the replacement of the index of this key.
pub(crate) fn replacement_key(key: &str) -> String {
    format!("{}{key}", REPLACEMENT_PREFIX.to_lowercase())
}

/// The key of the index that the one of this key replaces.
pub(crate) fn replaced_key(key: &str) -> Option<&str> {
    let (prefix, rest) = key.split_at_checked(REPLACEMENT_PREFIX.len())?;
    prefix.eq_ignore_ascii_case(REPLACEMENT_PREFIX).then_some(rest)
}

/// What to do with the two places of an index's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrangement {
    /// These files answer; no replacement is being built.
    Answers(usize),
    /// These files answer although the definition has changed since.
    Outdated(usize),
    /// No files can answer.
    Nothing,
}

impl Arrangement {
    /// `number` is that of the index in the record.
    fn of(found: &[Option<IndexFiles>; 2], kind: &IndexKind, number: u64) -> Self {
        let at = |is_it: &dyn Fn(&IndexFiles) -> bool| {
            found.iter().position(|files| files.as_ref().is_some_and(is_it))
        };
        // Files of another index, whose directory was copied here, cannot answer for this one, nor can those of an
        // index of the name that was deleted.
        let is_older = |files: &IndexFiles| {
            let is_same = files.number == number;
            is_same && files.owner.as_ref().is_some_and(|owner| owner.is_older_than(kind))
        };
        if let Some(place) = at(&|files| !files.is_replacement && files.serves(kind)) {
            return Self::Answers(place);
        }
        if let Some(place) = at(&|files| !files.is_replacement && is_older(files)) {
            return Self::Outdated(place);
        }
        // The index that it was to replace was deleted or cannot be read.
        at(&|files| files.serves(kind)).map_or(Self::Nothing, Self::Answers)
    }
}

impl IndexSet {
    /// Opens the files of a static index and of its replacement.
    pub(crate) fn open_pair(
        &self,
        key: &str,
        name: &str,
        kind: &IndexKind,
    ) -> Result<OpenedPair, IndexError> {
        let places = self.places_of(key);
        let (mut found, mut failure) = ([None, None], None);
        for (files, place) in found.iter_mut().zip(&places) {
            match self.open_place(place) {
                Ok(opened) => *files = opened,
                Err(error) => failure = Some(error),
            }
        }
        let arrangement = Arrangement::of(&found, kind, self.recorded_number(key));
        if arrangement == Arrangement::Nothing
            && let Some(failure) = failure
        {
            found.into_iter().flatten().for_each(IndexFiles::close);
            return Err(failure);
        }
        let mut take = |place: usize| found[place].take().expect("it was found there");
        match arrangement {
            Arrangement::Answers(place) => {
                let files = take(place);
                if files.is_replacement {
                    let target =
                        kind.clone().with_outputs_of(files.owner.as_ref()).output_target()?;
                    let sweep = target.map(|target| target.sweep_before(target.number()));
                    index_files::end_replacement(&files.environment, sweep.as_slice())?;
                }
                self.empty_place(&places[1 - place], found[1 - place].take())?;
                let files = IndexFiles { is_replacement: false, ..files };
                let answering = self.start(name, kind.clone(), files)?;
                Ok(OpenedPair { answering, building: None })
            }
            Arrangement::Outdated(place) => {
                let files = take(place);
                let old = old_kind(&files, kind);
                let answering = self.start(name, old, files)?;
                let replacement = found[1 - place].take();
                let building = self.open_replacement(name, kind, &places[1 - place], replacement);
                Ok(OpenedPair { answering, building: Some(building) })
            }
            Arrangement::Nothing => {
                for (files, place) in found.iter_mut().zip(&places) {
                    self.empty_place(place, files.take())?;
                }
                let files = self.begin(&places[0], kind, false)?;
                let answering = self.start(name, kind.clone(), files)?;
                Ok(OpenedPair { answering, building: None })
            }
        }
    }

    /// Opens or creates the files of a replacement.
    fn open_replacement(
        &self,
        name: &str,
        kind: &IndexKind,
        place: &Path,
        found: Option<IndexFiles>,
    ) -> Result<Index, IndexError> {
        let files = match found {
            Some(files) if files.serves(kind) => files,
            other => {
                other.into_iter().for_each(IndexFiles::close);
                self.begin(place, kind, true)?
            }
        };
        self.start(name, kind.clone(), files)
    }

    /// Builds the replacement of an index whose definition changed.
    pub(crate) fn begin_replacement(
        &self,
        key: &str,
        old: &Index,
        kind: &IndexKind,
    ) -> Result<Index, IndexError> {
        mapper_of(kind, self.scripts())?;
        let used = &old.environment().options().directory;
        let place = self.places_of(key).into_iter().find(|place| place != used);
        let place = place.expect("there are two places");
        self.open_replacement(old.own_name(), kind, &place, None)
    }

    /// Closes a replacement, and deletes its files.
    pub(crate) fn drop_replacement(&self, key: &str) -> Result<bool, IndexError> {
        let (index, faulty) = self.unlist(&replacement_key(key));
        let Some(index) = index else { return Ok(faulty.is_some()) };
        let place = index.environment().options().directory.clone();
        index.close();
        self.report_change(index.name(), IndexChange::Removed);
        index_files::delete(self.disk(), &place)?;
        Ok(true)
    }

    /// Swaps in the replacement of this index now, finished or not. `false` when there is none.
    ///
    /// # Errors
    ///
    /// File errors; then nothing has changed.
    pub fn replace_now(&self, name: &str) -> Result<bool, IndexError> {
        let _changing = self.change();
        self.swap(&model::lower_case(name), |_| true)
    }

    /// As [`IndexSet::replace_now`], unless the replacement that has caught up was itself replaced
    /// meanwhile.
    pub(crate) fn replace_when_caught_up(&self, key: &str) -> Result<bool, IndexError> {
        let _changing = self.change();
        self.swap(key, |index| {
            index.has_caught_up() && !index.record().has_failed && !index.is_broken()
        })
    }

    fn swap(&self, key: &str, may: impl FnOnce(&Index) -> bool) -> Result<bool, IndexError> {
        let Some(new) = self.get(&replacement_key(key)).filter(|new| may(new)) else {
            return Ok(false);
        };
        new.end_replacement(self.get(key).as_deref())?;
        let old = self.list_in_place(key, &new);
        if let Some(old) = old {
            let place = old.environment().options().directory.clone();
            old.transfer_waiters_to(&new);
            old.close();
            // Remaining files are deleted when the database is opened again.
            drop(index_files::delete(self.disk(), &place));
        }
        new.begin_outputs();
        self.report(&IndexSetEvent::Replaced { index: new.name() });
        self.report_change(new.name(), IndexChange::SwappedIn);
        Ok(true)
    }

    /// The index that has replaced this one, if any.
    pub fn current(&self, index: Arc<Index>) -> Arc<Index> {
        match index.is_closed() {
            true => self.get(index.own_name()).unwrap_or(index),
            false => index,
        }
    }
}

/// The definition of the files, with the lock, priority and state of the newest.
fn old_kind(files: &IndexFiles, newest: &IndexKind) -> IndexKind {
    match (&files.owner, newest) {
        (Some(Owner::Static(old)), IndexKind::Static(newest)) => {
            let mut kind = old.clone();
            kind.lock_mode = newest.lock_mode;
            kind.priority = newest.priority;
            kind.state = newest.state;
            IndexKind::Static(kind)
        }
        _ => newest.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_replacements_lead_back() {
        assert_eq!(replacement_key("users/byname"), "replacementof/users/byname");
        assert_eq!(replaced_key("replacementof/users/byname"), Some("users/byname"));
        assert_eq!(replaced_key("ReplacementOf/X"), Some("X"));
        assert_eq!(replaced_key("users/byname"), None);
        assert_eq!(replaced_key("é"), None);
    }
}
