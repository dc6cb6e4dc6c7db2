//! A database for a test, its whole content, and short ways to write batches.

use std::{collections::BTreeMap, sync::Arc};

use blittable::{BlittableBuf, ParseLimits, parse_document};
use commands::{Batch, BatchOutcome, Command, CommandError, PatchLimits, Patcher, execute_batch};
use documents::{
    Compression, DatabaseIdentity, DocumentError, ExpectedVersion, PutDocument, RequestedId,
    WriteContext,
    log::{self, EntryKinds, LogEntry, LogReader, Selection},
    time_series::{MomentRange, SeriesReader},
};
use model::{
    DatabaseId, DocumentId, DocumentsCompression, Etag, IdSeparator, NodeTag, TimeSeriesName,
};
use platform::Platform;
use storage::{EncryptionKey, Environment, EnvironmentOptions, ReadTransaction, WriteTransaction};

use crate::fault::Fault;

/// The identity of every database here.
const DATABASE_ID: DatabaseId = DatabaseId([7; 16]);

/// The whole state of a database as a test compares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// The newest etag assigned.
    pub last_etag: u64,
    /// Etag, id as written, and the body, absent for a tombstone.
    pub log: Vec<(u64, String, Option<Arc<str>>)>,
    /// Name, live documents, tombstones; in the order of their making.
    pub collections: Vec<(String, u64, u64)>,
    /// Name and value.
    pub identities: Vec<(String, i64)>,
    /// The log of attachments.
    pub attachments: Vec<AttachmentEntry>,
    /// The log of counters.
    pub counters: Vec<CounterEntry>,
    /// The time series, by document and lower-cased name.
    pub time_series: Vec<SeriesContent>,
}

/// An entry of the log of attachments: etag, document and name, both lower-cased, and the rest in one
/// text, absent for a tombstone.
pub type AttachmentEntry = (u64, String, String, Option<String>);

/// An entry of the log of counters: etag, document and name, both lower-cased, and the name as
/// written with the counter's value, absent for a tombstone.
pub type CounterEntry = (u64, String, String, Option<(String, i64)>);

/// Document, lower-cased, name as written, and entries: moment, values, tag.
pub type SeriesContent = (String, String, Vec<(i64, Vec<f64>, Option<String>)>);

impl Content {
    /// Where this differs from what was expected, in a line for a person.
    pub fn difference(&self, expected: &Self) -> String {
        if self.last_etag != expected.last_etag {
            return format!("the last etag is {}, not {}", self.last_etag, expected.last_etag);
        }
        let entry = |entry: &(u64, String, Option<Arc<str>>)| match &entry.2 {
            Some(body) => format!("{} {} ({} bytes)", entry.0, entry.1, body.len()),
            None => format!("{} {} (tombstone)", entry.0, entry.1),
        };
        for (found, expected) in self.log.iter().zip(&expected.log) {
            if found != expected {
                return format!("the log has {}, not {}", entry(found), entry(expected));
            }
        }
        if self.log.len() != expected.log.len() {
            return format!("the log has {} entries, not {}", self.log.len(), expected.log.len());
        }
        if self.collections != expected.collections {
            return format!("collections {:?}, not {:?}", self.collections, expected.collections);
        }
        if self.identities != expected.identities {
            return format!("identities {:?}, not {:?}", self.identities, expected.identities);
        }
        if self.attachments != expected.attachments {
            return format!("attachments {:?}, not {:?}", self.attachments, expected.attachments);
        }
        if self.counters != expected.counters {
            return format!("counters {:?}, not {:?}", self.counters, expected.counters);
        }
        format!("time series {:?}, not {:?}", self.time_series, expected.time_series)
    }
}

/// Small files, so that a short history needs several journals.
pub fn options() -> EnvironmentOptions {
    EnvironmentOptions { journal_bytes_max: 1 << 20, ..EnvironmentOptions::new("/database") }
}

/// How a database is at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtRest {
    /// As it is.
    #[default]
    Plain,
    /// Encrypted, with a key that is always the same.
    Encrypted,
}

