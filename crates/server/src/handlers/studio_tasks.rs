//! Validation for a studio's forms: whether a name is valid, where files would be, when a cron
//! expression next matches.

use std::path::Path;

use engine::{CronExpression, check_index_name};
use http::StatusCode;
use model::{DatabaseName, DatabaseRecord, IndexDefinition, NamedEnum as _, date};
use serde_json::{Value, json};
use wire::{
    RecordBody,
    database_shapes::{ListedConfigurations, listed_nodes},
    humane_size, studio_environment_of_record,
};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    handlers::databases::listed_state,
    stored_record::{body_of, nodes_of},
};

/// `GET /studio-tasks/is-valid-name`.
pub(crate) fn is_valid_name(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let (kind, name) = (query.single_non_empty("type")?, query.get("name").unwrap_or(""));
    let error = match kind.to_ascii_lowercase().as_str() {
        "database" => DatabaseName::new(name).err().map(|error| error.to_string()),
        "index" => check_index_name(name).err().map(|error| error.to_string()),
        "script" => name.trim().is_empty().then(|| "Name cannot be empty.".to_owned()),
        _ => return Err(ApiError::argument(format!("Type {kind} is not supported"))),
    };
    let answer = json!({"IsValid": error.is_none(), "ErrorMessage": error});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /studio-tasks/next-cron-expression-occurrence`. The server's time zone is UTC.
pub(crate) fn next_occurrence(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let parsed = CronExpression::parse(query.single_non_empty("expression")?);
    let now = call.state.engine.clock().now().ticks();
    let answer = match parsed {
        Ok(expression) => match expression.next_after(now) {
            Some(next) => {
                let utc = date::format(next);
                let server_time = utc.trim_end_matches('Z');
                json!({"IsValid": true, "Utc": utc, "ServerTime": server_time})
            }
            None => json!({"IsValid": false, "ErrorMessage": "This time never comes"}),
        },
        Err(error) => json!({"IsValid": false, "ErrorMessage": error.to_string()}),
    };
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /admin/studio-tasks/full-data-directory`: where the files of a new database would be, and
/// the free space there.
pub(crate) fn full_data_directory(call: &Call) -> Result<Answer, ApiError> {
    let (query, state) = (call.query(), &call.state);
    let text = |name: &str| query.get(name).map(str::trim).filter(|text| !text.is_empty());
    let (directory, refusal) = state.engine.directory_of_new(text("name"), text("path"));
    let space = match &refusal {
        None => space_at(call, &directory),
        Some(_) => None,
    };
    let (free, total) = space.map_or((0, 0), |space| (space.free_bytes, space.total_bytes));
    let answer = json!({
        "NodeTag": call.state.node_tag(), "FullPath": directory.to_string_lossy(),
        "FreeSpaceInBytes": free, "FreeSpaceHumane": humane_size(free),
        "TotalSpaceInBytes": total, "TotalSpaceHumane": humane_size(total),
        "Error": refusal.map(|refusal| refusal.to_string())
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// The free space at a directory, or at its nearest existing ancestor.
fn space_at(call: &Call, directory: &Path) -> Option<platform::DiskSpace> {
    let disk = &call.state.engine.platform().disk;
    let there = directory.ancestors().find(|place| disk.exists(place).unwrap_or(false))?;
    disk.space(there).ok()
}

/// `POST /admin/studio-tasks/folder-path-options`: the directories in a directory, if records may
/// name them; their roots if none is named.
pub(crate) fn folder_options(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let directory = query.get("path").map(str::trim).filter(|path| !path.is_empty());
    let listed = call.state.engine.directories_below(directory.map(Path::new));
    let listed: Vec<_> = listed.iter().map(|path| path.to_string_lossy()).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"List": listed})))
}

/// `GET /studio-tasks/indexes/configuration/defaults`: the defaults for new indexes.
pub(crate) fn index_defaults(_: &Call) -> Result<Answer, ApiError> {
    let answer = json!({
        "AutoIndexDeploymentMode": "Parallel", "StaticIndexDeploymentMode": "Parallel",
        "StaticIndexingEngineType": IndexDefinition::default().search_engine()
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /studio-tasks/bootstrap`.
pub(crate) fn bootstrap(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::shape(StatusCode::OK, &json!({"CertificateExpiringThresholdInDays": 14})))
}

/// `GET /studio-tasks/databases`: the records of databases.
pub(crate) fn databases(call: &Call) -> Result<Answer, ApiError> {
    let address = call.state.address_in_passing(&call.headers);
    let records = call.visible_records();
    let of_one = |record: &std::sync::Arc<DatabaseRecord>| {
        let body = body_of(record);
        let count = |section: &str| {
            body.get(section).and_then(Value::as_object).map_or(0, serde_json::Map::len)
        };
        let has = ListedConfigurations::of_record(&body);
        let mut nodes = listed_nodes(&nodes_of(&call.state, record, &address), &[]);
        nodes["DynamicNodesDistribution"] = record.topology.is_dynamic.into();
        json!({
            "Name": record.name.as_str(), "IsSharded": false, "IsDisabled": record.disabled,
            "IsEncrypted": body.get("Encrypted").and_then(Value::as_bool).unwrap_or(false), "IndexesCount": count("Indexes") + count("AutoIndexes"),
            "StudioEnvironment": studio_environment_of_record(&body),
            "HasRevisionsConfiguration": has.has_revisions,
            "HasExpirationConfiguration": has.has_expiration,
            "HasRefreshConfiguration": has.has_refresh,
            "HasDataArchivalConfiguration": has.has_archival,
            "DeletionInProgress": {}, "LockMode": RecordBody::of_record(record).lock_mode().name(),
            "NodesTopology": nodes,
            "Sharding": null
        })
    };
    let listed: Vec<Value> = records.iter().map(of_one).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Databases": listed})))
}

/// `GET /studio-tasks/databases/state`: the state of databases; none is opened for it.
pub(crate) fn database_states(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.get("name").filter(|name| !name.is_empty());
    let records = call.visible_records();
    let is_wanted = |record: &&std::sync::Arc<DatabaseRecord>| {
        name.is_none_or(|name| name.eq_ignore_ascii_case(record.name.as_str()))
    };
    let listed = records.iter().filter(is_wanted).map(|record| listed_state(&call.state, record));
    let listed: Vec<Value> = listed.collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Orchestrators": [], "Databases": listed})))
}
