//! Puts the tasks of a record in order before it is stored, wherever it comes from: a client, a dump or a backup.
//!
//! Invariant of what is stored: names of properties are written as every reader expects them, each task has a number that
//! no other task of the database has, and no two ETL tasks have the same name. Tasks that a database has because all have
//! them are shown in its record and not stored there.

use std::collections::HashSet;

use serde_json::{Map, Value};
use wire::{
    ExternalReplication, PeriodicBackup, PullReplicationHub, PullReplicationSink, RavenEtl,
    RecordBody, is_name_of_server_wide_backup, keep_cloud_secrets,
};

const NUMBER: &str = "TaskId";
const NAME: &str = "Name";

type WithNamesAsWritten = fn(&Map<String, Value>) -> Map<String, Value>;

/// The lists of tasks that this server follows.
const FOLLOWED: [(&str, WithNamesAsWritten); 5] = [
    (RecordBody::RAVEN_ETLS, RavenEtl::with_names_as_written),
    (RecordBody::BACKUP_TASKS, PeriodicBackup::with_names_as_written),
    (RecordBody::EXTERNAL_REPLICATIONS, ExternalReplication::with_names_as_written),
    (RecordBody::HUBS, PullReplicationHub::with_names_as_written),
    (RecordBody::SINKS, PullReplicationSink::with_names_as_written),
];

/// See the module. Numbers that are missing or taken are replaced by new ones, from `number_min` on. Returns whether
/// anything has changed.
pub(crate) fn settle_tasks(body: &mut RecordBody, number_min: u64) -> bool {
    let mut has_changed = leave_out_server_wide(body);
    let mut numbers = HashSet::new();
    let known = FOLLOWED.iter().flat_map(|(list, with_names)| {
        let tasks = body.list(list).iter().filter_map(Value::as_object);
        tasks.filter_map(|task| with_names(task).get(NUMBER)?.as_u64())
    });
    let mut next = known.max().map_or(0, |last| last.saturating_add(1)).max(number_min);
    for (list, with_names) in FOLLOWED {
        if body.list(list).is_empty() {
            continue;
        }
        for task in body.list_mut(list).iter_mut().filter_map(Value::as_object_mut) {
            let mut settled = with_names(task);
            let number = settled.get(NUMBER).and_then(Value::as_u64).filter(|number| *number != 0);
            if number.is_none_or(|number| !numbers.insert(number)) {
                numbers.insert(next);
                settled.insert(NUMBER.to_owned(), next.into());
                next = next.saturating_add(1);
            }
            if settled != *task {
                (*task, has_changed) = (settled, true);
            }
        }
    }
    rename_namesakes(body) || has_changed
}

/// A client that loads a record and sends it back does not know the secrets of its backups: they stay as they are.
/// Returns whether there were any.
pub(crate) fn keep_secrets(body: &mut RecordBody, present: &RecordBody) -> bool {
    if body.backup_tasks().is_empty() {
        return false;
    }
    let mut has_changed = false;
    for task in body.backup_tasks_mut().iter_mut().filter_map(Value::as_object_mut) {
        let id = PeriodicBackup::id_of(task);
        let mut known = present.backup_tasks().iter().filter_map(Value::as_object);
        if let Some(known) = known.find(|known| PeriodicBackup::id_of(known) == id) {
            let before = task.clone();
            keep_cloud_secrets(task, known);
            has_changed |= *task != before;
        }
    }
    has_changed
}

/// A client that loads a record and sends it back sends tasks that are not the database's own.
fn leave_out_server_wide(body: &mut RecordBody) -> bool {
    let is_of_all = |task: &Value| {
        let task = task.as_object().map(PeriodicBackup::with_names_as_written);
        let name = task.as_ref().and_then(|task| task.get(NAME)).and_then(Value::as_str);
        name.is_some_and(is_name_of_server_wide_backup)
    };
    if !body.backup_tasks().iter().any(is_of_all) {
        return false;
    }
    body.backup_tasks_mut().retain(|task| !is_of_all(task));
    true
}

/// Of ETL tasks with the same name, all but the first get another one: positions are kept under names.
fn rename_namesakes(body: &mut RecordBody) -> bool {
    if body.list(RecordBody::RAVEN_ETLS).is_empty() {
        return false;
    }
    let mut has_changed = false;
    let mut names = HashSet::new();
    for task in body.list_mut(RecordBody::RAVEN_ETLS).iter_mut().filter_map(Value::as_object_mut) {
        let Some(name) = task.get(NAME).and_then(Value::as_str).map(str::to_owned) else {
            continue;
        };
        let mut candidates =
            std::iter::once(name.clone()).chain((2..).map(|number| format!("{name} ({number})")));
        let free = candidates.find(|name| names.insert(name.to_lowercase()));
        if let Some(free) = free.filter(|free| *free != name) {
            task.insert(NAME.to_owned(), free.into());
            has_changed = true;
        }
    }
    has_changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_task_gets_a_number_and_a_name_of_its_own() {
        let sent = json!({
            "RavenEtls": [
                {"name": "low", "taskid": 7}, {"Name": "LOW"}, {"Name": "low (2)", "TaskId": 7}, {"Name": "x", "TaskId": 0}
            ],
            "PeriodicBackups": [
                {"TaskId": 7, "Name": "b"}, {"TaskId": 8, "name": "b"}, 5, {"TaskId": 9, "name": "Server Wide Backup, n"}
            ],
            "SqlEtls": [{"name": "s"}]
        });
        let mut body = RecordBody::read(sent.to_string().as_bytes());
        assert!(settle_tasks(&mut body, 3));
        assert_eq!(
            Value::Object(body.properties().clone()),
            json!({
                "RavenEtls": [
                    {"Name": "low", "TaskId": 7}, {"Name": "LOW (2)", "TaskId": 9},
                    {"Name": "low (2) (2)", "TaskId": 10}, {"Name": "x", "TaskId": 11}
                ],
                "PeriodicBackups": [{"TaskId": 12, "Name": "b"}, {"TaskId": 8, "Name": "b"}, 5],
                "SqlEtls": [{"name": "s"}]
            })
        );
        assert!(!settle_tasks(&mut body, 100), "what is in order stays");
        let mut few = RecordBody::read(br#"{"RavenEtls":[{"Name":"a"}],"Z":1}"#);
        settle_tasks(&mut few, 100);
        assert_eq!(few.properties()["RavenEtls"][0]["TaskId"], 100);
        let mut none = RecordBody::read(br#"{"Z":1}"#);
        assert!(!settle_tasks(&mut none, 1));
        assert_eq!(none.to_json(), br#"{"Z":1}"#);
    }
}
