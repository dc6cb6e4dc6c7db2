//! Files with the pages of a database, and what else belongs to it.
//!
//! A snapshot has the environment of the documents as an image ([`storage::ImagePages`]), and a dump of what all nodes
//! agree on: record, definitions of indexes, identities, compare exchange, subscriptions. The dump is read before the
//! pages, so what is changed in between is backed up twice by an incremental backup, and not never.
//!
//! Pages are not encrypted there, but the file is. A restore puts them into a data file, under the key of the new
//! database if that has one. Indexes are not in it: they are built anew.

use std::{
    io::{self, ErrorKind, Read},
    mem,
    path::Path,
};

use commands::{Batch, Command};
use database::DatabaseLease;
use documents::{
    DatabaseIdentity, DocumentError, OutputChange, is_output,
    log::{self, EntryKind, LogEntry, Selection},
    renew_identity,
};
use model::{DatabaseId, DocumentId, Etag};
use smuggler::{DUMP_KEY_BYTES, PartReader, SnapshotPart, SnapshotReader, SnapshotWriter};
use storage::{
    Environment, EnvironmentOptions, History, ImageEnd, ImagePages, ImageReader, ImageRestore,
    ImageStep, ReadTransaction,
};
use wire::{SmugglerOptions, SmugglerType, smuggler_result::MessageLevel};

use super::{
    backup_file::{SealedFile, open_plain},
    error::BackupError,
    file_names::{BackupFileName, FileKind},
    writer::{BackupWriter, PIECE_BYTES},
};
use crate::{
    engine::Engine,
    error::EngineError,
    smuggler::{DumpExport, ExportSources, SmugglerProgress, VerifiedDump, verify_dump},
};

/// Passes over all pages: the last one is made with one snapshot, whatever is written meanwhile.
const PASSES_MAX: u32 = 6;
/// A pass that is to be the last goes over to newer snapshots when this part of what may be in memory is: an eighth of it
/// for each.
const MEMORY_EIGHTHS: u64 = 4;
/// Read from a part at once.
const READ_BYTES: usize = 256 << 10;
/// Documents that are looked at, and deleted, at once.
const OUTPUTS_AT_ONCE: usize = 500;
const LOOKED_AT_ONCE: usize = 10_000;

/// The pages in the list of what was verified.
const PAGES: &str = "Pages";

/// Whether a file is a snapshot, by its name.
pub(super) fn is_snapshot(name: &str) -> bool {
    let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
    BackupFileName::parse(&name).is_some_and(|name| name.kind == FileKind::Snapshot)
}

/// A file that is a snapshot, decrypted with a key if there is one.
///
/// # Errors
/// It is none; those of reading; the key is not that of the file.
pub(super) fn open_snapshot<'f>(
    file: impl Read + 'f,
    key: Option<&[u8; DUMP_KEY_BYTES]>,
) -> io::Result<SnapshotReader<Box<dyn Read + 'f>>> {
    SnapshotReader::open(open_plain(file, key)?)
}

/// The dump in a snapshot, which is its first part.
///
/// # Errors
/// It is missing; those of reading.
pub(super) fn dump_of<R: Read>(snapshot: &mut SnapshotReader<R>) -> io::Result<PartReader<'_, R>> {
    match snapshot.next_part()? {
        Some(SnapshotPart::Dump) => snapshot.part(),
        _ => Err(io::Error::new(ErrorKind::InvalidData, "it does not begin with a dump")),
    }
}

fn image_end([transaction, next_page, copies]: smuggler::SnapshotEnd) -> ImageEnd {
    ImageEnd { transaction, next_page, copies }
}

