//! How far a transformation has come, as it is stored: a value that all nodes agree on, under the names of the task
//! and of the transformation.
//!
//! Invariant: what is stored was sent, and answered. A position is valid for the files and the definition that it
//! names; otherwise the transformation begins with the first change again.

use std::sync::Arc;

use cluster::Cluster;
use cluster_state::{ClusterError, Command, ServerValueCommand};
use database::{DeletionsNeeded, TombstoneNeed};
use documents::TombstoneKind;
use etl::deletions_read;
use model::{DatabaseId, DatabaseRecord, Etag};
use serde_json::{Value, json};
use wire::EtlTransformation;

use super::tasks::{EtlTask, tasks_of};

/// The names of the values begin with it.
const PREFIX: &str = "etl-position/";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The files that were read.
    pub(crate) database_id: Option<DatabaseId>,
    /// What was read and sent: [`definition_of`] the transformation.
    pub(crate) definition: Value,
    /// Everything up to here was sent.
    pub(crate) etag: Etag,
    /// The version of that change.
    pub(crate) change_vector: String,
}

/// What a position is valid for: a transformation that reads or sends something else begins again.
pub(crate) fn definition_of(transform: &EtlTransformation) -> Value {
    json!({ "Collections": transform.collections, "Script": transform.script })
}

/// The names of tasks and transformations in lower case, with the length of the first: both may contain anything.
fn name_of(database: DatabaseId, task: &str, transform: &str) -> String {
    let (task, transform) = (task.to_lowercase(), transform.to_lowercase());
    format!("{PREFIX}{database}/{}/{task}/{transform}", task.len())
}

/// The stored position; `None` if there is none.
pub(crate) fn read(
    cluster: &Cluster,
    database: DatabaseId,
    task: &str,
    transform: &str,
) -> Result<Option<Position>, ClusterError> {
    let value = cluster.store().read().server_value(&name_of(database, task, transform))?;
    Ok(value.and_then(|value| parse(&value.bytes)))
}

fn parse(bytes: &[u8]) -> Option<Position> {
    let stored: Value = serde_json::from_slice(bytes).ok()?;
    Some(Position {
        database_id: stored["DatabaseId"].as_str().and_then(DatabaseId::parse),
        definition: stored["Definition"].clone(),
        etag: Etag(stored["LastProcessedEtag"].as_u64()?),
        change_vector: stored["ChangeVector"].as_str().unwrap_or_default().to_owned(),
    })
}

/// Stores a position. Blocks.
pub(crate) fn write(
    cluster: &Cluster,
    database: DatabaseId,
    (task, transform): (&str, &str),
    position: &Position,
) -> Result<(), ClusterError> {
    let stored = json!({
        "ConfigurationName": task,
        "TransformationName": transform,
        "DatabaseId": position.database_id.map(|id| id.to_string()),
        "Definition": position.definition,
        "LastProcessedEtag": position.etag.0,
        "ChangeVector": position.change_vector,
    });
    store(cluster, name_of(database, task, transform), stored.to_string().into_bytes())
}

/// Forgets the position of a transformation, which then begins again. Blocks.
pub(crate) fn remove(
    cluster: &Cluster,
    database: DatabaseId,
    task: &str,
    transform: &str,
) -> Result<(), ClusterError> {
    store(cluster, name_of(database, task, transform), Vec::new())
}

fn store(cluster: &Cluster, name: String, bytes: Vec<u8>) -> Result<(), ClusterError> {
    cluster.submit_and_wait(&Command::ServerValue(ServerValueCommand { name, bytes }))?;
    Ok(())
}

/// Removes positions of databases and transformations that no longer exist. Blocks.
pub(crate) fn remove_old(
    cluster: &Cluster,
    records: &[Arc<DatabaseRecord>],
) -> Result<(), ClusterError> {
    let mut known = Vec::new();
    for record in records {
        for task in tasks_of(record) {
            let (name, transforms) = (&task.definition.name, &task.definition.transforms);
            let names = transforms.iter();
            known.extend(names.map(|one| name_of(record.topology_id, name, &one.name)));
        }
    }
    let stored = cluster.store().read().server_values(PREFIX)?;
    for (name, _) in stored {
        let name = format!("{PREFIX}{name}");
        if !known.contains(&name) {
            store(cluster, name, Vec::new())?;
        }
    }
    Ok(())
}

/// What ETL tasks need of the deletions of a database: everything that they have not sent, also while they are disabled.
pub(crate) fn tombstone_needs(cluster: Arc<Cluster>) -> DeletionsNeeded {
    Arc::new(move |record| {
        tasks_of(record).iter().flat_map(|task| needs_of(&cluster, record, task)).collect()
    })
}

fn needs_of(cluster: &Cluster, record: &DatabaseRecord, task: &EtlTask) -> Vec<TombstoneNeed> {
    let definition = &task.definition;
    let mut needs = Vec::new();
    for transform in &definition.transforms {
        let stored = read(cluster, record.topology_id, &definition.name, &transform.name);
        let known = stored.ok().flatten().map_or(Etag::ZERO, |position| position.etag);
        let is_disabled = definition.is_disabled || transform.is_disabled;
        let need = |kind: TombstoneKind, collection| TombstoneNeed {
            holder: format!("{}/{}", definition.name, transform.name),
            process: "RavenEtl",
            condition: if is_disabled { "Disabled" } else { "Running" },
            kind,
            collection,
            known,
        };
        for kind in deletions_read(transform) {
            // Attachments are filed under no collection.
            if transform.collections.is_empty() || kind == TombstoneKind::Attachments {
                needs.push(need(kind, None));
                continue;
            }
            let names = transform.collections.iter();
            let names = names.filter_map(|name| model::CollectionName::new(name.as_str()).ok());
            needs.extend(names.map(|name| need(kind, Some(name))));
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_different_values() {
        let of = |task: &str, transform: &str| name_of(DatabaseId([7; 16]), task, transform);
        assert_ne!(of("a/b", "c"), of("a", "b/c"));
        assert_eq!(of("Task", "Script #1"), of("task", "script #1"));
    }
}
