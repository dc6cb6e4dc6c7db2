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
use model::{DatabaseId, DatabaseRecord, Etag, base64_bytes, base64_text};
use serde_json::{Value, json};
use storage::{Environment, HistoryPoint};
use wire::{EtlTransformation, RavenEtl};

use super::tasks::tasks_of;
use crate::error::EngineError;

/// The names of the values begin with it.
const PREFIX: &str = "etl-position/";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The moment in the history of the files that were read; `None` if nothing was.
    pub(crate) point: Option<HistoryPoint>,
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
fn read(
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
        point: stored["Point"].as_str().and_then(point_in),
        definition: stored["Definition"].clone(),
        etag: Etag(stored["LastProcessedEtag"].as_u64()?),
        change_vector: stored["ChangeVector"].as_str().unwrap_or_default().to_owned(),
    })
}

fn point_in(text: &str) -> Option<HistoryPoint> {
    HistoryPoint::from_bytes(&base64_bytes(text)?)
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
        "Point": position.point.map(|point| base64_text(&point.to_bytes())),
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

/// Removes the positions of a database. Blocks.
pub(crate) fn remove_all(cluster: &Cluster, database: DatabaseId) -> Result<(), ClusterError> {
    let beginning = format!("{PREFIX}{database}/");
    let stored = cluster.store().read().server_values(&beginning)?;
    stored
        .into_iter()
        .try_for_each(|(name, _)| store(cluster, format!("{beginning}{name}"), Vec::new()))
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
    Arc::new(move |record, environment| {
        let position = |task: &RavenEtl, transform: &EtlTransformation| {
            valid(&cluster, environment, record.topology_id, (&task.name, transform))
        };
        let tasks = tasks_of(record);
        tasks.iter().flat_map(|task| needs_of(&task.definition, &position)).collect()
    })
}

/// The stored position, if it is of this definition and these files.
pub(crate) fn valid(
    cluster: &Cluster,
    environment: &Environment,
    database: DatabaseId,
    (task, transform): (&str, &EtlTransformation),
) -> Result<Option<Position>, EngineError> {
    let stored = read(cluster, database, task, &transform.name)?;
    let of_definition = stored.filter(|stored| stored.definition == definition_of(transform));
    let Some(stored) = of_definition else { return Ok(None) };
    let Some(point) = &stored.point else { return Ok(None) };
    let is_vouched = environment.vouches_for(point)?.is_ok();
    Ok(is_vouched.then_some(stored))
}

type ReadPosition<'r> =
    dyn Fn(&RavenEtl, &EtlTransformation) -> Result<Option<Position>, EngineError> + 'r;

fn needs_of(definition: &RavenEtl, position: &ReadPosition<'_>) -> Vec<TombstoneNeed> {
    let mut needs = Vec::new();
    for transform in &definition.transforms {
        // Where it will begin with the first change, and where that is not known, it needs everything.
        let stored = position(definition, transform).ok().flatten();
        let known = stored.map_or(Etag::ZERO, |position| position.etag);
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
    fn a_position_is_read_as_it_was_stored() {
        let point = HistoryPoint { environment: 1 << 100, incarnation: u64::MAX, transaction: 3 };
        let text = base64_text(&point.to_bytes());
        assert_eq!(point_in(&text), Some(point));
        assert_eq!(point_in("no point"), None);
    }

    #[test]
    fn names_that_look_alike_are_different_values() {
        let of = |task: &str, transform: &str| name_of(DatabaseId([7; 16]), task, transform);
        assert_ne!(of("a/b", "c"), of("a", "b/c"));
        assert_eq!(of("Task", "Script #1"), of("task", "script #1"));
    }
}
