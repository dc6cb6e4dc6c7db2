//! Golden data directories: what a server of some format version left behind, kept as text.
//!
//! Each is the whole data directory of a real server, and what its database must be found to hold,
//! recorded by the client that wrote to that server and not read back from it. Old ones are never
//! rewritten: their purpose is to test that a new build opens what an old build wrote. See
//! `docs/internals/golden.md`.
//!
//! ```text
//! about <a line for a person>
//! database <directory of the database>
//! last-etag <etag>
//! put <tab> <etag> <tab> <id> <tab> <body>            ascending etags, each document at its last change
//! delete <tab> <etag> <tab> <id>
//! collection <tab> <name> <tab> <documents> <tab> <tombstones>
//! identity <tab> <name> <tab> <value>                  kept with the documents
//! cluster-identity <tab> <name> <tab> <value>          kept in the state of the cluster
//! directory <path>
//! file <bytes> <path>
//! <the file as an LZ4 block, in hexadecimal lines>
//! ```

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use platform::{Access, Disk, Platform};
use storage::{Environment, EnvironmentOptions};

use crate::{
    Fault,
    database::{Content, content_of},
};

/// The golden data directories of all versions, by name.
pub const GOLDENS: [(&str, &str); 10] = [
    ("format-1-closed", include_str!("../golden/format-1-closed.txt")),
    ("format-1-killed", include_str!("../golden/format-1-killed.txt")),
    ("format-2-closed", include_str!("../golden/format-2-closed.txt")),
    ("format-2-killed", include_str!("../golden/format-2-killed.txt")),
    ("format-3-closed", include_str!("../golden/format-3-closed.txt")),
    ("format-3-killed", include_str!("../golden/format-3-killed.txt")),
    ("format-4-closed", include_str!("../golden/format-4-closed.txt")),
    ("format-4-killed", include_str!("../golden/format-4-killed.txt")),
    ("format-5-closed", include_str!("../golden/format-5-closed.txt")),
    ("format-5-killed", include_str!("../golden/format-5-killed.txt")),
];

/// Where a copy is opened.
const ROOT: &str = "/golden";
const LINE_BYTES: usize = 60;
const FILE_BYTES_MAX: usize = 64 << 20;

/// A data directory and what it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Golden {
    /// Where it comes from, in a line.
    pub about: String,
    /// The directory of its database, inside the data directory.
    pub database: PathBuf,
    /// What the database holds.
    pub content: Content,
    /// Its identities that are kept in the state of the cluster.
    pub cluster_identities: Vec<(String, i64)>,
    /// The directories inside the data directory, parents first.
    pub directories: Vec<PathBuf>,
    /// The files by their paths inside the data directory.
    pub files: Vec<(PathBuf, Vec<u8>)>,
}

