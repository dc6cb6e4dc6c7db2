//! A disk whose journal can be held up, so that a test decides when a transaction becomes durable and
//! whether it does.

use std::{
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex},
};

use platform::{Access, DirectoryLock, Disk, DiskSpace, File, Mapping};

/// What happens to writes to journal files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Open,
    Shut,
    /// The next write fails, later ones pass.
    FailOnce,
}

/// The disk behind the gate, and the gate.
#[derive(Clone)]
pub(crate) struct GatedDisk {
    disk: Arc<dyn Disk>,
    gate: Arc<Gate>,
}

struct Gate {
    state: Mutex<(Passage, usize)>,
    changed: Condvar,
}

impl GatedDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        let gate = Gate { state: Mutex::new((Passage::Open, 0)), changed: Condvar::new() };
        Self { disk, gate: Arc::new(gate) }
    }

    /// Journal writes wait from now on.
    pub(crate) fn shut(&self) {
        self.gate.set(Passage::Shut);
    }

    /// Journal writes pass again.
    pub(crate) fn open_gate(&self) {
        self.gate.set(Passage::Open);
    }

    /// The journal write that waits, or the next one, fails as if the device had; later ones pass.
    pub(crate) fn fail_once(&self) {
        self.gate.set(Passage::FailOnce);
    }

    /// Returns when a journal write waits.
    pub(crate) fn wait_for_a_write(&self) {
        let mut state = self.gate.state.lock().unwrap();
        while state.1 == 0 {
            state = self.gate.changed.wait(state).unwrap();
        }
    }

    fn gated(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        if path.components().any(|part| part.as_os_str() == "journals") {
            return Arc::new(GatedFile { file, gate: self.gate.clone() });
        }
        file
    }
}

impl Gate {
    fn set(&self, passage: Passage) {
        self.state.lock().unwrap().0 = passage;
        self.changed.notify_all();
    }

    fn pass(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        while state.0 == Passage::Shut {
            state = self.changed.wait(state).unwrap();
        }
        state.1 -= 1;
        if state.0 == Passage::FailOnce {
            state.0 = Passage::Open;
            return Err(io::Error::other("the device failed"));
        }
        Ok(())
    }
}

impl Disk for GatedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.gated(path, self.disk.create(path, access)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.gated(path, self.disk.open(path, access)?))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        self.disk.space(dir)
    }
}

struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl File for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.gate.pass()?;
        self.file.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn map(&self, len: usize) -> io::Result<Mapping> {
        self.file.map(len)
    }
}
