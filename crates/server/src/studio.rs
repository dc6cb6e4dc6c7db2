//! Where the files of the Studio, the web interface, come from: the executable, or a directory.
//!
//! Not here: headers and routes (`handlers/studio.rs`). Invariant: a path leads to a file below the directory or to
//! nothing.

#![expect(
    clippy::disallowed_methods,
    reason = "files of the web interface are not data, and crash tests do not cover them"
)]

use std::{fs, path::PathBuf};

use bytes::Bytes;
use studio_files::StudioFile;

/// The page that loads everything else.
pub(crate) const PAGE: &str = "index.html";
/// Files below it have a hash of their content in their names.
pub(crate) const HASHED_FILES: &str = "assets/";
/// A larger file of a directory is not served: it would be held in memory.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Where the files come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Studio {
    /// The executable, which may have been built without them.
    Embedded,
    /// A directory, which is read for each request.
    Directory(PathBuf),
}

/// A file that was found.
pub(crate) enum Found {
    /// In the executable.
    Embedded(&'static StudioFile),
    /// In the directory: its content.
    Read(Bytes),
}

impl Studio {
    /// From the setting `Studio.Path`.
    pub(crate) fn new(directory: Option<PathBuf>) -> Studio {
        directory.map_or(Studio::Embedded, Studio::Directory)
    }

    /// Whether there is a page to open.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Studio::Embedded => studio_files::find(PAGE).is_some(),
            Studio::Directory(directory) => directory.join(PAGE).is_file(),
        }
    }

    /// The file of a path below `/studio/`. May read a file.
    pub(crate) fn find(&self, path: &str) -> Option<Found> {
        match self {
            Studio::Embedded => studio_files::find(path).map(Found::Embedded),
            Studio::Directory(directory) => {
                let file = directory.join(safe(path)?);
                let is_served = file
                    .metadata()
                    .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= FILE_BYTES_MAX);
                let content = fs::read(file).ok().filter(|_| is_served)?;
                Some(Found::Read(Bytes::from(content)))
            }
        }
    }
}

/// The path, if no part of it can lead out of its directory or to a hidden file.
fn safe(path: &str) -> Option<&str> {
    let is_safe = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    path.split('/').all(is_safe).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_lead_to_files() {
        for path in ["index.html", "assets/index-B_x1.js", "a/b/c"] {
            assert_eq!(safe(path), Some(path));
        }
        for path in
            ["", "/etc/passwd", "../x", "a/../x", "a//b", ".env", "a/.env", "a\\b", "a%2fb", "a\0b"]
        {
            assert_eq!(safe(path), None, "{path}");
        }
    }
}
