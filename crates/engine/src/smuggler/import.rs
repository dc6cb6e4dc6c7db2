//! What is done with each element of a dump.
//!
//! The caller reads the dump, passes on its events, and does what is asked of it: to read the bytes behind an
//! element, to run a task, and to store the batch that is collected when it is full. An element that cannot be
//! understood, or that the database refuses, is counted, reported with its name and position, and left out. Whatever
//! the import does not reach because it fails is not there, and the result says how far it came.

use std::sync::Arc;

use blittable::{BlittableBuf, Builder};
use commands::Command;
use database::{DatabaseLease, Operation};
use documents::{
    Deleted, Import, ImportKind, Imported, ImportedDeletion, ImportedVersion, NewContent,
    database_identity,
};
use indexing::is_javascript;
use model::{DatabaseId, DocumentFlags, DocumentId, date};
use serde_json::{Map, Value};
use smuggler::{BACKUP_FILE, Section};
use wire::{
    RecordBody, SmugglerOptions, SmugglerType, read_index_definition,
    smuggler_result::{MessageLevel, SmugglerPart, SmugglerResult},
};

use super::{
    export::CREATED_BY_QUERIES,
    exported_items::part_of,
    import_task::{ImportTask, Task, TaskOutcome, subscription_of},
    imported_items,
    imported_rows::Rows,
    imported_series::{self, SegmentHead},
    imported_version::VersionElement,
    importer::Importer,
    progress::SmugglerProgress,
    transform::{Transform, Transformed},
    waiting_contents::WaitingContents,
};
use crate::{
    bulk_insert::BulkInsert, content_upload::StagedContents, engine::Engine, error::EngineError,
};

/// Longer segments are refused; RavenDB's have 2 KB.
const SEGMENT_READ_MAX: u64 = 64 << 10;
/// Values of one task.
const VALUES_A_TASK: usize = 1024;
/// The bytes of the values of one task.
const VALUES_BYTES_MAX: usize = 4 << 20;
/// An unreadable element is shown up to this length.
const SHOWN_BYTES_MAX: usize = 80;

/// An import that is running.
pub struct DumpImport {
    pub(super) batches: BulkInsert,
    pub(super) options: Arc<SmugglerOptions>,
    own_id: DatabaseId,
    now_ticks: i64,
    pub(super) section: Option<Current>,
    property: String,
    contents: WaitingContents,
    values: Vec<(String, BlittableBuf)>,
    values_bytes: usize,
    /// Of values that are deleted.
    deleted_keys: Vec<String>,
    identities: Vec<(String, i64)>,
    /// The segment of a time series that is being read.
    segment: Option<(SegmentHead, Vec<u8>)>,
    pub(super) progress: SmugglerProgress,
    transform: Option<Transform>,
    /// The file of rows that is read, if it is no dump.
    pub(super) rows: Option<Rows>,
    /// Between a collection and the number of a document without an id.
    pub(super) id_separator: char,
    /// Whether counters are not merged with the stored ones.
    replaces_counters: bool,
    importer: Importer,
    /// The most that messages show of an element: nothing of what is going to be encrypted.
    shown_bytes_max: usize,
}

/// The section that is being read.
#[derive(Clone, Copy)]
pub(super) struct Current {
    section: Section,
    pub(super) part: SmugglerPart,
    word: &'static str,
    pub(super) is_included: bool,
}

/// What the caller does next.
pub enum ImportNext {
    /// Goes on reading.
    Read,
    /// Reads so many bytes as a content, and passes it on.
    Content(u64),
    /// Reads so many bytes as a segment of a time series, and passes them on.
    Segment(u64),
    /// Reads so many bytes and drops them.
    Drop(u64),
    /// Runs a task, and passes its outcome on.
    Run(Box<ImportTask>),
}

