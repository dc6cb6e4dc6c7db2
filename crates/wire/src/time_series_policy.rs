//! The policies of time series as sent by clients and stored in records, and the rules that they must satisfy.

use std::cmp::Ordering;

use model::{CollectionPolicies, TimeSeriesPolicy, TimeValue};
use serde_json::{Value, json};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// The name of the policy for entries written by clients.
pub(crate) const RAW_POLICY: &str = "rawpolicy";
/// Means unlimited.
const FOR_EVER: i64 = 2_147_483_647;
const POLICIES_MAX: usize = 64;
const SECONDS_PER_DAY: i64 = 24 * 3600;
const NO_TIME: TimeValue = TimeValue::Seconds(0);

/// Reads the policies of a collection.
///
/// # Errors
/// They break a rule, or do not go together; the messages are the protocol's.
pub(crate) fn read_policies(
    collection: &str,
    sent: &Value,
) -> Result<CollectionPolicies, ProtocolError> {
    let raw = read_raw_policy(sent.get("RawPolicy"))?;
    let sent_policies = sent.get("Policies").and_then(Value::as_array);
    let policies = sent_policies.into_iter().flatten().map(read_policy);
    let policies = policies.collect::<Result<Vec<_>, _>>()?;
    if POLICIES_MAX < policies.len() {
        let message = format!("A collection may have up to {POLICIES_MAX} policies");
        return Err(ProtocolError::argument(message));
    }
    let policies = finest_first(policies)?;
    check_chain(&raw, &policies)?;
    Ok(CollectionPolicies {
        collection: collection.to_owned(),
        is_disabled: sent.get("Disabled").and_then(Value::as_bool).unwrap_or(false),
        raw_retention: raw.retention,
        policies,
    })
}

/// The policies of a collection with all properties.
pub(crate) fn policies_json(of_collection: &CollectionPolicies) -> Value {
    let raw = raw_policy(of_collection.raw_retention);
    let policies: Vec<Value> = of_collection.policies.iter().map(policy_json).collect();
    json!({
        "RawPolicy": policy_json(&raw), "Disabled": of_collection.is_disabled,
        "Policies": policies
    })
}

/// The policy for entries written by clients.
fn raw_policy(retention: TimeValue) -> TimeSeriesPolicy {
    TimeSeriesPolicy { name: RAW_POLICY.to_owned(), aggregation: NO_TIME, retention }
}

fn read_raw_policy(sent: Option<&Value>) -> Result<TimeSeriesPolicy, ProtocolError> {
    let Some(sent) = sent.filter(|sent| !sent.is_null()) else {
        return Ok(raw_policy(TimeValue::ForEver));
    };
    let retention = read_span(sent.get("RetentionTime"))?.unwrap_or(NO_TIME);
    if !retention.is_positive() {
        let message = "Retention time of the RawPolicy must be greater than zero";
        return Err(invalid(message.to_owned()));
    }
    Ok(raw_policy(retention))
}

fn read_policy(sent: &Value) -> Result<TimeSeriesPolicy, ProtocolError> {
    let name = sent.get("Name").and_then(Value::as_str).unwrap_or_default();
    if name.trim().is_empty() {
        let message = "Value cannot be null. (Parameter 'Name')";
        return Err(ProtocolError::new(ErrorKind::ArgumentNull, message));
    }
    let policy = TimeSeriesPolicy {
        name: name.to_owned(),
        aggregation: read_span(sent.get("AggregationTime"))?.unwrap_or(NO_TIME),
        retention: read_span(sent.get("RetentionTime"))?.unwrap_or(NO_TIME),
    };
    if !policy.aggregation.is_positive() || policy.aggregation == TimeValue::ForEver {
        return Err(invalid(format!("Aggregation time of '{name}' must be greater than zero")));
    }
    if !policy.retention.is_positive() {
        return Err(invalid(format!("Retention time of '{name}' must be greater than zero")));
    }
    if name.contains('@') {
        return Err(invalid(format!("The name of a policy cannot contain '@': '{name}'")));
    }
    Ok(policy)
}

fn policy_json(policy: &TimeSeriesPolicy) -> Value {
    let aggregation = match policy.aggregation {
        TimeValue::Seconds(0) => json!({ "Value": 0, "Unit": "None" }),
        aggregation => span_json(aggregation),
    };
    json!({
        "Name": policy.name, "RetentionTime": span_json(policy.retention),
        "AggregationTime": aggregation
    })
}

