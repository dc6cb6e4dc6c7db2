//! A disk on which something happens before a certain operation.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use platform::{Access, DirectoryLock, Disk, DiskSpace, File};

type Hook = Box<dyn FnOnce() + Send>;

/// Passes everything on to another disk.
pub(crate) struct HookedDisk {
    inner: Arc<dyn Disk>,
    /// Called once, before a name that contains the text is created.
    hook: Mutex<Option<(String, Hook)>>,
}

impl HookedDisk {
    pub(crate) fn new(inner: Arc<dyn Disk>) -> HookedDisk {
        HookedDisk { inner, hook: Mutex::new(None) }
    }

    /// Calls `hook` before a file or directory is created whose path contains `text`.
    pub(crate) fn before_creating(&self, text: &str, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock().unwrap() = Some((text.to_owned(), Box::new(hook)));
    }

    fn creates(&self, path: &Path) {
        let mut hook = self.hook.lock().unwrap();
        let is_it = hook.as_ref().is_some_and(|(text, _)| path.to_string_lossy().contains(text));
        let taken = if is_it { hook.take() } else { None };
        drop(hook);
        if let Some((_, hook)) = taken {
            hook();
        }
    }
}

impl Disk for HookedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.creates(dir);
        self.inner.create_dir_all(dir)
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.creates(path);
        self.inner.create(path, access)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.inner.open(path, access)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.inner.lock_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        self.inner.space(dir)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }
}