impl DumpImport {
    /// An import of which nothing is read.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn begin(
        engine: &Engine,
        database: &DatabaseLease,
        options: SmugglerOptions,
        operation: Option<Arc<Operation>>,
        importer: Importer,
    ) -> Result<DumpImport, EngineError> {
        let progress = SmugglerProgress::new(operation, Arc::clone(engine.clock()));
        Self::begin_counting(engine, database, options, progress, importer)
    }

    /// An import of a file for an administrator, adding to what was counted in those before. Counters of a backup have the
    /// state that they had in the database that was backed up, which one that was deleted and counted anew in the meantime
    /// does not show: they replace what is stored.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(super) fn of_file(
        engine: &Engine,
        database: &DatabaseLease,
        options: SmugglerOptions,
        progress: SmugglerProgress,
        replaces_counters: bool,
    ) -> Result<DumpImport, EngineError> {
        let importer = Importer { is_administrator: true, is_operator: true };
        let mut import = Self::begin_counting(engine, database, options, progress, importer)?;
        import.replaces_counters = replaces_counters;
        Ok(import)
    }

    fn begin_counting(
        engine: &Engine,
        database: &DatabaseLease,
        options: SmugglerOptions,
        progress: SmugglerProgress,
        importer: Importer,
    ) -> Result<DumpImport, EngineError> {
        let now_ticks = engine.clock().now().ticks();
        let transform = Transform::of(engine, &options)?;
        let is_encrypted = RecordBody::of_record(&database.record()).is_encrypted();
        Ok(DumpImport {
            batches: engine.begin_bulk_insert(database, false),
            options: Arc::new(options),
            own_id: database_identity(&database.read())?.database_id,
            now_ticks,
            section: None,
            property: String::new(),
            contents: WaitingContents::default(),
            values: Vec::new(),
            values_bytes: 0,
            deleted_keys: Vec::new(),
            identities: Vec::new(),
            segment: None,
            progress,
            transform,
            rows: None,
            id_separator: database.queue().id_separator().character(),
            replaces_counters: false,
            importer,
            shown_bytes_max: if is_encrypted { 0 } else { SHOWN_BYTES_MAX },
        })
    }

    /// Ends it, and passes on what was counted.
    pub(super) fn into_progress(self) -> SmugglerProgress {
        self.progress
    }

    /// The record of the database is kept by the caller, which uses it at the end.
    pub(super) fn record_is_kept(&mut self) {
        let part = SmugglerPart::DatabaseRecord;
        self.progress.finish(part, "DatabaseRecord");
    }

    /// The batches of commands that it has collected.
    pub fn batches(&mut self) -> &mut BulkInsert {
        &mut self.batches
    }

    /// About how much memory it holds, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.batches.held_bytes() + self.contents.held_bytes() + self.values_bytes
    }

    /// What was done so far.
    pub fn result(&self) -> &SmugglerResult {
        self.progress.result()
    }

    /// Adds a message to the result.
    pub fn report(&mut self, level: MessageLevel, text: &str) {
        self.progress.report(level, text);
    }

    /// Notes what became of the batches that were stored.
    pub fn note_stored(&mut self) {
        for refused in self.batches.take_refusals() {
            let (kind, id, text, is_whole) = match refused {
                Imported::Stored => continue,
                Imported::WithoutAttachments { kind, id, names } => {
                    let names = names.join("', '");
                    let text = format!("the dump has no content of its attachments '{names}'");
                    (kind, id, text, false)
                }
                Imported::Refused { kind, id, reason } => (kind, id, reason, true),
            };
            let (part, what) = match kind {
                ImportKind::Document => (SmugglerPart::Documents, "The document"),
                ImportKind::Revision => (SmugglerPart::RevisionDocuments, "A revision of"),
                ImportKind::Counters => (SmugglerPart::Counters, "The counters of"),
                ImportKind::TimeSeries => (SmugglerPart::TimeSeries, "Entries of a time series of"),
                ImportKind::Deletion => (SmugglerPart::Tombstones, "A deletion of"),
            };
            let counts = self.progress.counts(part);
            let done = match is_whole {
                true => {
                    counts.errored += 1;
                    "could not be stored"
                }
                false => {
                    counts.attachments_errored += 1;
                    "was stored without all of its attachments"
                }
            };
            self.progress.report(
                MessageLevel::Error,
                &format!("{what} '{id}' {done}: {}.", text.trim_end_matches('.')),
            );
        }
    }
}

