//! Directories as a tree of numbered nodes, in memory.
//!
//! Every change of names is a list of [`Edit`]s ("in this directory, this name now means that node"),
//! planned first and applied afterwards. A disk that must be able to lose a change keeps the edits;
//! applying one cannot fail. Which bytes a file has is not known here: `F` is opaque.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Component, Path},
};

/// Names a node for as long as the tree lives; never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(u64);

/// The directory in which every path starts. Relative and absolute paths start at the same place.
pub(crate) const ROOT: NodeId = NodeId(0);

/// The names in one directory.
pub(crate) type Entries = BTreeMap<String, NodeId>;

/// `directory[name] = target`; no target removes the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) directory: NodeId,
    pub(crate) name: String,
    pub(crate) target: Option<NodeId>,
}

enum Node<F> {
    Directory(Entries),
    File(F),
}

/// A name space. Invariant: every target of an entry is a node of the tree.
pub(crate) struct Tree<F> {
    nodes: BTreeMap<NodeId, Node<F>>,
    next: u64,
}

impl<F: Clone> Tree<F> {
    pub(crate) fn new() -> Self {
        Self { nodes: BTreeMap::from([(ROOT, Node::Directory(Entries::new()))]), next: 1 }
    }

    /// Adds a file that no directory names yet.
    pub(crate) fn add_file(&mut self, file: F) -> NodeId {
        self.add(Node::File(file))
    }

    /// Adds an empty directory that no directory names yet.
    pub(crate) fn add_directory(&mut self) -> NodeId {
        self.add(Node::Directory(Entries::new()))
    }

    fn add(&mut self, node: Node<F>) -> NodeId {
        let id = NodeId(self.next);
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    /// The node that a path names.
    pub(crate) fn find(&self, path: &Path) -> io::Result<NodeId> {
        let mut node = ROOT;
        for name in names(path)? {
            node = *self.entries(node)?.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// The file that a path names.
    pub(crate) fn find_file(&self, path: &Path) -> io::Result<F> {
        match &self.nodes[&self.find(path)?] {
            Node::File(file) => Ok(file.clone()),
            Node::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    /// The directory of a path's last name, and that name.
    pub(crate) fn find_parent<'p>(&self, path: &'p Path) -> io::Result<(NodeId, &'p str)> {
        let mut names = names(path)?;
        let last = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let mut node = ROOT;
        for name in names {
            node = *self.entries(node)?.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        self.entries(node)?;
        Ok((node, last))
    }

    /// The entries of a directory.
    pub(crate) fn entries(&self, directory: NodeId) -> io::Result<&Entries> {
        match self.nodes.get(&directory) {
            Some(Node::Directory(entries)) => Ok(entries),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Where a new file of that path goes: `AlreadyExists` when the name is taken.
    pub(crate) fn plan_create<'p>(&self, path: &'p Path) -> io::Result<(NodeId, &'p str)> {
        let (directory, name) = self.find_parent(path)?;
        if self.entries(directory)?.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok((directory, name))
    }

    /// The edits of a rename; empty when both names already mean the same node.
    pub(crate) fn plan_rename(&self, from: &Path, to: &Path) -> io::Result<Vec<Edit>> {
        let (old_directory, old_name) = self.find_parent(from)?;
        let (new_directory, new_name) = self.find_parent(to)?;
        let node = *self.entries(old_directory)?.get(old_name).ok_or(io::ErrorKind::NotFound)?;
        let replaced = self.entries(new_directory)?.get(new_name).copied();
        if replaced == Some(node) {
            return Ok(Vec::new());
        }
        if let Some(replaced) = replaced {
            self.check_replacement(node, replaced)?;
        }
        if self.below(node).contains(&new_directory) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(vec![
            Edit { directory: old_directory, name: old_name.to_owned(), target: None },
            Edit { directory: new_directory, name: new_name.to_owned(), target: Some(node) },
        ])
    }

    /// A file replaces a file, a directory replaces an empty directory, and nothing else does.
    fn check_replacement(&self, node: NodeId, replaced: NodeId) -> io::Result<()> {
        match (&self.nodes[&node], &self.nodes[&replaced]) {
            (Node::File(_), Node::File(_)) => Ok(()),
            (Node::File(_), Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            (Node::Directory(_), Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            (Node::Directory(_), Node::Directory(entries)) if entries.is_empty() => Ok(()),
            (Node::Directory(_), Node::Directory(_)) => {
                Err(io::ErrorKind::DirectoryNotEmpty.into())
            }
        }
    }

    /// The edit that removes a file's name.
    pub(crate) fn plan_remove_file(&self, path: &Path) -> io::Result<Edit> {
        self.find_file(path)?;
        let (directory, name) = self.find_parent(path)?;
        Ok(Edit { directory, name: name.to_owned(), target: None })
    }

    /// The edits that remove a directory, innermost names first; empty when it does not exist.
    pub(crate) fn plan_remove_all(&self, path: &Path) -> io::Result<Vec<Edit>> {
        let root = match self.find(path) {
            Ok(node) => node,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        self.entries(root)?;
        let (directory, name) = self.find_parent(path)?;
        let mut edits = Vec::new();
        for node in self.below(root).into_iter().rev() {
            let Ok(entries) = self.entries(node) else { continue };
            edits.extend(entries.keys().map(|name| Edit {
                directory: node,
                name: name.clone(),
                target: None,
            }));
        }
        edits.push(Edit { directory, name: name.to_owned(), target: None });
        Ok(edits)
    }

    /// Applies the edit.
    pub(crate) fn apply(&mut self, edit: &Edit) {
        if let Some(Node::Directory(entries)) = self.nodes.get_mut(&edit.directory) {
            apply_edit(entries, edit);
        }
    }

    /// Replaces the entries of a directory.
    pub(crate) fn replace_entries(&mut self, directory: NodeId, new: Entries) {
        if let Some(Node::Directory(entries)) = self.nodes.get_mut(&directory) {
            *entries = new;
        }
    }

    /// All files, named or not, in the order of their creation.
    pub(crate) fn files(&self) -> impl Iterator<Item = (NodeId, &F)> {
        self.nodes.iter().filter_map(|(id, node)| match node {
            Node::File(file) => Some((*id, file)),
            Node::Directory(_) => None,
        })
    }

    /// `start` and everything it leads to, parents before what they name.
    pub(crate) fn below(&self, start: NodeId) -> Vec<NodeId> {
        let mut found = vec![start];
        let mut next = 0;
        while next < found.len() {
            if let Some(Node::Directory(entries)) = self.nodes.get(&found[next]) {
                found.extend(entries.values());
            }
            next += 1;
        }
        found
    }

    /// Drops every node that is not in `kept`.
    pub(crate) fn retain(&mut self, kept: &BTreeSet<NodeId>) {
        self.nodes.retain(|id, _| kept.contains(id));
    }
}

/// Applies the edit to the entries of its directory.
pub(crate) fn apply_edit(entries: &mut Entries, edit: &Edit) {
    match edit.target {
        Some(target) => entries.insert(edit.name.clone(), target),
        None => entries.remove(&edit.name),
    };
}

/// The names in a path from the root; `.` is left out, `..` removes the name before it.
pub(crate) fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                names.push(name.to_str().ok_or(io::ErrorKind::InvalidInput)?);
            }
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(names)
}