impl BackupWriter<'_> {
    /// Writes a snapshot into its folder, and verifies it; returns the state that it has.
    pub(super) fn write_snapshot(
        &self,
        sources: &ExportSources,
        folder: &Path,
        name: &str,
        progress: &mut SmugglerProgress,
    ) -> Result<ReadTransaction, EngineError> {
        let _claimed = self.claim_file(folder, name)?;
        let mut file = self.begin_file(folder, name)?;
        let mut out = Vec::new();
        let mut writer = SnapshotWriter::begin(&mut out);
        let elements = self.write_dump(sources, &mut writer, &mut file, &mut out, progress)?;
        let failed = |error| BackupError::io(folder, "compress the backup in", error);
        writer.begin_part(SnapshotPart::Pages, &mut out).map_err(failed)?;
        let mut pages = ImagePages::default();
        let read = self.write_pages(&mut pages, progress, &mut |piece| {
            writer.write(piece, &mut out).map_err(failed)?;
            file.write(&out)?;
            out.clear();
            Ok(())
        })?;
        let end = pages.end(&read);
        writer.end_part(&mut out).map_err(failed)?;
        writer.end([end.transaction, end.next_page, end.copies], &mut out);
        file.write(&out)?;
        let file = file.end()?;
        let bytes = file.bytes();
        file.complete(|file| self.verify(file, name, elements + end.copies))?;
        let text = format!(
            "Wrote and verified '{name}': {bytes} bytes with {} pages and {elements} other elements.",
            end.copies
        );
        progress.report(MessageLevel::Info, &text);
        Ok(read)
    }

    /// Writes the part with the dump; returns how many elements it has.
    fn write_dump(
        &self,
        sources: &ExportSources,
        writer: &mut SnapshotWriter,
        file: &mut SealedFile<'_>,
        out: &mut Vec<u8>,
        progress: &mut SmugglerProgress,
    ) -> Result<u64, EngineError> {
        let failed = |error| BackupError::io(self.folder, "compress the backup in", error);
        writer.begin_part(SnapshotPart::Dump, out).map_err(failed)?;
        let (options, mut text) = (options_of_dump(), Vec::new());
        let tx = self.database.read();
        let mut export = DumpExport::begin(self.engine, tx, sources, &options, &[], &mut text)?;
        loop {
            let has_more = export.step(progress, &mut text)?;
            if PIECE_BYTES <= text.len() || !has_more {
                self.check_wanted()?;
                writer.write(&text, out).map_err(failed)?;
                text.clear();
                file.write(out)?;
                out.clear();
            }
            if !has_more {
                writer.end_part(out).map_err(failed)?;
                return Ok(export.elements());
            }
        }
    }

    /// Copies all pages, in as many passes as it takes to have those of one snapshot, which is returned.
    fn write_pages(
        &self,
        pages: &mut ImagePages,
        progress: &mut SmugglerProgress,
        write: &mut dyn FnMut(&[u8]) -> Result<(), EngineError>,
    ) -> Result<ReadTransaction, EngineError> {
        let mut piece = Vec::new();
        for pass in 1..=PASSES_MAX {
            progress.report(MessageLevel::Info, &format!("Copying pages, pass {pass}."));
            let mut read = self.database.read();
            let mut renews = pass == 1;
            loop {
                self.check_wanted()?;
                let step = pages.step(&read, &mut piece)?;
                write(&piece)?;
                piece.clear();
                match step {
                    ImageStep::PassEnd { is_whole: true } => return Ok(read),
                    ImageStep::PassEnd { is_whole: false } => break,
                    ImageStep::Within => {}
                    ImageStep::SectionEnd => {
                        renews |= pass < PASSES_MAX && self.is_memory_short();
                        if renews {
                            // The old one is released first.
                            drop(mem::replace(&mut read, self.database.read()));
                        }
                    }
                }
            }
        }
        // The last pass does not renew, so it is whole.
        Err(EngineError::Stopped)
    }

    /// Whether much waits in memory for snapshots to be released.
    fn is_memory_short(&self) -> bool {
        let environment = self.database.environment();
        let bytes_max = environment.options().unflushed_bytes_max;
        bytes_max / 8 * MEMORY_EIGHTHS < environment.statistics().unflushed_bytes
    }
}

/// What is not in the pages.
fn options_of_dump() -> SmugglerOptions {
    let mut options = SmugglerOptions::default();
    options.types.retain(|kind| {
        matches!(
            kind,
            SmugglerType::DatabaseRecord
                | SmugglerType::Indexes
                | SmugglerType::Identities
                | SmugglerType::CompareExchange
                | SmugglerType::Subscriptions
        )
    });
    options
}