/// The events of the dump.
impl DumpImport {
    /// A property begins. Returns what is to be done before.
    pub fn name(&mut self, name: &str) -> ImportNext {
        self.property = name.to_owned();
        self.section = Section::named(name).map(|section| {
            let (kind, word) = kind_of(section);
            let is_included = self.options.includes(kind);
            Current { section, part: part_of(section), word, is_included }
        });
        match self.section {
            Some(current) if current.is_included => self.progress.begin(current.part, current.word),
            Some(current) => self.progress.skip(current.part, current.word),
            None if matches!(name, "BuildVersion" | BACKUP_FILE) => {}
            None => {
                let text = format!("The section '{name}' is not known, and was left out.");
                self.progress.report(MessageLevel::Warning, &text);
            }
        }
        ImportNext::Read
    }

    /// A property that is no array.
    pub fn value(&mut self, text: &[u8]) -> ImportNext {
        let name = self.property.clone();
        let Some(current) = self.section.take() else {
            // Damage may have made a part of it out of what follows.
            if let Err(reason) = imported_items::check(text) {
                self.progress
                    .report(MessageLevel::Error, &format!("'{name}' is damaged: {reason}"));
            }
            return ImportNext::Read;
        };
        if current.section != Section::DatabaseRecord {
            if text != b"null" {
                let text = format!("The section '{name}' is no list, and was left out.");
                self.refuse(current.part, &text);
            }
            return ImportNext::Read;
        }
        self.progress.count(current.part);
        if !current.is_included {
            if let Err(reason) = imported_items::check(text) {
                self.refuse(current.part, &format!("'{name}' is damaged: {reason}"));
            }
            self.progress.skipped(current.part, current.word);
            return ImportNext::Read;
        }
        match imported_items::parse(text) {
            Ok(sent) => {
                let options = Arc::clone(&self.options);
                let may_redirect = self.importer.is_operator;
                let task = Task::Record { sent, options, may_redirect };
                ImportNext::Run(Box::new(ImportTask(task)))
            }
            Err(reason) => {
                self.refuse(
                    current.part,
                    &format!("The record of the database is damaged: {reason}"),
                );
                ImportNext::Read
            }
        }
    }

    /// An element of a section, at that position of the dump.
    pub fn element(&mut self, text: &[u8], position: u64, builder: &mut Builder) -> ImportNext {
        let Some(current) = self.section else {
            if let Err(reason) = imported_items::check(text) {
                let name = self.property.clone();
                let text =
                    format!("An element of '{name}' at byte {position} is damaged: {reason}");
                self.progress.report(MessageLevel::Error, &text);
            }
            return ImportNext::Read;
        };
        let done = match current.section {
            Section::Documents | Section::Revisions => self.version(current, text, builder),
            Section::TimeSeries => self.segment(current, text),
            Section::LegacyAttachments
            | Section::LegacyDocumentDeletions
            | Section::LegacyAttachmentDeletions
            | Section::LegacyTransformers
            | Section::ReplicationHubCertificates
            | Section::Conflicts => {
                self.progress.count(current.part).skipped += 1;
                imported_items::check(text).map(|()| ImportNext::Read)
            }
            _ => {
                self.progress.count(current.part);
                match current.is_included {
                    true => self.item(current, text, builder),
                    false => imported_items::check(text).map(|()| ImportNext::Read),
                }
            }
        };
        done.unwrap_or_else(|reason| {
            let (shown, length) = (&text[..text.len().min(self.shown_bytes_max)], text.len());
            let (shown, name) = (String::from_utf8_lossy(shown), self.property.clone());
            let begin = match shown.is_empty() {
                true => ".".to_owned(),
                false => format!(" and begins with: {shown}"),
            };
            let text = format!(
                "An element of '{name}' at byte {position} could not be imported: {reason} It has {length} bytes{begin}"
            );
            self.refuse(current.part, &text);
            ImportNext::Read
        })
    }