impl Golden {
    /// The text that is kept.
    pub fn to_text(&self) -> String {
        let mut text = format!("about {}\ndatabase {}\n", self.about, self.database.display());
        let content = &self.content;
        let mut line = |arguments: std::fmt::Arguments<'_>| {
            writeln!(text, "{arguments}").expect("a string takes everything");
        };
        line(format_args!("last-etag {}", content.last_etag));
        for (etag, id, body) in &content.log {
            match body {
                Some(body) => line(format_args!("put\t{etag}\t{id}\t{body}")),
                None => line(format_args!("delete\t{etag}\t{id}")),
            }
        }
        for (name, documents, tombstones) in &content.collections {
            line(format_args!("collection\t{name}\t{documents}\t{tombstones}"));
        }
        for (name, value) in &content.identities {
            line(format_args!("identity\t{name}\t{value}"));
        }
        for (name, value) in &self.cluster_identities {
            line(format_args!("cluster-identity\t{name}\t{value}"));
        }
        for path in &self.directories {
            line(format_args!("directory {}", path.display()));
        }
        for (path, bytes) in &self.files {
            line(format_args!("file {} {}", bytes.len(), path.display()));
            for part in lz4_flex::block::compress(bytes).chunks(LINE_BYTES) {
                let hex: Vec<String> = part.iter().map(|byte| format!("{byte:02x}")).collect();
                line(format_args!("{}", hex.concat()));
            }
        }
        text
    }

    /// Reads what [`Golden::to_text`] wrote.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let mut golden = Self::default();
        let mut packed: Vec<(PathBuf, usize, Vec<u8>)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            golden.parse_line(line, &mut packed).ok_or_else(|| {
                Fault::wrong(format!("line {number} of a golden data directory is not understood"))
            })?;
        }
        for (path, bytes, block) in packed {
            let unpacked = lz4_flex::block::decompress(&block, bytes);
            let unpacked = unpacked.ok().filter(|unpacked| unpacked.len() == bytes);
            let unpacked = unpacked
                .ok_or_else(|| Fault::wrong(format!("{} has not {bytes} bytes", path.display())))?;
            golden.files.push((path, unpacked));
        }
        Ok(golden)
    }

    fn parse_line(
        &mut self,
        line: &str,
        packed: &mut Vec<(PathBuf, usize, Vec<u8>)>,
    ) -> Option<()> {
        let columns: Vec<&str> = line.split('\t').collect();
        match columns.as_slice() {
            ["put", etag, id, body] => {
                let body = Some((*body).into());
                self.content.log.push((etag.parse().ok()?, (*id).to_owned(), body));
            }
            ["delete", etag, id] => {
                self.content.log.push((etag.parse().ok()?, (*id).to_owned(), None));
            }
            ["collection", name, documents, tombstones] => {
                let counts = (documents.parse().ok()?, tombstones.parse().ok()?);
                self.content.collections.push(((*name).to_owned(), counts.0, counts.1));
            }
            ["identity", name, value] => {
                self.content.identities.push(((*name).to_owned(), value.parse().ok()?));
            }
            ["cluster-identity", name, value] => {
                self.cluster_identities.push(((*name).to_owned(), value.parse().ok()?));
            }
            [line] => match line.split_once(' ') {
                Some(("about", about)) => about.clone_into(&mut self.about),
                Some(("database", path)) => self.database = path.into(),
                Some(("last-etag", etag)) => self.content.last_etag = etag.parse().ok()?,
                Some(("directory", path)) => self.directories.push(path.into()),
                Some(("file", file)) => {
                    let (bytes, path) = file.split_once(' ')?;
                    let bytes = bytes.parse().ok().filter(|bytes| *bytes <= FILE_BYTES_MAX)?;
                    packed.push((path.into(), bytes, Vec::new()));
                }
                Some(_) => return None,
                None => packed.last_mut()?.2.extend(from_hex(line)?),
            },
            _ => return None,
        }
        Some(())
    }

    /// Writes directories and files below `directory`.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn materialize(&self, disk: &dyn Disk, directory: &Path) -> std::io::Result<()> {
        for path in &self.directories {
            disk.create_dir_all(&directory.join(path))?;
        }
        for (path, bytes) in &self.files {
            disk.create(&directory.join(path), Access::Buffered)?.write_all_at(bytes, 0)?;
        }
        Ok(())
    }

    /// Opens a copy, reads everything and compares it.
    ///
    /// # Errors
    /// As [`Golden::compare`]; or it does not open.
    pub fn verify(&self) -> Result<(), Fault> {
        let platform = Platform::memory();
        let failed = |error: std::io::Error| Fault::wrong(error.to_string());
        self.materialize(&*platform.disk, ROOT.as_ref()).map_err(failed)?;
        self.compare(&Environment::open(&platform, self.options(ROOT.as_ref()))?)
    }

    /// How its database is opened when the files are below `directory`.
    pub fn options(&self, directory: &Path) -> EnvironmentOptions {
        EnvironmentOptions::new(directory.join(&self.database))
    }

    /// Reads everything of the database and compares it.
    ///
    /// # Errors
    /// What is wrong with it, or where it differs.
    pub fn compare(&self, environment: &Arc<Environment>) -> Result<(), Fault> {
        let found = content_of(&environment.read())?;
        if found == self.content {
            return Ok(());
        }
        Err(Fault::wrong(found.difference(&self.content)))
    }
}

