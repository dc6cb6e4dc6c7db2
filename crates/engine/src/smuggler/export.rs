//! The sections of a dump, in their order, from one snapshot.
//!
//! [`DumpExport::step`] appends a portion of about [`PORTION_BYTES`]. The caller takes what was appended whenever it
//! likes, and may wait between two steps. Nothing of the snapshot is borrowed in between, so the transaction can be
//! renewed: what an export decrypts does not stay in memory until its end.

use std::sync::Arc;

use blittable::{Builder, ParseLimits};
use cluster_state::{ClusterState, DatabaseValues};
use documents::{
    DocumentError, DocumentRow, RevisionRow,
    log::{self, EntryKind, EntryKinds, LogEntry, LogReader, Selection},
    write_document_json, write_revision_json,
};
use model::{CollectionName, DatabaseRecord, DocumentFlags, DocumentId, Etag, date};
use serde_json::Value;
use smuggler::{BACKUP_FILE, DumpWriter, Section};
use storage::ReadTransaction;
use wire::{
    SmugglerOptions, SmugglerType,
    smuggler_result::{MessageLevel, SmugglerPart},
};

use super::{
    exported_contents::Contents,
    exported_items, exported_record, exported_series,
    progress::SmugglerProgress,
    transform::{Transform, Transformed},
};
use crate::{engine::Engine, error::EngineError};

/// What an export reads besides the documents.
pub struct ExportSources {
    /// The build that the dump says it is of.
    pub build_version: u64,
    /// The record of the database.
    pub record: Arc<DatabaseRecord>,
    /// The state that all nodes agree on.
    pub agreed: ClusterState,
    /// What the dump says of itself as a file of a backup, as a JSON object; `None` if it is none.
    pub backup_file: Option<Value>,
    /// What was written before; `None` to write everything.
    pub since: Option<ExportSince>,
    /// The current time, in ticks of UTC: documents that expire until then are expired.
    pub now_ticks: i64,
}

/// What an earlier export has: only what changed after it is written, and the definitions, which are short.
pub struct ExportSince {
    /// It has the change log up to here.
    pub etag: Etag,
    /// It has the changes of compare exchange values up to this index.
    pub values_index: u64,
    /// The values now.
    pub values: DatabaseValues,
}

/// An export that is running.
pub struct DumpExport<'o> {
    tx: ReadTransaction,
    /// What was read in the transaction, in elements and chunks of contents.
    steps_of_tx: u32,
    sources: &'o ExportSources,
    options: &'o SmugglerOptions,
    collections: &'o [CollectionName],
    writer: DumpWriter,
    stage: PausedStage,
    transform: Option<(Transform, Builder)>,
    sections: std::slice::Iter<'static, (Section, SmugglerType)>,
}

/// Where it is between two portions.
enum PausedStage {
    /// Between two sections.
    Between,
    /// In a section that is read from the change log.
    Log(PausedLog),
    /// In the section of compare exchange values, behind this key.
    CompareExchange { after: Option<String> },
}

/// A section that is read from the change log, between two portions.
struct PausedLog {
    section: Section,
    kinds: EntryKinds,
    /// The last entry that was read.
    last: Etag,
    contents: Contents,
    pending: Pending,
}

/// What is to be written of the last entry.
enum Pending {
    Nothing,
    /// The entry itself, when its contents are.
    Entry,
    /// A document that a script has changed, as JSON, when its contents are.
    Transformed(Vec<u8>),
}

/// A portion that is being written.
struct Portion<'t, 'o> {
    tx: &'t ReadTransaction,
    export: &'t mut DumpExport<'o>,
    stage: Stage<'t>,
}

/// Where it is.
enum Stage<'t> {
    Between,
    Log(Box<LogStage<'t>>),
    CompareExchange { after: Option<String> },
}

/// A section that is read from the change log.
struct LogStage<'t> {
    section: Section,
    kinds: EntryKinds,
    /// The last entry that was read.
    last: Etag,
    reader: LogReader<'t, ReadTransaction>,
    contents: Contents,
    /// Written when its contents are.
    next: Option<Version<'t>>,
}

