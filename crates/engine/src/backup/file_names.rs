//! What the names of a backup's folder and files say. They are those of RavenDB:
//!
//! ```text
//! 2026-11-20-14-38-37.ravendb-Orders-A-backup/          time (UTC), database, node, form
//!     2026-11-20-14-38-37.ravendb-full-backup           everything
//!     2026-11-21-02-00-00.ravendb-incremental-backup    what changed since the file before it
//! ```
//!
//! A second file of the same kind and second has a number: `2026-11-21-02-00-00-01`. Older files name the
//! minute only.

use std::{cmp::Ordering, fmt};

use model::date;

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    /// A dump of everything.
    Full,
    /// The files of the database.
    Snapshot,
    /// A dump of what changed since the file before it.
    Incremental,
}

/// The extensions, with whether the file is encrypted.
const EXTENSIONS: [(&str, FileKind, bool); 6] = [
    ("ravendb-full-backup", FileKind::Full, false),
    ("ravendb-snapshot", FileKind::Snapshot, false),
    ("ravendb-incremental-backup", FileKind::Incremental, false),
    ("ravendb-encrypted-full-backup", FileKind::Full, true),
    ("ravendb-encrypted-snapshot", FileKind::Snapshot, true),
    ("ravendb-encrypted-incremental-backup", FileKind::Incremental, true),
];

/// The name of a file of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackupFileName {
    /// When it was made, in ticks of UTC, to the second.
    pub(crate) ticks: i64,
    /// Counts files of one kind and second.
    pub(crate) number: u32,
    /// What is in it.
    pub(crate) kind: FileKind,
    /// Whether it is encrypted.
    pub(crate) is_encrypted: bool,
}

/// The name of the folder of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupFolderName {
    /// When it was made, in ticks of UTC, to the second.
    pub(crate) ticks: i64,
    /// The database.
    pub(crate) database: String,
    /// The node that made it.
    pub(crate) node_tag: String,
    /// Whether its first file has the files of a database.
    pub(crate) is_snapshot: bool,
}

impl BackupFileName {
    /// What a name says; `None` if it is not that of a backup.
    pub(crate) fn parse(name: &str) -> Option<BackupFileName> {
        let (time, extension) = name.split_once('.')?;
        let (_, kind, is_encrypted) = *EXTENSIONS.iter().find(|(known, ..)| *known == extension)?;
        let (ticks, rest) = parse_time(time)?;
        let number = match rest.strip_prefix('-') {
            Some(number) => number.parse().ok()?,
            None if rest.is_empty() => 0,
            None => return None,
        };
        Some(BackupFileName { ticks, number, kind, is_encrypted })
    }
}

impl fmt::Display for BackupFileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = EXTENSIONS.iter().find(|(_, kind, is_encrypted)| {
            (*kind, *is_encrypted) == (self.kind, self.is_encrypted)
        });
        let extension = known.map_or("", |(extension, ..)| extension);
        formatter.write_str(&time_text(self.ticks))?;
        if self.number != 0 {
            write!(formatter, "-{:02}", self.number)?;
        }
        write!(formatter, ".{extension}")
    }
}

impl Ord for BackupFileName {
    /// The order in which files are restored.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |name: &Self| (name.ticks, name.kind, name.number, name.is_encrypted);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for BackupFileName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl BackupFolderName {
    /// What a name says; `None` if it is not that of a backup.
    pub(crate) fn parse(name: &str) -> Option<BackupFolderName> {
        let (time, rest) = name.split_once(".ravendb-")?;
        let (ticks, behind) = parse_time(time)?;
        // The name of a database may have a hyphen, too.
        let (rest, form) = rest.rsplit_once('-')?;
        let (database, node_tag) = rest.rsplit_once('-')?;
        let is_snapshot = match form {
            "backup" => false,
            "snapshot" => true,
            _ => return None,
        };
        let is_name = !database.is_empty() && !node_tag.is_empty() && behind.is_empty();
        let (database, node_tag) = (database.to_owned(), node_tag.to_owned());
        is_name.then_some(BackupFolderName { ticks, database, node_tag, is_snapshot })
    }
}

