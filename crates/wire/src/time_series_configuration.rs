//! The time series configuration of a database, with policies and names of values: as sent by clients and
//! stored in records.

use std::collections::HashMap;

use model::{CollectionPolicies, TIME_SERIES_PROPERTY, TimeSeriesConfiguration, TimeSpan};
use serde_json::{Map, Value, json};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    stored_section::{SectionKind, StoredSection},
    time_series_policy::{RAW_POLICY, policies_json, read_policies},
};

const FREQUENCY_DEFAULT: &str = "00:10:00";
const FREQUENCY_SECONDS_DEFAULT: u64 = 600;

/// Reads the configuration from a database record; `None` if it configures nothing. If one policy is
/// invalid, none applies.
pub(crate) fn time_series_of_record(
    record: &Map<String, Value>,
) -> Option<TimeSeriesConfiguration> {
    let stored = record.get(TIME_SERIES_PROPERTY)?.as_object()?;
    let mut collections = read_collections(stored).unwrap_or_default();
    collections.retain(|policies| !policies.is_disabled);
    let frequency = stored.get("PolicyCheckFrequency").and_then(Value::as_str);
    let frequency = frequency.and_then(|text| text.parse::<TimeSpan>().ok());
    let seconds = frequency.map(|span| span.to_duration().as_secs());
    let check_seconds = seconds.unwrap_or(FREQUENCY_SECONDS_DEFAULT).max(1);
    let value_names = read_value_names(stored);
    let says_nothing = collections.is_empty() && value_names.is_empty();
    (!says_nothing).then(|| TimeSeriesConfiguration::new(collections, check_seconds, value_names))
}

fn read_value_names(stored: &Map<String, Value>) -> HashMap<String, HashMap<String, Vec<String>>> {
    let objects = |value: Option<&Value>| {
        let object = value.and_then(Value::as_object).cloned().unwrap_or_default();
        object.into_iter().map(|(name, value)| (name.to_lowercase(), value))
    };
    let names = |value: Value| {
        let names = value.as_array().cloned().unwrap_or_default();
        names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
    };
    let of_series = |value: Value| {
        objects(Some(&value)).map(|(series, value)| (series, names(value))).collect()
    };
    let collections = objects(stored.get("NamedValues"));
    collections.map(|(collection, value)| (collection, of_series(value))).collect()
}

fn read_collections(sent: &Map<String, Value>) -> Result<Vec<CollectionPolicies>, ProtocolError> {
    let collections = sent.get("Collections").and_then(Value::as_object);
    let collections = collections.into_iter().flatten();
    let collections = collections.filter(|(_, policies)| !policies.is_null());
    collections.map(|(collection, policies)| read_policies(collection, policies)).collect()
}

/// Validates a configuration sent by a client; returns it with all properties, as it is stored and shown.
///
/// # Errors
/// The configuration is invalid; the messages are the protocol's.
pub fn read_time_series_configuration(
    sent: &Map<String, Value>,
) -> Result<StoredSection, ProtocolError> {
    Ok(StoredSection::new(SectionKind::TimeSeries, in_full(sent)?))
}

/// A valid configuration with all properties.
fn in_full(sent: &Map<String, Value>) -> Result<Value, ProtocolError> {
    let collections = read_collections(sent)?;
    let frequency = match sent.get("PolicyCheckFrequency").filter(|sent| !sent.is_null()) {
        None => FREQUENCY_DEFAULT.to_owned(),
        Some(sent) => {
            let text = sent.as_str().unwrap_or_default();
            if text.parse::<TimeSpan>().is_err() {
                let message = format!(
                    "Could not convert Sparrow.Json.LazyStringValue ('{text}') to System.TimeSpan"
                );
                return Err(ProtocolError::new(ErrorKind::Format, message));
            }
            text.to_owned()
        }
    };
    let named = sent.get("NamedValues").filter(|named| named.is_object());
    let named = named.cloned().unwrap_or_else(|| json!({}));
    Ok(configuration_json(&collections, json!(frequency), named))
}

fn configuration_json(
    collections: &[CollectionPolicies],
    frequency: Value,
    named_values: Value,
) -> Value {
    let collections = collections.iter();
    let collections =
        collections.map(|policies| (policies.collection.clone(), policies_json(policies)));
    let collections: Map<String, Value> = collections.collect();
    json!({
        "Collections": collections, "PolicyCheckFrequency": frequency,
        "NamedValues": named_values
    })
}

/// The stored configuration, or an empty one.
fn stored_or_empty(stored: Option<&Value>) -> Value {
    let stored = stored.filter(|stored| stored.is_object());
    stored.cloned().unwrap_or_else(|| configuration_json(&[], Value::Null, json!({})))
}