impl AtRest {
    /// The options of [`options`], with the key if there is one.
    pub fn options(self) -> EnvironmentOptions {
        let key = || EncryptionKey::take(&mut [0x5a; EncryptionKey::BYTES]);
        let encryption_key = match self {
            AtRest::Plain => None,
            AtRest::Encrypted => Some(key().expect("the kernel keeps a key")),
        };
        EnvironmentOptions { encryption_key, ..options() }
    }
}

/// Opens the environment and initializes it as a database.
///
/// # Errors
/// As [`open_with`].
pub fn open(platform: &Platform) -> Result<Arc<Environment>, DocumentError> {
    open_with(platform, options())
}

/// Opens the environment and initializes it as a database.
///
/// # Errors
/// Errors of the storage, and of a database without an identity.
pub fn open_with(
    platform: &Platform,
    options: EnvironmentOptions,
) -> Result<Arc<Environment>, DocumentError> {
    let environment = Environment::open(platform, options)?;
    if !documents::is_database(&environment.read())? {
        let mut tx = environment.write()?;
        let wanted = DatabaseIdentity { database_id: DATABASE_ID, node_tag: NodeTag::A };
        documents::initialize(&mut tx, wanted)?;
        tx.commit()?;
    }
    documents::database_identity(&environment.read())?;
    Ok(environment)
}

/// Executes a batch in an open transaction.
///
/// # Errors
/// Those of [`execute_batch`].
pub fn execute(
    tx: &mut WriteTransaction,
    platform: &Platform,
    batch: &Batch,
) -> Result<BatchOutcome, CommandError> {
    let plain = WriteContext::new(platform.clock.now(), &*platform.entropy);
    // Compression is switched on and off occasionally, which must not be visible.
    let mut rules = DocumentsCompression::nothing();
    rules.all_collections = !tx.id().is_multiple_of(3);
    let compression = Compression::new(rules);
    let context = WriteContext { compression: &compression, ..plain };
    let mut patcher = Patcher::new(Arc::clone(&platform.clock), PatchLimits::default());
    execute_batch(tx, batch, context, &mut patcher)
}

/// Reads everything of the newest snapshot, as [`content_of`].
///
/// # Panics
/// When something contradicts itself.
pub fn content(environment: &Arc<Environment>) -> Content {
    match content_of(&environment.read()) {
        Ok(content) => content,
        Err(fault) => panic!("{fault}"),
    }
}

/// Reads everything, after checking that pages, table, log and counts agree with each other.
///
/// # Errors
/// The first contradiction.
pub fn content_of(tx: &ReadTransaction) -> Result<Content, Fault> {
    tx.check()?;
    let report = documents::check(tx)?;
    let mut by_prefix = 0;
    for row in documents::by_prefix(tx, "", None)? {
        row?;
        by_prefix += 1;
    }
    if by_prefix != report.documents {
        return Err(Fault::wrong(format!(
            "{by_prefix} documents by prefix, {} in the log",
            report.documents
        )));
    }
    let mut log = Vec::new();
    for entry in whole_log(tx, EntryKinds::DOCUMENTS)? {
        match entry? {
            LogEntry::Document(row) => {
                let json = row.body()?.to_json().map_err(DocumentError::from)?;
                let json = String::from_utf8(json)
                    .map_err(|_| Fault::wrong("a body is not UTF-8".to_owned()))?;
                log.push((row.etag().0, row.id().to_owned(), Some(json.into())));
            }
            LogEntry::DocumentTombstone(row) => {
                log.push((row.etag().0, row.id().to_owned(), None));
            }
            _ => return Err(not_selected()),
        }
    }
    let collections = documents::collections(tx)?.into_iter();
    Ok(Content {
        last_etag: documents::progress(tx)?.last_etag.0,
        log,
        collections: collections
            .map(|one| (one.name.to_string(), one.documents, one.tombstones))
            .collect(),
        identities: documents::identities(tx)?,
        attachments: attachments_of(tx)?,
        counters: counters_of(tx)?,
        time_series: time_series_of(tx)?,
    })
}

fn whole_log(
    tx: &ReadTransaction,
    kinds: EntryKinds,
) -> Result<LogReader<'_, ReadTransaction>, DocumentError> {
    log::read(tx, &[Selection::all(kinds)], Etag::ZERO)
}

