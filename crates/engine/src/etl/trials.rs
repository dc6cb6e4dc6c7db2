//! Trying a transformation over one document, how much a transformation has still to send, and trying a connection.

use std::time::Duration;

use database::Database;
use documents::log::{self, EntryKind, EntryKinds, Selection};
use etl::{Plan, TestRun};
use model::{CollectionName, DatabaseRecord, DocumentId, Etag};
use serde_json::{Map, Value};
use wire::{EtlTransformation, NodeAddress, ProtocolError, RavenEtl, percent_encode};

use super::{
    destination::{ANSWER_BYTES_MAX, message_of},
    outbound::{Cancel, OutboundRequest},
    position,
    script_run::{document_bytes_max, script_run},
};
use crate::{engine::Engine, error::EngineError};

/// How long a server may take that is tried.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);

/// The outcome of a trial.
#[derive(Debug)]
pub struct EtlTrial {
    /// The commands, as the elements of a JSON array.
    pub commands: Vec<u8>,
    /// Why there are none.
    pub problem: Option<String>,
    /// What the script has printed.
    pub output: Vec<String>,
}

/// How much of one kind a transformation reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtlProgress {
    /// What is left.
    pub left: u64,
    /// Everything.
    pub total: u64,
}

impl Engine {
    /// Runs the first transformation of a task over a document, without sending anything. Blocks.
    ///
    /// # Errors
    /// The task cannot be followed; there is no such document.
    pub fn try_etl(
        &self,
        database: &Database,
        sent: &Map<String, Value>,
        id: &str,
        as_deleted: bool,
    ) -> Result<EtlTrial, EngineError> {
        let definition = RavenEtl::read(sent)?;
        self.check_etl_scripts(&definition)?;
        let invalid =
            |message: String| EngineError::Section(ProtocolError::invalid_operation(message));
        let [transform] = &definition.transforms[..] else {
            return Err(invalid("A trial needs exactly one transformation.".to_owned()));
        };
        let node_tag = self.node_tag().to_string();
        let run = script_run(self, &node_tag);
        let plan = Plan::compile(&run.engine, transform);
        let plan = plan.map_err(|error| invalid(error.to_string()))?;
        let id = DocumentId::new(id).map_err(|error| invalid(error.to_string()))?;
        let work = &self.memory().work;
        let (bytes_max, mut share) = (document_bytes_max(work), work.share(0));
        let (tx, of) = (database.read(), (&id, as_deleted));
        let ran = etl::test(&tx, &plan, &run, of, bytes_max, &mut share)?;
        let Some(TestRun { commands, problem, output }) = ran else {
            return Err(invalid(format!("Document {id} does not exist")));
        };
        Ok(EtlTrial { commands: commands.commands().to_vec(), problem, output })
    }

    /// How much a transformation has still to send of each of these kinds, and how much there is. Walks over what is
    /// left.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn etl_progress(
        &self,
        record: &DatabaseRecord,
        database: &Database,
        task: &str,
        transform: &EtlTransformation,
        kinds: &[EntryKind],
    ) -> Result<Vec<EtlProgress>, EngineError> {
        let (environment, of) = (database.environment(), (task, transform));
        let stored = position::valid(&self.cluster, environment, record.topology_id, of)?;
        let after = stored.map_or(Etag::ZERO, |position| position.etag);
        let names = transform.collections.iter();
        let names = names.map(|name| CollectionName::new(name.as_str()));
        let names = names.collect::<Result<Vec<_>, _>>();
        let names = names.map_err(documents::DocumentError::from)?;
        let tx = database.read();
        let counts = kinds.iter().map(|kind| {
            let selections = [Selection::of_collections(EntryKinds::from(*kind), &names)];
            let left = log::count_after(&tx, &selections, after, u64::MAX)?;
            let total = log::count_after(&tx, &selections, Etag::ZERO, u64::MAX)?;
            Ok(EtlProgress { left, total })
        });
        counts.collect()
    }

    /// Asks a server about a database, or who it is; returns an error for operators. Blocks.
    ///
    /// # Errors
    /// This server makes no requests.
    pub fn try_connection(
        &self,
        url: &str,
        database: Option<&str>,
    ) -> Result<Result<(), String>, EngineError> {
        let outbound = self.etl.outbound().ok_or_else(|| EngineError::Internal {
            what: "nobody makes requests to other servers".to_owned(),
        })?;
        let server: NodeAddress = match url.parse() {
            Ok(server) => server,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let path = match database {
            Some(database) => format!("/topology?name={}", percent_encode(database)),
            None => "/build/version".to_owned(),
        };
        let request = OutboundRequest {
            method: "GET",
            server: server.clone(),
            path,
            content_type: String::new(),
            body: std::sync::Arc::default(),
            time_max: CONNECTION_TIME_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
            identity: None,
        };
        Ok(match outbound.send(request, &Cancel::default()) {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => {
                let message = message_of(&answer.body);
                Err(format!("{server} answered with the status {}. {message}", answer.status))
            }
            Err(error) => Err(error.to_string()),
        })
    }
}
