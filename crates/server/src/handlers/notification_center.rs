//! Notification centers of the server and of a database: notifications for operators, operations in
//! progress, and changing numbers, each sent once over a WebSocket.

use std::{collections::BTreeMap, sync::Arc};

use database::{Database, Hidden, NoticeBoard, NoticeUpdate, Operation, Operations};
use documents::DocumentError;
use http::StatusCode;
use model::{date, ticks::TICKS_PER_SECOND};
use platform::Timestamp;
use serde_json::{Map, Value, json};
use wire::{QueryString, operation_state::OperationStatus};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    feeds::{gone::Gone, live_feed::OpenedDatabase, pulse::Pulse, pulse_feed},
    handlers::{
        cluster_nodes::topology_notification,
        index_faults::{Known, all_known},
        notifications,
        operations::state_json,
    },
    http::web_socket::Session,
    server_state::ServerState,
};

/// Maximum number of collections in one message.
const COLLECTIONS_MAX: usize = 1024;

/// `GET /server/notification-center/watch`.
pub(crate) fn watch_server(call: &Call) -> Result<Session, ApiError> {
    let address = call.state.address_in_passing(&call.headers).into_owned();
    let topology = topology_notification(&call.state, &address);
    Ok(pulse_feed::begin(ServerCenter {
        state: Arc::clone(&call.state),
        first: Some(topology),
        sent: Sent::default(),
    }))
}

/// `GET /databases/*/notification-center/watch`.
pub(crate) fn watch_database(call: &Call) -> Result<Session, ApiError> {
    Ok(pulse_feed::begin(DatabaseCenter {
        database: OpenedDatabase::of(call)?,
        sent: Sent::default(),
        numbers: None,
    }))
}

/// `POST /server/notification-center/dismiss`.
pub(crate) fn dismiss_of_server(call: &Call) -> Result<Answer, ApiError> {
    dismiss(call, call.state.engine.notices())
}

/// `POST /databases/*/notification-center/dismiss`.
pub(crate) fn dismiss_of_database(call: &Call) -> Result<Answer, ApiError> {
    dismiss(call, call.database()?.notices())
}

/// `POST /server/notification-center/postpone`.
pub(crate) fn postpone_of_server(call: &Call) -> Result<Answer, ApiError> {
    postpone(call, call.state.engine.notices())
}

/// `POST /databases/*/notification-center/postpone`.
pub(crate) fn postpone_of_database(call: &Call) -> Result<Answer, ApiError> {
    postpone(call, call.database()?.notices())
}

/// Longer ids of notifications are rejected, since dismissed ones are stored.
const NOTICE_ID_BYTES_MAX: usize = 1024;

fn notice_id<'q>(query: &'q QueryString<'_>) -> Result<&'q str, ApiError> {
    let id = query.required("id")?;
    if NOTICE_ID_BYTES_MAX < id.len() {
        return Err(ApiError::argument(format!(
            "The id of a notification has at most {NOTICE_ID_BYTES_MAX} bytes, this one has {}.",
            id.len()
        )));
    }
    Ok(id)
}

fn dismiss(call: &Call, board: &NoticeBoard) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = notice_id(&query)?;
    let is_forever = query.bool("forever")?.unwrap_or(false);
    let hidden = if is_forever { Hidden::Forever } else { Hidden::WhileItLasts };
    board.hide(id, hidden, call.state.engine.clock().now());
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

