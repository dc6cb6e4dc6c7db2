//! The current notifications of a database for operators. Each exists for as long as its cause
//! does; nothing is stored.

use database::{Database, DiskSpaceLevel, MemoryLevel};
use engine::MemoryPlan;
use http::StatusCode;
use indexing::FanOut;
use model::date;
use serde_json::{Map, Value, json};
use storage::{IoOperation, IoPosition};
use wire::humane_size;

use crate::{
    answers::answer::Answer, api_error::ApiError, call::Call, handlers::io_metrics::kind_name,
    server_state::ServerState,
};

/// `GET /notifications`.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let start = query.long("pageStart")?.unwrap_or(0).max(0);
    let count = query.long("pageSize")?.unwrap_or(i64::MAX).max(0);
    let database = call.database()?;
    let all = shown(&call.state, database);
    let (start, count) = (to_usize(start), to_usize(count));
    let page: Vec<&Value> = all.iter().skip(start).take(count).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Results": page, "TotalResults": all.len()})))
}

/// All current notifications of a database.
pub(crate) fn of_database(state: &ServerState, database: &Database, now: &str) -> Vec<Value> {
    let all = [
        low_disk(database, now),
        low_memory(state.engine.memory(), now),
        slow_io(database, now),
        fan_out(database),
        older_documents(database, now),
    ];
    all.into_iter().flatten().chain(failing_etl(state, database)).collect()
}

/// The notifications of a database that operators have not dismissed.
fn shown(state: &ServerState, database: &Database) -> Vec<Value> {
    let now = state.engine.clock().now();
    let all = of_database(state, database, &date::format(now.ticks()));
    database.notices().shown(all, id_of, now)
}

/// The id of a notification.
pub(crate) fn id_of(notification: &Value) -> &str {
    notification["Id"].as_str().unwrap_or("")
}

/// All current notifications of the server.
pub(crate) fn of_server(state: &ServerState, now: &str) -> Vec<Value> {
    low_memory(state.engine.memory(), now).into_iter().collect()
}

/// The number of notifications, by kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) alerts: u64,
    pub(crate) hints: u64,
}

/// How many notifications a database currently has.
pub(crate) fn counts(state: &ServerState, database: &Database) -> Counts {
    let all = shown(state, database);
    let of_kind = |kind: &str| all.iter().filter(|one| one["Type"] == kind).count() as u64;
    Counts { alerts: of_kind(ALERT), hints: of_kind(HINT) }
}

const ALERT: &str = "AlertRaised";
const HINT: &str = "PerformanceHint";

fn to_usize(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The common part of all notifications.
struct Notification<'a> {
    kind: &'static str,
    name: &'static str,
    key: &'static str,
    severity: &'static str,
    title: &'static str,
    message: String,
    at: &'a str,
    database: Option<String>,
    details: Value,
}

impl Notification<'_> {
    fn shape(&self) -> Value {
        let mut shape = json!({
            "Id": format!("{}/{}/{}", self.kind, self.name, self.key),
            "CreatedAt": self.at, "Type": self.kind, "Title": self.title,
            "Message": self.message, "Severity": self.severity, "IsPersistent": false,
            "Database": self.database, "Key": self.key,
        });
        let kind_key = if self.kind == ALERT { "AlertType" } else { "HintType" };
        shape[kind_key] = self.name.into();
        shape["Details"] = self.details.clone();
        shape
    }
}

fn low_disk(database: &Database, now: &str) -> Option<Value> {
    let reading = database.disk_space();
    let (severity, effect) = match reading.level {
        DiskSpaceLevel::Enough => return None,
        DiskSpaceLevel::Low => ("Warning", "Writes are accepted."),
        DiskSpaceLevel::Refusing => {
            ("Error", "Writes are refused until there is enough space again.")
        }
    };
    let message = format!(
        "{}: {} of {} are free, and {} should be. {effect}",
        reading.directory.display(),
        humane_size(reading.free_bytes),
        humane_size(reading.total_bytes),
        humane_size(reading.needed_bytes),
    );
    let notification = Notification {
        kind: ALERT,
        name: "LowDiskSpace",
        key: "low-disk-space",
        severity,
        title: "Low free disk space",
        message,
        at: now,
        database: Some(database.record().name.as_str().to_owned()),
        details: json!({
            "FreeBytes": reading.free_bytes, "TotalBytes": reading.total_bytes,
            "NeededBytes": reading.needed_bytes, "WasFull": reading.was_full,
            "WritesRefused": reading.level == DiskSpaceLevel::Refusing,
        }),
    };
    Some(notification.shape())
}

