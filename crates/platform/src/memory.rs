//! Files in memory, for databases that run in memory and for quick tests.
//!
//! Files disappear with the process, or earlier with the last [`MemoryDisk`] and open file: nothing
//! is durable, so syncing does nothing. Not a fault model; that is [`crate::simulated`]. Each file
//! is an anonymous file of the kernel and takes one descriptor.

pub(crate) mod content;
pub(crate) mod tree;

use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Platform,
    disk::{Access, DirectoryLock, Disk, DiskSpace, File, Mapping, check_direct},
    memory::{
        content::Content,
        tree::{Edit, NodeId, ROOT, Tree},
    },
    process_memory::{RealProcessMemory, machine_memory},
    real::{RealClock, RealEntropy},
};

impl Platform {
    /// Files in memory, with the machine's own time and randomness.
    pub fn memory() -> Self {
        Self {
            disk: Arc::new(MemoryDisk::new()),
            clock: Arc::new(RealClock::new()),
            entropy: Arc::new(RealEntropy),
            memory: Arc::new(RealProcessMemory),
        }
    }
}

/// A name space of files in memory. All paths start at one root, which exists.
pub struct MemoryDisk {
    names: Arc<Mutex<Names>>,
}

struct Names {
    tree: Tree<Arc<Content>>,
    locked: BTreeSet<NodeId>,
    memory: Option<Arc<dyn FileMemory>>,
}

/// What files in memory are counted in.
pub trait FileMemory: Send + Sync {
    /// Counts in bytes that files are about to have; `false`, and nothing is counted, when there is no room.
    fn take(&self, bytes: u64) -> bool;

    /// Counts out bytes that files had.
    fn give_back(&self, bytes: u64);
}

impl MemoryDisk {
    /// An empty disk, which is never full.
    pub fn new() -> Self {
        Self::counted_in(None)
    }

    /// An empty disk that is full when `memory` has no room. The lengths of files are counted, until a file is
    /// removed and neither open nor mapped any more.
    pub fn within(memory: Arc<dyn FileMemory>) -> Self {
        Self::counted_in(Some(memory))
    }

