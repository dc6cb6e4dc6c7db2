//! The load of one database, or of all together: requests, writes and indexing.

use std::time::Duration;

use database::{Activity, StoredMeters};
use http::StatusCode;
use model::{date, ticks};
use platform::{Meter, Timestamp};
use serde_json::{Map, Value, json};

use crate::{answers::answer::Answer, api_error::ApiError, call::Call};

/// The position of the time of day in a date.
const TIME_OF_DAY: std::ops::Range<usize> = 11..19;

/// `GET /admin/metrics`: since the server started.
pub(crate) fn of_server(call: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::shape(StatusCode::OK, &all(call.state.engine.activity())))
}

/// `GET /metrics`: since the database was opened.
pub(crate) fn of_database(call: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::shape(StatusCode::OK, &all(call.database()?.activity())))
}

/// `GET /metrics/puts?empty=`: with the events in each second of the last fifteen minutes; seconds
/// without events only on request.
pub(crate) fn puts(call: &Call) -> Result<Answer, ApiError> {
    by_second(call, "PutsPerSec", |meters| &meters.puts)
}

/// `GET /metrics/bytes?empty=`: the same for bytes.
pub(crate) fn bytes(call: &Call) -> Result<Answer, ApiError> {
    by_second(call, "BytesPutsPerSec", |meters| &meters.bytes)
}

fn by_second(
    call: &Call,
    name: &str,
    meter_of: fn(&StoredMeters) -> &Meter,
) -> Result<Answer, ApiError> {
    let leaves_out_empty = call.query().bool("empty")?.unwrap_or(true);
    let activity = call.database()?.activity();
    let now_ticks = call.state.engine.clock().now().ticks();
    let of_kind = |(kind, meters): (&'static str, &StoredMeters)| {
        let meter = meter_of(meters);
        let mut shape = reading(activity, meter);
        shape["Raw"] = raw(activity, meter, now_ticks, leaves_out_empty).into();
        (kind.to_owned(), json!({ name: shape }))
    };
    let answer: Map<String, Value> = kinds(activity).into_iter().map(of_kind).collect();
    Ok(Answer::shape(StatusCode::OK, &Value::Object(answer)))
}

/// Events by the time of day at which each second began, newest first.
fn raw(
    activity: &Activity,
    meter: &Meter,
    now_ticks: i64,
    leaves_out_empty: bool,
) -> Map<String, Value> {
    let counted = meter.seconds(activity.now());
    let time_of = |ago: u64| {
        let since = ticks::of_duration(Duration::from_secs(ago));
        let moment = Timestamp::from_ticks(now_ticks.saturating_sub(since));
        date::format(moment.ticks()).get(TIME_OF_DAY).unwrap_or_default().to_owned()
    };
    if leaves_out_empty {
        return counted
            .iter()
            .map(|(ago, events)| (time_of(*ago), rounded(*events as f64)))
            .collect();
    }
    let mut counted = counted.into_iter().peekable();
    let every = (1..=Meter::SECONDS_KEPT).map(|ago| {
        let events = counted.next_if(|(of, _)| *of == ago).map_or(0, |(_, events)| events);
        (time_of(ago), rounded(events as f64))
    });
    every.collect()
}

fn all(activity: &Activity) -> Value {
    let mut answer = json!({
        "Requests": {
            "RequestsPerSec": reading(activity, &activity.requests),
            "ConcurrentRequestsCount": activity.requests_running(),
            "AverageDuration": activity.average_request_ms(),
        }
    });
    for (kind, meters) in kinds(activity) {
        answer[kind] = json!({
            "PutsPerSec": reading(activity, &meters.puts),
            "BytesPutsPerSec": reading(activity, &meters.bytes),
        });
    }
    answer["MapIndexes"] = json!({"IndexedPerSec": reading(activity, &activity.indexed)});
    answer["MapReduceIndexes"] = json!({
        "MappedPerSec": reading(activity, &activity.mapped),
        "ReducedPerSec": reading(activity, &activity.reduced),
    });
    answer
}

fn kinds(activity: &Activity) -> [(&'static str, &StoredMeters); 4] {
    [
        ("Docs", &activity.documents),
        ("Attachments", &activity.attachments),
        ("Counters", &activity.counters),
        ("TimeSeries", &activity.time_series),
    ]
}

fn reading(activity: &Activity, meter: &Meter) -> Value {
    let reading = meter.read(activity.now());
    json!({
        "Current": rounded(reading.current as f64), "Count": reading.count,
        "MeanRate": rounded(reading.mean), "OneMinuteRate": rounded(reading.one_minute),
        "FiveMinuteRate": rounded(reading.five_minutes),
        "FifteenMinuteRate": rounded(reading.fifteen_minutes),
    })
}

/// With one decimal, the protocol's format of rates.
fn rounded(rate: f64) -> Value {
    ((rate * 10.0).round() / 10.0).into()
}
