//! The configuration of revisions, as sent by clients and stored in the database record.

use model::{CollectionName, RevisionsConfiguration, RevisionsRule, TimeSpan};
use serde_json::{Map, Value, json};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    stored_section::{SectionKind, StoredSection},
};

/// Validates a configuration sent by a client; returns it with all properties, as it is stored and shown.
///
/// # Errors
/// The configuration is invalid; the messages are the protocol's.
pub fn read_revisions_configuration(
    sent: &Map<String, Value>,
) -> Result<StoredSection, ProtocolError> {
    parse(sent)?;
    let default = sent.get("Default").and_then(Value::as_object).map(in_full);
    let collections = sent.get("Collections").and_then(Value::as_object).into_iter().flatten();
    let collections = collections
        .filter_map(|(name, rule)| Some((name.clone(), in_full(rule.as_object()?))))
        .collect::<Map<_, _>>();
    let json = json!({"Default": default, "Collections": collections});
    Ok(StoredSection::new(SectionKind::Revisions, json))
}

/// Validates the rule for revisions of conflicts; returns it with all properties.
///
/// # Errors
/// The rule is invalid; the messages are the protocol's.
pub fn read_conflict_revisions(sent: &Map<String, Value>) -> Result<StoredSection, ProtocolError> {
    match rule_of(sent) {
        Some(_) => Ok(StoredSection::new(SectionKind::ConflictRevisions, in_full(sent))),
        None => Err(ProtocolError::new(ErrorKind::Format, "Could not convert the configuration")),
    }
}

/// The default rule for revisions of conflicts.
pub fn default_conflict_revisions() -> Value {
    json!({
        "Disabled": false, "MinimumRevisionsToKeep": 1024, "MinimumRevisionAgeToKeep": null,
        "PurgeOnDelete": false, "MaximumRevisionsToDeleteUponDocumentUpdate": 10240
    })
}

/// Reads the configuration from a database record; empty if there is none.
///
/// # Errors
/// The record holds something else there.
pub(crate) fn revisions_of_record(
    record: &Map<String, Value>,
) -> Result<RevisionsConfiguration, ProtocolError> {
    match record.get(SectionKind::Revisions.property()) {
        None | Some(Value::Null) => Ok(RevisionsConfiguration::default()),
        Some(Value::Object(stored)) => parse(stored),
        Some(_) => Err(not_a_configuration()),
    }
}

fn parse(sent: &Map<String, Value>) -> Result<RevisionsConfiguration, ProtocolError> {
    let default = match sent.get("Default") {
        None | Some(Value::Null) => None,
        Some(Value::Object(rule)) => Some(rule_of(rule).ok_or_else(not_a_configuration)?),
        Some(_) => return Err(not_a_configuration()),
    };
    let mut configuration = RevisionsConfiguration::new(default);
    let collections = match sent.get("Collections") {
        None | Some(Value::Null) => return Ok(configuration),
        Some(Value::Object(collections)) => collections,
        Some(other) => {
            let message = format!("Could not convert '{other}' to BlittableJsonReaderObject");
            return Err(ProtocolError::new(ErrorKind::Format, message));
        }
    };
    for (name, rule) in collections {
        let rule = rule.as_object().and_then(rule_of).ok_or_else(not_a_configuration)?;
        let collection = CollectionName::new(name.as_str())
            .map_err(|error| ProtocolError::argument(error.to_string()))?;
        if !configuration.insert(&collection, rule) {
            return Err(ProtocolError::invalid_operation(format!(
                "Cannot have two different revision configurations on the same collection. \
                 Collection name : '{name}'"
            )));
        }
    }
    Ok(configuration)
}

fn not_a_configuration() -> ProtocolError {
    ProtocolError::invalid_operation(
        "Could not convert document RevisionsConfiguration to entity of type \
         Raven.Client.Documents.Operations.Revisions.RevisionsConfiguration",
    )
}

fn rule_of(sent: &Map<String, Value>) -> Option<RevisionsRule> {
    Some(RevisionsRule {
        is_disabled: flag(sent, "Disabled")?,
        count_to_keep: number(sent, "MinimumRevisionsToKeep")?,
        age_to_keep: span(sent, "MinimumRevisionAgeToKeep")?,
        purge_on_delete: flag(sent, "PurgeOnDelete")?,
        removed_by_write_max: number(sent, "MaximumRevisionsToDeleteUponDocumentUpdate")?,
    })
}

