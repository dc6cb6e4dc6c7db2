//! Cluster-wide transactions, with the outcome of the batch that executed them.

use blittable::{BlittableBuf, ParseLimits, parse_document};
use commands::BatchOutcome;
use database::DatabaseLease;
use engine::{Engine, EngineError, Guards, InvalidTransaction};
use wire::{BatchCommand, DocumentCommand};

use crate::with_database;

fn document(json: &str) -> BlittableBuf {
    parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()
}

fn put(id: &str, change_vector: Option<&str>) -> BatchCommand {
    BatchCommand::Document(DocumentCommand::Put {
        id: Some(id.to_owned()),
        change_vector: change_vector.map(str::to_owned),
        original_change_vector: None,
        document: document(r#"{"@metadata":{"@collection":"Users"}}"#),
        keeps_replaced: false,
    })
}

fn delete(id: &str) -> BatchCommand {
    let id = Some(id.to_owned());
    BatchCommand::Document(DocumentCommand::Delete {
        id,
        change_vector: None,
        original_change_vector: None,
    })
}

/// The ids of the changed documents with their change vectors, and the outcome.
fn done(
    engine: &Engine,
    database: &DatabaseLease,
    command: BatchCommand,
) -> (Vec<(String, String)>, BatchOutcome) {
    let (committed, outcome) = engine.transact(database, vec![command], Guards::On, None).unwrap();
    let shown = committed.documents().map(|(change, version)| (change.id.clone(), version));
    (shown.collect(), outcome)
}

#[test]
fn a_transaction_has_the_outcome_of_its_own_batch() {
    let (engine, database) = with_database();
    let (documents, stored) = done(&engine, &database, put("users|", None));
    assert_eq!(documents[0].0, "users/1", "an identity completes the id");
    let (_, other) = done(&engine, &database, put("users/x", None));
    let (_, deleted) = done(&engine, &database, delete("users/1"));
    for outcome in [&stored, &deleted] {
        let names: Vec<_> = outcome.collections.iter().map(|name| name.as_str()).collect();
        assert_eq!(names, ["Users"]);
    }
    assert!(stored.last_etag < other.last_etag && other.last_etag < deleted.last_etag);
    let (_, nothing) = done(&engine, &database, delete("users/1"));
    assert!(nothing.collections.is_empty(), "{:?}", nothing.collections);
}

#[test]
fn a_repeated_request_waits_for_whatever_it_may_have_changed() {
    let (engine, database) = with_database();
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        let commands = vec![put("users/1", None)];
        let done = engine.transact(&database, commands, Guards::On, Some("request")).unwrap();
        outcomes.push((done.0.index(), done.1.last_etag, done.1.collections));
    }
    assert_eq!(outcomes[0], outcomes[1]);
}

#[test]
fn a_transaction_that_expects_another_version_has_no_effect() {
    let (engine, database) = with_database();
    done(&engine, &database, put("users/1", None));
    let commands = vec![put("users/2", None), put("users/1", Some(""))];
    let refused = engine.transact(&database, commands, Guards::On, None).map(drop);
    let Err(EngineError::Violations(violations)) = &refused else { panic!("{refused:?}") };
    assert_eq!(violations.0.len(), 1);
    assert_eq!(violations.0[0].document.as_deref(), Some("users/1"));
    let refused = engine.transact(&database, vec![delete("users/")], Guards::On, None).map(drop);
    assert!(
        matches!(
            &refused,
            Err(EngineError::InvalidTransaction(InvalidTransaction::Unfinished { .. }))
        ),
        "{refused:?}"
    );
    assert_eq!(documents::progress(&database.read()).unwrap().documents, 1);
}
