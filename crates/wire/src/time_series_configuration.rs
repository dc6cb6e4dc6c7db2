//! The policies of time series, and names for their values: as clients send them and records keep them.

use model::TimeSpan;
use serde_json::{Map, Value, json};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// Where the record of a database keeps the configuration.
pub const TIME_SERIES_PROPERTY: &str = "TimeSeries";

const RAW_POLICY: &str = "rawpolicy";
const FREQUENCY_DEFAULT: &str = "00:10:00";
const FREQUENCY_SECONDS_DEFAULT: u64 = 600;
/// Stands for ever.
const FOR_EVER: i64 = 2_147_483_647;
const POLICIES_MAX: usize = 64;

/// A span of time as policies have it: seconds, which have a length, or months, which have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeValue {
    /// No end.
    ForEver,
    /// So many seconds.
    Seconds(i64),
    /// So many months.
    Months(i64),
}

impl TimeValue {
    /// About how long it is; a month has up to 31 days.
    fn seconds_max(self) -> i64 {
        const SECONDS_PER_MONTH: i64 = 31 * 24 * 3600;
        match self {
            Self::ForEver => i64::MAX,
            Self::Seconds(seconds) => seconds,
            Self::Months(months) => months.saturating_mul(SECONDS_PER_MONTH),
        }
    }

    /// Whether the other is a whole number of these.
    fn divides(self, other: Self) -> bool {
        const SECONDS_PER_DAY: i64 = 24 * 3600;
        match (self, other) {
            (Self::Seconds(own), Self::Seconds(other))
            | (Self::Months(own), Self::Months(other)) => other % own == 0,
            // Months begin with a day.
            (Self::Seconds(own), Self::Months(_)) => SECONDS_PER_DAY % own == 0,
            _ => false,
        }
    }

    fn text(self) -> String {
        let plural = |count: i64, unit: &str| match count {
            1 => format!("1 {unit}"),
            count => format!("{count} {unit}s"),
        };
        match self {
            Self::ForEver => "no limit".to_owned(),
            Self::Months(months) => {
                let (years, months) = (months / 12, months % 12);
                let parts = [(years, "year"), (months, "month")];
                let parts = parts.iter().filter(|(count, _)| *count != 0);
                parts.map(|(count, unit)| plural(*count, unit)).collect::<Vec<_>>().join(" ")
            }
            Self::Seconds(seconds) => {
                let mut rest = seconds;
                let mut parts = Vec::new();
                for (length, unit) in [(86_400, "day"), (3600, "hour"), (60, "minute")] {
                    if rest > length {
                        parts.push(plural(rest / length, unit));
                        rest %= length;
                    }
                }
                if rest != 0 || parts.is_empty() {
                    parts.push(plural(rest, "second"));
                }
                parts.join(" ")
            }
        }
    }

    fn json(self) -> Value {
        match self {
            Self::ForEver => json!({ "Value": FOR_EVER, "Unit": "None" }),
            Self::Seconds(value) => json!({ "Value": value, "Unit": "Second" }),
            Self::Months(value) => json!({ "Value": value, "Unit": "Month" }),
        }
    }

    fn read(sent: Option<&Value>) -> Result<Option<Self>, ProtocolError> {
        let Some(sent) = sent.filter(|sent| !sent.is_null()) else { return Ok(None) };
        let value = sent.get("Value").and_then(Value::as_i64).unwrap_or(0);
        let value = value.clamp(i64::from(i32::MIN), FOR_EVER);
        match sent.get("Unit").and_then(Value::as_str).unwrap_or("None") {
            "None" if value == FOR_EVER => Ok(Some(Self::ForEver)),
            "None" => Ok(None),
            "Second" => Ok(Some(Self::Seconds(value))),
            "Month" => Ok(Some(Self::Months(value))),
            other => Err(ProtocolError::new(
                ErrorKind::Format,
                format!(
                    "Could not convert Sparrow.Json.LazyStringValue ('{other}') to \
                     Sparrow.TimeValueUnit"
                ),
            )),
        }
    }

    fn is_positive(self) -> bool {
        match self {
            Self::ForEver => true,
            Self::Seconds(value) | Self::Months(value) => 0 < value,
        }
    }
}

/// A policy: entries of a time are added up to one, which is kept for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSeriesPolicy {
    /// Its name.
    pub name: String,
    /// What is added up to one entry.
    pub aggregation: TimeValue,
    /// How long it is kept.
    pub retention: TimeValue,
}

impl TimeSeriesPolicy {
    fn read(sent: &Value) -> Result<Self, ProtocolError> {
        let name = sent.get("Name").and_then(Value::as_str).unwrap_or_default();
        if name.trim().is_empty() {
            let message = "Value cannot be null. (Parameter 'Name')";
            return Err(ProtocolError::new(ErrorKind::ArgumentNull, message));
        }
        let none = TimeValue::Seconds(0);
        let policy = Self {
            name: name.to_owned(),
            aggregation: TimeValue::read(sent.get("AggregationTime"))?.unwrap_or(none),
            retention: TimeValue::read(sent.get("RetentionTime"))?.unwrap_or(none),
        };
        if !policy.aggregation.is_positive() || policy.aggregation == TimeValue::ForEver {
            return Err(invalid(format!("Aggregation time of '{name}' must be greater than zero")));
        }
        policy.check_retention()?;
        if name.contains('@') {
            return Err(invalid(format!("The name of a policy cannot contain '@': '{name}'")));
        }
        Ok(policy)
    }