    pub(super) fn refuse(&mut self, part: SmugglerPart, text: &str) {
        self.progress.counts(part).errored += 1;
        self.progress.report(MessageLevel::Error, text);
    }

    /// The section is complete.
    pub fn section_end(&mut self) -> ImportNext {
        let Some(current) = self.section.take() else { return ImportNext::Read };
        self.contents.clear();
        match current.is_included {
            true => self.progress.finish(current.part, current.word),
            false => self.progress.skipped(current.part, current.word),
        }
        self.left_over(current);
        self.rest()
    }

    /// Reports what this server has no place for.
    fn left_over(&mut self, current: Current) {
        let count = self.progress.result().counts(current.part).skipped;
        let why = match current.section {
            Section::Conflicts => "versions of documents in conflict are not imported",
            Section::LegacyTransformers => "result transformers no longer exist",
            Section::LegacyAttachments => "attachments belong to documents today",
            Section::LegacyDocumentDeletions | Section::LegacyAttachmentDeletions => {
                "deletions of RavenDB 3.5 are not applied"
            }
            Section::ReplicationHubCertificates => "there are no replication hubs here",
            _ => return,
        };
        if count != 0 && current.is_included {
            let name = current.section.name();
            let text = format!("{count} elements of '{name}' were left out: {why}.");
            self.progress.report(MessageLevel::Warning, &text);
        }
    }

    /// What is still collected for the cluster.
    fn rest(&mut self) -> ImportNext {
        // A section has only one of them.
        let task = match () {
            () if !self.values.is_empty() => Task::Values(std::mem::take(&mut self.values)),
            () if !self.deleted_keys.is_empty() => {
                Task::DeletedValues(std::mem::take(&mut self.deleted_keys))
            }
            () if !self.identities.is_empty() => {
                Task::Identities(std::mem::take(&mut self.identities))
            }
            () => return ImportNext::Read,
        };
        self.values_bytes = 0;
        ImportNext::Run(Box::new(ImportTask(task)))
    }

    /// What has become of a task.
    pub fn task_done(&mut self, outcome: TaskOutcome) {
        for text in &outcome.refused {
            self.refuse(outcome.part, text);
        }
        for text in &outcome.notes {
            self.progress.report(MessageLevel::Warning, text);
        }
        for name in &outcome.record_parts {
            self.progress.note_record_part(name);
        }
        if outcome.part == SmugglerPart::DatabaseRecord {
            let parts: Vec<String> = outcome.record_parts.iter().map(shown_part).collect();
            self.progress.counts(outcome.part).is_processed = true;
            let text = match parts.is_empty() {
                true => "Finished processing DatabaseRecord.".to_owned(),
                false => format!(
                    "Finished processing DatabaseRecord. Following configurations were updated:\n{}",
                    parts.concat()
                ),
            };
            self.progress.report(MessageLevel::Info, &text);
        }
    }

    /// The whole result.
    pub fn end(&mut self) -> SmugglerResult {
        self.note_stored();
        self.progress.end()
    }
}

/// Documents and revisions.
impl DumpImport {
    fn version(
        &mut self,
        current: Current,
        text: &[u8],
        builder: &mut Builder,
    ) -> Result<ImportNext, String> {
        let parsed = builder.parse_document(text).map_err(|error| format!("{error}."));
        let element = parsed.and_then(VersionElement::of);
        if let Ok(VersionElement::Content { bytes }) = &element {
            let counts = self.progress.counts(current.part);
            counts.attachments_read += 1;
            let is_wanted = current.is_included && self.options.includes(SmugglerType::Attachments);
            return Ok(if is_wanted {
                ImportNext::Content(*bytes)
            } else {
                ImportNext::Drop(*bytes)
            });
        }
        self.progress.count(current.part);
        let VersionElement::Version { version, collection } = element? else {
            return Ok(ImportNext::Read);
        };
        let has_revisions = self.options.includes(SmugglerType::RevisionDocuments);
        let added = self.add_version(current, version, collection, has_revisions);
        self.contents.end_document();
        added
    }