    fn counted_in(memory: Option<Arc<dyn FileMemory>>) -> Self {
        let names = Names { tree: Tree::new(), locked: BTreeSet::new(), memory };
        Self { names: Arc::new(Mutex::new(names)) }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Names {
    fn apply(&mut self, edits: &[Edit]) {
        for edit in edits {
            self.tree.apply(edit);
        }
    }

    fn apply_and_free(&mut self, edits: &[Edit]) {
        self.apply(edits);
        let kept = self.tree.below(ROOT).into_iter().collect();
        self.tree.retain(&kept);
    }

    fn create(&mut self, path: &Path) -> io::Result<Arc<Content>> {
        let (directory, name) = self.tree.plan_create(path)?;
        let content = Arc::new(Content::counted_in(self.memory.clone())?);
        let target = Some(self.tree.add_file(Arc::clone(&content)));
        self.tree.apply(&Edit { directory, name: name.to_owned(), target });
        Ok(content)
    }
}

impl Disk for MemoryDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut names = self.names();
        let mut directory = ROOT;
        for name in tree::names(dir)? {
            directory = match names.tree.entries(directory)?.get(name) {
                Some(existing) => *existing,
                None => {
                    let new = names.tree.add_directory();
                    names.tree.apply(&Edit { directory, name: name.to_owned(), target: Some(new) });
                    new
                }
            };
        }
        names.tree.entries(directory).map(|_| ())
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let content = self.names().create(path)?;
        Ok(Arc::new(MemoryFile { content, access }))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let content = self.names().tree.find_file(path)?;
        Ok(Arc::new(MemoryFile { content, access }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        found(self.names().tree.find(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = self.names();
        let directory = names.tree.find(dir)?;
        Ok(names.tree.entries(directory)?.keys().cloned().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        let edits = names.tree.plan_rename(from, to)?;
        names.apply_and_free(&edits);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names();
        let edit = names.tree.plan_remove_file(path)?;
        names.apply_and_free(&[edit]);
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut names = self.names();
        let edits = names.tree.plan_remove_all(dir)?;
        names.apply_and_free(&edits);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let names = self.names();
        names.tree.entries(names.tree.find(dir)?).map(|_| ())
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let mut names = self.names();
        let node = names.tree.find(dir)?;
        names.tree.entries(node)?;
        if !names.locked.insert(node) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemoryLock { names: Arc::clone(&self.names), node }))
    }

    /// The memory that the machine reports as available to processes.
    fn space(&self, _dir: &Path) -> io::Result<DiskSpace> {
        let (free_bytes, total_bytes) = machine_memory()?;
        Ok(DiskSpace { free_bytes, total_bytes })
    }
}

/// Turns "there is no such path" into `false`.
pub(crate) fn found(outcome: io::Result<NodeId>) -> io::Result<bool> {
    match outcome {
        Ok(_) => Ok(true),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

struct MemoryLock {
    names: Arc<Mutex<Names>>,
    node: NodeId,
}

impl DirectoryLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).locked.remove(&self.node);
    }
}

struct MemoryFile {
    content: Arc<Content>,
    access: Access,
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.content.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.content.set_len(len)
    }

    /// Extends the file. Memory is not reserved: the machine overcommits it.
    fn allocate(&self, len: u64) -> io::Result<()> {
        if self.content.len()? < len { self.content.set_len(len) } else { Ok(()) }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_direct(self.access, buffer, offset)?;
        self.content.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        check_direct(self.access, bytes, offset)?;
        self.content.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn map(&self, len: usize) -> io::Result<Mapping> {
        self.content.map(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn the_memory_disk_behaves_like_a_disk() {
        conformance::check(&MemoryDisk::new(), Path::new("/base"));
    }

    #[test]
    fn a_disk_within_bounds_is_full_and_has_room_again() {
        struct Room(Mutex<u64>);
        impl FileMemory for Room {
            fn take(&self, bytes: u64) -> bool {
                let mut left = self.0.lock().unwrap();
                left.checked_sub(bytes).map(|less| *left = less).is_some()
            }

            fn give_back(&self, bytes: u64) {
                *self.0.lock().unwrap() += bytes;
            }
        }
        let room = Arc::new(Room(Mutex::new(10_000)));
        let left = || *room.0.lock().unwrap();
        let disk = MemoryDisk::within(Arc::clone(&room) as _);
        let create = |name: &str| disk.create(Path::new(name), Access::Buffered).unwrap();
        let (a, b) = (create("a"), create("b"));
        a.allocate(4096).unwrap();
        a.write_all_at(b"counted already", 100).unwrap();
        b.write_all_at(&[1; 100], 4000).unwrap();
        assert_eq!(left(), 10_000 - 4096 - 4100);
        for refused in [a.set_len(8192), a.allocate(8192), a.write_all_at(&[1; 2000], 4096)] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
        assert_eq!((a.len().unwrap(), left()), (4096, 10_000 - 4096 - 4100));
        a.set_len(96).unwrap();
        assert_eq!(left(), 10_000 - 96 - 4100);
        let mapping = b.map(4096).unwrap();
        drop(b);
        disk.remove_file(Path::new("b")).unwrap();
        assert_eq!(left(), 10_000 - 96 - 4100, "it is mapped");
        drop(mapping);
        assert_eq!(left(), 10_000 - 96);
        drop((a, disk));
        assert_eq!(left(), 10_000);
    }

    #[test]
    fn a_mapping_outlives_its_removed_file() {
        let disk = MemoryDisk::new();
        let file = disk.create(Path::new("a"), Access::Buffered).unwrap();
        file.write_all_at(b"still here", 0).unwrap();
        let mapping = file.map(4096).unwrap();
        disk.remove_file(Path::new("a")).unwrap();
        drop(file);
        // SAFETY: inside the file's last length, and it can no longer be written to.
        assert_eq!(unsafe { mapping.slice(0, 10) }, b"still here");
    }

    #[test]
    fn removed_files_free_their_memory() {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("a/b")).unwrap();
        disk.create(Path::new("a/b/c"), Access::Buffered).unwrap();
        disk.create(Path::new("d"), Access::Buffered).unwrap();
        let kept = disk.create(Path::new("e"), Access::Buffered).unwrap();
        disk.rename(Path::new("d"), Path::new("e")).unwrap();
        disk.remove_dir_all(Path::new("a")).unwrap();
        assert_eq!(disk.names().tree.files().count(), 1);
        kept.write_all_at(b"an open file stays usable", 0).unwrap();
    }
}
