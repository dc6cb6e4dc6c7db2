//! Files that deleted indexes left, because their deletion failed or was interrupted after the record of the database
//! had changed. They must not answer for a later index of the name.
//!
//! Invariant: files in the places of an index are used only if the index is in the record, and has been since the
//! database was opened or since its places were emptied. So leftovers are removed when the database is opened, before
//! a definition of a new name is accepted, and before files of a name that is new in the record are used. Files of an
//! index with another number than the record says are those of an index that was deleted, and defined again, while
//! the database was closed: they do not answer ([`crate::replacement`]).
//!
//! The directory is the server's own, but others may have put something there. When the database is opened, only this
//! is removed: environments whose definition names an index with this directory, those without any definition and
//! directories without a data file that an interrupted creation left, and what a deletion has renamed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use model::lower_case;
use storage::{environment_id_in, remove_unfinished};

use crate::{
    error::IndexError,
    index_files::{self, IndexFiles},
    index_set::IndexSet,
    replacement::replaced_key,
};

impl IndexSet {
    /// Notes the keys of the indexes in the record, which are about to be opened. Those that are new are opened without
    /// the files in their places.
    pub(crate) fn note_recorded(&self, keys: &BTreeSet<String>, numbers: BTreeMap<String, u64>) {
        let _changing = self.change();
        self.lock().numbers = numbers;
        let before = self.lock().recorded.replace(keys.clone());
        let Some(before) = before else { return self.remove_leftovers(keys) };
        let added = keys.difference(&before).filter(|key| replaced_key(key).is_none());
        let mut listed = self.lock();
        listed.unclean.retain(|key| keys.contains(key));
        listed.unclean.extend(added.cloned());
    }

    /// Removes files of earlier indexes from the places of an index that is about to be defined. They are kept if an
    /// index of this key is recorded.
    pub(crate) fn clean_for(&self, key: &str) -> Result<(), IndexError> {
        let _changing = self.change();
        let is_new = self.lock().recorded.as_ref().is_some_and(|recorded| !recorded.contains(key));
        match is_new && replaced_key(key).is_none() && self.get(key).is_none() {
            true => self.empty_places(key),
            false => Ok(()),
        }
    }

    /// Removes files of earlier indexes from the places of an index that is new in the record.
    pub(crate) fn clean_if_new(&self, key: &str) -> Result<(), IndexError> {
        if self.lock().unclean.contains(key) {
            self.empty_places(key)?;
            self.lock().unclean.remove(key);
        }
        Ok(())
    }

    fn empty_places(&self, key: &str) -> Result<(), IndexError> {
        let places = self.places_of(key);
        places.iter().try_for_each(|place| index_files::delete(self.disk(), place))
    }

    /// Removes the files of indexes that are not recorded. What cannot be removed stays until the next opening, or until
    /// an index of the name is defined.
    fn remove_leftovers(&self, recorded: &BTreeSet<String>) {
        let used: BTreeSet<PathBuf> = recorded.iter().flat_map(|key| self.places_of(key)).collect();
        // A missing directory is empty.
        for name in self.disk().list(self.directory()).unwrap_or_default() {
            let Some(base) = index_files::place_of(&name) else { continue };
            if !used.contains(&self.directory().join(base)) {
                // See above.
                drop(self.remove_leftover(&name, base));
            }
        }
    }

    /// Removes a directory in the place `base`, if it is an index's.
    fn remove_leftover(&self, name: &str, base: &str) -> Result<(), IndexError> {
        let path = self.directory().join(name);
        if index_files::is_being_deleted(name) {
            return index_files::finish_deletion(self.disk(), &path);
        }
        let options = self.options_of(&path);
        let platform = self.platform();
        if environment_id_in(platform, &path)?.is_none() {
            return Ok(remove_unfinished(platform, &options).map(drop)?);
        }
        let files = IndexFiles::open(platform, options, self.definition_format())?;
        let is_of_index = match &files.owner {
            Some(owner) => self.is_place_of(&self.directory().join(base), owner.name()),
            None => files.is_blank(),
        };
        files.close();
        if is_of_index {
            index_files::delete_files(self.disk(), &path)?;
        }
        Ok(())
    }

    fn is_place_of(&self, place: &Path, name: &str) -> bool {
        self.places_of(&lower_case(name)).iter().any(|own| own == place)
    }
}
