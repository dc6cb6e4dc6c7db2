//! Documents and their deletions.

use blittable::{ParseLimits, parse_document};
use commands::{Command, CommandResult};
use documents::{ClusterDocument, ClusterDocuments, DocumentError, Import, ImportedVersion};
use model::{DatabaseId, DocumentFlags, Etag};
use storage::{Transaction, TreeName};

use crate::generated::with_revisions;
use crate::world::{Content, World, content_of, delete, id, put};

fn json_of(content: &Content, document: &str) -> Option<String> {
    content.documents.get(document).and_then(|version| version.json.clone())
}

#[test]
fn a_document_and_its_deletion_arrive() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("Users/1", r#"{"A":1,"@metadata":{"@collection":"Users"}}"#)]);
    world.send(0, 1);
    let content = world.agreed();
    assert_eq!(
        json_of(&content, "users/1").as_deref(),
        Some(r#"{"A":1,"@metadata":{"@collection":"Users"}}"#)
    );
    let tx = world.nodes[1].read();
    let found = documents::get(&tx, &id("users/1")).unwrap().unwrap();
    assert!(found.id() == "Users/1" && found.flags().contains(DocumentFlags::FROM_REPLICATION));
    drop(tx);
    world.execute(0, vec![delete("users/1")]);
    world.settle();
    assert_eq!(json_of(&world.agreed(), "users/1"), None);
    // What was deleted long ago and arrives again is known.
    world.execute(1, vec![put("users/1", "{}")]);
    world.settle();
    assert_eq!(json_of(&world.agreed(), "users/1").as_deref(), Some("{}"));
}

#[test]
fn what_is_one_transaction_is_one_transaction() {
    let mut world = World::new(2, 1);
    let commands = (0..20).map(|number| put(&format!("d/{number}"), "{}")).collect();
    world.execute(0, vec![put("first", "{}")]);
    world.execute(0, vec![put("second", "{}")]);
    world.execute(0, commands);
    assert!(world.step(0, 1).is_some(), "the greeting");
    world.step(0, 1).unwrap();
    let count = documents::progress(&world.nodes[1].read()).unwrap().documents;
    assert_eq!(count, 22, "limits never divide a transaction");
}

#[test]
fn a_local_write_over_a_received_version_contains_it() -> Result<(), DocumentError> {
    let mut world = World::new(3, 1);
    world.execute(0, vec![put("a", r#"{"N":0}"#)]);
    world.send(0, 2);
    // The third has the document of the first one, but not yet everything of it.
    world.execute(0, (0..20).map(|number| put(&format!("d/{number}"), "{}")).collect());
    world.execute(0, vec![put("b", r#"{"N":1}"#), put("c", "{}")]);
    world.step(0, 1);
    world.step(0, 1);
    world.execute(1, vec![put("a", r#"{"N":2}"#)]);
    world.settle();
    let content = world.agreed();
    assert_eq!(json_of(&content, "a").as_deref(), Some(r#"{"N":2}"#));
    assert!(!content.documents["a"].flags.contains(DocumentFlags::RESOLVED));
    Ok(())
}

#[test]
fn of_two_versions_in_conflict_the_later_one_is_kept_everywhere() {
    let mut world = World::new(3, 1);
    world.execute(0, vec![put("a", r#"{"N":0}"#)]);
    world.execute(1, vec![put("a", r#"{"N":1}"#)]);
    world.execute(2, vec![put("b", "{}")]);
    world.settle();
    let content = world.agreed();
    assert_eq!(json_of(&content, "a").as_deref(), Some(r#"{"N":1}"#));
    assert!(content.documents["a"].flags.contains(DocumentFlags::RESOLVED));
    world.execute(0, vec![put("a", r#"{"N":3}"#)]);
    world.settle();
    assert!(!world.agreed().documents["a"].flags.contains(DocumentFlags::RESOLVED));
}

#[test]
fn equal_documents_are_no_conflict() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", r#"{"N":0}"#)]);
    world.execute(1, vec![put("a", r#"{"N":0}"#)]);
    world.settle();
    let version = world.agreed().documents["a"].clone();
    assert!(!version.flags.contains(DocumentFlags::RESOLVED));
    assert_eq!(version.change_vector.len(), 2);
}

#[test]
fn an_idle_pair_sends_nothing() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", "{}")]);
    world.settle();
    for (from, to) in [(0, 1), (1, 0)] {
        assert!(world.next_message(from, to).is_none());
    }
}

/// What is imported from a dump has the versions that it had at its database, of which the dump may have a part.
#[test]
fn an_import_does_not_keep_the_rest_of_a_database_away() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", "{}"), put("b", "{}")]);
    let version = {
        let tx = world.nodes[0].read();
        documents::get(&tx, &id("b")).unwrap().unwrap().change_vector().parse().unwrap()
    };
    let imported = ImportedVersion {
        id: id("b"),
        change_vector: Some(version),
        last_modified_ticks: None,
        flags: DocumentFlags::NONE,
        body: parse_document(b"{}", &ParseLimits::default()).unwrap(),
        attachments: Vec::new(),
        contents: Vec::new(),
        is_revised: true,
    };
    world.execute(1, vec![Command::Import(Box::new(Import::Document(imported)))]);
    world.send(0, 1);
    assert!(documents::get(&world.nodes[1].read(), &id("a")).unwrap().is_some());
}

#[test]
fn a_log_that_was_sent_up_to_a_write_says_nothing_of_the_write_once_it_has_moved() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("first", "{}")]);
    world.settle();
    let put_some = |world: &mut World, from| {
        for number in from..from + 10 {
            world.execute(0, vec![put(&format!("d/{number}"), "{}")]);
        }
    };
    put_some(&mut world, 0);
    world.execute(0, vec![put("a", r#"{"N":1}"#)]);
    let written = documents::progress(&world.nodes[0].read()).unwrap().last_etag;
    put_some(&mut world, 10);
    world.step(0, 1);
    world.execute(0, vec![put("a", r#"{"N":2}"#)]);
    let sender = |world: &World| {
        let sender = &world.nodes[0].senders[&1];
        (sender.accepted().unwrap(), sender.complete_until().unwrap())
    };
    while sender(&world).0 < written {
        world.step(0, 1);
    }
    assert!(documents::get(&world.nodes[1].read(), &id("a")).unwrap().is_none());
    assert!(sender(&world).1 < written);
    world.settle();
    assert!(written < sender(&world).1);
}

#[test]
fn notes_of_transactions_are_forgotten_once_fewer_than_two_of_their_changes_are_left() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", "{}"), put("b", "{}")]);
    world.execute(0, vec![put("c", "{}"), put("d", "{}")]);
    let notes = |world: &World| {
        let tx = world.nodes[0].read();
        let notes = tx.fixed_tree(&TreeName::from("Transactions")).unwrap();
        notes.range(0).unwrap().count()
    };
    let forget = |world: &mut World| {
        let outcome = world.execute(0, vec![Command::ForgetTransactions(Etag::ZERO)]);
        assert!(matches!(outcome.results[0], CommandResult::TransactionsForgotten(None)));
    };
    forget(&mut world);
    assert_eq!(notes(&world), 2);
    world.execute(0, vec![put("a", "{\"N\":1}")]);
    forget(&mut world);
    assert_eq!(notes(&world), 1);
    world.settle();
    assert_eq!(world.agreed().documents.len(), 4);
}

/// A cluster-wide transaction that writes or deletes the document `a`.
pub(crate) fn transaction(world: &World, number: u64, json: Option<&str>) -> Command {
    let group = DatabaseId([9; 16]);
    let change = ClusterDocument {
        id: id("a"),
        change_vector: format!("RAFT:{number}-{group}").parse().unwrap(),
        replaces: None,
        body: json.map(|json| parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()),
    };
    Command::ClusterDocuments(ClusterDocuments {
        group,
        index: 10 + number,
        after: None,
        read_at: None,
        ticks: world.now,
        changes: vec![change],
        is_dry_run: false,
    })
}

/// The first version is kept as a revision when the second one is written: then other nodes know its change vector already.
#[test]
fn a_revision_of_a_version_from_before_there_were_revisions_arrives() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", r#"{"N":0}"#)]);
    world.settle();
    world.nodes.iter_mut().for_each(|node| node.revisions = with_revisions());
    world.execute(0, vec![put("a", r#"{"N":1}"#)]);
    world.settle();
    assert_eq!(world.agreed().revisions.len(), 2);
}

/// A node learns of a transaction later than of what another node has written over it.
#[test]
fn a_transaction_that_is_executed_late_replaces_nothing_that_was_written_over_it() {
    for over in [put("a", r#"{"N":2}"#), delete("a")] {
        for json in [Some(r#"{"N":1}"#), None] {
            let mut world = World::new(2, 1);
            world.execute(0, vec![put("a", r#"{"N":0}"#)]);
            world.settle();
            let transaction = transaction(&world, 1, json);
            world.execute(0, vec![transaction.clone()]);
            world.execute(0, vec![over.clone()]);
            let written = content_of(&world.nodes[0].read()).unwrap();
            world.send(0, 1);
            world.execute(1, vec![transaction]);
            world.settle();
            assert_eq!(json_of(&world.agreed(), "a"), json_of(&written, "a"), "{json:?} {over:?}");
        }
    }
}