/// A document or a revision.
enum Version<'t> {
    Document(DocumentRow<'t>),
    /// A document that a script has changed, as JSON.
    Transformed(Vec<u8>),
    Revision(RevisionRow<'t>),
}

/// The sections in their order, and the kind of data that each belongs to.
const SECTIONS: &[(Section, SmugglerType)] = &[
    (Section::DatabaseRecord, SmugglerType::DatabaseRecord),
    (Section::Documents, SmugglerType::Documents),
    (Section::Revisions, SmugglerType::RevisionDocuments),
    (Section::Tombstones, SmugglerType::Tombstones),
    (Section::Conflicts, SmugglerType::Conflicts),
    (Section::Indexes, SmugglerType::Indexes),
    (Section::Identities, SmugglerType::Identities),
    (Section::CompareExchange, SmugglerType::CompareExchange),
    (Section::CompareExchangeTombstones, SmugglerType::CompareExchangeTombstones),
    (Section::CounterGroups, SmugglerType::CounterGroups),
    (Section::Subscriptions, SmugglerType::Subscriptions),
    (Section::TimeSeriesDeletedRanges, SmugglerType::TimeSeriesDeletedRanges),
    (Section::TimeSeries, SmugglerType::TimeSeries),
    (Section::ReplicationHubCertificates, SmugglerType::ReplicationHubCertificates),
];

/// The limits of documents that are parsed.
pub(super) fn limits_of(engine: &Engine) -> ParseLimits {
    let documents = &engine.settings().documents;
    ParseLimits {
        depth_max: documents.nesting_depth_max as usize,
        document_bytes_max: usize::try_from(documents.document_bytes_max).unwrap_or(usize::MAX),
        ..ParseLimits::default()
    }
}

/// Why automatic indexes are not exported or imported.
pub(super) const CREATED_BY_QUERIES: &str = "the queries that need them create them.";

/// Compare exchange values that are written at once.
const VALUES_A_STEP: usize = 64;
/// The text of a portion has about this many bytes.
const PORTION_BYTES: usize = 64 << 10;
/// A transaction is renewed after so many elements and chunks of contents, of which each reads a few pages.
const STEPS_A_TRANSACTION: u32 = 128;

impl<'o> DumpExport<'o> {
    /// Begins an export of the collections, or of all if there are none.
    ///
    /// # Errors
    /// The script in the options is not JavaScript.
    pub fn begin(
        engine: &Engine,
        tx: ReadTransaction,
        sources: &'o ExportSources,
        options: &'o SmugglerOptions,
        collections: &'o [CollectionName],
        out: &mut Vec<u8>,
    ) -> Result<DumpExport<'o>, EngineError> {
        let transform = Transform::of(engine, options)?;
        let transform = transform.map(|script| (script, Builder::new(limits_of(engine))));
        let mut writer = DumpWriter::begin(sources.build_version, out);
        if let Some(file) = &sources.backup_file {
            writer.value(BACKUP_FILE, out);
            out.extend_from_slice(format!("[{file}]").as_bytes());
        }
        let (stage, sections, steps_of_tx) = (PausedStage::Between, SECTIONS.iter(), 0);
        Ok(DumpExport {
            tx,
            steps_of_tx,
            sources,
            options,
            collections,
            writer,
            stage,
            transform,
            sections,
        })
    }

    /// Appends what comes next; `false` if the dump is complete.
    ///
    /// # Errors
    /// Stored data that cannot be read. The dump must not be taken for complete then.
    pub fn step(
        &mut self,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        let end = out.len() + PORTION_BYTES;
        let tx = self.tx.clone();
        let mut portion = Portion::resume(&tx, self)?;
        let has_more = loop {
            portion.export.steps_of_tx += 1;
            let has_more = portion.step(progress, out)?;
            let is_full = end <= out.len() || STEPS_A_TRANSACTION <= portion.export.steps_of_tx;
            if !has_more || is_full {
                break has_more;
            }
        };
        let stage = portion.pause();
        self.stage = stage;
        if STEPS_A_TRANSACTION <= self.steps_of_tx {
            self.tx = self.tx.renewed();
            self.steps_of_tx = 0;
        }
        Ok(has_more)
    }

    /// How many elements were written.
    pub fn elements(&self) -> u64 {
        self.writer.elements()
    }

    /// The log after an etag, as far as it belongs to the export.
    fn log<'t>(
        &self,
        tx: &'t ReadTransaction,
        kinds: EntryKinds,
        after: Etag,
    ) -> Result<LogReader<'t, ReadTransaction>, EngineError> {
        // Documents and their tombstones are in one table. Each is a step here, however many are passed over.
        let kinds = match kinds.shared_with(EntryKinds::DOCUMENTS).is_empty() {
            true => kinds,
            false => kinds | EntryKinds::DOCUMENTS,
        };
        let selection = Selection::of_collections(kinds, self.collections);
        Ok(log::read(tx, &[selection], after)?)
    }
}

