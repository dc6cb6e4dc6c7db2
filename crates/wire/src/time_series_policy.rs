//! The policies of time series: how long entries are kept, and over which time spans they are aggregated.

use std::cmp::Ordering;

use serde_json::{Value, json};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// The name of the policy for entries written by clients.
pub(crate) const RAW_POLICY: &str = "rawpolicy";
/// Means unlimited.
const FOR_EVER: i64 = 2_147_483_647;
const POLICIES_MAX: usize = 64;
const SECONDS_PER_DAY: i64 = 24 * 3600;

/// A time span in a policy: seconds, which have a fixed length, or months, which do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeValue {
    /// Unlimited.
    ForEver,
    /// A number of seconds.
    Seconds(i64),
    /// A number of months.
    Months(i64),
}

impl TimeValue {
    /// Its minimum and maximum length, because months and years differ.
    fn seconds(self) -> (i64, i64) {
        let of_days = |days: i64| days.saturating_mul(SECONDS_PER_DAY);
        match self {
            Self::ForEver => (i64::MAX, i64::MAX),
            Self::Seconds(seconds) => (seconds, seconds),
            Self::Months(months) => {
                let (years, months) = (months / 12, months % 12);
                (of_days(years * 365 + months * 28), of_days(years * 366 + months * 31))
            }
        }
    }

    /// Compares two spans.
    ///
    /// # Errors
    /// The result depends on the month.
    fn compare(self, other: Self) -> Result<Ordering, ProtocolError> {
        if let (Self::Months(own), Self::Months(other)) = (self, other) {
            return Ok(own.cmp(&other));
        }
        let ((own_min, own_max), (min, max)) = (self.seconds(), other.seconds());
        if own_max < min {
            return Ok(Ordering::Less);
        }
        if max < own_min {
            return Ok(Ordering::Greater);
        }
        if matches!((self, other), (Self::Months(_), _) | (_, Self::Months(_))) {
            return Err(invalid(format!(
                "Unable to compare {} with {}, since a month might have different number of days.",
                self.text(),
                other.text()
            )));
        }
        Ok(own_min.cmp(&min))
    }

    /// Whether the other span is a whole multiple of this one.
    fn divides(self, other: Self) -> bool {
        match (self, other) {
            (Self::Seconds(own), Self::Seconds(other))
            | (Self::Months(own), Self::Months(other)) => other % own == 0,
            // Months begin at the start of a day.
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

/// A policy: entries of a time span are aggregated into one, which is kept for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSeriesPolicy {
    /// Its name.
    pub name: String,
    /// The time span aggregated into one entry.
    pub aggregation: TimeValue,
    /// How long the aggregated entries are kept.
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
        if !policy.retention.is_positive() {
            return Err(invalid(format!("Retention time of '{name}' must be greater than zero")));
        }
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
            if !raw.retention.is_positive() {
                let message = "Retention time of the RawPolicy must be greater than zero";
                return Err(invalid(message.to_owned()));
            }
        }
        Ok(raw)
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

/// The policies of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionPolicies {
    /// The collection.
    pub collection: String,
    /// Whether they are disabled.
    pub is_disabled: bool,
    /// How long the entries written by clients are kept.
    pub raw_retention: TimeValue,
    /// The policies, ordered by aggregation time, shortest first.
    pub policies: Vec<TimeSeriesPolicy>,
}

impl CollectionPolicies {
    pub(crate) fn read(collection: &str, sent: &Value) -> Result<Self, ProtocolError> {
        let raw = TimeSeriesPolicy::read_raw(sent.get("RawPolicy"))?;
        let sent_policies = sent.get("Policies").and_then(Value::as_array);
        let policies = sent_policies.into_iter().flatten().map(TimeSeriesPolicy::read);
        let policies = policies.collect::<Result<Vec<_>, _>>()?;
        if POLICIES_MAX < policies.len() {
            let message = format!("A collection may have up to {POLICIES_MAX} policies");
            return Err(ProtocolError::argument(message));
        }
        let policies = finest_first(policies)?;
        check_chain(&raw, &policies)?;
        Ok(Self {
            collection: collection.to_owned(),
            is_disabled: sent.get("Disabled").and_then(Value::as_bool).unwrap_or(false),
            raw_retention: raw.retention,
            policies,
        })
    }

    pub(crate) fn json(&self) -> Value {
        let raw = TimeSeriesPolicy {
            name: RAW_POLICY.to_owned(),
            aggregation: TimeValue::Seconds(0),
            retention: self.raw_retention,
        };
        let policies: Vec<Value> = self.policies.iter().map(TimeSeriesPolicy::json).collect();
        json!({ "RawPolicy": raw.json(), "Disabled": self.is_disabled, "Policies": policies })
    }
}

/// Sorts policies by aggregation time, shortest first.
fn finest_first(policies: Vec<TimeSeriesPolicy>) -> Result<Vec<TimeSeriesPolicy>, ProtocolError> {
    let mut sorted: Vec<TimeSeriesPolicy> = Vec::with_capacity(policies.len());
    for policy in policies {
        let mut place = 0;
        for known in &sorted {
            place += usize::from(known.aggregation.compare(policy.aggregation)?.is_le());
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
        if before.retention.compare(policy.aggregation)?.is_lt() {
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

fn invalid(message: String) -> ProtocolError {
    ProtocolError::invalid_operation(message)
}
