//! The data files of a server, seen from outside.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{Advice, fadvise};

use crate::error::DriverError;

/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;
const PIECE_BYTES: usize = 64 << 10;
const DEPTH_MAX: usize = 8;

/// All regular files of a directory, and the disk space that they use.
pub(crate) struct DataFiles(Vec<(PathBuf, u64)>);

impl DataFiles {
    /// The files below `directory`. The server must not be running.
    pub(crate) fn below(directory: &Path) -> Result<Self, DriverError> {
        let mut files = Vec::new();
        collect(directory, DEPTH_MAX, &mut files).map_err(DriverError::file(directory))?;
        Ok(Self(files))
    }

    /// The files in folders of this name, at any depth.
    pub(crate) fn within(self, folder: &str) -> Self {
        let is_within = |path: &Path| path.components().any(|part| part.as_os_str() == folder);
        Self(self.0.into_iter().filter(|(path, _)| is_within(path)).collect())
    }

    /// The disk space that they use, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The bytes used in journals: both servers name them `*.journal` and preallocate them with
    /// zeros.
    pub(crate) fn journal_bytes(&self) -> Result<u64, DriverError> {
        let mut sum = 0;
        for (path, _) in &self.0 {
            if path.extension().is_some_and(|extension| extension == "journal") {
                sum += bytes_before_zeros(path).map_err(DriverError::file(path))?;
            }
        }
        Ok(sum)
    }

    /// Advises the kernel to drop their pages from memory, which it does for clean pages.
    pub(crate) fn drop_from_memory(&self) -> Result<(), DriverError> {
        for (path, _) in &self.0 {
            let forget = |file: File| Ok(fadvise(&file, 0, None, Advice::DontNeed)?);
            File::open(path).and_then(forget).map_err(DriverError::file(path))?;
        }
        Ok(())
    }
}

fn collect(directory: &Path, depth: usize, files: &mut Vec<(PathBuf, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, files)?;
        } else if metadata.is_file() {
            files.push((entry.path(), metadata.blocks() * BLOCK_BYTES));
        }
    }
    Ok(())
}

/// The offset of the zeros at the end of the file, rounded to a block.
fn bytes_before_zeros(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut piece = vec![0; PIECE_BYTES];
    while end > 0 {
        let begin = end.saturating_sub(PIECE_BYTES as u64);
        let piece = &mut piece[..(end - begin) as usize];
        file.read_exact_at(piece, begin)?;
        if piece.iter().any(|byte| *byte != 0) {
            break;
        }
        end = begin;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_of_a_journal_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a/journals");
        fs::create_dir_all(&inner).unwrap();
        let mut content = vec![0; 3 * PIECE_BYTES];
        content[PIECE_BYTES + 7] = 1;
        fs::write(inner.join("1.journal"), &content).unwrap();
        fs::write(inner.join("2.journal"), vec![0; 10]).unwrap();
        fs::write(directory.path().join("data"), &content).unwrap();
        let files = DataFiles::below(directory.path()).unwrap();
        assert_eq!(files.journal_bytes().unwrap(), 2 * PIECE_BYTES as u64);
        assert!(files.bytes() > files.journal_bytes().unwrap());
        files.drop_from_memory().unwrap();
        let bytes = files.bytes();
        let within = files.within("journals").bytes();
        assert!(within > 0 && within < bytes);
    }
}
