//! What the studio shows of a server or a database, above all its environment.

use serde_json::{Map, Value, json};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    stored_section::{SectionKind, StoredSection},
};

const ENVIRONMENTS: [&str; 4] = ["None", "Development", "Testing", "Production"];
const REPLICATION_FACTOR: &str = "ReplicationFactor";

/// The owner of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StudioOf {
    /// The server; its configuration includes the default replication factor of new databases.
    Server,
    /// A database.
    Database,
}

/// Reads a configuration sent by a client; returns it with all properties.
///
/// # Errors
/// A value has the wrong type or is out of range; the environment is unknown.
pub fn read_studio_configuration(
    sent: &Map<String, Value>,
    of: StudioOf,
) -> Result<StoredSection, ProtocolError> {
    let flag = |name: &str| match sent.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(not_converted(other, "System.Boolean")),
    };
    let environment = match sent.get("Environment") {
        None | Some(Value::Null) => ENVIRONMENTS[0],
        Some(sent) => {
            let is_it =
                |known: &&&str| sent.as_str().is_some_and(|text| known.eq_ignore_ascii_case(text));
            let known = ENVIRONMENTS.iter().find(is_it);
            known.ok_or_else(|| not_converted(sent, "StudioEnvironment"))?
        }
    };
    let mut shown = json!({
        "Disabled": flag("Disabled")?, "Environment": environment,
        "DisableAutoIndexCreation": flag("DisableAutoIndexCreation")?
    });
    if of == StudioOf::Server {
        shown[REPLICATION_FACTOR] = match sent.get(REPLICATION_FACTOR) {
            None | Some(Value::Null) => Value::Null,
            Some(factor) if is_replication_factor(factor) => factor.clone(),
            Some(other) => return Err(not_converted(other, "System.Int32")),
        };
    }
    Ok(StoredSection::new(SectionKind::Studio, shown))
}

/// The environment named in a database record; the text `None` if there is none.
pub fn studio_environment_of_record(record: &Map<String, Value>) -> &str {
    let own = record.get(SectionKind::Studio.property());
    let own = own.filter(|own| own.get("Disabled") != Some(&Value::Bool(true)));
    own.and_then(|own| own.get("Environment")?.as_str()).unwrap_or(ENVIRONMENTS[0])
}

fn is_replication_factor(value: &Value) -> bool {
    value.as_i64().is_some_and(|factor| (1..=i64::from(i32::MAX)).contains(&factor))
}

fn not_converted(sent: &Value, to: &str) -> ProtocolError {
    ProtocolError::new(ErrorKind::Format, format!("Could not convert '{sent}' to {to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_completed_or_refused() {
        let read = |sent: Value, of| {
            let sent = sent.as_object().cloned().unwrap_or_default();
            read_studio_configuration(&sent, of)
                .map(|section| section.json().to_string())
                .map_err(|e| e.message)
        };
        assert_eq!(
            read(json!({}), StudioOf::Server).unwrap(),
            r#"{"Disabled":false,"Environment":"None","DisableAutoIndexCreation":false,"ReplicationFactor":null}"#
        );
        assert_eq!(
            read(json!({"Environment": "testing", "Foo": 1}), StudioOf::Database).unwrap(),
            r#"{"Disabled":false,"Environment":"Testing","DisableAutoIndexCreation":false}"#
        );
        for refused in [
            json!({"Environment": "Bad"}),
            json!({"Environment": 1}),
            json!({"Disabled": "x"}),
            json!({"ReplicationFactor": 0}),
            json!({"ReplicationFactor": 2_147_483_648_i64}),
        ] {
            let message = read(refused.clone(), StudioOf::Server).unwrap_err();
            assert!(message.starts_with("Could not convert"), "{refused}: {message}");
        }
    }
}
