//! Migrating a database from a running server, RavenDB or Corvus: the source exports it by its public endpoint, and what
//! arrives is imported as it comes. Nothing is written at the source.
//!
//! An import that fails or is stopped leaves what it has stored; repeating it is safe.

use std::{io::Read, sync::Arc, time::Duration};

use database::{DatabaseLease, Operation};
use serde_json::Value;
use smuggler::DumpText;
use wire::{
    MigrationConfiguration, NodeAddress, operation_state::OperationStatus, percent_encode,
    smuggler_result::MessageLevel,
};

use crate::{
    engine::Engine,
    error::EngineError,
    etl::{Outbound, OutboundError, OutboundRequest, OutboundStream},
    operation_thread::ShowFailure,
    smuggler::{DumpLoad, LoadSource, SmugglerProgress},
};

/// The migration fails when nothing arrives of the source for this time.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Of an answer that is no dump, and of those about a server.
const ANSWER_BYTES_MAX: usize = 1 << 20;
const JSON: &str = "application/json";

/// What a server says of itself to one that wants to migrate from it.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    /// The answer of `/build/version`.
    pub build: Value,
    /// Its databases; `None` if it does not say.
    pub databases: Option<Vec<String>>,
}

impl Engine {
    /// Begins to migrate into a database; returns the id of the operation, one of the database. For operators.
    ///
    /// # Errors
    /// The transform script is wrong; there are too many operations; no thread can be started.
    pub fn begin_migration(
        self: &Arc<Self>,
        database: &DatabaseLease,
        configuration: MigrationConfiguration,
        show_failure: ShowFailure,
    ) -> Result<i64, EngineError> {
        self.check_transform_script(&configuration.options)?;
        let outbound = self.requests_to_others()?;
        let id = database.operations().next_id();
        let (name, url) = (&configuration.database, &configuration.server_url);
        let description = format!("Database name: '{name}' from url: {url}");
        let operation = database
            .operations()
            .begin(id, description, "DatabaseMigrationRavenDb", self.platform.clock.now())
            .map_err(|_| EngineError::TooManyOperations)?;
        let migration = Migration {
            engine: Arc::clone(self),
            database: database.clone(),
            operation: Arc::clone(&operation),
            outbound,
            configuration,
        };
        self.run_operation(operation, show_failure, move || migration.run())?;
        Ok(id)
    }

    /// Asks a server for its build and its databases. Blocks.
    ///
    /// # Errors
    /// It does not answer, or refuses to.
    pub fn remote_server(&self, server: &NodeAddress) -> Result<RemoteServer, EngineError> {
        let outbound = self.requests_to_others()?;
        let ask = |path: &str| {
            let request = request("GET", server, path.to_owned(), "");
            let stream = outbound.open(request, Arc::new(|| true)).map_err(refused)?;
            let status = stream.status;
            let text = text_of(stream);
            let answer = serde_json::from_slice::<Value>(&text).ok();
            match (status, answer) {
                (200, Some(answer)) => Ok(answer),
                (_, answer) => Err(no_dump(server, status, answer.as_ref())),
            }
        };
        let build = ask("/build/version")?;
        let databases = ask("/databases?namesOnly=true").ok();
        let databases = databases.and_then(|answer| {
            let names = answer["Databases"].as_array()?.iter();
            names.map(|name| name.as_str().map(str::to_owned)).collect()
        });
        Ok(RemoteServer { build, databases })
    }

    fn requests_to_others(&self) -> Result<Arc<dyn Outbound>, EngineError> {
        let message =
            "The server is still starting: it makes no requests to others yet.".to_owned();
        self.etl.outbound().ok_or(EngineError::Refused { message })
    }
}

struct Migration {
    engine: Arc<Engine>,
    database: DatabaseLease,
    operation: Arc<Operation>,
    outbound: Arc<dyn Outbound>,
    configuration: MigrationConfiguration,
}

impl Migration {
    fn run(self) -> Result<OperationStatus, EngineError> {
        let clock = Arc::clone(&self.engine.platform.clock);
        let mut progress = SmugglerProgress::new(Some(Arc::clone(&self.operation)), clock);
        let url = &self.configuration.server_url;
        progress.report(MessageLevel::Info, &format!("Importing from {url}"));
        match self.load(&mut progress) {
            Ok(()) => Ok(OperationStatus::Smuggled(Box::new(progress.end()))),
            Err(EngineError::Stopped) => Err(EngineError::Stopped),
            Err(error) => {
                let summary = progress.result().summary();
                let message = format!("{error} Imported before that: {summary}.");
                Err(EngineError::Refused { message })
            }
        }
    }

    fn load(&self, progress: &mut SmugglerProgress) -> Result<(), EngineError> {
        let MigrationConfiguration { server_url, database, options, export_options } =
            &self.configuration;
        let path = format!("/databases/{}/smuggler/export", percent_encode(database));
        let (operation, lease) = (Arc::clone(&self.operation), self.database.clone());
        let is_wanted = Arc::new(move || !operation.should_stop() && !lease.is_closing());
        let opened =
            self.outbound.open(request("POST", server_url, path, export_options), is_wanted);
        let stream = opened.map_err(|error| match error {
            OutboundError::Canceled => EngineError::Stopped,
            error => refused(error),
        })?;
        let status = stream.status;
        if status != 200 {
            let answer = serde_json::from_slice::<Value>(&text_of(stream)).ok();
            return Err(no_dump(server_url, status, answer.as_ref()));
        }
        let unreadable = |error: std::io::Error| EngineError::Refused {
            message: format!("{server_url}: {error}."),
        };
        let mut text = DumpText::open(stream.body).map_err(unreadable)?;
        let name = format!("{server_url}/databases/{database}");
        let source = LoadSource {
            name: &name,
            options: options.clone(),
            keeps_record: false,
            replaces_counters: false,
        };
        let (engine, operation) = (&self.engine, &*self.operation);
        let loaded = DumpLoad::load(engine, &self.database, operation, source, progress, &mut text);
        match loaded {
            Ok(_) => Ok(()),
            // What is no longer wanted breaks off.
            Err(_) if operation.should_stop() => Err(EngineError::Stopped),
            Err(error) => Err(error),
        }
    }
}

fn request(
    method: &'static str,
    server: &NodeAddress,
    path: String,
    body: &str,
) -> OutboundRequest {
    OutboundRequest {
        method,
        server: server.clone(),
        path,
        content_type: if body.is_empty() { String::new() } else { JSON.to_owned() },
        body: Arc::new(body.as_bytes().to_vec()),
        time_max: SILENCE_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
        identity: None,
    }
}

/// A short answer, as far as it arrives.
fn text_of(stream: OutboundStream) -> Vec<u8> {
    let mut text = Vec::new();
    // What is missing of it is missing of a message.
    drop(stream.body.take(ANSWER_BYTES_MAX as u64).read_to_end(&mut text));
    text
}

fn refused(error: OutboundError) -> EngineError {
    EngineError::Refused { message: format!("{}.", error.to_string().trim_end_matches('.')) }
}

fn no_dump(server: &NodeAddress, status: u16, answer: Option<&Value>) -> EngineError {
    let said = answer.and_then(|answer| answer["Message"].as_str()).unwrap_or_default();
    let said = said.lines().next().unwrap_or_default();
    let said = if said.is_empty() { "it does not say why" } else { said.trim_end_matches('.') };
    EngineError::Refused { message: format!("{server} answered with status {status}: {said}.") }
}