    /// Adds a document or a revision. `has_revisions` if the revisions of a document that has some come with the file.
    pub(super) fn add_version(
        &mut self,
        current: Current,
        mut version: Box<ImportedVersion>,
        collection: String,
        has_revisions: bool,
    ) -> Result<ImportNext, String> {
        if !current.is_included || !self.is_wanted(&version, &collection) {
            self.progress.counts(current.part).skipped += 1;
            return Ok(ImportNext::Read);
        }
        if current.section == Section::Documents && !self.transform(&mut version)? {
            self.progress.counts(current.part).skipped += 1;
            return Ok(ImportNext::Read);
        }
        if !self.options.includes(SmugglerType::Attachments) {
            version.attachments.clear();
        }
        let has_revisions = has_revisions && version.flags.contains(DocumentFlags::HAS_REVISIONS);
        version.is_revised = !self.options.skip_revision_creation && !has_revisions;
        let staged = self.contents.take_for(&mut version);
        let import = match current.section {
            Section::Revisions => Import::Revision(*version),
            _ => Import::Document(*version),
        };
        self.batches.add(Command::Import(Box::new(import)), staged);
        Ok(ImportNext::Read)
    }

    /// Runs the script on a document; `false` if it is left out.
    fn transform(&self, version: &mut ImportedVersion) -> Result<bool, String> {
        let Some(transform) = &self.transform else { return Ok(true) };
        let (id, modified) = (&version.id, version.last_modified_ticks);
        match transform.run(id, version.change_vector.as_ref(), modified, &version.body)? {
            Transformed::Same => Ok(true),
            Transformed::Skipped => Ok(false),
            Transformed::Changed(body) => {
                version.body = body;
                Ok(true)
            }
        }
    }

    /// A document that has no id yet, and the beginning of its id; `None` if the script leaves it out.
    pub(super) fn transformed_new(
        &self,
        prefix: &DocumentId,
        body: BlittableBuf,
    ) -> Result<Option<BlittableBuf>, String> {
        let Some(transform) = &self.transform else { return Ok(Some(body)) };
        Ok(match transform.run(prefix, None, None, &body)? {
            Transformed::Same => Some(body),
            Transformed::Skipped => None,
            Transformed::Changed(body) => Some(body),
        })
    }

    /// Whether a script runs on each document, for which the caller waits.
    pub fn has_script(&self) -> bool {
        self.transform.is_some()
    }

    fn is_wanted(&self, version: &ImportedVersion, collection: &str) -> bool {
        let options = &self.options;
        let has = |flag: DocumentFlags| version.flags.contains(flag);
        options.includes_collection(collection)
            && (options.include_artificial || !has(DocumentFlags::ARTIFICIAL))
            && (options.include_archived || !has(DocumentFlags::ARCHIVED))
            && (options.include_expired || !self.is_expired(&version.body))
    }

    fn is_expired(&self, body: &BlittableBuf) -> bool {
        let document = body.as_view();
        let metadata = document.root().get_object("@metadata").ok().flatten();
        let expires = metadata.and_then(|metadata| metadata.get_str("@expires").ok().flatten());
        let expires = expires.and_then(|text| date::parse(&text));
        expires.is_some_and(|date| date.utc_ticks() <= self.now_ticks)
    }

    /// Up to which length the next content is to be carried by the command of its document; a longer one is staged.
    pub fn carried_content_bytes_max(&self) -> usize {
        self.contents.carried_bytes_max()
    }

    /// A content was read, which the next documents may have.
    pub fn content(&mut self, content: NewContent, staged: StagedContents) {
        self.contents.add(content, staged);
    }