/// Reads a snapshot through.
///
/// # Errors
/// As [`super::verify_backup`].
pub(super) fn verify_snapshot(
    plain: Box<dyn Read + '_>,
    name: &str,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<VerifiedDump, BackupError> {
    let failed = |error| BackupError::io(name, "read", error);
    let mut snapshot = SnapshotReader::open(plain).map_err(failed)?;
    let mut found = verify_dump(&mut dump_of(&mut snapshot).map_err(failed)?, name, goes_on)?;
    let mut pages = ImageReader::default();
    let end = read_pages(&mut snapshot, name, &mut |piece| {
        found.text_bytes += piece.len() as u64;
        if !goes_on(found.text_bytes) {
            return Err(BackupError::io(name, "verify", ErrorKind::Interrupted.into()));
        }
        pages.take(piece, &mut |_, _| Ok(())).map_err(|error| inconsistent(name, &error))
    })?;
    pages.end(&end).map_err(|error| inconsistent(name, &error))?;
    found.sections.push((PAGES.to_owned(), end.copies));
    Ok(found)
}

/// Reads the part behind the dump, with the pages, and the end of the file, where that is checked.
fn read_pages<E: From<BackupError>>(
    snapshot: &mut SnapshotReader<Box<dyn Read + '_>>,
    name: &str,
    take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<ImageEnd, E> {
    let failed = |error| BackupError::io(name, "read", error);
    if snapshot.next_part().map_err(failed)? != Some(SnapshotPart::Pages) {
        return Err(inconsistent(name, &"it has no pages").into());
    }
    let mut part = snapshot.part().map_err(failed)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let bytes = part.read(&mut buffer).map_err(failed)?;
        if bytes == 0 {
            break;
        }
        take(&buffer[..bytes])?;
    }
    drop(part);
    match (snapshot.next_part().map_err(failed)?, snapshot.end()) {
        (None, Some(end)) => Ok(image_end(end)),
        _ => Err(inconsistent(name, &"it has more parts than it should have").into()),
    }
}

fn inconsistent(name: &str, error: &dyn std::fmt::Display) -> BackupError {
    BackupError::Inconsistent { file: name.to_owned(), detail: error.to_string() }
}

impl Engine {
    /// Makes the environment of a database of the pages in a snapshot. `goes_on` fails when the restore is to stop.
    pub(super) fn unpack_snapshot(
        &self,
        database: &str,
        plain: Box<dyn Read + '_>,
        name: &str,
        goes_on: &dyn Fn() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let missing = || EngineError::DatabaseMissing { name: database.to_owned() };
        let record = self.catalog.record(database).ok_or_else(missing)?;
        let options = self.files.opening_options_of(&record)?;
        let failed = |error| BackupError::io(name, "read", error);
        let mut snapshot = SnapshotReader::open(plain).map_err(failed)?;
        let mut dump = dump_of(&mut snapshot).map_err(failed)?;
        io::copy(&mut dump, &mut io::sink()).map_err(failed)?;
        drop(dump);
        let platform = options.platform;
        let mut restore = ImageRestore::begin(&platform, options.environment.clone())?;
        let end = read_pages(&mut snapshot, name, &mut |piece| {
            goes_on()?;
            Ok::<_, EngineError>(restore.take(piece)?)
        })?;
        restore.complete(&end)?;
        let history = History::NotKept;
        let options = EnvironmentOptions { history, ..options.environment };
        let environment = Environment::open(&platform, options)?;
        let mut id = [0; 16];
        self.platform.entropy.fill(&mut id);
        let identity = DatabaseIdentity { database_id: DatabaseId(id), node_tag: self.node_tag() };
        let mut tx = environment.write()?;
        renew_identity(&mut tx, identity)?;
        tx.commit()?;
        Ok(environment.close()?)
    }

    /// Deletes the documents that indexes have written: those that are built anew write them again, and nobody would
    /// remove those that they do not.
    pub(super) fn delete_outputs(
        &self,
        database: &DatabaseLease,
        goes_on: &dyn Fn() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let last = documents::progress(&database.read())?.last_etag;
        let mut after = Etag::ZERO;
        while after < last {
            goes_on()?;
            let tx = database.read();
            let selection = Selection::all(EntryKind::Document).up_to(last);
            let (mut looked_at, mut found) = (0, Vec::new());
            let mut reached = last;
            for entry in log::read(&tx, &[selection], after)? {
                let entry = entry?;
                reached = entry.etag();
                looked_at += 1;
                if let LogEntry::Document(document) = entry
                    && is_output(&document)
                {
                    found.push(DocumentId::new(document.id()).map_err(DocumentError::from)?);
                }
                if LOOKED_AT_ONCE <= looked_at || OUTPUTS_AT_ONCE <= found.len() {
                    break;
                }
            }
            if looked_at < LOOKED_AT_ONCE && found.len() < OUTPUTS_AT_ONCE {
                reached = last;
            }
            drop(tx);
            if !found.is_empty() {
                let delete = |id| Command::Output(OutputChange::Delete { id });
                let commands = found.into_iter().map(delete).collect();
                self.execute(database, Batch { commands })?;
            }
            after = reached;
        }
        Ok(())
    }
}