impl fmt::Display for BackupFolderName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = if self.is_snapshot { "snapshot" } else { "backup" };
        let time = time_text(self.ticks);
        write!(formatter, "{time}.ravendb-{}-{}-{form}", self.database, self.node_tag)
    }
}

/// `2026-11-20-14-38-37`.
fn time_text(ticks: i64) -> String {
    let text = date::format(ticks);
    text.get(..19).unwrap_or_default().replace(['T', ':'], "-")
}

/// A time with seconds or without, and what is behind it.
fn parse_time(text: &str) -> Option<(i64, &str)> {
    const WITH_SECONDS: &str = "dddd-dd-dd-dd-dd-dd";
    let is_time = |pattern: &str| {
        let begin = text.as_bytes().get(..pattern.len());
        begin.is_some_and(|begin| {
            begin.iter().zip(pattern.bytes()).all(|(byte, kind)| match kind {
                b'd' => byte.is_ascii_digit(),
                other => *byte == other,
            })
        })
    };
    let length = [WITH_SECONDS, &WITH_SECONDS[..16]].into_iter().find(|form| is_time(form))?.len();
    let (time, rest) = text.split_at(length);
    let seconds = time.get(17..).unwrap_or("00");
    let (day, hour, minute) = (time.get(..10)?, time.get(11..13)?, time.get(14..16)?);
    let parsed = date::parse(&format!("{day}T{hour}:{minute}:{seconds}Z"))?;
    Some((parsed.utc_ticks(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_files_say_when_and_what_they_are() {
        for (name, time, number, kind, is_encrypted) in [
            (
                "2026-11-20-14-38-37.ravendb-full-backup",
                "2026-11-20T14:38:37Z",
                0,
                FileKind::Full,
                false,
            ),
            (
                "2026-11-20-14-38-37-02.ravendb-incremental-backup",
                "2026-11-20T14:38:37Z",
                2,
                FileKind::Incremental,
                false,
            ),
            (
                "2026-11-20-14-38-37.ravendb-encrypted-snapshot",
                "2026-11-20T14:38:37Z",
                0,
                FileKind::Snapshot,
                true,
            ),
        ] {
            let parsed = BackupFileName::parse(name).unwrap();
            let ticks = date::parse(time).unwrap().utc_ticks();
            assert_eq!(parsed, BackupFileName { ticks, number, kind, is_encrypted });
            assert_eq!(parsed.to_string(), name);
        }
        let older = BackupFileName::parse("2019-01-02-03-04.ravendb-full-backup").unwrap();
        assert_eq!(date::format(older.ticks), "2019-01-02T03:04:00.0000000Z");
        for name in [
            "2026-11-20-14-38-37.ravendb-full-backup.in-progress",
            "2026-13-20-14-38-37.ravendb-full-backup",
            "2026-11-20-14-38-37x.ravendb-full-backup",
            "2026-11-20.ravendb-full-backup",
            "notes.txt",
            "",
        ] {
            assert_eq!(BackupFileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn files_are_restored_in_the_order_of_their_times_and_everything_comes_first() {
        let names = [
            "2026-11-20-14-38-37.ravendb-full-backup",
            "2026-11-20-14-38-37.ravendb-incremental-backup",
            "2026-11-20-14-38-37-01.ravendb-incremental-backup",
            "2026-11-20-14-38-38.ravendb-incremental-backup",
        ];
        let parsed: Vec<_> = names.iter().map(|name| BackupFileName::parse(name)).collect();
        assert!(parsed.is_sorted());
    }

    #[test]
    fn the_name_of_a_folder_says_which_database_it_is_of() {
        let name = "2026-11-20-14-38-37.ravendb-my-shop.2-A-backup";
        let parsed = BackupFolderName::parse(name).unwrap();
        assert_eq!((&*parsed.database, &*parsed.node_tag), ("my-shop.2", "A"));
        assert_eq!(parsed.to_string(), name);
        assert!(
            BackupFolderName::parse("2026-11-20-14-38-37.ravendb-x-A-snapshot")
                .unwrap()
                .is_snapshot
        );
        for name in ["2026-11-20-14-38-37.ravendb-A-backup", "x.ravendb-a-A-backup", "Orders"] {
            assert_eq!(BackupFolderName::parse(name), None, "{name}");
        }
    }
}