impl PausedLog {
    fn resume<'t>(
        self,
        tx: &'t ReadTransaction,
        export: &DumpExport<'_>,
    ) -> Result<LogStage<'t>, EngineError> {
        let PausedLog { section, kinds, last, contents, pending } = self;
        let (reader, next) = match pending {
            Pending::Nothing => (export.log(tx, kinds, last)?, None),
            Pending::Transformed(json) => {
                (export.log(tx, kinds, last)?, Some(Version::Transformed(json)))
            }
            Pending::Entry => {
                // The snapshot is the same, and so is the entry.
                let mut reader = export.log(tx, kinds, Etag(last.0.saturating_sub(1)))?;
                let version = match reader.next().transpose()? {
                    Some(LogEntry::Document(row)) if row.etag() == last => Version::Document(row),
                    Some(LogEntry::Revision(row)) if row.etag() == last => Version::Revision(row),
                    _ => {
                        let detail = "an entry of the change log is gone from its snapshot";
                        return Err(DocumentError::Corrupt { detail }.into());
                    }
                };
                (reader, Some(version))
            }
        };
        Ok(LogStage { section, kinds, last, reader, contents, next })
    }
}

impl LogStage<'_> {
    fn pause(self) -> PausedLog {
        let LogStage { section, kinds, last, contents, next, .. } = self;
        let pending = match next {
            None => Pending::Nothing,
            Some(Version::Transformed(json)) => Pending::Transformed(json),
            Some(Version::Document(_) | Version::Revision(_)) => Pending::Entry,
        };
        PausedLog { section, kinds, last, contents, pending }
    }
}

impl<'t, 'o> Portion<'t, 'o> {
    fn resume(
        tx: &'t ReadTransaction,
        export: &'t mut DumpExport<'o>,
    ) -> Result<Portion<'t, 'o>, EngineError> {
        let stage = match std::mem::replace(&mut export.stage, PausedStage::Between) {
            PausedStage::Between => Stage::Between,
            PausedStage::Log(paused) => Stage::Log(Box::new(paused.resume(tx, export)?)),
            PausedStage::CompareExchange { after } => Stage::CompareExchange { after },
        };
        Ok(Portion { tx, export, stage })
    }

    fn pause(self) -> PausedStage {
        match self.stage {
            Stage::Between => PausedStage::Between,
            Stage::Log(stage) => PausedStage::Log(stage.pause()),
            Stage::CompareExchange { after } => PausedStage::CompareExchange { after },
        }
    }

    /// Appends about one element, or one chunk of a content; `false` if the dump is complete.
    fn step(
        &mut self,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        match &mut self.stage {
            Stage::Between => return self.next_section(progress, out),
            Stage::Log(_) => self.step_of_log(progress, out)?,
            Stage::CompareExchange { after } => {
                let after = after.take();
                self.compare_exchange(after, progress, out)?;
            }
        }
        Ok(true)
    }