fn read_span(sent: Option<&Value>) -> Result<Option<TimeValue>, ProtocolError> {
    let Some(sent) = sent.filter(|sent| !sent.is_null()) else { return Ok(None) };
    let value = sent.get("Value").and_then(Value::as_i64).unwrap_or(0);
    let value = value.clamp(i64::from(i32::MIN), FOR_EVER);
    match sent.get("Unit").and_then(Value::as_str).unwrap_or("None") {
        "None" if value == FOR_EVER => Ok(Some(TimeValue::ForEver)),
        "None" => Ok(None),
        "Second" => Ok(Some(TimeValue::Seconds(value))),
        "Month" => Ok(Some(TimeValue::Months(value))),
        other => Err(ProtocolError::new(
            ErrorKind::Format,
            format!(
                "Could not convert Sparrow.Json.LazyStringValue ('{other}') to \
                 Sparrow.TimeValueUnit"
            ),
        )),
    }
}

fn span_json(span: TimeValue) -> Value {
    match span {
        TimeValue::ForEver => json!({ "Value": FOR_EVER, "Unit": "None" }),
        TimeValue::Seconds(value) => json!({ "Value": value, "Unit": "Second" }),
        TimeValue::Months(value) => json!({ "Value": value, "Unit": "Month" }),
    }
}

/// A span in the words of the protocol's messages.
fn span_text(span: TimeValue) -> String {
    let plural = |count: i64, unit: &str| match count {
        1 => format!("1 {unit}"),
        count => format!("{count} {unit}s"),
    };
    match span {
        TimeValue::ForEver => "no limit".to_owned(),
        TimeValue::Months(months) => {
            let (years, months) = (months / 12, months % 12);
            let parts = [(years, "year"), (months, "month")];
            let parts = parts.iter().filter(|(count, _)| *count != 0);
            parts.map(|(count, unit)| plural(*count, unit)).collect::<Vec<_>>().join(" ")
        }
        TimeValue::Seconds(seconds) => {
            let mut rest = seconds;
            let mut parts = Vec::new();
            for (length, unit) in [(SECONDS_PER_DAY, "day"), (3600, "hour"), (60, "minute")] {
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

/// Compares two spans.
///
/// # Errors
/// The result depends on the month.
fn compare(own: TimeValue, other: TimeValue) -> Result<Ordering, ProtocolError> {
    own.compare(other).ok_or_else(|| {
        invalid(format!(
            "Unable to compare {} with {}, since a month might have different number of days.",
            span_text(own),
            span_text(other)
        ))
    })
}

/// Sorts policies by aggregation time, shortest first.
fn finest_first(policies: Vec<TimeSeriesPolicy>) -> Result<Vec<TimeSeriesPolicy>, ProtocolError> {
    let mut sorted: Vec<TimeSeriesPolicy> = Vec::with_capacity(policies.len());
    for policy in policies {
        let mut place = 0;
        for known in &sorted {
            place += usize::from(compare(known.aggregation, policy.aggregation)?.is_le());
        }
        sorted.insert(place, policy);
    }
    Ok(sorted)
}

/// Each policy aggregates the entries of the one before it, so these must be kept for long enough.
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
        if position != 0 && before.aggregation == policy.aggregation {
            return Err(invalid(format!(
                "The policy '{}' has the same aggregation time as the policy '{}'",
                before.name, policy.name
            )));
        }
        if compare(before.retention, policy.aggregation)?.is_lt() {
            return Err(invalid(format!(
                "The policy '{}' has a retention time of '{}' but should be aggregated by policy \
                 '{}' with the aggregation time frame of {}",
                before.name,
                span_text(before.retention),
                policy.name,
                span_text(policy.aggregation)
            )));
        }
        if position != 0 && !before.aggregation.divides(policy.aggregation) {
            return Err(invalid(format!(
                "The aggregation time of the policy '{}' ({}) must be divided by the aggregation \
                 time of '{}' ({}) without a remainder.",
                policy.name,
                span_text(policy.aggregation),
                before.name,
                span_text(before.aggregation)
            )));
        }
    }
    Ok(())
}

fn invalid(message: String) -> ProtocolError {
    ProtocolError::invalid_operation(message)
}
