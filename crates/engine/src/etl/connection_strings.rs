//! The connection strings of a database: a part of its record.

use database::{Decision, WrittenRecord};
use model::DatabaseRecord;
use serde_json::{Map, Value};
use wire::{
    ConnectionString, ConnectionStringKind, ProtocolError, RavenConnectionString, RecordBody,
};

use super::tasks::check_users;
use crate::{engine::Engine, error::EngineError};

/// How many connection strings of one kind a database may have.
const STRINGS_MAX: usize = 1024;

/// The connection strings of a kind in a record, by name.
pub(crate) fn strings_of(body: &RecordBody, kind: ConnectionStringKind) -> Map<String, Value> {
    let section = body.properties().get(kind.section()).and_then(Value::as_object);
    section.cloned().unwrap_or_default()
}

/// Where the connection string of that name leads.
///
/// # Errors
/// There is none, or it is not what it should be.
pub(crate) fn raven_string(
    body: &RecordBody,
    name: &str,
) -> Result<RavenConnectionString, EngineError> {
    let strings = strings_of(body, ConnectionStringKind::Raven);
    let found = strings.get(name).and_then(Value::as_object).ok_or_else(|| {
        EngineError::Section(ProtocolError::invalid_operation(format!(
            "There is no Raven connection string with the name '{name}'."
        )))
    })?;
    Ok(RavenConnectionString::read(found)?)
}

impl Engine {
    /// The connection strings of a database of one kind, by name, as they are stored.
    pub fn connection_strings(
        &self,
        record: &DatabaseRecord,
        kind: ConnectionStringKind,
    ) -> Map<String, Value> {
        strings_of(&RecordBody::of_record(record), kind)
    }

    /// Adds a connection string, or replaces the one of its name. Blocks.
    ///
    /// # Errors
    /// There are too many; an enabled task may not send there; the database does not exist; the record cannot be
    /// written.
    pub fn put_connection_string(
        &self,
        database: &str,
        string: &ConnectionString,
    ) -> Result<WrittenRecord, EngineError> {
        self.decide_record_body(database, |_, body| {
            let mut strings = strings_of(body, string.kind);
            strings.insert(string.name.clone(), Value::Object(string.stored.clone()));
            if STRINGS_MAX < strings.len() {
                let message = format!("A database has at most {STRINGS_MAX} of them.");
                return Err(ProtocolError::invalid_operation(message).into());
            }
            body.put(string.kind.section(), Value::Object(strings));
            if string.kind == ConnectionStringKind::Raven {
                check_users(body, &string.name)?;
            }
            Ok(Decision::Replace)
        })
    }

    /// Removes a connection string; one that is not there is no error. Blocks.
    ///
    /// # Errors
    /// A task uses it; the database does not exist; the record cannot be written.
    pub fn remove_connection_string(
        &self,
        database: &str,
        kind: ConnectionStringKind,
        name: &str,
    ) -> Result<WrittenRecord, EngineError> {
        self.decide_record_body(database, |_, body| {
            let users = kind.users_in(body, name);
            if !users.is_empty() {
                let message = format!(
                    "Could not delete connection string with name: {name}. It is used by the tasks: '{}'.",
                    users.join("', '")
                );
                return Err(ProtocolError::invalid_operation(message).into());
            }
            let mut strings = strings_of(body, kind);
            strings.remove(name);
            body.put(kind.section(), Value::Object(strings));
            Ok(Decision::Replace)
        })
    }
}