    fn read_raw(sent: Option<&Value>) -> Result<Self, ProtocolError> {
        let mut raw = Self {
            name: RAW_POLICY.to_owned(),
            aggregation: TimeValue::Seconds(0),
            retention: TimeValue::ForEver,
        };
        if let Some(sent) = sent.filter(|sent| !sent.is_null()) {
            let none = TimeValue::Seconds(0);
            raw.retention = TimeValue::read(sent.get("RetentionTime"))?.unwrap_or(none);
            raw.check_retention()?;
        }
        Ok(raw)
    }

    fn check_retention(&self) -> Result<(), ProtocolError> {
        if self.retention.is_positive() {
            return Ok(());
        }
        Err(invalid(format!("Retention time of '{}' must be greater than zero", self.name)))
    }

    fn json(&self) -> Value {
        let aggregation = match self.aggregation {
            TimeValue::Seconds(0) => json!({ "Value": 0, "Unit": "None" }),
            aggregation => aggregation.json(),
        };
        json!({
            "Name": self.name, "RetentionTime": self.retention.json(),
            "AggregationTime": aggregation
        })
    }
}

/// The policies of the documents of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionPolicies {
    /// The collection.
    pub collection: String,
    /// Whether nothing is done.
    pub is_disabled: bool,
    /// How long the entries that clients write are kept.
    pub raw_retention: TimeValue,
    /// The policies, the finest first.
    pub policies: Vec<TimeSeriesPolicy>,
}

impl CollectionPolicies {
    fn read(collection: &str, sent: &Value) -> Result<Self, ProtocolError> {
        let raw = TimeSeriesPolicy::read_raw(sent.get("RawPolicy"))?;
        let sent_policies = sent.get("Policies").and_then(Value::as_array);
        let policies = sent_policies.into_iter().flatten().map(TimeSeriesPolicy::read);
        let mut policies = policies.collect::<Result<Vec<_>, _>>()?;
        if POLICIES_MAX < policies.len() {
            let message = format!("A collection may have up to {POLICIES_MAX} policies");
            return Err(ProtocolError::argument(message));
        }
        policies.sort_by_key(|policy| policy.aggregation.seconds_max());
        check_chain(&raw, &policies)?;
        Ok(Self {
            collection: collection.to_owned(),
            is_disabled: sent.get("Disabled").and_then(Value::as_bool).unwrap_or(false),
            raw_retention: raw.retention,
            policies,
        })
    }

    fn json(&self) -> Value {
        let raw = TimeSeriesPolicy {
            name: RAW_POLICY.to_owned(),
            aggregation: TimeValue::Seconds(0),
            retention: self.raw_retention,
        };
        let policies: Vec<Value> = self.policies.iter().map(TimeSeriesPolicy::json).collect();
        json!({ "RawPolicy": raw.json(), "Disabled": self.is_disabled, "Policies": policies })
    }
}

/// Each policy is made of the entries of the one before it, which must still be there then.
fn check_chain(raw: &TimeSeriesPolicy, policies: &[TimeSeriesPolicy]) -> Result<(), ProtocolError> {
    for (position, policy) in policies.iter().enumerate() {
        let same = |other: &TimeSeriesPolicy| other.name.eq_ignore_ascii_case(&policy.name);
        if policies[..position].iter().any(same) || policy.name.eq_ignore_ascii_case(&raw.name) {
            return Err(invalid(format!(
                "Policy names must be unique, policy with the name '{}' has duplicates.",
                policy.name
            )));
        }
        let before = if position == 0 { raw } else { &policies[position - 1] };
        if before.retention.seconds_max() < policy.aggregation.seconds_max() {
            return Err(invalid(format!(
                "The policy '{}' has a retention time of '{}' but should be aggregated by policy \
                 '{}' with the aggregation time frame of {}",
                before.name,
                before.retention.text(),
                policy.name,
                policy.aggregation.text()
            )));
        }
        if position != 0 && !before.aggregation.divides(policy.aggregation) {
            return Err(invalid(format!(
                "The aggregation time of the policy '{}' ({}) must be divided by the aggregation \
                 time of '{}' ({}) without a remainder.",
                policy.name,
                policy.aggregation.text(),
                before.name,
                before.aggregation.text()
            )));
        }
    }
    Ok(())
}

/// What is to be done with the time series of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeSeriesConfiguration {
    /// Collections that have policies, switched off or not.
    pub collections: Vec<CollectionPolicies>,
    /// Seconds between two looks.
    pub check_seconds: u64,
}

