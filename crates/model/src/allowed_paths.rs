//! Which documents a filter of replication lets through, by their ids.

use std::fmt;

use crate::{document_id::DOCUMENT_ID_BYTES_MAX, lower_case::lower_case};

/// Paths of one filter.
const PATHS_MAX: usize = 1024;

/// Ids, and beginnings of ids that end with `*`. An empty list lets nothing through.
///
/// Invariant: the paths are in lower case and in order, and none is there twice; so equal filters are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AllowedPaths {
    paths: Vec<String>,
}

/// A path that no filter can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPath {
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for InvalidPath {}

impl AllowedPaths {
    /// Reads paths as clients write them: `users/*`, `users-*`, `*`, or a whole id.
    ///
    /// # Errors
    /// One is empty or too long, or has a `*` elsewhere; there are too many.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<AllowedPaths, InvalidPath> {
        let mut read = Vec::new();
        for path in paths {
            check(path)?;
            read.push(lower_case(path).into_owned());
        }
        read.sort_unstable();
        read.dedup();
        if PATHS_MAX < read.len() {
            let reason = format!("A filter of replication has at most {PATHS_MAX} paths");
            return Err(InvalidPath { reason });
        }
        Ok(AllowedPaths { paths: read })
    }

    /// The paths, in lower case.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Whether there is no path, so that nothing is let through.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether the document of this lower-cased id is let through.
    pub fn allows(&self, lower_id: &str) -> bool {
        self.paths.iter().any(|path| match path.strip_suffix('*') {
            Some(beginning) => lower_id.starts_with(beginning),
            None => lower_id == path,
        })
    }
}

fn check(path: &str) -> Result<(), InvalidPath> {
    let invalid = |what: &str| Err(InvalidPath { reason: format!("The path '{path}' {what}") });
    if path.is_empty() {
        return invalid("of a filter of replication is empty");
    }
    if DOCUMENT_ID_BYTES_MAX < path.len() {
        return Err(InvalidPath {
            reason: format!(
                "A path of a filter of replication exceeds {DOCUMENT_ID_BYTES_MAX} bytes"
            ),
        });
    }
    let Some(beginning) = path.strip_suffix('*') else {
        return match path.contains('*') {
            true => invalid("may have a '*' at its end alone"),
            false => Ok(()),
        };
    };
    match beginning.chars().last() {
        _ if beginning.contains('*') => invalid("may have a '*' at its end alone"),
        None | Some('/' | '-') => Ok(()),
        Some(_) => invalid("must be a whole id, or end with '/*' or '-*'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lets_an_id_or_a_beginning_through() {
        let paths = AllowedPaths::new(["Users/*", "orders/1-A", "log-*"]).unwrap();
        for (id, is_allowed) in [
            ("users/1", true),
            ("users/", true),
            ("users", false),
            ("usersx/1", false),
            ("orders/1-a", true),
            ("orders/1-a/2", false),
            ("log-5", true),
            ("", false),
        ] {
            assert_eq!(paths.allows(id), is_allowed, "{id}");
        }
        assert!(AllowedPaths::new(["*"]).unwrap().allows("anything"));
        assert!(!AllowedPaths::default().allows("anything"));
    }

    #[test]
    fn equal_filters_are_equal_values() {
        let one = AllowedPaths::new(["b/*", "A/*", "a/*"]).unwrap();
        assert_eq!(one, AllowedPaths::new(["a/*", "B/*"]).unwrap());
        assert_eq!(one.paths(), ["a/*", "b/*"]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let long = "x".repeat(DOCUMENT_ID_BYTES_MAX + 1);
        for path in ["", "users*", "a*/b", "**", "a/**", long.as_str()] {
            AllowedPaths::new([path]).unwrap_err();
        }
        let many: Vec<String> = (0..=PATHS_MAX).map(|number| format!("p/{number}")).collect();
        AllowedPaths::new(many.iter().map(String::as_str)).unwrap_err();
    }
}
