//! The names of a simulated disk twice over: as a process sees them, and as a power cut would leave
//! them; and the changes between the two.
//!
//! A change (a creation, a rename, a removal) survives a cut whole or not at all. It is durable once
//! every directory that it touches was synced after it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use crate::{
    memory::tree::{Edit, Entries, NodeId, ROOT, Tree, apply_edit},
    simulated::{
        power::{Fate, Fates},
        unsynced::FileState,
    },
};

/// A file as the tree and open handles share it.
pub(super) type SharedFile = Arc<Mutex<FileState>>;

/// Both views of the name space.
pub(super) struct Names {
    tree: Tree<SharedFile>,
    durable: BTreeMap<NodeId, Entries>,
    unsynced: Vec<NameChange>,
}

struct NameChange {
    sequence: u64,
    edits: Vec<Edit>,
    /// Directories not synced since; the change is durable when none is left.
    waiting: BTreeSet<NodeId>,
}

impl NameChange {
    fn conflicts(&self, other: &Self) -> bool {
        let same = |a: &Edit, b: &Edit| a.directory == b.directory && a.name == b.name;
        self.edits.iter().any(|a| other.edits.iter().any(|b| same(a, b)))
    }

    fn directories(&self) -> impl Iterator<Item = NodeId> {
        self.edits.iter().map(|edit| edit.directory)
    }
}

impl Names {
    pub(super) fn new() -> Self {
        let durable = BTreeMap::from([(ROOT, Entries::new())]);
        Self { tree: Tree::new(), durable, unsynced: Vec::new() }
    }

    /// What a process sees.
    pub(super) fn tree(&self) -> &Tree<SharedFile> {
        &self.tree
    }

