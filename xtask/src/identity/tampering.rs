//! Tampering with the files of stopped servers.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use super::stage::{DATABASES, Stage};
use crate::{Failure, random::Random};

/// Tampering that no server could detect: all evidence is of one earlier moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blind {
    /// The whole data directory.
    DataDirectory,
    /// All files of one database, if the cluster has committed nothing for it since.
    Database,
    /// The state of the cluster, if no database has executed anything of it since.
    System,
}

impl fmt::Display for Blind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DataDirectory => "an older copy of the whole data directory",
            Self::Database => "an older copy of one whole database to which nothing else refers",
            Self::System => "an older copy of the whole of System to which nothing else refers",
        })
    }
}

/// One change of files of the first server.
#[derive(Clone, Debug)]
pub(crate) struct Tampering {
    what: What,
    /// The path below the data directory; empty for the directory itself.
    path: PathBuf,
}

#[derive(Clone, Debug)]
enum What {
    /// It is removed.
    Remove,
    /// It is missing for one start, like a disk that is not mounted, and then back.
    Absent,
    /// The file is truncated to this many bytes.
    Truncate(u64),
    /// It is restored from an earlier moment.
    Restore,
    /// It is exchanged with the same file of the other database.
    Exchange(PathBuf),
    /// It is replaced by the same file of the other database.
    CopyFrom(PathBuf),
    /// It is replaced by the same file of the other server.
    OfOtherServer,
}

impl fmt::Display for Tampering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.what {
            What::Remove => write!(f, "remove '{path}'"),
            What::Absent => write!(f, "take '{path}' away for one start"),
            What::Truncate(bytes) => write!(f, "cut '{path}' to {bytes} bytes"),
            What::Restore => write!(f, "put an older copy in the place of '{path}'"),
            What::Exchange(other) => write!(f, "exchange '{path}' and '{}'", other.display()),
            What::CopyFrom(other) => write!(f, "copy '{}' to '{path}'", other.display()),
            What::OfOtherServer => write!(f, "put that of another server in the place of '{path}'"),
        }
    }
}

impl Tampering {
    /// Any change of any file or directory; the large ones as often as the many small ones.
    pub(crate) fn draw(stage: &Stage, random: &mut Random) -> Result<Self, Failure> {
        let mut paths = Vec::new();
        walk(&stage.data(0), Path::new(""), &mut paths)?;
        paths.sort();
        let depth = random.below(5) as usize;
        let near: Vec<_> =
            paths.iter().filter(|path| path.components().count() <= depth + 1).collect();
        let path = near[random.below(near.len() as u64) as usize].clone();
        let full = stage.data(0).join(&path);
        let length = if full.is_file() { fs::metadata(&full)?.len() } else { 0 };
        let what = match (random.below(8), in_other_database(&path)) {
            // Without a copy of anything else, nothing could detect it.
            _ if path.as_os_str().is_empty() => What::Restore,
            (0, _) => What::Remove,
            (1 | 2, _) if 0 < length => What::Truncate(random.below(length)),
            (3, Some(other)) if stage.data(0).join(&other).exists() => What::Exchange(other),
            (4, Some(other)) if stage.data(0).join(&other).exists() => What::CopyFrom(other),
            (5, _) if stage.data(1).join(&path).exists() => What::OfOtherServer,
            (1 | 6, _) => What::Absent,
            _ => What::Restore,
        };
        Ok(Self { what, path })
    }

    /// Whether the files come back.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self.what, What::Absent)
    }

    pub(crate) fn perform(&self, stage: &Stage) -> Result<(), Failure> {
        let path = stage.data(0).join(&self.path);
        match &self.what {
            What::Remove => remove(&path),
            What::Absent => {
                let away = stage.away();
                Ok(fs::rename(&path, away)?)
            }
            What::Truncate(bytes) => {
                Ok(fs::File::options().write(true).open(&path)?.set_len(*bytes)?)
            }
            What::Restore => put(&stage.remembered(0).join(&self.path), &path),
            What::OfOtherServer => put(&stage.data(1).join(&self.path), &path),
            What::CopyFrom(other) => put(&stage.data(0).join(other), &path),
            What::Exchange(other) => {
                let (other, away) = (stage.data(0).join(other), stage.away());
                fs::rename(&path, &away)?;
                fs::rename(&other, &path)?;
                Ok(fs::rename(&away, &other)?)
            }
        }
    }

    /// Restores what was removed, and removes what was created in its place, as when a disk is
    /// mounted
    /// over it.
    pub(crate) fn undo(&self, stage: &Stage) -> Result<(), Failure> {
        let path = stage.data(0).join(&self.path);
        remove(&path)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(fs::rename(stage.away(), path)?)
    }

    /// The reason why no server could detect it in a database, if there is one. `is_referred` means
    /// that
    /// the database and the cluster have referred to each other since the copy was made.
    pub(crate) fn blind(&self, database: &str, is_referred: bool) -> Option<Blind> {
        if !matches!(self.what, What::Restore) {
            return None;
        }
        let parts: Vec<_> =
            self.path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        match parts.as_slice() {
            [] => Some(Blind::DataDirectory),
            ["Databases"] if !is_referred => Some(Blind::Database),
            ["Databases", name] if !is_referred && *name == database => Some(Blind::Database),
            ["System"] if !is_referred => Some(Blind::System),
            _ => None,
        }
    }
}

/// Everything below a directory, and the directory itself.
fn walk(base: &Path, below: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Failure> {
    paths.push(below.to_owned());
    let path = base.join(below);
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(base, &below.join(entry?.file_name()), paths)?;
        }
    }
    Ok(())
}

/// The same place in the other database.
fn in_other_database(path: &Path) -> Option<PathBuf> {
    let mut parts: Vec<_> = path.iter().collect();
    let name = parts.get(1)?.to_str()?;
    let at = DATABASES.iter().position(|database| *database == name)?;
    parts[1] = DATABASES[1 - at].as_ref();
    Some(parts.iter().collect())
}

/// Removes the file or directory, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Replaces a file or directory by a copy, or removes it if the source does not exist.
fn put(from: &Path, to: &Path) -> Result<(), Failure> {
    remove(to)?;
    if from.exists() { copy(from, to) } else { Ok(()) }
}

/// Copies a file, or a directory recursively.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    if !from.is_dir() {
        fs::copy(from, to)?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(what: What, path: &str) -> Tampering {
        Tampering { what, path: path.into() }
    }

    #[test]
    fn places_of_one_database_lead_to_those_of_the_other() {
        let other = |path: &str| in_other_database(Path::new(path));
        assert_eq!(other("Databases/one/corvus.data"), Some("Databases/two/corvus.data".into()));
        assert_eq!(other("Journals/two"), Some("Journals/one".into()));
        assert_eq!(other("System/corvus.data"), None);
        assert_eq!(other("Databases"), None);
    }

    #[test]
    fn only_whole_older_copies_to_which_nothing_refers_cannot_be_noticed() {
        let restored = |path: &str, is_referred| of(What::Restore, path).blind("one", is_referred);
        assert_eq!(restored("", true), Some(Blind::DataDirectory));
        assert_eq!(restored("Databases/one", false), Some(Blind::Database));
        assert_eq!(restored("Databases/one", true), None);
        assert_eq!(restored("Databases/two", false), None, "the other one is as it was");
        assert_eq!(restored("Databases/one/corvus.data", false), None);
        assert_eq!(restored("System", false), Some(Blind::System));
        assert_eq!(of(What::Remove, "System").blind("one", false), None);
    }
}