    fn next_section(
        &mut self,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        let Some((section, kind)) = self.export.sections.next() else {
            out.push(b'}');
            return Ok(false);
        };
        let part = exported_items::part_of(*section);
        if !self.export.options.includes(*kind) {
            progress.counts(part).is_skipped = true;
            return Ok(true);
        }
        progress.begin(part, kind.word());
        match section {
            Section::DatabaseRecord => {
                self.export.writer.value(section.name(), out);
                let hides = self.export.sources.backup_file.is_none();
                exported_record::write(
                    &self.export.sources.record,
                    self.export.options,
                    hides,
                    out,
                );
                progress.count(part);
            }
            section => self.export.writer.begin_section(*section, out),
        }
        match section {
            Section::Documents => self.begin_log(*section, EntryKind::Document.into())?,
            Section::Revisions => self.begin_log(*section, EntryKind::Revision.into())?,
            Section::CounterGroups if self.export.sources.since.is_some() => {
                self.begin_log(*section, EntryKinds::COUNTERS)?;
            }
            Section::CounterGroups if documents::counters_count(self.tx)? != 0 => {
                self.begin_log(*section, EntryKind::Document.into())?;
            }
            Section::Tombstones => {
                let kinds =
                    EntryKinds::of(&[EntryKind::DocumentTombstone, EntryKind::AttachmentTombstone]);
                self.begin_log(*section, kinds)?;
            }
            Section::TimeSeries => self.begin_log(*section, EntryKind::Segment.into())?,
            Section::TimeSeriesDeletedRanges => {
                self.begin_log(*section, EntryKind::DeletedRange.into())?;
            }
            Section::CompareExchange if self.export.sources.since.is_none() => {
                self.stage = Stage::CompareExchange { after: None };
            }
            Section::DatabaseRecord => progress.finish(part, kind.word()),
            section => {
                self.small_section(*section, progress, out)?;
                self.end_section(*section, progress, out);
            }
        }
        Ok(true)
    }

    fn begin_log(&mut self, section: Section, kinds: EntryKinds) -> Result<(), EngineError> {
        let after = self.export.sources.since.as_ref().map_or(Etag::ZERO, |since| since.etag);
        let (contents, pending) = (Contents::default(), Pending::Nothing);
        let begun = PausedLog { section, kinds, last: after, contents, pending };
        self.stage = Stage::Log(Box::new(begun.resume(self.tx, self.export)?));
        Ok(())
    }

    fn end_section(
        &mut self,
        section: Section,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) {
        self.export.writer.end_section(out);
        self.stage = Stage::Between;
        let word = SECTIONS.iter().find(|(known, _)| *known == section);
        let word = word.map_or("", |(_, kind)| kind.word());
        progress.finish(exported_items::part_of(section), word);
    }