    /// The head of a segment, whose bytes follow.
    fn segment(&mut self, current: Current, text: &[u8]) -> Result<ImportNext, String> {
        let element = imported_items::parse(text)?;
        let bytes = element.get("@raven-blob-size").and_then(Value::as_u64);
        let bytes = bytes.ok_or("'@raven-blob-size' is missing.")?;
        self.progress.count(current.part);
        let head = imported_series::head_of(&element);
        let is_wanted = |head: &SegmentHead| {
            current.is_included && self.options.includes_collection(&head.collection)
        };
        self.segment = match head {
            Ok(head) if is_wanted(&head) && bytes <= SEGMENT_READ_MAX => {
                Some((head, Vec::with_capacity(bytes as usize)))
            }
            Ok(head) if is_wanted(&head) => {
                let text = format!("A segment of '{}' is too long.", head.id);
                self.refuse(current.part, &text);
                None
            }
            Ok(_) => {
                self.progress.counts(current.part).skipped += 1;
                None
            }
            // Its bytes have to be passed over nevertheless.
            Err(reason) => {
                self.refuse(current.part, &format!("A segment could not be imported: {reason}"));
                None
            }
        };
        Ok(if self.segment.is_some() {
            ImportNext::Segment(bytes)
        } else {
            ImportNext::Drop(bytes)
        })
    }

    /// A part of the bytes of a segment.
    pub fn segment_bytes(&mut self, bytes: &[u8]) {
        if let Some((_, segment)) = &mut self.segment {
            segment.extend_from_slice(bytes);
        }
    }

    /// The bytes of a segment are complete.
    pub fn segment_end(&mut self) {
        let Some((head, bytes)) = self.segment.take() else { return };
        let id = head.id.clone();
        match imported_series::entries_of(head, &bytes) {
            Ok(change) => {
                let import = Import::TimeSeries(Box::new(change));
                self.batches.add(import_of(import), StagedContents::default());
            }
            Err(error) => {
                let text =
                    format!("Entries of a time series of '{id}' could not be stored: {error}");
                self.refuse(SmugglerPart::TimeSeries, &text);
            }
        }
    }
}

/// The smaller kinds of data.
impl DumpImport {
    fn item(
        &mut self,
        current: Current,
        text: &[u8],
        builder: &mut Builder,
    ) -> Result<ImportNext, String> {
        let element = imported_items::parse(text)?;
        match current.section {
            Section::Identities => {
                self.identities.push(imported_items::identity(&element)?);
                if VALUES_A_TASK <= self.identities.len() {
                    return Ok(self.rest());
                }
            }
            Section::CompareExchange => {
                let parse =
                    |json: &[u8]| builder.parse_document(json).map_err(|error| format!("{error}."));
                let (key, value) = imported_items::compare_exchange(&element, parse)?;
                self.values_bytes += key.len() + value.as_bytes().len();
                self.values.push((key, value));
                if VALUES_A_TASK <= self.values.len() || VALUES_BYTES_MAX <= self.values_bytes {
                    return Ok(self.rest());
                }
            }
            Section::CompareExchangeTombstones => {
                self.deleted_keys.push(imported_items::text(&element, "Key")?.to_owned());
                if VALUES_A_TASK <= self.deleted_keys.len() {
                    return Ok(self.rest());
                }
            }
            Section::Counters => {
                let counters = imported_items::single_counter(&element, self.own_id)?;
                self.batches.add(import_of(Import::Counters(counters)), StagedContents::default());
            }
            Section::CounterGroups => {
                let mut counters = imported_items::counters(&element)?;
                counters.replaces = self.replaces_counters;
                let deleted = imported_items::deleted_counters(&element)?;
                if !counters.counters.is_empty() || deleted.is_empty() {
                    let import = import_of(Import::Counters(counters));
                    self.batches.add(import, StagedContents::default());
                }
                deleted.into_iter().for_each(|deletion| self.delete(deletion));
            }
            Section::TimeSeriesDeletedRanges => {
                let (collection, change) = imported_series::deletion_of(&element)?;
                if self.options.includes_collection(&collection) {
                    let import = Import::TimeSeries(Box::new(change));
                    self.batches.add(import_of(import), StagedContents::default());
                } else {
                    self.progress.counts(current.part).skipped += 1;
                }
            }
            Section::Tombstones => self.tombstone(&element)?,
            Section::Indexes => return self.index(element),
            Section::Subscriptions => {
                let new = subscription_of(&element)?;
                return Ok(ImportNext::Run(Box::new(ImportTask(Task::Subscription(Box::new(
                    new,
                ))))));
            }
            Section::DatabaseRecord => {
                return Err("The record of a database is no list.".to_owned());
            }
            _ => {}
        }
        Ok(ImportNext::Read)
    }

