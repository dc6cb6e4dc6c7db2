//! How the files of a backup follow each other.
//!
//! An incremental file has what changed since the file before it, so a restore needs each of them, in their order.
//! Each begins with an element that says which file it is and which one it follows, as a section that RavenDB passes
//! over with a warning:
//!
//! ```text
//! "CorvusBackupFile":[{"Id":"<32 hexadecimal digits>","Name":"2026-11-21-02-00-00.ravendb-incremental-backup",
//!   "Follows":{"Id":"…","Name":"2026-11-20-14-38-37.ravendb-full-backup"},"LastEtag":44,"LastIndex":321}]
//! ```
//!
//! Files of RavenDB have no such element: their names alone give their order.

use std::{fmt, io::Read};

use model::Etag;
use platform::Disk;
use security::SecretKey;
use serde_json::{Value, json};
use smuggler::{BACKUP_FILE, DumpEvent, DumpReader};

use super::{
    backup_file::{SequentialFile, open_text},
    error::BackupError,
    file_names::{BackupFileName, FileKind},
    restore_points::BackupFiles,
    snapshot::{dump_of, open_snapshot},
};

/// Longer elements are refused.
const ELEMENT_BYTES_MAX: usize = 16 << 10;
/// Read at once.
const PIECE_BYTES: usize = 4 << 10;

/// Tells a file from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(pub(super) u128);

