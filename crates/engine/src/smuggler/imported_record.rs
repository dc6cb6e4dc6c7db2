//! The settings of a database that a dump has.
//!
//! As RavenDB does, an import merges: what a dump configures replaces the same part here, and what it does not
//! configure stays. Tasks arrive disabled, since they would begin to send data to where the exported database sent
//! its own. Settings of the server's kind, such as limits and directories, stay as they are.

use std::collections::BTreeMap;

use model::{DatabaseLockMode, NamedEnum as _, RetentionKind};
use serde_json::{Map, Value};
use wire::{
    ConnectionStringKind, PeriodicBackup, ProtocolError, RavenConnectionString, RavenEtl,
    RecordBody, SmugglerOptions, StoredSection, names_cloud_server, read_client_configuration,
    read_conflict_revisions, read_documents_compression, read_retention_configuration,
    read_revisions_configuration, read_time_series_configuration,
};

use crate::{
    database_files::check_settings, engine::Engine, error::EngineError, etl::EtlTask,
    stored_tasks::settle_tasks,
};

/// What is done with the record of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordUse {
    /// It is merged into that of a database. Tasks arrive disabled, and settings stay as they are here.
    Import {
        /// Whether it may say where this server sends to: it may replace connection strings that tasks use, and name
        /// servers of buckets. The server sends with its own certificate, and from within its network.
        may_redirect: bool,
    },
    /// It becomes that of a new database, with its settings.
    Restore {
        /// Whether tasks arrive disabled.
        disables_tasks: bool,
    },
}

/// What an import has changed of a record.
#[derive(Debug, Default)]
pub(crate) struct ImportedRecord {
    /// The parts, by the names that results use.
    pub(crate) parts: Vec<&'static str>,
    /// What could not be imported, and why.
    pub(crate) refused: Vec<String>,
    /// The lock mode; of a restore it is not applied.
    pub(crate) lock_mode: Option<DatabaseLockMode>,
}

/// Parts that are kept as they are sent: this server has no use for some of them, but the next export has them.
/// With the name that results use, and whether they are tasks.
const KEPT: &[(&str, &str, Kept)] = &[
    ("ConflictSolverConfig", "ConflictSolverConfig", Kept::AsSent),
    (
        "RavenConnectionStrings",
        "RavenConnectionStrings",
        Kept::Strings(ConnectionStringKind::Raven),
    ),
    ("SqlConnectionStrings", "SqlConnectionStrings", Kept::Strings(ConnectionStringKind::Sql)),
    ("OlapConnectionStrings", "OlapConnectionStrings", Kept::Strings(ConnectionStringKind::Olap)),
    (
        "ElasticSearchConnectionStrings",
        "ElasticSearchConnectionStrings",
        Kept::Strings(ConnectionStringKind::ElasticSearch),
    ),
    (
        "QueueConnectionStrings",
        "QueueConnectionStrings",
        Kept::Strings(ConnectionStringKind::Queue),
    ),
    (RecordBody::BACKUP_TASKS, RecordBody::BACKUP_TASKS, Kept::Task),
    ("ExternalReplications", "ExternalReplications", Kept::Task),
    (RecordBody::RAVEN_ETLS, RecordBody::RAVEN_ETLS, Kept::Task),
    ("SqlEtls", "SqlEtls", Kept::Task),
    ("OlapEtls", "OlapEtls", Kept::Task),
    ("ElasticSearchEtls", "ElasticSearchEtls", Kept::Task),
    ("QueueEtls", "QueueEtls", Kept::Task),
    ("HubPullReplications", "HubPullReplications", Kept::Task),
    ("SinkPullReplications", "SinkPullReplications", Kept::Task),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    AsSent,
    /// Connection strings by name.
    Strings(ConnectionStringKind),
    /// A list of tasks.
    Task,
}