    /// Sections that fit into memory.
    fn small_section(
        &mut self,
        section: Section,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        let database = self.export.sources.record.topology_id;
        let agreed = &self.export.sources.agreed;
        let part = exported_items::part_of(section);
        match section {
            Section::Indexes => {
                let sections = wire::sections_of(&self.export.sources.record.configuration);
                let recorded = sections.indexes.as_ref();
                let recorded = recorded.map_err(|unreadable| EngineError::RecordDamaged {
                    detail: unreadable.message.clone(),
                })?;
                let remove = self.export.options.remove_analyzers;
                for index in recorded.indexes.values() {
                    let element = exported_record::defined_index(index, remove);
                    self.element(part, &element, progress, out);
                }
                let automatic = exported_record::automatic_indexes(&self.export.sources.record);
                if automatic != 0 {
                    let text = format!(
                        "{automatic} automatic indexes are not exported: {CREATED_BY_QUERIES}"
                    );
                    progress.report(MessageLevel::Info, &text);
                }
            }
            Section::Identities => {
                for (name, value) in agreed.identities(database)? {
                    self.export.writer.begin_element(out);
                    exported_items::write_identity(&name, value, out);
                    progress.count(part);
                }
            }
            Section::CompareExchange | Section::CompareExchangeTombstones => {
                self.changed_values(section == Section::CompareExchangeTombstones, progress, out)?;
            }
            Section::Subscriptions => {
                for record in agreed.subscriptions(database)? {
                    let element = exported_items::subscription(&record?);
                    self.element(part, &element, progress, out);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An element that was made as a whole.
    fn element(
        &mut self,
        part: SmugglerPart,
        element: &Value,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) {
        self.export.writer.begin_element(out);
        out.extend_from_slice(element.to_string().as_bytes());
        progress.count(part);
    }

    /// Compare exchange values that were put since an earlier export, or those that were deleted.
    fn changed_values(
        &mut self,
        are_deleted: bool,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        let Some(since) = &self.export.sources.since else { return Ok(()) };
        for change in since.values.changes_after(since.values_index)? {
            let change = change?;
            if change.is_deleted != are_deleted {
                continue;
            }
            let part = match are_deleted {
                true => {
                    self.export.writer.begin_element(out);
                    exported_items::write_deleted_value(&change.key, out);
                    SmugglerPart::CompareExchangeTombstones
                }
                false => {
                    let Some(entry) = since.values.get(&change.key)? else { continue };
                    self.export.writer.begin_element(out);
                    exported_items::write_compare_exchange(&entry, out)?;
                    SmugglerPart::CompareExchange
                }
            };
            progress.count(part).last_etag = change.index;
        }
        Ok(())
    }

    fn compare_exchange(
        &mut self,
        after: Option<String>,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        let database = self.export.sources.record.topology_id;
        let agreed = &self.export.sources.agreed;
        let values = agreed.compare_exchange_with_prefix(database, "", after.as_deref())?;
        let (mut last, mut count) = (None, 0);
        for entry in values.take(VALUES_A_STEP) {
            let entry = entry?;
            self.export.writer.begin_element(out);
            exported_items::write_compare_exchange(&entry, out)?;
            progress.count(SmugglerPart::CompareExchange);
            (last, count) = (Some(entry.key), count + 1);
        }
        match count == VALUES_A_STEP {
            true => self.stage = Stage::CompareExchange { after: last },
            false => self.end_section(Section::CompareExchange, progress, out),
        }
        Ok(())
    }

    fn step_of_log(
        &mut self,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        let Stage::Log(stage) = &mut self.stage else { return Ok(()) };
        if stage.contents.write_next(self.tx, &mut self.export.writer, out)? {
            return Ok(());
        }
        if let Some(version) = stage.next.take() {
            self.export.writer.begin_element(out);
            match version {
                Version::Document(row) => write_document_json(&row, out)?,
                Version::Transformed(json) => out.extend_from_slice(&json),
                Version::Revision(row) => write_revision_json(&row, out)?,
            }
            return Ok(());
        }
        let section = stage.section;
        let Some(entry) = stage.reader.next() else {
            self.end_section(section, progress, out);
            return Ok(());
        };
        let entry = entry?;
        let part = exported_items::part_of(section);
        let etag = entry.etag();
        stage.last = etag;
        if !stage.kinds.contains(entry.kind()) {
            return Ok(());
        }
        match (section, entry) {
            (Section::Documents, LogEntry::Document(row)) => {
                self.document(row, progress, out)?;
            }
            (Section::CounterGroups, LogEntry::Document(row)) => {
                if row.flags().contains(DocumentFlags::HAS_COUNTERS) {
                    self.export.writer.begin_element(out);
                    exported_items::write_counters(self.tx, &row, out)?;
                    progress.count(part).last_etag = etag.0;
                }
                return Ok(());
            }
            (Section::CounterGroups, LogEntry::Counter(row)) => {
                if exported_items::is_of_document(self.tx, row.lower_document_id())? {
                    self.export.writer.begin_element(out);
                    exported_items::write_counter(self.tx, &row, out)?;
                    progress.count(part).last_etag = etag.0;
                }
                return Ok(());
            }
            (Section::CounterGroups, LogEntry::CounterTombstone(row)) => {
                if exported_items::is_of_document(self.tx, row.lower_document_id())? {
                    self.export.writer.begin_element(out);
                    exported_items::write_deleted_counter(&row, out)?;
                    progress.count(part).last_etag = etag.0;
                }
                return Ok(());
            }
            // What was created again comes with the documents.
            (Section::Tombstones, entry) if exported_items::is_created_again(self.tx, &entry)? => {
                return Ok(());
            }
            (_, LogEntry::Revision(row)) => self.revision(row, progress, out)?,
            (_, LogEntry::Segment(row)) => {
                let exported =
                    exported_series::write_segment(self.tx, &row, &mut self.export.writer, out)?;
                progress.counts(part).read += exported.segments.saturating_sub(1);
                if exported.cut_tags != 0 {
                    let text = format!(
                        "{} tags of the time series '{}' of '{}' were cut: a dump holds 252 bytes.",
                        exported.cut_tags,
                        row.name(),
                        row.lower_document_id()
                    );
                    progress.report(MessageLevel::Warning, &text);
                }
            }
            (_, LogEntry::DeletedRange(row)) => {
                self.export.writer.begin_element(out);
                exported_series::write_deleted_range(self.tx, &row, out)?;
            }
            (_, entry) => {
                self.export.writer.begin_element(out);
                exported_items::write_other(self.tx, &entry, out)?;
            }
        }
        progress.count(part).last_etag = etag.0;
        Ok(())
    }

    fn document(
        &mut self,
        row: DocumentRow<'t>,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        if !self.is_wanted(&row)? {
            progress.counts(SmugglerPart::Documents).skipped += 1;
            return Ok(());
        }
        let transformed = match self.transform(&row, progress)? {
            Some(transformed) => transformed,
            None => return Ok(()),
        };
        let has_contents = row.flags().contains(DocumentFlags::HAS_ATTACHMENTS)
            && self.export.options.includes(SmugglerType::Attachments);
        let Stage::Log(stage) = &mut self.stage else { return Ok(()) };
        if has_contents {
            let counts = progress.counts(SmugglerPart::Documents);
            counts.attachments_read += stage.contents.add_of_document(self.tx, &row)?;
        }
        match transformed {
            Some(json) => stage.next = Some(Version::Transformed(json)),
            None if stage.contents.is_empty() => {
                self.export.writer.begin_element(out);
                write_document_json(&row, out)?;
            }
            None => stage.next = Some(Version::Document(row)),
        }
        Ok(())
    }

    /// Runs the script on a document: `None` if it is left out, otherwise its JSON if that has changed.
    #[expect(clippy::option_option, reason = "whether it is exported, and whether it has changed")]
    fn transform(
        &mut self,
        row: &DocumentRow<'t>,
        progress: &mut SmugglerProgress,
    ) -> Result<Option<Option<Vec<u8>>>, EngineError> {
        let Some((transform, builder)) = &mut self.export.transform else { return Ok(Some(None)) };
        let mut json = Vec::new();
        write_document_json(row, &mut json)?;
        let id = DocumentId::new(row.id()).map_err(documents::DocumentError::from)?;
        let transformed =
            builder.parse_document(&json).map_err(|error| error.to_string()).and_then(|body| {
                let version = row.change_vector().parse().ok();
                transform.run(&id, version.as_ref(), Some(row.last_modified_ticks()), &body)
            });
        let counts = progress.counts(SmugglerPart::Documents);
        match transformed {
            Ok(Transformed::Same) => Ok(Some(None)),
            Ok(Transformed::Changed(body)) => {
                let json = body.as_view().to_json().map_err(documents::DocumentError::from)?;
                Ok(Some(Some(json)))
            }
            Ok(Transformed::Skipped) => {
                counts.skipped += 1;
                Ok(None)
            }
            Err(reason) => {
                counts.errored += 1;
                let text = format!("The document '{id}' was left out: {reason}.");
                progress.report(MessageLevel::Error, &text);
                Ok(None)
            }
        }
    }

    fn revision(
        &mut self,
        row: RevisionRow<'t>,
        progress: &mut SmugglerProgress,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        let has_contents = row.flags().contains(DocumentFlags::HAS_ATTACHMENTS)
            && self.export.options.includes(SmugglerType::Attachments);
        let Stage::Log(stage) = &mut self.stage else { return Ok(()) };
        if has_contents {
            let counts = progress.counts(SmugglerPart::RevisionDocuments);
            counts.attachments_read += stage.contents.add_of_revision(self.tx, &row)?;
        }
        if stage.contents.is_empty() {
            self.export.writer.begin_element(out);
            return Ok(write_revision_json(&row, out)?);
        }
        stage.next = Some(Version::Revision(row));
        Ok(())
    }

    fn is_wanted(&self, row: &DocumentRow<'_>) -> Result<bool, EngineError> {
        let flags = row.flags();
        let is_left_out = (flags.contains(DocumentFlags::ARTIFICIAL)
            && !self.export.options.include_artificial)
            || (flags.contains(DocumentFlags::ARCHIVED) && !self.export.options.include_archived);
        if is_left_out {
            return Ok(false);
        }
        Ok(self.export.options.include_expired || !self.is_expired(row)?)
    }

    fn is_expired(&self, row: &DocumentRow<'_>) -> Result<bool, EngineError> {
        let body = row.body()?;
        let metadata =
            body.root().get_object("@metadata").map_err(documents::DocumentError::from)?;
        let Some(metadata) = metadata else { return Ok(false) };
        let expires = metadata.get_str("@expires").map_err(documents::DocumentError::from)?;
        let expires = expires.and_then(|text| date::parse(&text));
        Ok(expires.is_some_and(|date| date.utc_ticks() <= self.export.sources.now_ticks))
    }
}