impl FileId {
    /// Reads what is printed; `None` if it is something else.
    pub(super) fn parse(text: &str) -> Option<FileId> {
        u128::from_str_radix(text, 16).ok().map(FileId)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileLink {
    /// Its id.
    pub(super) id: FileId,
    /// The name that it was given.
    pub(super) name: String,
    /// The file before it, with its name; `None` if this is a file of everything.
    pub(super) follows: Option<(FileId, String)>,
    /// It has the change log up to here; a snapshot has more.
    pub(super) last_etag: Etag,
    /// It has the changes of compare exchange up to here.
    pub(super) last_index: u64,
}

impl FileLink {
    /// The element of the dump.
    pub(super) fn to_json(&self) -> Value {
        let follows = self.follows.as_ref();
        json!({
            "Id": self.id.to_string(), "Name": self.name,
            "Follows": follows.map(|(id, name)| json!({"Id": id.to_string(), "Name": name})),
            "LastEtag": self.last_etag.0, "LastIndex": self.last_index
        })
    }

    fn of_json(json: &Value) -> Option<FileLink> {
        let id = |of: &Value| of["Id"].as_str().and_then(FileId::parse);
        let name = |of: &Value| of["Name"].as_str().map(str::to_owned);
        let before = &json["Follows"];
        Some(FileLink {
            id: id(json)?,
            name: name(json)?,
            follows: if before.is_null() { None } else { Some((id(before)?, name(before)?)) },
            last_etag: Etag(json["LastEtag"].as_u64()?),
            last_index: json["LastIndex"].as_u64()?,
        })
    }

    /// Reads the beginning of a dump as far as what the file says of itself; `None` if it does not. `file` is its name.
    fn read(text: &mut dyn Read, file: &str) -> Result<Option<FileLink>, BackupError> {
        let mut reader = DumpReader::new(ELEMENT_BYTES_MAX);
        let mut buffer = [0; PIECE_BYTES];
        let mut is_link = false;
        loop {
            let bytes = text.read(&mut buffer);
            let bytes = bytes.map_err(|error| BackupError::io(file, "read", error))?;
            let mut piece = &buffer[..bytes];
            loop {
                let event = reader.next(&mut piece);
                let damaged = |source| BackupError::Damaged { file: file.to_owned(), source };
                match event.map_err(damaged)? {
                    DumpEvent::NeedMore => break,
                    DumpEvent::Name("BuildVersion") => {}
                    DumpEvent::Name(name) if name == BACKUP_FILE => is_link = true,
                    DumpEvent::Element { text, .. } if is_link => {
                        let json = serde_json::from_slice(text).ok();
                        let link = json.as_ref().and_then(FileLink::of_json);
                        let detail = format!("'{BACKUP_FILE}' cannot be read");
                        let inconsistent =
                            BackupError::Inconsistent { file: file.to_owned(), detail };
                        return link.map(Some).ok_or(inconsistent);
                    }
                    DumpEvent::Value(_) => {}
                    _ => return Ok(None),
                }
            }
            if bytes == 0 {
                return Ok(None);
            }
        }
    }
}

/// Checks that each file of a backup follows the one before it. Those of RavenDB do not say so, and are taken for
/// what their names are.
///
/// # Errors
/// A file is missing, or belongs to another backup; the beginning of one cannot be read.
pub(super) fn check_chain(
    disk: &dyn Disk,
    backup: &BackupFiles,
    key: Option<&SecretKey>,
) -> Result<(), BackupError> {
    let mut before: Option<Option<FileLink>> = None;
    for file in &backup.files {
        let link = link_of(disk, backup, file, key)?;
        match before {
            Some(before) => check_link(backup, file, link.as_ref(), before.as_ref())?,
            None if link.as_ref().is_none_or(|link| link.follows.is_none()) => {}
            None => check_link(backup, file, link.as_ref(), None)?,
        }
        before = Some(link);
    }
    Ok(())
}

fn link_of(
    disk: &dyn Disk,
    backup: &BackupFiles,
    file: &BackupFileName,
    key: Option<&SecretKey>,
) -> Result<Option<FileLink>, BackupError> {
    let name = file.to_string();
    let path = backup.folder.join(&name);
    let failed = |error| BackupError::io(&path, "read", error);
    let opened = SequentialFile::open(disk, &path).map_err(failed)?;
    let key = key.filter(|_| file.is_encrypted).map(|key| &*key.0);
    if file.kind == FileKind::Snapshot {
        let mut snapshot = open_snapshot(opened, key).map_err(failed)?;
        let mut dump = dump_of(&mut snapshot).map_err(failed)?;
        return FileLink::read(&mut dump, &name);
    }
    let mut text = open_text(opened, key).map_err(failed)?;
    FileLink::read(&mut *text, &name)
}

fn check_link(
    backup: &BackupFiles,
    file: &BackupFileName,
    link: Option<&FileLink>,
    before: Option<&FileLink>,
) -> Result<(), BackupError> {
    let folder = backup.folder.display();
    let message = match (link.map(|link| link.follows.as_ref()), before) {
        (None, None) => return Ok(()),
        (Some(Some((id, _))), Some(before)) if before.id == *id => return Ok(()),
        (Some(Some((_, follows))), _) => format!(
            "The backup '{file}' has only what changed since '{follows}', and that file is missing in {folder}, or is \
             not the one before it."
        ),
        (Some(None), _) => format!(
            "'{file}' in {folder} has the name of an incremental backup, and is a full one: it was renamed."
        ),
        (None, Some(before)) => format!(
            "The backup '{file}' in {folder} does not say which file it follows: it does not belong to '{}'.",
            before.name
        ),
    };
    Err(BackupError::NothingToRestore { message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<FileLink>, BackupError> {
        FileLink::read(&mut text.as_bytes(), "x")
    }

    #[test]
    fn a_file_says_which_it_is_and_which_it_follows() {
        let follows = Some((FileId(7), "a".to_owned()));
        for follows in [None, follows] {
            let (last_etag, last_index) = (Etag(u64::MAX), 5);
            let link = FileLink {
                id: FileId(1 << 127),
                name: "b".to_owned(),
                follows,
                last_etag,
                last_index,
            };
            let dump = format!(
                "{{\"BuildVersion\":1,\"{BACKUP_FILE}\":[{}],\"Docs\":[{{}}]}}",
                link.to_json()
            );
            assert_eq!(read(&dump).unwrap(), Some(link));
        }
    }

    #[test]
    fn other_files_say_nothing_and_damage_is_reported() {
        for dump in ["{}", "", "{\"BuildVersion\":1,\"Docs\":[{\"a\":1}]}", "{\"BuildVersion\":1"] {
            assert_eq!(read(dump).unwrap(), None, "{dump}");
        }
        for element in ["{}", "{\"Id\":\"x\",\"Name\":\"n\",\"LastEtag\":1,\"LastIndex\":1}", "5"] {
            let error = read(&format!("{{\"{BACKUP_FILE}\":[{element}]}}")).unwrap_err();
            assert!(error.to_string().contains(BACKUP_FILE), "{error}");
        }
        assert!(read("[").is_err());
    }
}