impl Engine {
    /// Merges the record of a dump into that of a database. Blocks.
    ///
    /// # Errors
    /// The database does not exist; the record cannot be written.
    pub(crate) fn import_record(
        &self,
        database: &str,
        sent: &Map<String, Value>,
        options: &SmugglerOptions,
        use_of: RecordUse,
    ) -> Result<ImportedRecord, EngineError> {
        let mut imported = ImportedRecord::default();
        let sections = sections_of(database, sent, options, &mut imported);
        if !sections.is_empty() {
            self.configure(database, &sections)?;
        }
        let mut kept = kept_parts(sent, options, &mut imported);
        for (name, value, _) in &mut kept {
            let Value::Array(tasks) = value else { continue };
            if *name == RecordBody::BACKUP_TASKS {
                if use_of == (RecordUse::Import { may_redirect: false }) {
                    leave_out_cloud_servers(tasks, &mut imported.refused);
                }
                *tasks = self.imported_backup_tasks(tasks, &mut imported.refused);
            }
            if *name == RecordBody::RAVEN_ETLS {
                for task in tasks.iter_mut().filter_map(Value::as_object_mut) {
                    *task = RavenEtl::with_names_as_written(task);
                }
            }
        }
        let is_locked = sent.get("LockMode").and_then(Value::as_str);
        let lock_mode = is_locked
            .filter(|_| options.includes_record_part("LockMode"))
            .and_then(DatabaseLockMode::named);
        imported.lock_mode = lock_mode;
        let is_import = matches!(use_of, RecordUse::Import { .. });
        let applied_mode = lock_mode.filter(|_| is_import);
        if !kept.is_empty() || applied_mode.is_some() {
            let number_min = self.cluster_state().last_index()? + 1;
            let mut left_out = Vec::new();
            self.change_etl_tasks(|tasks| {
                self.change_record_body(database, |body| {
                    tasks.before = EtlTask::stored_in(body);
                    left_out = merge(body, &kept, use_of);
                    settle_tasks(body, number_min);
                    tasks.after = EtlTask::stored_in(body);
                    if let Some(mode) = applied_mode {
                        body.set_lock_mode(mode);
                    }
                })
            })?;
            imported.refused.append(&mut left_out);
        }
        if lock_mode.is_some() {
            imported.parts.push("LockMode");
        }
        for name in ["Sorters", "Analyzers"] {
            let sent = sent.get(name).and_then(Value::as_object);
            if let Some(sent) = sent.filter(|sent| !sent.is_empty()) {
                let names: Vec<&str> = sent.keys().map(String::as_str).collect();
                let names = names.join("', '");
                let text = format!(
                    "'{name}' were not imported, because this server runs no code of .NET: '{names}'."
                );
                imported.refused.push(text);
            }
        }
        let settings = settings_in(sent);
        match use_of {
            _ if settings.is_empty() => {}
            RecordUse::Import { .. } => imported.refused.push(
                "The settings of the database in the dump were not applied: configure them here."
                    .to_owned(),
            ),
            RecordUse::Restore { .. } => {
                self.restore_settings(database, settings, &mut imported)?
            }
        }
        Ok(imported)
    }
}