fn postpone(call: &Call, board: &NoticeBoard) -> Result<Answer, ApiError> {
    let query = call.query();
    let (id, seconds) = (notice_id(&query)?, query.required_long("timeInSec")?);
    let now = call.state.engine.clock().now();
    let ticks = now.ticks().saturating_add(seconds.saturating_mul(TICKS_PER_SECOND));
    board.hide(id, Hidden::Until(Timestamp::from_ticks(ticks)), now);
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `GET /databases/*/notification-center/stats`.
pub(crate) fn numbers(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let numbers = Numbers::of(database)?;
    let mut answer = numbers.shape();
    let collections = numbers.collections.iter();
    answer.insert(
        "Collections".to_owned(),
        collections
            .map(|(name, collection)| (name.clone(), collection.shape(name)))
            .collect::<Map<_, _>>()
            .into(),
    );
    let revisions = documents::revisions_total(&database.read()).map_err(failed)?;
    answer.insert("CountOfRevisions".to_owned(), revisions.into());
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// What was sent to a reader.
#[derive(Default)]
struct Sent {
    has_begun: bool,
    /// The last sent state of each operation, by its id and start; null if it had ended before the
    /// reader connected, or its end was sent.
    operations: BTreeMap<(i64, i64), Value>,
    /// The severity of each notification.
    notices: BTreeMap<String, Value>,
    /// The position up to which dismissed notifications were sent.
    position: u64,
}

impl Sent {
    /// The changes of operations and notifications.
    fn news(
        &mut self,
        operations: &Operations,
        notices: Vec<Value>,
        board: &NoticeBoard,
        (now, database): (Timestamp, Option<&str>),
    ) -> Vec<Value> {
        let mut news = Vec::new();
        let notices = board.shown(notices, notifications::id_of, now);
        let mut current = BTreeMap::new();
        for notice in notices {
            let id = notifications::id_of(&notice).to_owned();
            let severity = notice["Severity"].clone();
            if self.notices.get(&id) != Some(&severity) {
                news.push(notice);
            }
            current.insert(id, severity);
        }
        self.notices = current;
        self.add_operations(operations, database, now, &mut news);
        if !self.has_begun {
            self.position = board.position();
        }
        let (updates, position) = board.updates_since(self.position);
        news.extend(updates.iter().map(update_message));
        (self.position, self.has_begun) = (position, true);
        news
    }

    fn add_operations(
        &mut self,
        operations: &Operations,
        database: Option<&str>,
        now: Timestamp,
        news: &mut Vec<Value>,
    ) {
        let mut current = BTreeMap::new();
        for (id, operation) in operations.all() {
            let key = (id, operation.started.ticks());
            let known = self.operations.remove(&key);
            let (is_running, is_over) = (operation.is_running(), known == Some(Value::Null));
            let state = if is_over { Value::Null } else { state_json(&operation) };
            let is_old = !self.has_begun && !is_running;
            if !is_over && !is_old && known.as_ref() != Some(&state) {
                news.push(operation_message(id, &operation, &state, database, now));
            }
            current.insert(key, if is_running { state } else { Value::Null });
        }
        self.operations = current;
    }
}

fn operation_message(
    id: i64,
    operation: &Operation,
    state: &Value,
    database: Option<&str>,
    now: Timestamp,
) -> Value {
    let severity = match operation.state().status {
        OperationStatus::InProgress => "None",
        OperationStatus::Faulted(_) => "Error",
        OperationStatus::Canceled => "Warning",
        OperationStatus::Completed(_)
        | OperationStatus::Compacted(_)
        | OperationStatus::IndexOptimized { .. }
        | OperationStatus::Smuggled(_)
        | OperationStatus::BackedUp(_)
        | OperationStatus::Restored(_)
        | OperationStatus::Revised(_) => "Success",
    };
    let ended = operation.state().ended.map(|ended| date::format(ended.ticks()));
    json!({
        "Id": format!("OperationChanged/{id}"), "CreatedAt": date::format(now.ticks()),
        "Type": "OperationChanged", "Title": title_of(operation.task_type),
        "Message": operation.description, "Severity": severity, "IsPersistent": false,
        "Database": database, "OperationId": id, "State": state, "Killable": ended.is_none(),
        "TaskType": operation.task_type, "StartTime": date::format(operation.started.ticks()),
        "EndTime": ended, "DetailedDescription": null
    })
}

/// `Delete by query` for `DeleteByQuery`.
fn title_of(task_type: &str) -> String {
    let mut title = String::with_capacity(task_type.len() + 4);
    for letter in task_type.chars() {
        if letter.is_ascii_uppercase() && !title.is_empty() {
            title.push(' ');
            title.push(letter.to_ascii_lowercase());
        } else {
            title.push(letter);
        }
    }
    title
}

fn update_message(update: &NoticeUpdate) -> Value {
    let kind = match update.hidden {
        Hidden::WhileItLasts => "Dismissed",
        Hidden::Forever | Hidden::Until(_) => "Postponed",
    };
    json!({
        "Id": format!("NotificationUpdated/{kind}/{}", update.id),
        "CreatedAt": date::format(update.at.ticks()), "Type": "NotificationUpdated", "Title": null,
        "Message": null, "Severity": "None", "IsPersistent": false, "Database": "*",
        "NotificationId": update.id, "UpdateType": kind
    })
}

/// A reader of the server's.
struct ServerCenter {
    state: Arc<ServerState>,
    first: Option<Value>,
    sent: Sent,
}

impl Pulse for ServerCenter {
    fn messages(&mut self) -> Result<Vec<Value>, Gone> {
        let now = self.state.engine.clock().now();
        let notices = notifications::of_server(&self.state, &date::format(now.ticks()));
        let (operations, board) = (self.state.engine.operations(), self.state.engine.notices());
        let mut news: Vec<Value> = self.first.take().into_iter().collect();
        news.extend(self.sent.news(operations, notices, board, (now, None)));
        Ok(news)
    }
}

/// A reader of a database's.
struct DatabaseCenter {
    database: OpenedDatabase,
    sent: Sent,
    numbers: Option<Numbers>,
}

impl Pulse for DatabaseCenter {
    fn messages(&mut self) -> Result<Vec<Value>, Gone> {
        let database = self.database.get()?;
        let state = self.database.state();
        let now = state.engine.clock().now();
        let at = date::format(now.ticks());
        let notices = notifications::of_database(state, &database, &at);
        let record = database.record();
        let name = record.name.as_str();
        let place = (now, Some(name));
        let mut news = self.sent.news(database.operations(), notices, database.notices(), place);
        news.extend(self.changed_numbers(&database, name, &at));
        Ok(news)
    }
}

impl DatabaseCenter {
    /// The numbers of the database, if they have changed since they were last sent. Read errors are
    /// reported by the routes that return them.
    fn changed_numbers(&mut self, database: &Database, name: &str, at: &str) -> Option<Value> {
        let new = Numbers::of(database).ok()?;
        let old = self.numbers.replace(new.clone()).filter(|old| *old != new)?;
        let is_changed = |(name, collection): &(&String, &Collection)| {
            old.collections.get(*name) != Some(*collection)
        };
        let modified = new.collections.iter().filter(is_changed).take(COLLECTIONS_MAX);
        let modified: Vec<Value> = modified.map(|(name, one)| one.shape(name)).collect();
        let mut message = json!({
            "Id": "", "CreatedAt": at, "Type": "DatabaseStatsChanged", "Title": null, "Message": null,
            "Severity": "Info", "IsPersistent": false, "Database": name,
            "ModifiedCollections": modified
        });
        message.as_object_mut()?.extend(new.shape());
        Some(message)
    }
}

/// The numbers of a database that a studio shows continuously.
#[derive(Clone, PartialEq)]
struct Numbers {
    documents: u64,
    conflicts: u64,
    last_etag: u64,
    change_vector: String,
    indexes: usize,
    stale: Vec<String>,
    errors: u64,
    /// The time of the last error of any index, in ticks.
    last_error: Option<i64>,
    collections: BTreeMap<String, Collection>,
}

#[derive(Clone, PartialEq)]
struct Collection {
    documents: u64,
    newest: Option<String>,
}

impl Collection {
    fn shape(&self, name: &str) -> Value {
        json!({"Name": name, "Count": self.documents, "LastDocumentChangeVector": self.newest})
    }
}

impl Numbers {
    /// # Errors
    /// When documents or indexes cannot be read.
    fn of(database: &Database) -> Result<Numbers, ApiError> {
        let tx = database.read();
        let progress = documents::progress(&tx).map_err(failed)?;
        let indexes = all_known(database.indexes());
        let (mut stale, mut errors, mut last_error) = (Vec::new(), 0, None);
        for index in &indexes {
            errors += index.error_count()?;
            let Known::Open(index) = index else { continue };
            if index.is_stale(&tx)? {
                stale.push(index.name().to_owned());
            }
            let newest = index.errors()?;
            last_error = last_error.max(newest.iter().map(|error| error.ticks).max());
        }
        let mut collections = BTreeMap::new();
        let all = documents::collections(&tx).map_err(failed)?;
        for collection in all.into_iter().take(COLLECTIONS_MAX) {
            let mut rows =
                documents::newest_first_of_collection(&tx, &collection.name).map_err(failed)?;
            let newest = rows.next().transpose().map_err(failed)?;
            let newest = newest.map(|row| row.change_vector().to_owned());
            let numbers = Collection { documents: collection.documents, newest };
            collections.insert(collection.name.as_str().to_owned(), numbers);
        }
        Ok(Numbers {
            documents: progress.documents,
            conflicts: documents::count_conflicts(&tx).map_err(failed)?.0,
            last_etag: progress.last_etag.0,
            change_vector: progress.change_vector.to_string(),
            indexes: indexes.len(),
            stale,
            errors,
            last_error,
            collections,
        })
    }

    fn shape(&self) -> Map<String, Value> {
        let shape = json!({
            "CountOfDocuments": self.documents, "CountOfConflicts": self.conflicts, "LastEtag": self.last_etag,
            "CountOfIndexes": self.indexes, "CountOfStaleIndexes": self.stale.len(),
            "StaleIndexes": self.stale, "CountOfIndexingErrors": self.errors,
            "GlobalChangeVector": self.change_vector,
            "LastIndexingErrorTime": self.last_error.map(date::format)
        });
        shape.as_object().cloned().unwrap_or_default()
    }
}

fn failed(error: DocumentError) -> ApiError {
    ApiError::from(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_of_an_operation_is_its_type_in_words() {
        assert_eq!(title_of("DeleteByCollection"), "Delete by collection");
        assert_eq!(title_of("Compact"), "Compact");
    }
}