fn not_selected() -> Fault {
    Fault::wrong("the log has an entry that was not selected".to_owned())
}

fn counters_of(tx: &ReadTransaction) -> Result<Vec<CounterEntry>, Fault> {
    let mut log = Vec::new();
    for entry in whole_log(tx, EntryKinds::COUNTERS)? {
        let entry = entry?;
        let what = match &entry {
            LogEntry::Counter(row) => Some((row.name().to_owned(), row.total())),
            LogEntry::CounterTombstone(_) => None,
            _ => return Err(not_selected()),
        };
        let owner = entry.lower_document_id().unwrap_or_default().to_owned();
        let name = entry.lower_name().unwrap_or_default().to_owned();
        log.push((entry.etag().0, owner, name, what));
    }
    Ok(log)
}

fn time_series_of(tx: &ReadTransaction) -> Result<Vec<SeriesContent>, Fault> {
    let mut names = BTreeMap::new();
    for entry in whole_log(tx, EntryKinds::TIME_SERIES)? {
        if let LogEntry::Segment(row) = entry? {
            let key = (row.lower_document_id().to_owned(), row.lower_name().to_owned());
            names.insert(key, row.name().to_owned());
        }
    }
    let mut content = Vec::new();
    for ((owner, _), name) in names {
        let id = DocumentId::new(owner.as_str()).map_err(DocumentError::from)?;
        let series = TimeSeriesName::new(name.as_str()).map_err(DocumentError::from)?;
        let mut reader = SeriesReader::new(tx, &id, &series, MomentRange::ALL)?;
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            let tag = entry.tag.map(str::to_owned);
            entries.push((entry.timestamp_ms, entry.values.to_vec(), tag));
        }
        content.push((owner, name, entries));
    }
    Ok(content)
}

fn attachments_of(tx: &ReadTransaction) -> Result<Vec<AttachmentEntry>, Fault> {
    let mut log = Vec::new();
    for entry in whole_log(tx, EntryKinds::ATTACHMENTS)? {
        let entry = entry?;
        let what = match &entry {
            LogEntry::Attachment(row) => {
                let (name, kind, bytes) = (row.name(), row.content_type(), row.content_bytes());
                Some(format!("{name} {kind} {} {bytes}", row.hash()))
            }
            LogEntry::AttachmentTombstone(_) => None,
            _ => return Err(not_selected()),
        };
        let owner = entry.lower_document_id().unwrap_or_default().to_owned();
        let name = entry.lower_name().unwrap_or_default().to_owned();
        log.push((entry.etag().0, owner, name, what));
    }
    Ok(log)
}

/// A put without expectations.
pub fn put(id: &str, json: &str) -> Command {
    put_expecting(id, None, json)
}

/// A put that expects a version.
///
/// # Panics
/// When the id or the text is invalid; both are the test's own.
pub fn put_expecting(id: &str, expected: Option<&str>, json: &str) -> Command {
    Command::Put(PutDocument {
        id: RequestedId::parse(Some(id), IdSeparator::default()).expect("a test's ids are short"),
        expected: ExpectedVersion::parse(expected),
        body: parsed(json),
    })
}

/// A document.
///
/// # Panics
/// When the text is invalid; it is the test's own.
pub fn parsed(json: &str) -> BlittableBuf {
    parse_document(json.as_bytes(), &ParseLimits::default()).expect("a test's texts are JSON")
}

/// A deletion.
///
/// # Panics
/// When the id is invalid; it is the test's own.
pub fn delete(id: &str, expected: Option<&str>) -> Command {
    let expected = ExpectedVersion::parse(expected);
    Command::Delete { id: DocumentId::new(id).expect("a test's ids are short"), expected }
}

/// A batch of these commands.
pub fn batch(commands: impl Into<Vec<Command>>) -> Batch {
    Batch { commands: commands.into() }
}

/// A body in a collection.
pub fn json(collection: &str, value: &str) -> String {
    format!(r#"{{"V":"{value}","@metadata":{{"@collection":"{collection}"}}}}"#)
}

/// The version of a local write.
pub fn version(etag: u64) -> String {
    format!("A:{etag}-{DATABASE_ID}")
}