/// The value of a property whose name matches without regard to case; inserted if there is none.
fn place_of<'m>(object: &'m mut Map<String, Value>, name: &str) -> &'m mut Value {
    let known = object.keys().find(|known| known.eq_ignore_ascii_case(name)).cloned();
    object.entry(known.unwrap_or_else(|| name.to_owned())).or_insert(Value::Null)
}

/// The object that a value is; an empty one takes the place of anything else.
fn object_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it has been made an object")
}

fn object_at<'v>(value: &'v mut Value, name: &str) -> &'v mut Map<String, Value> {
    object_of(place_of(object_of(value), name))
}

/// The stored configuration with a policy added, or replaced if one has its name.
///
/// # Errors
/// The policy is invalid, or conflicts with the others.
pub(crate) fn with_policy(
    stored: Option<&Value>,
    collection: &str,
    policy: &Map<String, Value>,
) -> Result<Value, ProtocolError> {
    let mut configuration = stored_or_empty(stored);
    let name = policy.get("Name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let collections = object_at(&mut configuration, "Collections");
    let place = place_of(collections, collection);
    if !place.is_object() {
        *place = json!({ "Disabled": false, "Policies": [] });
    }
    if name.eq_ignore_ascii_case(RAW_POLICY) {
        place["RawPolicy"] = Value::Object(policy.clone());
    } else {
        let mut policies = place["Policies"].as_array().cloned().unwrap_or_default();
        policies.retain(|known| !is_named(known, &name));
        policies.push(Value::Object(policy.clone()));
        place["Policies"] = Value::Array(policies);
    }
    in_full(object_of(&mut configuration))
}

/// The stored configuration without a policy; `None` if it has none with that name.
///
/// # Errors
/// The remaining policies are invalid without it.
pub(crate) fn without_policy(
    stored: Option<&Value>,
    collection: &str,
    name: &str,
) -> Result<Option<Value>, ProtocolError> {
    let mut configuration = stored_or_empty(stored);
    if !remove_policy(&mut configuration, collection, name) {
        return Ok(None);
    }
    in_full(object_of(&mut configuration)).map(Some)
}

/// Returns whether there was such a policy.
fn remove_policy(configuration: &mut Value, collection: &str, name: &str) -> bool {
    let collections = object_at(configuration, "Collections");
    let known = collections.keys().find(|known| known.eq_ignore_ascii_case(collection)).cloned();
    let Some(place) = known.and_then(|known| collections.get_mut(&known)) else { return false };
    if name.eq_ignore_ascii_case(RAW_POLICY) {
        place["RawPolicy"] = Value::Null;
        return true;
    }
    let Some(policies) = place["Policies"].as_array_mut() else { return false };
    let before = policies.len();
    policies.retain(|known| !is_named(known, name));
    policies.len() != before
}

fn is_named(policy: &Value, name: &str) -> bool {
    policy["Name"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(name))
}

/// The stored configuration with names for the values of a series; `None` if it already has them.
///
/// # Errors
/// The request is incomplete, or the series has other names.
pub(crate) fn with_value_names(
    stored: Option<&Value>,
    sent: &Map<String, Value>,
) -> Result<Option<Value>, ProtocolError> {
    let required = |property: &str| {
        let text = sent.get(property).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.ok_or_else(|| {
            let message = format!("Value cannot be null. (Parameter '{property}')");
            ProtocolError::new(ErrorKind::ArgumentNull, message)
        })
    };
    let (collection, series) = (required("Collection")?, required("TimeSeries")?);
    let names = sent.get("ValueNames").and_then(Value::as_array);
    let Some(names) = names.filter(|names| !names.is_empty()) else {
        return Err(ProtocolError::argument("ValueNames can't be empty."));
    };
    let is_update = sent.get("Update").and_then(Value::as_bool).unwrap_or(false);
    let mut configuration = stored_or_empty(stored);
    let named = object_at(&mut configuration, "NamedValues");
    let of_collection = place_of(named, collection);
    let place = place_of(object_of(of_collection), series);
    if place.as_array() == Some(names) {
        return Ok(None);
    }
    if !place.is_null() && !is_update {
        return Err(invalid(format!(
            "Failed to update the names for time-series '{series}' in collection '{collection}', \
             they already exists."
        )));
    }
    *place = Value::Array(names.clone());
    Ok(Some(configuration))
}

fn invalid(message: String) -> ProtocolError {
    ProtocolError::invalid_operation(message)
}

#[cfg(test)]
mod tests {
    use model::TimeValue;

    use super::*;

    fn read(sent: Value) -> Result<Value, String> {
        let sent = sent.as_object().expect("a test sends objects");
        let section = read_time_series_configuration(sent).map_err(|error| error.message)?;
        Ok(section.json().clone())
    }

    fn recorded(record: Value) -> Option<TimeSeriesConfiguration> {
        time_series_of_record(record.as_object().expect("a record is an object"))
    }

    fn policy(name: &str, aggregation: Value, retention: Value) -> Value {
        json!({ "Name": name, "AggregationTime": aggregation, "RetentionTime": retention })
    }

    fn seconds(value: i64) -> Value {
        json!({ "Value": value, "Unit": "Second" })
    }

    #[test]
    fn a_configuration_is_shown_in_full() {
        let by_minute = policy("byMin", seconds(60), seconds(3600));
        let shown = read(json!({ "Collections": { "Cos": { "Policies": [by_minute] } } })).unwrap();
        let expected = r#"{"Collections":{"Cos":{"RawPolicy":{"Name":"rawpolicy","RetentionTime":{"Value":2147483647,"Unit":"None"},"AggregationTime":{"Value":0,"Unit":"None"}},"Disabled":false,"Policies":[{"Name":"byMin","RetentionTime":{"Value":3600,"Unit":"Second"},"AggregationTime":{"Value":60,"Unit":"Second"}}]}},"PolicyCheckFrequency":"00:10:00","NamedValues":{}}"#;
        assert_eq!(shown.to_string(), expected);
        let found = recorded(json!({ "TimeSeries": shown })).unwrap();
        assert_eq!(found.check_seconds, 600);
        assert_eq!(found.collections[0].policies[0].aggregation, TimeValue::Seconds(60));
        assert_eq!(found.policies_of("cos"), Some(&found.collections[0]));
        assert_eq!(recorded(json!({})), None);
    }

    #[test]
    fn policies_that_do_not_go_together_are_refused() {
        let month = |value: i64| json!({ "Value": value, "Unit": "Month" });
        let by_minute = || policy("byMin", seconds(60), seconds(3600));
        let raw = json!({ "RetentionTime": seconds(30) });
        let cases = [
            (
                json!({ "Policies": [by_minute(), by_minute()] }),
                "Policy names must be unique, policy with the name 'byMin' has duplicates.",
            ),
            (
                json!({ "Policies": [policy("a", seconds(0), seconds(5))] }),
                "Aggregation time of 'a' must be greater than zero",
            ),
            (
                json!({ "Policies": [policy("a", seconds(5), Value::Null)] }),
                "Retention time of 'a' must be greater than zero",
            ),
            (
                json!({ "Policies": [by_minute(), policy("b", seconds(90), seconds(3600))] }),
                "The aggregation time of the policy 'b' (1 minute 30 seconds) must be divided by the aggregation time of 'byMin' (60 seconds) without a remainder.",
            ),
            (
                json!({ "RawPolicy": { "RetentionTime": seconds(0) } }),
                "Retention time of the RawPolicy must be greater than zero",
            ),
            (
                json!({ "Policies": [by_minute(), policy("b", seconds(60), seconds(3600))] }),
                "The policy 'byMin' has the same aggregation time as the policy 'b'",
            ),
            (
                json!({ "RawPolicy": raw, "Policies": [by_minute()] }),
                "The policy 'rawpolicy' has a retention time of '30 seconds' but should be aggregated by policy 'byMin' with the aggregation time frame of 60 seconds",
            ),
            (
                json!({ "Policies": [by_minute(), policy("m", month(1), month(10))] }),
                "The policy 'byMin' has a retention time of '60 minutes' but should be aggregated by policy 'm' with the aggregation time frame of 1 month",
            ),
            (
                json!({ "Policies": [policy("h", json!({ "Value": 1, "Unit": "Hour" }), seconds(5))] }),
                "Could not convert Sparrow.Json.LazyStringValue ('Hour') to Sparrow.TimeValueUnit",
            ),
        ];
        for (policies, expected) in cases {
            assert_eq!(read(json!({ "Collections": { "Cos": policies } })).unwrap_err(), expected);
        }
    }

    /// RavenDB's result for each pair.
    #[test]
    fn months_are_compared_with_days_where_every_month_is_the_same() {
        let days = |days: i64| seconds(days * 86_400);
        let months = |value: i64| json!({ "Value": value, "Unit": "Month" });
        let too_short = "The policy 'rawpolicy' has a retention time of";
        for (retention, aggregation, expected) in [
            (months(1), days(27), None),
            (months(1), days(28), Some("Unable to compare 1 month with 28 days, since")),
            (months(1), days(31), Some("Unable to compare 1 month with 31 days, since")),
            (months(2), days(56), Some("Unable to compare 2 months with 56 days, since")),
            (months(2), days(62), Some("Unable to compare 2 months with 62 days, since")),
            (months(2), days(63), Some(too_short)),
            (months(12), days(364), None),
            (months(12), days(365), Some("Unable to compare 1 year with 365 days, since")),
            (months(12), days(366), Some("Unable to compare 1 year with 366 days, since")),
            (months(12), days(372), Some(too_short)),
            (days(27), months(1), Some(too_short)),
            (days(28), months(1), Some("Unable to compare 28 days with 1 month, since")),
            (days(32), months(1), None),
            (days(366), months(12), Some("Unable to compare 366 days with 1 year, since")),
            (days(367), months(12), None),
            (months(3), months(2), None),
            (months(1), months(2), Some(too_short)),
            (seconds(60), seconds(60), None),
        ] {
            let case = format!("{retention} {aggregation}");
            let raw = json!({ "RetentionTime": retention });
            let policies = [policy("p", aggregation, months(24))];
            let sent = json!({ "RawPolicy": raw, "Policies": policies });
            let refused = read(json!({ "Collections": { "Cos": sent } })).err();
            match (refused, expected) {
                (None, None) => {}
                (Some(refused), Some(expected)) => assert!(refused.starts_with(expected), "{case}"),
                (refused, _) => panic!("{case}: {refused:?}"),
            }
        }
    }

    #[test]
    fn policies_come_and_go_one_by_one() {
        let by_minute = policy("byMin", seconds(60), seconds(3600));
        let stored = with_policy(None, "Cos", by_minute.as_object().unwrap()).unwrap();
        let by_hour = policy("byHour", seconds(3600), seconds(36_000));
        let stored = with_policy(Some(&stored), "cos", by_hour.as_object().unwrap()).unwrap();
        let names = |stored: &Value| {
            let policies = stored["Collections"]["Cos"]["Policies"].as_array().unwrap().clone();
            policies.iter().map(|policy| policy["Name"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&stored), ["byMin", "byHour"]);
        let stored = without_policy(Some(&stored), "Cos", "BYMIN").unwrap().unwrap();
        assert_eq!(names(&stored), ["byHour"]);
        assert_eq!(without_policy(Some(&stored), "Cos", "byMin").unwrap(), None);
        assert_eq!(without_policy(Some(&stored), "Nope", "byMin").unwrap(), None);
        // Aggregating by hours needs the aggregates by minutes: those by seconds are deleted before an hour
        // is over.
        let by_second = policy("bySec", seconds(1), seconds(60));
        let stored =
            json!({ "Collections": { "Cos": { "Policies": [by_hour, by_minute, by_second] } } });
        let error = without_policy(Some(&stored), "Cos", "byMin").unwrap_err();
        let expected = "The policy 'bySec' has a retention time of '60 seconds' but should be aggregated by policy 'byHour' with the aggregation time frame of 60 minutes";
        assert_eq!(error.message, expected);
    }

    #[test]
    fn values_get_names() {
        let sent = |names: Value, is_update: bool| {
            let sent = json!({ "Collection": "Cos", "TimeSeries": "HR", "ValueNames": names, "Update": is_update });
            sent.as_object().unwrap().clone()
        };
        let stored = with_value_names(None, &sent(json!(["Bpm"]), false)).unwrap().unwrap();
        let expected = r#"{"Collections":{},"PolicyCheckFrequency":null,"NamedValues":{"Cos":{"HR":["Bpm"]}}}"#;
        assert_eq!(stored.to_string(), expected);
        assert_eq!(with_value_names(Some(&stored), &sent(json!(["Bpm"]), false)).unwrap(), None);
        let error = with_value_names(Some(&stored), &sent(json!(["X"]), false)).unwrap_err();
        assert_eq!(
            error.message,
            "Failed to update the names for time-series 'HR' in collection 'Cos', they already exists."
        );
        let stored = with_value_names(Some(&stored), &sent(json!(["X"]), true)).unwrap().unwrap();
        assert_eq!(stored["NamedValues"]["Cos"]["HR"], json!(["X"]));
        let error = with_value_names(None, &sent(json!([]), false)).unwrap_err();
        assert_eq!(error.message, "ValueNames can't be empty.");
        let found = recorded(json!({ "TimeSeries": stored })).unwrap();
        assert_eq!(found.value_names("cOs", "hr"), Some(&["X".to_owned()][..]));
        assert_eq!(found.value_names("Cos", "HR2"), None);
        assert_eq!(found.value_names("Dogs", "HR"), None);
    }
}