/// A rule with all known properties.
fn in_full(rule: &Map<String, Value>) -> Value {
    let kept = |name: &str| rule.get(name).cloned().unwrap_or(Value::Null);
    let kept_flag = |name: &str| rule.get(name).and_then(Value::as_bool).unwrap_or(false);
    json!({
        "Disabled": kept_flag("Disabled"),
        "MinimumRevisionsToKeep": kept("MinimumRevisionsToKeep"),
        "MinimumRevisionAgeToKeep": kept("MinimumRevisionAgeToKeep"),
        "PurgeOnDelete": kept_flag("PurgeOnDelete"),
        "MaximumRevisionsToDeleteUponDocumentUpdate":
            kept("MaximumRevisionsToDeleteUponDocumentUpdate")
    })
}

fn flag(sent: &Map<String, Value>, name: &str) -> Option<bool> {
    match sent.get(name) {
        None | Some(Value::Null) => Some(false),
        Some(value) => value.as_bool(),
    }
}

fn number(sent: &Map<String, Value>, name: &str) -> Option<Option<i64>> {
    match sent.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_i64().map(Some),
    }
}

fn span(sent: &Map<String, Value>, name: &str) -> Option<Option<TimeSpan>> {
    match sent.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_str()?.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sent: Value) -> Result<Value, String> {
        let sent = sent.as_object().expect("a test sends objects");
        let section = read_revisions_configuration(sent).map_err(|error| error.message)?;
        Ok(section.json().clone())
    }

    #[test]
    fn a_configuration_is_shown_in_full() {
        let sent = json!({"Default": {"MinimumRevisionsToKeep": 2}, "Collections": {"Users":
            {"Disabled": true, "MinimumRevisionAgeToKeep": "14.00:00:00", "Foo": 1}}, "Foo": 1});
        assert_eq!(
            read(sent.clone()).unwrap().to_string(),
            "{\"Default\":{\"Disabled\":false,\"MinimumRevisionsToKeep\":2,\
             \"MinimumRevisionAgeToKeep\":null,\"PurgeOnDelete\":false,\
             \"MaximumRevisionsToDeleteUponDocumentUpdate\":null},\"Collections\":{\"Users\":{\
             \"Disabled\":true,\"MinimumRevisionsToKeep\":null,\
             \"MinimumRevisionAgeToKeep\":\"14.00:00:00\",\"PurgeOnDelete\":false,\
             \"MaximumRevisionsToDeleteUponDocumentUpdate\":null}}}"
        );
        let record = json!({"Revisions": read(sent).unwrap()});
        let configuration = revisions_of_record(record.as_object().unwrap()).unwrap();
        let users = CollectionName::new("uSERS").unwrap();
        let rule = configuration.rule_of(&users).unwrap();
        assert!(rule.is_disabled);
        assert_eq!(rule.age_to_keep, Some("14.00:00:00".parse().unwrap()));
        let other = CollectionName::new("Orders").unwrap();
        assert_eq!(configuration.rule_of(&other).unwrap().count_to_keep, Some(2));
        assert_eq!(read(json!({})).unwrap(), json!({"Default": null, "Collections": {}}));
        assert_eq!(revisions_of_record(&Map::new()).unwrap(), RevisionsConfiguration::default());
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        let rule = json!({"MinimumRevisionsToKeep": 1});
        let refused = [
            (json!({"Default": 5}), "Could not convert document RevisionsConfiguration"),
            (json!({"Default": {"MinimumRevisionsToKeep": "x"}}), "Could not convert document"),
            (json!({"Default": {"MinimumRevisionAgeToKeep": 5}}), "Could not convert document"),
            (json!({"Default": {"PurgeOnDelete": "x"}}), "Could not convert document"),
            (json!({"Collections": {"A": null}}), "Could not convert document"),
            (json!({"Collections": []}), "Could not convert '[]'"),
            (json!({"Collections": {"A": rule, "a": rule}}), "Collection name : 'a'"),
            (json!({"Collections": {"x".repeat(600): rule}}), "too long"),
        ];
        for (sent, message) in refused {
            let error = read(sent.clone()).unwrap_err();
            assert!(error.contains(message) || message == "too long", "{sent}: {error}");
        }
    }
}
