//! The definitions of sinks in the record of a database: it connects to hubs of other databases.

use std::{sync::Arc, time::Duration};

use database::Decision;
use model::{AllowedPaths, DatabaseRecord, DatabaseTopology, NodeTag, NodeTask};
use security::KeyPair;
use serde_json::{Map, Value};
use wire::{PullReplicationSink, RavenConnectionString, RecordBody};

use super::{
    destinations::{DestinationKey, Direction, LinkDestination},
    task_list::{SINKS, SentTask, refused},
    tasks::{ChangedReplicationTask, check_destination},
};
use crate::{
    engine::Engine,
    error::EngineError,
    etl::{ClientIdentity, connection_strings::raven_string},
    stored_tasks::settle_tasks,
};

/// A sink of a database.
#[derive(Clone, Debug)]
pub struct SinkTask {
    /// Its definition.
    pub definition: PullReplicationSink,
    /// The definition as it may be shown, with what this server does not know.
    pub shown: Map<String, Value>,
    /// Where its hub is, or why that is not known, for operators.
    pub connection: Result<RavenConnectionString, String>,
    /// What it identifies itself with; `None`: what the server does.
    pub identity: Option<ClientIdentity>,
    /// Whether it may replicate only over connections that are encrypted, as what is stored is.
    pub requires_encryption: bool,
}

/// What a link of a sink asks its hub for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SinkLink {
    pub(super) direction: Direction,
    /// The name of the hub.
    pub(super) hub: String,
    pub(super) access: Option<String>,
    /// What this database lets through in this direction.
    pub(super) paths: Option<AllowedPaths>,
    pub(super) identity: Option<ClientIdentity>,
}

impl SinkTask {
    /// The node that runs it, if there is one now.
    pub fn node(&self, topology: &DatabaseTopology) -> Option<NodeTag> {
        topology.node_of_task(&NodeTask {
            number: self.definition.id,
            mentor: self.definition.mentor_node.as_deref(),
            is_pinned: self.definition.is_pinned,
            last: None,
        })
    }

    /// Its links, one for each direction; none if its hub is not known, or if it is switched off.
    pub(super) fn destinations(&self) -> Vec<LinkDestination> {
        let Self { definition, .. } = self;
        let Some(connection) = self.connection.as_ref().ok().filter(|_| !definition.is_disabled)
        else {
            return Vec::new();
        };
        let (mode, mut links) = (definition.mode, Vec::new());
        for (is_wanted, direction, paths) in [
            (mode.hub_to_sink, Direction::HubToSink, &definition.paths_to_sink),
            (mode.sink_to_hub, Direction::SinkToHub, &definition.paths_to_hub),
        ] {
            if !is_wanted {
                continue;
            }
            let sink = SinkLink {
                direction,
                hub: definition.hub.clone(),
                access: definition.access.clone(),
                paths: paths.clone(),
                identity: self.identity.clone(),
            };
            links.push(LinkDestination {
                key: DestinationKey::Sink(definition.id, direction),
                name: definition.name.clone(),
                connection: connection.clone(),
                requires_encryption: self.requires_encryption,
                delay: Duration::ZERO,
                sink: Some(sink),
            });
        }
        links
    }
}

/// The sinks that a record defines; those that cannot be read are left out.
pub(super) fn sinks_of(body: &RecordBody) -> Vec<SinkTask> {
    let sinks = SINKS.stored_in(body).filter_map(|stored| {
        let definition = PullReplicationSink::read(&stored).ok()?;
        let connection = raven_string(body, &definition.connection);
        let identity = identity_of(&stored);
        // It must not connect with another certificate than it was meant to.
        let connection = match &identity {
            Err(error) => Err(error.to_string()),
            Ok(_) => connection.map_err(|error| error.to_string()),
        };
        Some(SinkTask {
            shown: PullReplicationSink::without_secrets(&stored),
            connection,
            identity: identity.ok().flatten(),
            requires_encryption: body.is_encrypted(),
            definition,
        })
    });
    sinks.collect()
}

/// The certificate of a sink.
fn identity_of(stored: &Map<String, Value>) -> Result<Option<ClientIdentity>, EngineError> {
    let Some((file, password)) = PullReplicationSink::certificate(stored)? else { return Ok(None) };
    let unusable = |reason: String| {
        refused(format!(
            "The certificate of a sink (CertificateWithPrivateKey) cannot be used: {reason}"
        ))
    };
    let bytes =
        model::base64_bytes(&file).ok_or_else(|| unusable("it is not in base64".to_owned()))?;
    let pair = KeyPair::from_file(&bytes, None, &password);
    let pair = pair.map_err(|error| unusable(error.to_string()))?;
    Ok(Some(ClientIdentity(Arc::new(pair))))
}

impl Engine {
    /// The sinks of a database.
    pub fn sinks(&self, record: &DatabaseRecord) -> Vec<SinkTask> {
        sinks_of(&RecordBody::of_record(record))
    }

    /// Adds a sink, or replaces the one with the number that it has; one without a certificate keeps the one that it had.
    /// Blocks.
    ///
    /// # Errors
    /// The sink cannot be followed; its certificate cannot be used; its name is taken; there is none with that number;
    /// there are too many; the record cannot be written.
    pub fn put_sink(
        self: &Arc<Self>,
        database: &str,
        sent: &Map<String, Value>,
    ) -> Result<ChangedReplicationTask, EngineError> {
        let definition = PullReplicationSink::read(sent)?;
        identity_of(&PullReplicationSink::with_names_as_written(sent))?;
        let index = self.cluster_state().last_index()? + 1;
        let mut id = definition.id;
        let written = self.decide_record_body(database, |record, body| {
            check_destination(body, database, &definition.connection, &definition.name)?;
            let number_min = index.max(record.etag + 1);
            settle_tasks(body, number_min);
            let stored = match definition.id {
                0 => sent.clone(),
                id => PullReplicationSink::with_secrets_of(sent, &SINKS.task(body, id)?),
            };
            let task = SentTask { stored: &stored, id: definition.id, name: &definition.name };
            id = SINKS.put(body, &task, number_min)?;
            Ok(Decision::Replace)
        })?;
        self.follow_replication();
        Ok(ChangedReplicationTask { index: written.index, id })
    }

    /// Enables a sink, or disables it. Blocks.
    ///
    /// # Errors
    /// There is none with this number; it cannot be enabled; the record cannot be written.
    pub fn set_sink_state(
        self: &Arc<Self>,
        database: &str,
        id: u64,
        is_disabled: bool,
    ) -> Result<ChangedReplicationTask, EngineError> {
        self.change_replication_task(database, id, |body| {
            let task = SINKS.task(body, id)?;
            if !is_disabled {
                let definition = PullReplicationSink::read(&task)?;
                check_destination(body, database, &definition.connection, &definition.name)?;
            }
            SINKS.set_disabled(body, id, is_disabled)?;
            Ok(())
        })
    }

    /// Deletes a sink; what it has received remains. Blocks.
    ///
    /// # Errors
    /// There is none with this number; the record cannot be written.
    pub fn delete_sink(
        self: &Arc<Self>,
        database: &str,
        id: u64,
    ) -> Result<ChangedReplicationTask, EngineError> {
        self.change_replication_task(database, id, |body| {
            SINKS.remove(body, id)?;
            Ok(())
        })
    }
}
