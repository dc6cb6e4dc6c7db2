//! What was deleted is deleted in a restored database, too, also if the deletion was forgotten meanwhile.

use std::sync::Arc;

use blittable::{Builder, ParseLimits};
use cluster_state::{Command, CompareExchangeCommand, IdentityCommand};
use database::DatabaseLease;
use engine::Engine;
use serde_json::json;

use crate::{backup_chains::Bench, backups::deletion};

fn change(engine: &Engine, change: CompareExchangeCommand) {
    let submitted = engine.submit_to_cluster(&Command::CompareExchange(change), None);
    submitted.unwrap().wait().unwrap();
}

fn put_value(engine: &Engine, of: &DatabaseLease, key: &str) {
    let mut builder = Builder::new(ParseLimits::default());
    let value = builder.parse_document(br#"{"Object":"users/1"}"#).unwrap();
    let (database, key) = (of.record().topology_id, key.to_owned());
    change(engine, CompareExchangeCommand::Put { database, key, expected: 0, value });
}

fn delete_value(engine: &Engine, of: &DatabaseLease, key: &str) {
    let expected = of.values().get(key).unwrap().unwrap().index;
    let (database, key) = (of.record().topology_id, key.to_owned());
    change(engine, CompareExchangeCommand::Delete { database, key, expected });
}

fn forget(engine: &Engine, database: &DatabaseLease) {
    engine.maintain(1_000_000);
    database.remove_tombstones(&|| true).unwrap();
}

fn has_value(bench: &Bench, database: &str, key: &str) -> bool {
    bench.database(database).values().get(key).unwrap().is_some()
}

#[test]
fn values_whose_deletion_was_forgotten_do_not_come_back() {
    let bench = Bench::new(json!({}));
    let (engine, database) = (&*bench.engine, bench.database("db"));
    for key in ["email/1", "email/2"] {
        put_value(engine, &database, key);
    }
    bench.run(true);
    // A task that does not run holds nothing.
    engine.set_backup_task_state("db", bench.task, true).unwrap();
    delete_value(engine, &database, "email/2");
    forget(engine, &database);
    engine.set_backup_task_state("db", bench.task, false).unwrap();
    bench.put("a", "{}");
    let (file, messages) = bench.run(false);
    assert!(file.ends_with(".ravendb-full-backup"), "{file}");
    assert!(messages.contains("deletions since the last one are forgotten"), "{messages}");
    bench.restore("copy", bench.folders().last().unwrap(), json!({})).unwrap();
    assert!(has_value(&bench, "copy", "email/1") && !has_value(&bench, "copy", "email/2"));
    // What is in that backup does not count again, and a run without changes writes nothing.
    assert_eq!(bench.run(false).0, "");
    bench.put("b", "{}");
    assert!(bench.run(false).0.ends_with(".ravendb-incremental-backup"));
}

#[test]
fn deletions_during_the_first_run_are_kept_for_the_next() {
    let bench = Bench::new(json!({}));
    let (engine, database) = (Arc::clone(&bench.engine), bench.database("db"));
    for id in ["a", "b"] {
        put_value(&engine, &database, id);
        bench.put(id, "{}");
    }
    // The run has read what it is of by then.
    bench.disk.before_creating("full-backup", move || {
        delete_value(&engine, &database, "b");
        engine.execute(&database, deletion("b")).unwrap();
        forget(&engine, &database);
    });
    assert!(bench.run(true).0.ends_with(".ravendb-full-backup"));
    bench.put("c", "{}");
    let (file, messages) = bench.run(false);
    assert!(file.ends_with(".ravendb-incremental-backup"), "{messages}");
    bench.restore("copy", &bench.folders()[0], json!({})).unwrap();
    assert!(has_value(&bench, "copy", "a") && !has_value(&bench, "copy", "b"));
    let is_there = ["a", "b", "c"].map(|id| bench.document("copy", id).is_some());
    assert_eq!(is_there, [true, false, true]);
}

/// They are agreed, and not in the change log: numbers of documents do not tell that they have changed.
#[test]
fn identities_and_subscriptions_alone_are_backed_up_and_restored() {
    let bench = Bench::new(json!({}));
    bench.put("a", "{}");
    bench.run(true);
    let (_, messages) = bench.run(false);
    assert!(messages.contains("Nothing has changed"), "{messages}");
    let database = bench.database("db").record().topology_id;
    let names = vec!["orders|".to_owned()];
    let next = Command::Identity(IdentityCommand::Next { database, names });
    bench.engine.submit_to_cluster(&next, None).unwrap().wait().unwrap();
    let (_, messages) = bench.run(false);
    assert!(!messages.contains("Nothing has changed"), "{messages}");
    let (_, messages) = bench.run(false);
    assert!(messages.contains("Nothing has changed"), "{messages}");
    bench.restore("copy", &bench.folders()[0], json!({})).unwrap();
    let copy = bench.database("copy").record().topology_id;
    let identities = |of| bench.engine.cluster_state().identities(of).unwrap();
    assert_eq!(identities(copy), identities(database));
    assert_eq!(identities(copy), [("orders|".to_owned(), 1)]);
}