    /// The file that a power cut would leave under this path.
    pub(super) fn find_durable_file(&self, path: &Path) -> io::Result<SharedFile> {
        let mut node = ROOT;
        for name in crate::memory::tree::names(path)? {
            let entries = self.durable.get(&node).ok_or(io::ErrorKind::NotADirectory)?;
            node = *entries.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        let mut files = self.tree.files();
        let (_, file) = files.find(|(id, _)| *id == node).ok_or(io::ErrorKind::IsADirectory)?;
        Ok(Arc::clone(file))
    }

    /// Names a new file.
    pub(super) fn create(&mut self, sequence: u64, path: &Path) -> io::Result<SharedFile> {
        let (directory, name) = self.tree.plan_create(path)?;
        let file = Arc::new(Mutex::new(FileState::empty()?));
        let target = Some(self.tree.add_file(Arc::clone(&file)));
        self.change(sequence, vec![Edit { directory, name: name.to_owned(), target }]);
        Ok(file)
    }

    /// Names a new directory in `parent`, not yet durably.
    pub(super) fn create_directory(&mut self, sequence: u64, parent: NodeId, name: &str) -> NodeId {
        let node = self.tree.add_directory();
        self.durable.insert(node, Entries::new());
        let edit = Edit { directory: parent, name: name.to_owned(), target: Some(node) };
        self.change(sequence, vec![edit]);
        node
    }

    pub(super) fn rename(&mut self, sequence: u64, from: &Path, to: &Path) -> io::Result<()> {
        let edits = self.tree.plan_rename(from, to)?;
        self.change(sequence, edits);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, sequence: u64, path: &Path) -> io::Result<()> {
        let edit = self.tree.plan_remove_file(path)?;
        self.change(sequence, vec![edit]);
        Ok(())
    }

    /// Removes a tree, name by name, the outermost last. Once that one is durable the others no
    /// longer matter.
    pub(super) fn remove_all(
        &mut self,
        mut sequence: impl FnMut() -> u64,
        dir: &Path,
    ) -> io::Result<()> {
        for edit in self.tree.plan_remove_all(dir)? {
            self.change(sequence(), vec![edit]);
        }
        Ok(())
    }

    /// Applies the edits to what processes see.
    fn change(&mut self, sequence: u64, edits: Vec<Edit>) {
        if edits.is_empty() {
            return;
        }
        for edit in &edits {
            self.tree.apply(edit);
        }
        let waiting = edits.iter().map(|edit| edit.directory).collect();
        self.unsynced.push(NameChange { sequence, edits, waiting });
    }

    /// Makes the changes in the directory durable, except renames whose other directory is not
    /// synced yet.
    pub(super) fn sync(&mut self, directory: NodeId) {
        for change in &mut self.unsynced {
            change.waiting.remove(&directory);
        }
        let due = self.due();
        for (change, due) in std::mem::take(&mut self.unsynced).into_iter().zip(due) {
            if due { self.make_durable(&change) } else { self.unsynced.push(change) }
        }
        self.free_unreachable();
    }

    /// Marks the changes that wait for no directory any more, and those that have to precede such a
    /// change because it reassigns the same name.
    fn due(&self) -> Vec<bool> {
        let mut due: Vec<bool> =
            self.unsynced.iter().map(|change| change.waiting.is_empty()).collect();
        for index in (0..due.len()).rev() {
            let (earlier, later) = (&self.unsynced[index], &self.unsynced[index + 1..]);
            let mut pulling = later.iter().zip(&due[index + 1..]).filter(|(_, due)| **due);
            due[index] = due[index] || pulling.any(|(later, _)| later.conflicts(earlier));
        }
        due
    }

    fn make_durable(&mut self, change: &NameChange) {
        for edit in &change.edits {
            if let Some(entries) = self.durable.get_mut(&edit.directory) {
                apply_edit(entries, edit);
            }
        }
    }

    /// The sequence numbers of the unsynced changes.
    pub(super) fn unsynced(&self) -> impl Iterator<Item = u64> {
        self.unsynced.iter().map(|change| change.sequence)
    }

    /// The power is cut: changes become durable as their fates say, and the rest is lost. Within a
    /// directory no change survives one that was issued earlier and is lost.
    pub(super) fn lose(&mut self, fates: &Fates) {
        let mut lost_in = BTreeSet::new();
        for change in std::mem::take(&mut self.unsynced) {
            let survives = fates.get(&change.sequence) == Some(&Fate::Whole);
            if survives && !change.directories().any(|directory| lost_in.contains(&directory)) {
                self.make_durable(&change);
            } else {
                lost_in.extend(change.directories());
            }
        }
        for (directory, entries) in &self.durable {
            self.tree.replace_entries(*directory, entries.clone());
        }
        self.free_unreachable();
    }

    /// Drops nodes that no path, no durable path, no unsynced change and no open file leads to.
    fn free_unreachable(&mut self) {
        let named = self.reachable(vec![ROOT]);
        // A directory that is gone in both views can no longer be synced, and its names are no
        // longer needed.
        self.unsynced.retain(|change| change.directories().any(|dir| named.contains(&dir)));
        let edits = self.unsynced.iter().flat_map(|change| &change.edits);
        let targets = edits.filter_map(|edit| edit.target);
        // The tree holds one reference to a file; any other one means that the file is open.
        let open = self.tree.files().filter(|(_, file)| Arc::strong_count(file) > 1);
        let starts = targets.chain(open.map(|(id, _)| id)).chain([ROOT]).collect();
        let kept = self.reachable(starts);
        self.tree.retain(&kept);
        self.durable.retain(|directory, _| kept.contains(directory));
    }

    /// Everything that either view leads to from the starting nodes.
    fn reachable(&self, mut next: Vec<NodeId>) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        while let Some(node) = next.pop() {
            if found.insert(node) {
                let seen = self.tree.entries(node).into_iter().flat_map(Entries::values);
                let durable = self.durable.get(&node).into_iter().flat_map(Entries::values);
                next.extend(seen.chain(durable));
            }
        }
        found
    }
}