fn from_hex(line: &str) -> Option<Vec<u8>> {
    if !line.is_ascii() || !line.len().is_multiple_of(2) {
        return None;
    }
    (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{batch, delete, execute, json, put};

    fn goldens() -> Vec<(&'static str, Golden)> {
        let parsed = GOLDENS.map(|(name, text)| (name, Golden::parse(text).expect("is read")));
        parsed.into()
    }

    #[test]
    fn texts_read_back_as_they_were_written() {
        for ((name, text), (_, golden)) in GOLDENS.iter().zip(goldens()) {
            assert_eq!(golden.to_text(), *text, "{name}");
            assert!(!golden.content.log.is_empty() && golden.files.len() >= 2, "{name}");
        }
        for broken in ["put\tx\ta\t{}", "file 9 a\nzz", "file 9 a\n1", "nothing", "00"] {
            assert!(Golden::parse(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn every_document_tombstone_and_counter_is_there_and_writing_continues() {
        for (name, mut golden) in goldens() {
            let platform = Platform::simulated(1).platform;
            golden.materialize(&*platform.disk, ROOT.as_ref()).expect("is written");
            let environment =
                Environment::open(&platform, golden.options(ROOT.as_ref())).expect(name);
            golden.compare(&environment).expect(name);

            let body = json("Later", "written by this build");
            let deleted = golden.content.log.iter().position(|(_, _, body)| body.is_some());
            let (_, id, gone) = golden.content.log.remove(deleted.expect("has a document"));
            let mut tx = environment.write().expect(name);
            let changes = batch([put("later", &body), delete(&id, None)]);
            execute(&mut tx, &platform, &changes).expect(name);
            tx.commit().expect(name);
            change(&mut golden.content, &id, gone.as_deref(), &body);
            golden.compare(&environment).expect(name);
            environment.close().expect(name);
            drop(environment);

            let environment =
                Environment::open(&platform, golden.options(ROOT.as_ref())).expect(name);
            golden.compare(&environment).expect(name);
        }
    }

    /// The effect of the batch above on the content.
    fn change(content: &mut Content, deleted: &str, body_before: Option<&str>, body: &str) {
        let collection = body_before.and_then(|body| body.split(r#""@collection":""#).nth(1));
        let collection = collection.and_then(|rest| rest.split('"').next()).unwrap_or("@empty");
        let last = content.last_etag;
        content.log.push((last + 1, "later".to_owned(), Some(body.into())));
        content.log.push((last + 2, deleted.to_owned(), None));
        content.last_etag = last + 2;
        for (name, documents, tombstones) in &mut content.collections {
            if name == collection {
                (*documents, *tombstones) = (*documents - 1, *tombstones + 1);
            }
        }
        content.collections.push(("Later".to_owned(), 1, 0));
    }

    #[test]
    fn a_killed_one_has_a_journal_that_matters_and_a_closed_one_has_not() {
        for (name, golden) in goldens() {
            let platform = Platform::simulated(1).platform;
            golden.materialize(&*platform.disk, ROOT.as_ref()).expect("is written");
            let disk = &platform.disk;
            let journals = Path::new(ROOT).join(&golden.database).join("journals");
            for file in disk.list(&journals).expect(name) {
                disk.remove_file(&journals.join(file)).expect(name);
            }
            let environment = Environment::open(&platform, golden.options(ROOT.as_ref()));
            let is_whole = environment.is_ok_and(|opened| golden.compare(&opened).is_ok());
            assert_eq!(is_whole, name.ends_with("closed"), "{name}");
        }
    }
}
