//! Documents that indexes of tests follow. They are never lost; what is tested are the indexes.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use blittable::{ParseLimits, parse_document};
use documents::{
    DatabaseIdentity, DocumentWriter, ExpectedVersion, OutputChange, OutputWritten, RequestedId,
    WriteContext, initialize,
};
use indexing::{
    DefinitionFormat, Index, IndexContext, IndexKind, IndexingPool, OutputError, OutputQueue,
};
use model::{DatabaseId, DocumentId};
use platform::{
    Platform,
    simulated::{Random, Simulation, Survival},
};
use script::ScriptPool;
use storage::{Environment, EnvironmentOptions, History};

/// Where they are on their platform.
pub(crate) const DIRECTORY: &str = "database";
/// How definitions are stored in the files of indexes.
pub(crate) const DEFINITION_FORMAT: DefinitionFormat =
    DefinitionFormat { write: wire::index_definition_text, read: wire::index_definition_of_text };
/// How long an index waits for memory before some is released.
const FLUSH_INTERVAL: Duration = Duration::from_millis(20);

/// See the module.
pub(crate) struct Documents {
    pub(crate) platform: Platform,
    pub(crate) environment: Arc<Environment>,
}

/// The documents that indexes write.
pub(crate) struct Outputs {
    pub(crate) platform: Platform,
    pub(crate) environment: Arc<Environment>,
}

impl Outputs {
    fn of(documents: &Documents) -> Self {
        let environment = Arc::clone(&documents.environment);
        Self { platform: documents.platform.clone(), environment }
    }
}

impl OutputQueue for Outputs {
    fn commit(&self, changes: Vec<OutputChange>) -> Result<Vec<OutputWritten>, OutputError> {
        let mut tx = self.environment.write().unwrap();
        let entropy = self.platform.entropy.as_ref();
        let context = WriteContext::new(self.platform.clock.now(), entropy);
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        let written = changes.iter().map(|change| writer.write_output(change));
        let written = written.collect::<Result<Vec<_>, _>>();
        let written =
            written.map_err(|error| OutputError::Refused { message: error.to_string() })?;
        writer.finish().unwrap();
        tx.commit().unwrap();
        Ok(written)
    }
}

/// Cuts the power at one of the next operations of the disk.
pub(crate) fn cut_power_soon(simulation: &Simulation, random: &mut Random, operations_max: u64) {
    let survival = Survival::ALL[(random.next_u64() % 5) as usize];
    let operations = 1 + random.next_u64() % operations_max;
    simulation.disk.cut_power_at_operation(operations, survival);
}

impl Documents {
    pub(crate) fn new() -> Self {
        Self::made_on(Platform::memory(), History::NotKept)
    }

    /// New ones.
    pub(crate) fn made_on(platform: Platform, history: History) -> Self {
        let documents = Self::opened_on(platform, history);
        let mut tx = documents.environment.write().unwrap();
        let identity =
            DatabaseIdentity { database_id: DatabaseId([7; 16]), node_tag: "A".parse().unwrap() };
        initialize(&mut tx, identity).unwrap();
        tx.commit().unwrap();
        documents
    }

    /// Those that are on this platform.
    pub(crate) fn opened_on(platform: Platform, history: History) -> Self {
        let options = EnvironmentOptions { history, ..EnvironmentOptions::new(DIRECTORY) };
        let environment = Environment::open(&platform, options).unwrap();
        Self { platform, environment }
    }

    pub(crate) fn write(&self, work: impl FnOnce(&mut DocumentWriter<'_>)) {
        let mut tx = self.environment.write().unwrap();
        let entropy = self.platform.entropy.as_ref();
        let context = WriteContext::new(self.platform.clock.now(), entropy);
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        work(&mut writer);
        writer.finish().unwrap();
        tx.commit().unwrap();
    }

    pub(crate) fn put(&self, id: &str, json: &str) {
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let id = RequestedId::Exactly(DocumentId::new(id).unwrap());
        self.write(|writer| drop(writer.put(&id, &ExpectedVersion::Any, &body).unwrap()));
    }

    pub(crate) fn delete(&self, id: &str) {
        let id = DocumentId::new(id).unwrap();
        self.write(|writer| drop(writer.delete(&id, &ExpectedVersion::Any).unwrap()));
    }

    /// Opens an index in files of `platform`.
    pub(crate) fn open(&self, platform: &Platform, kind: &IndexKind) -> Option<Index> {
        Index::open("I", kind.clone(), self.context(platform)).ok()
    }

    pub(crate) fn context(&self, platform: &Platform) -> IndexContext {
        self.context_of(platform, 1)
    }

    /// With so many threads to index.
    pub(crate) fn context_of(&self, platform: &Platform, threads: usize) -> IndexContext {
        IndexContext {
            platform: platform.clone(),
            documents: Arc::clone(&self.environment),
            values: None,
            environment: EnvironmentOptions {
                journal_bytes_max: 256 << 10,
                ..EnvironmentOptions::new("/index")
            },
            scripts: ScriptPool::new(Arc::clone(&self.platform.clock)),
            pool: IndexingPool::new(Arc::clone(&self.platform.clock), threads),
            outputs: Arc::new(Outputs::of(self)),
            definition_format: DEFINITION_FORMAT,
        }
    }

    /// Waits until the index has everything, or has failed.
    pub(crate) fn follow(&self, index: &Index) -> bool {
        index.notice_changes();
        let last = index.last_position_in(&self.environment.read()).unwrap();
        let (sender, receiver) = mpsc::channel();
        index.when_indexed(last, Box::new(move |reached| sender.send(reached).unwrap_or(())));
        loop {
            match receiver.recv_timeout(FLUSH_INTERVAL) {
                Ok(reached) => return reached,
                Err(RecvTimeoutError::Disconnected) => return false,
                // Nothing else flushes here; the next commit reports a disk without power.
                Err(RecvTimeoutError::Timeout) => drop(index.environment().flush()),
            }
        }
    }
}
