//! The definitions of hubs in the record of a database, and the certificates that may connect to them.

use std::sync::Arc;

use database::Decision;
use model::{DatabaseRecord, DatabaseTopology, NodeTag, NodeTask, lower_case};
use security::Certificate;
use serde_json::{Map, Value, json};
use wire::{HubAccess, PullReplicationHub, RecordBody};

use super::{
    task_list::{HUBS, SentTask, refused},
    tasks::ChangedReplicationTask,
};
use crate::{engine::Engine, error::EngineError, stored_tasks::settle_tasks};

/// How many certificates may connect to one hub: they are in the record of the database.
const ACCESSES_MAX: usize = 1024;

/// A hub of a database.
#[derive(Clone, Debug)]
pub struct HubTask {
    /// Its definition.
    pub definition: PullReplicationHub,
    /// The definition as it is stored, with what this server does not know.
    pub stored: Map<String, Value>,
}

/// A certificate that may connect to a hub.
#[derive(Clone, Debug)]
pub struct RegisteredAccess {
    /// The thumbprint of the certificate.
    pub thumbprint: String,
    /// Its name, and what may pass.
    pub access: HubAccess,
}

impl HubTask {
    /// The node that sinks should connect to, if there is one now.
    pub fn node(&self, topology: &DatabaseTopology) -> Option<NodeTag> {
        topology.node_of_task(&NodeTask {
            number: self.definition.id,
            mentor: self.definition.mentor_node.as_deref(),
            is_pinned: self.definition.is_pinned,
            last: None,
        })
    }
}

/// The hubs that a record defines; those that cannot be read are left out.
pub(super) fn hubs_of(body: &RecordBody) -> Vec<HubTask> {
    let hubs = HUBS.stored_in(body).filter_map(|stored| {
        let definition = PullReplicationHub::read(&stored).ok()?;
        Some(HubTask { definition, stored })
    });
    hubs.collect()
}

/// The hub of this name. Hubs are told apart as their accesses are, whose section has names in lower case.
pub(super) fn hub_named(body: &RecordBody, name: &str) -> Option<HubTask> {
    let name = lower_case(name);
    hubs_of(body).into_iter().find(|hub| lower_case(&hub.definition.name) == name)
}

/// The accesses of a hub, in the order of thumbprints.
pub(super) fn accesses_of(body: &RecordBody, hub: &str) -> Vec<RegisteredAccess> {
    let accesses = access_section(body, hub).into_iter().filter_map(|(thumbprint, stored)| {
        let access = HubAccess::read(stored.as_object()?).ok()?;
        Some(RegisteredAccess { thumbprint, access })
    });
    accesses.collect()
}