    fn tombstone(&mut self, element: &Map<String, Value>) -> Result<(), String> {
        let deletion = imported_items::deletion(element)?;
        let collection = element.get("Collection").and_then(Value::as_str);
        let collection = collection.unwrap_or(model::EMPTY_COLLECTION);
        let is_document = matches!(deletion.deleted, Deleted::Document);
        if is_document && !self.options.includes_collection(collection) {
            self.progress.counts(SmugglerPart::Tombstones).skipped += 1;
            return Ok(());
        }
        self.delete(deletion);
        Ok(())
    }

    fn delete(&mut self, deletion: ImportedDeletion) {
        self.batches.add(import_of(Import::Deletion(deletion)), StagedContents::default());
    }

    fn index(&mut self, mut element: Map<String, Value>) -> Result<ImportNext, String> {
        let kind = imported_items::text(&element, "Type")?;
        if kind.starts_with("Auto") {
            self.progress.counts(SmugglerPart::Indexes).skipped += 1;
            let name = &element["IndexDefinition"]["Name"];
            let text = format!("The automatic index {name} was left out: {CREATED_BY_QUERIES}");
            self.progress.report(MessageLevel::Info, &text);
            return Ok(ImportNext::Read);
        }
        let mut definition =
            element.remove("IndexDefinition").ok_or("'IndexDefinition' is missing.")?;
        if self.options.remove_analyzers
            && let Some(Value::Object(fields)) = definition.get_mut("Fields")
        {
            for field in fields.values_mut().filter_map(Value::as_object_mut) {
                field.insert("Analyzer".to_owned(), Value::Null);
            }
        }
        let definition = read_index_definition(definition).map_err(|error| error.message)?;
        if !self.importer.is_administrator && !definition.maps.iter().all(|map| is_javascript(map))
        {
            return Err(
                "Only an administrator of the database may import indexes in C#.".to_owned()
            );
        }
        Ok(ImportNext::Run(Box::new(ImportTask(Task::Index(Box::new(definition))))))
    }
}

/// A line about a part of the record.
fn shown_part(part: &&'static str) -> String {
    format!("- {}\n", part.strip_suffix("Configuration").unwrap_or(part))
}

pub(super) fn import_of(import: Import) -> Command {
    Command::Import(Box::new(import))
}

/// The kind of data that selects a section, and its word in messages.
fn kind_of(section: Section) -> (SmugglerType, &'static str) {
    let kind = match section {
        Section::DatabaseRecord => SmugglerType::DatabaseRecord,
        Section::Documents => SmugglerType::Documents,
        Section::Revisions => SmugglerType::RevisionDocuments,
        Section::Tombstones => SmugglerType::Tombstones,
        Section::Conflicts => SmugglerType::Conflicts,
        Section::Indexes | Section::LegacyTransformers => SmugglerType::Indexes,
        Section::Identities => SmugglerType::Identities,
        Section::CompareExchange => SmugglerType::CompareExchange,
        Section::CompareExchangeTombstones => SmugglerType::CompareExchangeTombstones,
        Section::Counters => SmugglerType::Counters,
        Section::CounterGroups => SmugglerType::CounterGroups,
        Section::Subscriptions => SmugglerType::Subscriptions,
        Section::TimeSeries => SmugglerType::TimeSeries,
        Section::TimeSeriesDeletedRanges => SmugglerType::TimeSeriesDeletedRanges,
        Section::ReplicationHubCertificates => SmugglerType::ReplicationHubCertificates,
        Section::LegacyAttachments => SmugglerType::LegacyAttachments,
        Section::LegacyDocumentDeletions => SmugglerType::LegacyDocumentDeletions,
        Section::LegacyAttachmentDeletions => SmugglerType::LegacyAttachmentDeletions,
    };
    (kind, kind.word())
}
