//! A database for a test.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use blittable::{BlittableBuf, ParseLimits, parse_document};
use documents::{
    DatabaseIdentity, DocumentError, DocumentWriter, ExpectedVersion, RequestedId, StoredDocument,
    WriteContext,
};
use model::{DatabaseId, DocumentId, IdSeparator, NodeTag, RevisionsConfiguration};
use platform::{Platform, simulated::Simulation};
use storage::{Environment, EnvironmentOptions, ReadTransaction};

/// The text of the database's id.
pub(crate) const DATABASE_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

pub(crate) struct Database {
    pub(crate) simulation: Simulation,
    pub(crate) environment: Arc<Environment>,
    /// Which older versions are kept; none in a new database.
    pub(crate) revisions: RefCell<RevisionsConfiguration>,
    last_write: Cell<i64>,
}

impl Database {
    pub(crate) fn new() -> Self {
        let simulation = Platform::simulated(1);
        let options = EnvironmentOptions::new("/database");
        let environment = Environment::open(&simulation.platform, options).unwrap();
        let mut tx = environment.write().unwrap();
        let wanted = DatabaseIdentity { database_id: DatabaseId([0; 16]), node_tag: NodeTag::A };
        assert_eq!(documents::initialize(&mut tx, wanted).unwrap(), wanted);
        let other = DatabaseIdentity { database_id: DatabaseId([1; 16]), node_tag: NodeTag::A };
        assert_eq!(documents::initialize(&mut tx, other).unwrap(), wanted);
        tx.commit().unwrap();
        Self { simulation, environment, revisions: RefCell::default(), last_write: Cell::default() }
    }

    /// One transaction; kept only when it succeeds.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&mut DocumentWriter<'_>) -> Result<T, DocumentError>,
    ) -> Result<T, DocumentError> {
        let mut tx = self.environment.write().unwrap();
        let platform = &self.simulation.platform;
        let revisions = self.revisions.borrow();
        let now = platform.clock.now();
        self.last_write.set(now.ticks());
        let plain = WriteContext::new(now, &*platform.entropy);
        let context = WriteContext { revisions: &revisions, ..plain };
        let mut writer = DocumentWriter::open(&mut tx, context)?;
        let result = work(&mut writer)?;
        writer.finish()?;
        tx.commit().unwrap();
        self.check();
        Ok(result)
    }

    pub(crate) fn put(&self, id: &str, json: &str) -> StoredDocument {
        self.try_put(id, None, json).unwrap()
    }

    pub(crate) fn try_put(
        &self,
        id: &str,
        expected: Option<&str>,
        json: &str,
    ) -> Result<StoredDocument, DocumentError> {
        let id = RequestedId::parse(Some(id), IdSeparator::default())?;
        self.write(|writer| writer.put(&id, &ExpectedVersion::parse(expected), &body(json)))
    }

    /// Deletes; tells whether there was such a document.
    pub(crate) fn delete(&self, id: &str) -> bool {
        let id = DocumentId::new(id).unwrap();
        self.write(|writer| writer.delete(&id, &ExpectedVersion::Any)).unwrap().is_some()
    }

    /// When the last transaction was, in ticks.
    pub(crate) fn last_write(&self) -> i64 {
        self.last_write.get()
    }

    pub(crate) fn read(&self) -> ReadTransaction {
        self.environment.read()
    }

    /// The document as the protocol shows it.
    pub(crate) fn json(&self, id: &str) -> Option<String> {
        let tx = self.read();
        let row = documents::get(&tx, &DocumentId::new(id).unwrap()).unwrap()?;
        let mut json = Vec::new();
        documents::write_document_json(&row, &mut json).unwrap();
        Some(String::from_utf8(json).unwrap())
    }

    /// Names and counts of the collections, in order.
    pub(crate) fn collections(&self) -> Vec<(String, u64, u64)> {
        let collections = documents::collections(&self.read()).unwrap();
        let parts = collections.into_iter().map(|collection| {
            (collection.name.to_string(), collection.documents, collection.tombstones)
        });
        parts.collect()
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.simulation.clock.advance(Duration::from_secs(seconds));
    }

    /// What must always hold.
    fn check(&self) {
        let tx = self.read();
        documents::check(&tx).unwrap();
        tx.check().unwrap();
    }
}

pub(crate) fn body(json: &str) -> BlittableBuf {
    parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()
}

pub(crate) fn user(name: &str) -> String {
    in_collection("Users", name)
}

pub(crate) fn in_collection(collection: &str, name: &str) -> String {
    format!(r#"{{"Name":"{name}","@metadata":{{"@collection":"{collection}"}}}}"#)
}

/// The change vector of a local write.
pub(crate) fn version(etag: u64) -> String {
    format!("A:{etag}-{DATABASE_ID}")
}
