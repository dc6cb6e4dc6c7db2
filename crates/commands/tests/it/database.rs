//! A database for a test, and short ways to write batches.

use std::sync::Arc;

use blittable::{ParseLimits, parse_document};
use commands::{Batch, BatchOutcome, Command, execute_batch};
use documents::{
    DatabaseIdentity, DocumentError, ExpectedVersion, LogEntry, PutDocument, RequestedId,
    WriteContext,
};
use model::{DatabaseId, DocumentId, Etag, NodeTag};
use platform::Platform;
use storage::{Environment, EnvironmentOptions, StorageError, WriteTransaction};

/// The whole state of a database as a test compares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) last_etag: u64,
    /// Etag, id as written, and the body, absent for a tombstone.
    pub(crate) log: Vec<(u64, String, Option<String>)>,
    /// Name, live documents, tombstones; in the order of their making.
    pub(crate) collections: Vec<(String, u64, u64)>,
    pub(crate) identities: Vec<(String, i64)>,
}

/// Small files, so that a short history needs several journals.
pub(crate) fn options() -> EnvironmentOptions {
    EnvironmentOptions { journal_bytes_max: 1 << 20, ..EnvironmentOptions::new("/database") }
}

/// Opens the environment and makes it a database.
pub(crate) fn open(platform: &Platform) -> Result<Arc<Environment>, StorageError> {
    let environment = Environment::open(platform, options())?;
    if !environment.read().is_database() {
        let mut tx = environment.write()?;
        let wanted = DatabaseIdentity { database_id: DatabaseId([7; 16]), node_tag: NodeTag::A };
        documents::initialize(&mut tx, wanted).expect("an empty environment can be initialized");
        tx.commit()?;
    }
    Ok(environment)
}

trait IsDatabase {
    fn is_database(&self) -> bool;
}

impl IsDatabase for storage::ReadTransaction {
    fn is_database(&self) -> bool {
        documents::database_identity(self).is_ok()
    }
}

pub(crate) fn execute(
    tx: &mut WriteTransaction,
    platform: &Platform,
    batch: &Batch,
) -> Result<BatchOutcome, DocumentError> {
    let context = WriteContext { now: platform.clock.now(), entropy: &*platform.entropy };
    execute_batch(tx, batch, context)
}

/// Reads everything, after checking that table, log, counts and pages agree with each other.
pub(crate) fn content(environment: &Arc<Environment>) -> Content {
    let tx = environment.read();
    tx.check().expect("the pages are sound");
    let report = documents::check(&tx).expect("the documents agree with themselves");
    assert_eq!(documents::by_prefix(&tx, "", None).unwrap().count() as u64, report.documents);
    let log = documents::log(&tx, Etag::ZERO).unwrap().map(|entry| match entry.unwrap() {
        LogEntry::Document(row) => {
            let json = String::from_utf8(row.body().to_json().unwrap()).unwrap();
            (row.etag().0, row.id().to_owned(), Some(json))
        }
        LogEntry::Tombstone(row) => (row.etag().0, row.id().to_owned(), None),
    });
    let collections = documents::collections(&tx).unwrap().into_iter();
    Content {
        last_etag: documents::progress(&tx).unwrap().last_etag.0,
        log: log.collect(),
        collections: collections
            .map(|one| (one.name.to_string(), one.documents, one.tombstones))
            .collect(),
        identities: documents::identities(&tx).unwrap(),
    }
}

pub(crate) fn put(id: &str, json: &str) -> Command {
    put_expecting(id, None, json)
}

pub(crate) fn put_expecting(id: &str, expected: Option<&str>, json: &str) -> Command {
    Command::Put(PutDocument {
        id: RequestedId::parse(Some(id)).unwrap(),
        expected: ExpectedVersion::parse(expected),
        body: parse_document(json.as_bytes(), &ParseLimits::default()).unwrap(),
    })
}

pub(crate) fn delete(id: &str, expected: Option<&str>) -> Command {
    let expected = ExpectedVersion::parse(expected);
    Command::Delete { id: DocumentId::new(id).unwrap(), expected }
}

pub(crate) fn batch(commands: impl Into<Vec<Command>>) -> Batch {
    Batch { commands: commands.into() }
}

/// A body in a collection.
pub(crate) fn json(collection: &str, value: &str) -> String {
    format!(r#"{{"V":"{value}","@metadata":{{"@collection":"{collection}"}}}}"#)
}

/// The version of a local write.
pub(crate) fn version(etag: u64) -> String {
    format!("A:{etag}-{}", DatabaseId([7; 16]))
}