impl TimeSeriesConfiguration {
    /// The configuration in the record of a database, JSON; `None` when there is nothing to do.
    pub fn of_record(json: &[u8]) -> Option<Self> {
        let record: Map<String, Value> = serde_json::from_slice(json).unwrap_or_default();
        let stored = record.get(TIME_SERIES_PROPERTY)?.as_object()?;
        let mut collections = read_collections(stored).ok()?;
        collections.retain(|policies| !policies.is_disabled);
        let frequency = stored.get("PolicyCheckFrequency").and_then(Value::as_str);
        let frequency = frequency.and_then(|text| text.parse::<TimeSpan>().ok());
        let seconds = frequency.map(|span| span.to_duration().as_secs());
        let check_seconds = seconds.unwrap_or(FREQUENCY_SECONDS_DEFAULT).max(1);
        (!collections.is_empty()).then_some(Self { collections, check_seconds })
    }
}

fn read_collections(sent: &Map<String, Value>) -> Result<Vec<CollectionPolicies>, ProtocolError> {
    let collections = sent.get("Collections").and_then(Value::as_object);
    let collections = collections.into_iter().flatten();
    let collections = collections.filter(|(_, policies)| !policies.is_null());
    collections
        .map(|(collection, policies)| CollectionPolicies::read(collection, policies))
        .collect()
}

/// Checks a configuration that a client sends. Gives it in full, as it is kept and shown.
///
/// # Errors
/// What is no configuration, in the protocol's words.
pub fn read_time_series_configuration(sent: &Map<String, Value>) -> Result<Value, ProtocolError> {
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
    let collections = collections.map(|policies| (policies.collection.clone(), policies.json()));
    let collections: Map<String, Value> = collections.collect();
    json!({
        "Collections": collections, "PolicyCheckFrequency": frequency,
        "NamedValues": named_values
    })
}

/// The stored configuration, or one that says nothing.
fn stored_or_empty(stored: Option<&Value>) -> Value {
    let stored = stored.filter(|stored| stored.is_object());
    stored.cloned().unwrap_or_else(|| configuration_json(&[], Value::Null, json!({})))
}

/// The entry of an object whose name is the same without regard to case, or its place.
fn place_of<'m>(object: &'m mut Map<String, Value>, name: &str) -> &'m mut Value {
    let known = object.keys().find(|known| known.eq_ignore_ascii_case(name)).cloned();
    object.entry(known.unwrap_or_else(|| name.to_owned())).or_insert(Value::Null)
}

fn object_at<'v>(value: &'v mut Value, name: &str) -> &'v mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    let place = place_of(value.as_object_mut().expect("it was made an object"), name);
    if !place.is_object() {
        *place = json!({});
    }
    place.as_object_mut().expect("it was made an object")
}

/// The stored configuration with one more policy, or with another one in the place of that of its name.
///
/// # Errors
/// What is no policy, or does not go with the others.
pub fn with_policy(
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
    in_full(&configuration)
}

/// The stored configuration without a policy; `None` when it has none of that name.
pub fn without_policy(stored: Option<&Value>, collection: &str, name: &str) -> Option<Value> {
    let mut configuration = stored.filter(|stored| stored.is_object())?.clone();
    let collections = object_at(&mut configuration, "Collections");
    let known = collections.keys().find(|known| known.eq_ignore_ascii_case(collection))?.clone();
    let place = collections.get_mut(&known)?;
    if name.eq_ignore_ascii_case(RAW_POLICY) {
        place["RawPolicy"] = Value::Null;
    } else {
        let policies = place["Policies"].as_array_mut()?;
        let before = policies.len();
        policies.retain(|known| !is_named(known, name));
        if policies.len() == before {
            return None;
        }
    }
    in_full(&configuration).ok()
}

fn is_named(policy: &Value, name: &str) -> bool {
    policy["Name"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(name))
}

fn in_full(configuration: &Value) -> Result<Value, ProtocolError> {
    let object = configuration.as_object().cloned().unwrap_or_default();
    read_time_series_configuration(&object)
}

/// The stored configuration with names for the values of a series, as a client sends them; `None` when
/// they are what is stored.
///
/// # Errors
/// A request that lacks something; other names that are there already.
pub fn with_value_names(
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
    if !of_collection.is_object() {
        *of_collection = json!({});
    }
    let of_collection = of_collection.as_object_mut().expect("it was made an object");
    let place = place_of(of_collection, series);
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
    use super::*;

    fn read(sent: Value) -> Result<Value, String> {
        let sent = sent.as_object().expect("a test sends objects");
        read_time_series_configuration(sent).map_err(|error| error.message)
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
        let record = json!({ "TimeSeries": shown }).to_string();
        let found = TimeSeriesConfiguration::of_record(record.as_bytes()).unwrap();
        assert_eq!(found.check_seconds, 600);
        assert_eq!(found.collections[0].policies[0].aggregation, TimeValue::Seconds(60));
        assert_eq!(TimeSeriesConfiguration::of_record(b"{}"), None);
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
        let stored = without_policy(Some(&stored), "Cos", "BYMIN").unwrap();
        assert_eq!(names(&stored), ["byHour"]);
        assert_eq!(without_policy(Some(&stored), "Cos", "byMin"), None);
        assert_eq!(without_policy(Some(&stored), "Nope", "byMin"), None);
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
    }
}