fn access_section(body: &RecordBody, hub: &str) -> Map<String, Value> {
    let of_all = body.properties().get(RecordBody::HUB_ACCESSES);
    let of_hub = of_all.and_then(|all| all.get(lower_case(hub).as_ref()));
    of_hub.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Replaces the accesses of a hub.
fn put_accesses(body: &mut RecordBody, hub: &str, accesses: Map<String, Value>) {
    let of_all = body.properties().get(RecordBody::HUB_ACCESSES).and_then(Value::as_object);
    if of_all.is_none() && accesses.is_empty() {
        return;
    }
    let (mut of_all, hub) = (of_all.cloned().unwrap_or_default(), lower_case(hub).into_owned());
    match accesses.is_empty() {
        true => drop(of_all.shift_remove(&hub)),
        false => drop(of_all.insert(hub, Value::Object(accesses))),
    }
    body.put(RecordBody::HUB_ACCESSES, Value::Object(of_all));
}

impl Engine {
    /// The hubs of a database.
    pub fn hubs(&self, record: &DatabaseRecord) -> Vec<HubTask> {
        hubs_of(&RecordBody::of_record(record))
    }

    /// Adds a hub, or replaces the one with the number or the name that it has. Blocks.
    ///
    /// # Errors
    /// The hub cannot be followed; its name is taken; there is none with that number; there are too many; the record
    /// cannot be written.
    pub fn put_hub(
        self: &Arc<Self>,
        database: &str,
        sent: &Map<String, Value>,
    ) -> Result<ChangedReplicationTask, EngineError> {
        let definition = PullReplicationHub::read(sent)?;
        if definition.is_filtered && self.settings().security.certificate.is_none() {
            return Err(refused(
                "Server must be secured in order to use filtering in pull replication: sinks are known by their \
                 certificates"
                    .to_owned(),
            ));
        }
        let index = self.cluster_state().last_index()? + 1;
        let mut id = definition.id;
        let written = self.decide_record_body(database, |record, body| {
            let number_min = index.max(record.etag + 1);
            settle_tasks(body, number_min);
            let known = hub_named(body, &definition.name).map_or(0, |hub| hub.definition.id);
            let replaced = if definition.id == 0 { known } else { definition.id };
            self.check_accesses(body, &definition, replaced)?;
            let task = SentTask { stored: sent, id: replaced, name: &definition.name };
            id = HUBS.put(body, &task, number_min)?;
            Ok(Decision::Replace)
        })?;
        self.follow_replication();
        Ok(ChangedReplicationTask { index: written.index, id })
    }

    /// The accesses of the hub that is replaced stay, under its new name, and must fit it. A new one has none, whatever
    /// a former one of its name has left.
    fn check_accesses(
        &self,
        body: &mut RecordBody,
        definition: &PullReplicationHub,
        replaced: u64,
    ) -> Result<(), EngineError> {
        let mut hubs = hubs_of(body).into_iter();
        let Some(former) = hubs.find(|hub| hub.definition.id == replaced) else {
            put_accesses(body, &definition.name, Map::new());
            return Ok(());
        };
        let former = former.definition;
        for RegisteredAccess { access, .. } in accesses_of(body, &former.name) {
            access.check_filters(definition)?;
        }
        if !former.name.eq_ignore_ascii_case(&definition.name) {
            let accesses = access_section(body, &former.name);
            put_accesses(body, &former.name, Map::new());
            put_accesses(body, &definition.name, accesses);
        }
        Ok(())
    }

    /// Enables a hub, or disables it. Blocks.
    ///
    /// # Errors
    /// There is none with this number; the record cannot be written.
    pub fn set_hub_state(
        self: &Arc<Self>,
        database: &str,
        id: u64,
        is_disabled: bool,
    ) -> Result<ChangedReplicationTask, EngineError> {
        self.change_replication_task(database, id, |body| {
            HUBS.set_disabled(body, id, is_disabled)?;
            Ok(())
        })
    }

    /// Deletes a hub with its accesses; what its sinks have remains. Blocks.
    ///
    /// # Errors
    /// There is none with this number; the record cannot be written.
    pub fn delete_hub(
        self: &Arc<Self>,
        database: &str,
        id: u64,
    ) -> Result<ChangedReplicationTask, EngineError> {
        self.change_replication_task(database, id, |body| {
            let task = HUBS.task(body, id)?;
            if let Some(name) = task.get("Name").and_then(Value::as_str) {
                put_accesses(body, name, Map::new());
            }
            HUBS.remove(body, id)?;
            Ok(())
        })
    }

    /// The certificates that may connect to a hub; none if there is no such hub.
    pub fn hub_accesses(&self, record: &DatabaseRecord, hub: &str) -> Vec<RegisteredAccess> {
        accesses_of(&RecordBody::of_record(record), hub)
    }

    /// Lets a certificate connect to a hub, and replaces what it was allowed before; returns the index of the change.
    /// Blocks.
    ///
    /// # Errors
    /// There is no such hub; the filters do not fit it; it has too many; the record cannot be written.
    pub fn register_hub_access(
        &self,
        database: &str,
        hub: &str,
        (sent, certificate): (&Map<String, Value>, &Certificate),
    ) -> Result<u64, EngineError> {
        let access = HubAccess::read(sent)?;
        let written = self.decide_record_body(database, |_, body| {
            let found = hub_named(body, hub).ok_or_else(|| missing_hub(hub))?;
            access.check_filters(&found.definition)?;
            let mut accesses = access_section(body, hub);
            let paths = |paths: &Option<model::AllowedPaths>| {
                paths.as_ref().map(|paths| paths.paths().to_vec())
            };
            let stored = json!({
                "Name": access.name,
                "CertificateBase64": model::base64_text(certificate.der()),
                "AllowedHubToSinkPaths": paths(&access.paths_to_sink),
                "AllowedSinkToHubPaths": paths(&access.paths_to_hub),
            });
            accesses.insert(certificate.thumbprint().to_owned(), stored);
            if ACCESSES_MAX < accesses.len() {
                return Err(refused(format!(
                    "At most {ACCESSES_MAX} certificates may connect to a hub."
                )));
            }
            put_accesses(body, hub, accesses);
            Ok(Decision::Replace)
        })?;
        Ok(written.index)
    }

    /// No longer lets a certificate connect to a hub; one that may not is no error. Returns the index of the change.
    /// Blocks.
    ///
    /// # Errors
    /// There is no such hub; the record cannot be written.
    pub fn unregister_hub_access(
        &self,
        database: &str,
        hub: &str,
        thumbprint: &str,
    ) -> Result<u64, EngineError> {
        let written = self.decide_record_body(database, |_, body| {
            hub_named(body, hub).ok_or_else(|| missing_hub(hub))?;
            let mut accesses = access_section(body, hub);
            accesses.retain(|known, _| !known.eq_ignore_ascii_case(thumbprint));
            put_accesses(body, hub, accesses);
            Ok(Decision::Replace)
        })?;
        Ok(written.index)
    }

    /// Whether a certificate may connect to any hub of a database. Never blocks, and opens nothing.
    pub fn is_known_to_hubs(&self, database: &str, thumbprint: &str) -> bool {
        let Some(record) = self.catalog.record(database) else { return false };
        let body = RecordBody::of_record(&record);
        let mut hubs = hubs_of(&body).into_iter();
        hubs.any(|hub| access_section(&body, &hub.definition.name).contains_key(thumbprint))
    }
}

fn missing_hub(hub: &str) -> EngineError {
    EngineError::Section(wire::ProtocolError::new(
        wire::ErrorKind::ReplicationHubNotFound,
        format!("There is no replication hub with the name '{hub}'."),
    ))
}