/// ETL tasks whose destinations do not take what they send, and documents that could not be sent.
fn failing_etl(state: &ServerState, database: &Database) -> Vec<Value> {
    let (record, engine) = (database.record(), &state.engine);
    let (mut of_loads, mut of_documents) = (Vec::new(), Vec::new());
    let (mut load_ticks, mut document_ticks) = (0, 0);
    for task in engine.etl_tasks(&record) {
        let Some(process) = engine.etl_statistics(&record, task.definition.id) else { continue };
        for (transform, statistics) in process.transforms {
            let name = format!("{}/{transform}", task.definition.name);
            if statistics.is_failing {
                let last = statistics.problems.iter().rfind(|problem| problem.document.is_none());
                let reason = last.map_or("", |problem| problem.message.as_str());
                of_loads.push(format!("{name}: {reason}"));
                load_ticks = load_ticks.max(statistics.load_error_ticks.unwrap_or(0));
            }
            if statistics.transform_errors != 0 {
                let count = statistics.transform_errors;
                of_documents.push(format!("{name}: {count} documents could not be transformed"));
                let at = statistics.transform_error_ticks.unwrap_or(0);
                document_ticks = document_ticks.max(at);
            }
        }
    }
    let problem = |name, key, title, texts: Vec<String>, ticks| {
        let notification = Notification {
            kind: ALERT,
            name,
            key,
            severity: "Warning",
            title,
            message: texts.join("\n"),
            at: &date::format(ticks),
            database: Some(record.name.as_str().to_owned()),
            details: json!({ "Tasks": texts }),
        };
        (!texts.is_empty()).then(|| notification.shape())
    };
    let loads = problem(
        "Etl_LoadError",
        "etl-load-error",
        "An ETL task cannot send to its destination",
        of_loads,
        load_ticks,
    );
    let documents = problem(
        "Etl_TransformationError",
        "etl-transformation-error",
        "An ETL task could not transform some documents",
        of_documents,
        document_ticks,
    );
    loads.into_iter().chain(documents).collect()
}

/// An index has proved that writes are missing.
fn older_documents(database: &Database, now: &str) -> Option<Value> {
    if !database.indexes().documents_are_older() {
        return None;
    }
    let notification = Notification {
        kind: ALERT,
        name: "DocumentsAreOlder",
        key: "documents-are-older",
        severity: "Error",
        title: "Writes are missing",
        message: "An index had seen later documents than the database contains: the files of the \
                  database are an older copy, or lost their newest transactions. The index was rebuilt \
                  from the documents that are there. If the newer files exist, stop the server and put \
                  them back."
            .to_owned(),
        at: now,
        database: Some(database.record().name.as_str().to_owned()),
        details: Value::Null,
    };
    Some(notification.shape())
}

fn low_memory(plan: &MemoryPlan, now: &str) -> Option<Value> {
    let (severity, effect) = match plan.pressure.level() {
        MemoryLevel::Enough => return None,
        MemoryLevel::Low => ("Warning", "Unused databases are closed early."),
        MemoryLevel::Critical => ("Error", "Large requests are rejected until more is free."),
    };
    let left = plan.pressure.reading().map_or(0, |reading| reading.left_bytes);
    let limit = plan.pressure.limit().bytes;
    let notification = Notification {
        kind: ALERT,
        name: "LowMemory",
        key: "low-memory",
        severity,
        title: "Low memory",
        message: format!(
            "{} are left of the {} that {} allows. {effect}",
            humane_size(left),
            humane_size(limit),
            plan.limited_by
        ),
        at: now,
        database: None,
        details: json!({"LeftBytes": left, "LimitBytes": limit}),
    };
    Some(notification.shape())
}

fn slow_io(database: &Database, now: &str) -> Option<Value> {
    let (slow, _) = database.environment().slow_io(IoPosition::default());
    let newest = slow.last()?;
    let threshold = database.environment().options().slow_io_min.as_millis();
    let message = format!(
        "{} writes or syncs took {threshold} milliseconds or longer since the database was opened; \
         the newest took {} for {}.",
        slow.len(),
        newest.duration.as_millis(),
        humane_size(newest.bytes)
    );
    let notification = Notification {
        kind: HINT,
        name: "SlowIO",
        key: "slow-writes",
        severity: "Info",
        title: "Slow I/O",
        message,
        at: now,
        database: Some(database.record().name.as_str().to_owned()),
        details: json!({"Operations": slow.iter().map(slow_item).collect::<Vec<_>>()}),
    };
    Some(notification.shape())
}

/// Indexes with documents that produce very many entries.
fn fan_out(database: &Database) -> Option<Value> {
    let indexes = database.indexes().all();
    let found: Vec<_> = indexes
        .iter()
        .filter_map(|index| Some((index.name().to_owned(), index.fan_out()?)))
        .collect();
    let last_ticks = found.iter().map(|(_, fan_out)| fan_out.last_ticks).max()?;
    let of_one = |(name, fan_out): &(String, FanOut)| {
        let warning = json!({
            "NumberOfExceedingDocuments": fan_out.documents,
            "SampleDocumentId": fan_out.sample,
            "MaxNumberOutputsPerDocument": fan_out.outputs_max,
            "Suggestion": "Each of these documents produces very many entries. Consider smaller \
                           documents, or an index with fewer entries for each.",
            "LastWarningTime": date::format(fan_out.last_ticks)
        });
        (name.clone(), json!([warning]))
    };
    let warnings: Map<String, Value> = found.iter().map(of_one).collect();
    let notification = Notification {
        kind: HINT,
        name: "Indexing",
        key: "Indexing",
        severity: "Warning",
        title: "High indexing fanout ratio",
        message: "Number of map results produced by an index exceeds the performance hint \
                  configuration key (MaxIndexOutputsPerDocument)."
            .to_owned(),
        at: &date::format(last_ticks),
        database: Some(database.record().name.as_str().to_owned()),
        details: json!({
            "$type": "Raven.Server.NotificationCenter.Notifications.Details.\
                      WarnIndexOutputsPerDocument, Raven.Server",
            "Warnings": warnings
        }),
    };
    Some(notification.shape())
}

fn slow_item(operation: &IoOperation) -> Value {
    json!({
        "Start": date::format(operation.start.ticks()), "File": &*operation.file,
        "Type": kind_name(operation.kind), "Bytes": operation.bytes,
        "DurationInMs": operation.duration.as_millis() as u64,
    })
}