/// Merges parts into a record; returns what was left out, and why.
fn merge(
    body: &mut RecordBody,
    parts: &[(&'static str, Value, Kept)],
    use_of: RecordUse,
) -> Vec<String> {
    let mut left_out = Vec::new();
    for (name, value, kind) in parts {
        match (kind, use_of, value) {
            (Kept::Task, RecordUse::Restore { disables_tasks: false }, _) => {
                body.put(name, value.clone());
            }
            (Kept::Strings(kind), RecordUse::Import { may_redirect }, Value::Object(strings)) => {
                let fit = fit_strings(body, *kind, strings, may_redirect, &mut left_out);
                body.merge(name, &Value::Object(fit), false);
            }
            _ => body.merge(name, value, *kind == Kept::Task),
        }
    }
    left_out
}

/// Leaves out backups to servers that the dump names, which may be any in the network.
fn leave_out_cloud_servers(tasks: &mut Vec<Value>, left_out: &mut Vec<String>) {
    tasks.retain(|task| {
        let Some(task) = task.as_object().filter(|task| names_cloud_server(task)) else {
            return true;
        };
        let name = PeriodicBackup::legible(task).name.unwrap_or_default();
        left_out.push(format!(
            "The scheduled backup '{name}' was not imported: only clients with the clearance Operator may name the server \
             of a bucket ('CustomServerUrl')."
        ));
        false
    });
}

/// The connection strings that are imported. Where tasks of the database send to is not changed by those who may not
/// define that, and what leads nowhere is left out.
fn fit_strings(
    body: &RecordBody,
    kind: ConnectionStringKind,
    sent: &Map<String, Value>,
    may_redirect: bool,
    left_out: &mut Vec<String>,
) -> Map<String, Value> {
    let mut fit = Map::new();
    for (name, string) in sent {
        let present = body.properties().get(kind.section()).and_then(|known| known.get(name));
        let obstacle = match (string, kind) {
            _ if present == Some(string) => None,
            _ if !may_redirect && !kind.users_in(body, name).is_empty() => Some(
                "a task uses it, and only clients with the clearance Operator may change where it sends to".to_owned(),
            ),
            (Value::Object(string), ConnectionStringKind::Raven) => {
                RavenConnectionString::read(string).err().map(|error| error.message)
            }
            _ => None,
        };
        match obstacle {
            None => drop(fit.insert(name.clone(), string.clone())),
            Some(reason) => {
                left_out.push(format!("The connection string '{name}' was not imported: {reason}."))
            }
        }
    }
    fit
}

/// Settings that name places of the machine that the dump is of, or say what was decided when the database was created.
const PLACES: [&str; 3] = ["DataDir", "RunInMemory", "Storage."];

impl Engine {
    /// Applies settings of a backup, as far as they are possible here.
    fn restore_settings(
        &self,
        database: &str,
        settings: BTreeMap<String, Value>,
        imported: &mut ImportedRecord,
    ) -> Result<(), EngineError> {
        let mut restored = Map::new();
        for (name, value) in settings {
            let is_place = PLACES.iter().any(|place| {
                let begin = name.get(..place.len());
                begin.is_some_and(|begin| begin.eq_ignore_ascii_case(place))
            });
            if is_place {
                let text =
                    format!("The setting '{name}' was not restored: it belongs to the machine.");
                imported.refused.push(text);
                continue;
            }
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let one = BTreeMap::from([(name.clone(), text)]);
            match check_settings(self.settings(), database, &one) {
                Ok(()) => drop(restored.insert(name, value)),
                Err(error) => {
                    imported
                        .refused
                        .push(format!("The setting '{name}' was not restored: {error}"));
                }
            }
        }
        if !restored.is_empty() {
            self.change_record_body(database, |body| body.merge_settings(&restored))?;
        }
        Ok(())
    }
}

/// The settings of a record in a dump: a list of objects of one property each.
fn settings_in(sent: &Map<String, Value>) -> BTreeMap<String, Value> {
    let listed = match sent.get("Settings") {
        Some(Value::Array(listed)) => listed.iter().filter_map(Value::as_object).collect(),
        Some(Value::Object(settings)) => vec![settings],
        _ => Vec::new(),
    };
    let all = listed.into_iter().flatten();
    let set = all.filter(|(_, value)| !value.is_null());
    set.map(|(name, value)| (name.clone(), value.clone())).collect()
}

type Read = fn(&Map<String, Value>, &str) -> Result<StoredSection, ProtocolError>;

/// Parts that this server follows, with their names in results.
const FOLLOWED: &[(&str, &str, Read)] = &[
    ("Revisions", "RevisionsConfiguration", |sent, _| read_revisions_configuration(sent)),
    ("RevisionsForConflicts", "RevisionsForConflictsConfiguration", |sent, _| {
        read_conflict_revisions(sent)
    }),
    ("Expiration", "ExpirationConfiguration", |sent, name| {
        read_retention_configuration(RetentionKind::Expiration, sent, name)
    }),
    ("Refresh", "RefreshConfiguration", |sent, name| {
        read_retention_configuration(RetentionKind::Refresh, sent, name)
    }),
    ("DataArchival", "DataArchivalConfiguration", |sent, name| {
        read_retention_configuration(RetentionKind::Archival, sent, name)
    }),
    ("TimeSeries", "TimeSeriesConfiguration", |sent, _| read_time_series_configuration(sent)),
    ("DocumentsCompression", "DocumentsCompressionConfiguration", |sent, _| {
        read_documents_compression(sent)
    }),
    ("Client", "ClientConfiguration", |sent, _| {
        read_client_configuration(Value::Object(sent.clone()).to_string().as_bytes())
    }),
];

fn sections_of(
    database: &str,
    sent: &Map<String, Value>,
    options: &SmugglerOptions,
    imported: &mut ImportedRecord,
) -> Vec<StoredSection> {
    let mut sections = Vec::new();
    for (property, name, read) in FOLLOWED {
        let Some(Value::Object(part)) = sent.get(*property) else { continue };
        let word = if *property == "RevisionsForConflicts" { "Revisions" } else { *property };
        if !options.includes_record_part(word) {
            continue;
        }
        match read(part, database) {
            Ok(section) => {
                imported.parts.push(name);
                sections.push(section);
            }
            Err(error) => {
                imported.refused.push(format!("'{property}' was not imported: {}", error.message));
            }
        }
    }
    sections
}

fn kept_parts(
    sent: &Map<String, Value>,
    options: &SmugglerOptions,
    imported: &mut ImportedRecord,
) -> Vec<(&'static str, Value, Kept)> {
    let mut parts = Vec::new();
    for (property, name, kind) in KEPT {
        let Some(value) = sent.get(*property) else { continue };
        let is_fit = match (value, kind) {
            (Value::Object(items), _) => *kind != Kept::Task && !items.is_empty(),
            (Value::Array(items), Kept::Task) => !items.is_empty(),
            _ => false,
        };
        if is_fit && options.includes_record_part(property) {
            imported.parts.push(name);
            parts.push((*property, value.clone(), *kind));
        }
    }
    parts
}
