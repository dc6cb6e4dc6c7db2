//! The settings as administrators see them: the description of each key, the server's value, and
//! the value in the database's record. Values that are secret, or might be, are hidden.

use std::collections::BTreeMap;

use http::StatusCode;
use model::DatabaseRecord;
use serde_json::{Map, Value, json};
use settings::{Effective, Key, Scope, SizeUnit, Source, TimeUnit, ValueType, find_key};

use crate::{answers::answer::Answer, api_error::ApiError, call::Call, stored_record::body_of};

/// `GET /admin/configuration/settings`.
pub(crate) fn of_server(call: &Call) -> Result<Answer, ApiError> {
    let shown = |setting: &Effective| json!({"Metadata": metadata(setting), "ServerValues": server_values(setting)});
    let settings: Vec<Value> = call.state.engine.settings().effective().iter().map(shown).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Settings": settings})))
}

/// `GET /databases/*/admin/configuration/settings`.
pub(crate) fn of_database(call: &Call) -> Result<Answer, ApiError> {
    let recorded = recorded(&call.database()?.record());
    let shown = |setting: &Effective| {
        json!({
            "Metadata": metadata(setting), "ServerValues": server_values(setting),
            "DatabaseValues": database_values(setting, &recorded)
        })
    };
    let settings: Vec<Value> = call.state.engine.settings().effective().iter().map(shown).collect();
    let answer = json!({"@metadata": call.state.debug_metadata(), "Settings": settings});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn metadata(setting: &Effective) -> Value {
    let Some(key) = find_key(&setting.name) else {
        return shape_of(&setting.name, None, ("String", None, None));
    };
    let (kind, size, time) = match key.value_type {
        ValueType::Bool => ("Boolean", None, None),
        ValueType::Integer { .. } | ValueType::WholeNumber => ("Integer", None, None),
        ValueType::Number => ("Double", None, None),
        ValueType::Size { unit, .. } => ("Size", Some(size_unit(unit)), None),
        ValueType::Duration { unit, .. } => ("Time", None, Some(time_unit(unit))),
        ValueType::Path | ValueType::Paths => ("Path", None, None),
        ValueType::PublicHttpUrl | ValueType::PublicTcpUrl => ("Uri", None, None),
        ValueType::Choice(_) | ValueType::UnsecuredAccess => ("Enum", None, None),
        ValueType::Unchecked
        | ValueType::Text
        | ValueType::Arguments
        | ValueType::Thumbprints
        | ValueType::ApiKeyHashes
        | ValueType::HttpUrls
        | ValueType::TcpUrls
        | ValueType::HostNames
        | ValueType::Origins
        | ValueType::Version => ("String", None, None),
    };
    shape_of(key.name, Some(key), (kind, size, time))
}

fn shape_of(
    name: &str,
    key: Option<&Key>,
    (kind, size, time): (&str, Option<&str>, Option<&str>),
) -> Value {
    let value_type = key.map(|key| key.value_type);
    let (least, words) = match value_type {
        Some(
            ValueType::Integer { min, .. }
            | ValueType::Size { min, .. }
            | ValueType::Duration { min, .. },
        ) => (Some(min), None),
        Some(ValueType::Choice(choices)) => {
            let words = choices.iter().filter(|choice| choice.unavailable.is_none());
            (None, Some(words.map(|choice| choice.name).collect::<Vec<_>>()))
        }
        _ => (None, None),
    };
    let is_list = matches!(
        value_type,
        Some(
            ValueType::HttpUrls
                | ValueType::TcpUrls
                | ValueType::HostNames
                | ValueType::Origins
                | ValueType::Paths
        )
    );
    let scope = match key.map(|key| key.scope) {
        Some(Scope::Database) => "ServerWideOrPerDatabase",
        Some(Scope::Server) | None => "ServerWideOnly",
    };
    let default = key.and_then(|key| key.default);
    json!({
        "Category": name.split_once('.').map_or("Core", |(family, _)| family), "Keys": [name],
        "Scope": scope, "DefaultValue": default, "IsDefaultValueDynamic": false,
        "Description": key.map_or("", |key| key.help), "Type": kind, "SizeUnit": size,
        "TimeUnit": time, "MinValue": least, "IsArray": is_list, "IsNullable": default.is_none(),
        "IsSecured": is_secret(key), "AvailableValues": words
    })
}

/// An unknown key might be secret.
fn is_secret(key: Option<&Key>) -> bool {
    key.is_none_or(|key| key.secret)
}

fn size_unit(unit: SizeUnit) -> &'static str {
    match unit {
        SizeUnit::Kilobytes => "Kilobytes",
        SizeUnit::Megabytes => "Megabytes",
    }
}

fn time_unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Milliseconds => "Milliseconds",
        TimeUnit::Seconds => "Seconds",
        TimeUnit::Minutes => "Minutes",
        TimeUnit::Hours => "Hours",
    }
}

/// The server's value of a key, by its name; nothing for a default.
fn server_values(setting: &Effective) -> Value {
    if setting.source == Source::Default {
        return json!({});
    }
    one_value(&setting.name, setting.value.as_deref())
}

/// The value in the database's record; null for a setting of the whole server.
fn database_values(setting: &Effective, recorded: &BTreeMap<String, Option<String>>) -> Value {
    if find_key(&setting.name).is_none_or(|key| key.scope == Scope::Server) {
        return Value::Null;
    }
    match recorded.get(&setting.name.to_ascii_lowercase()) {
        Some(value) => one_value(&setting.name, value.as_deref()),
        None => json!({}),
    }
}

fn one_value(name: &str, value: Option<&str>) -> Value {
    let is_hidden = is_secret(find_key(name));
    let shown = value.filter(|_| !is_hidden);
    let value = json!({
        "Value": shown, "HasValue": value.is_some(), "HasAccess": !is_hidden, "PendingValue": null
    });
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

/// The settings in a record by their lower-cased names.
fn recorded(record: &DatabaseRecord) -> BTreeMap<String, Option<String>> {
    let body = body_of(record);
    let settings = body.get("Settings").and_then(Value::as_object);
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let all = settings.into_iter().flatten();
    all.map(|(name, value)| (name.to_ascii_lowercase(), text(value))).collect()
}
