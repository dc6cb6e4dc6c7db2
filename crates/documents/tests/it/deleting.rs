//! Deleting: tombstones, expected versions, prefixes.

use documents::{
    DocumentError, ExpectedVersion,
    log::{self, EntryKind, Selection},
};
use model::{CollectionName, DocumentId, Etag, IdSeparator};

use crate::database::{Database, in_collection, user, version};

#[test]
fn a_deletion_leaves_a_tombstone_and_a_new_document_takes_it_away() {
    let database = Database::new();
    database.put("Users/1", &user("one"));
    let id = DocumentId::new("uSers/1").unwrap();
    let deleted = database.write(|writer| writer.delete(&id, &ExpectedVersion::Any));
    let deleted = deleted.unwrap().unwrap();
    assert_eq!(deleted.id.as_str(), "Users/1");
    assert_eq!((deleted.etag, deleted.change_vector.as_str()), (Etag(2), &*version(2)));
    assert_eq!(deleted.collection.as_str(), "Users");
    assert_eq!(database.json("Users/1"), None);
    let tx = database.read();
    let tombstone = documents::get_tombstone(&tx, &id).unwrap().unwrap();
    assert_eq!((tombstone.id(), tombstone.lower_id()), ("Users/1", "users/1"));
    assert_eq!((tombstone.etag(), tombstone.deleted_etag()), (Etag(2), Etag(1)));
    assert_eq!(tombstone.change_vector(), version(2));
    assert_eq!(database.collections(), [("Users".to_owned(), 0, 1)]);

    database.put("users/1", &user("two"));
    assert!(documents::get_tombstone(&database.read(), &id).unwrap().is_none());
    assert_eq!(database.collections(), [("Users".to_owned(), 1, 0)]);
    assert!(database.delete("users/1"));
    assert!(!database.delete("users/1"));
    assert!(!database.delete(""));
}

#[test]
fn in_another_collection_the_tombstone_stays_until_the_document_comes_back() {
    let database = Database::new();
    let counts = |expected: &[(&str, u64, u64)]| {
        let expected: Vec<_> =
            expected.iter().map(|(name, live, gone)| ((*name).to_owned(), *live, *gone)).collect();
        assert_eq!(database.collections(), expected);
        documents::check(&database.read()).unwrap();
    };
    database.put("Users/1", &in_collection("Users", "one"));
    database.delete("users/1");
    database.put("users/1", &in_collection("Dogs", "one"));
    counts(&[("Users", 0, 1), ("Dogs", 1, 0)]);
    database.delete("users/1");
    counts(&[("Users", 0, 1), ("Dogs", 0, 1)]);
    database.put("users/1", &in_collection("Cats", "one"));
    counts(&[("Users", 0, 1), ("Dogs", 0, 1), ("Cats", 1, 0)]);
    let id = DocumentId::new("users/1").unwrap();
    assert!(documents::get_tombstone(&database.read(), &id).unwrap().is_none());
    let tx = database.read();
    let users = CollectionName::new("Users").unwrap();
    let tombstones = [Selection::of_collection(EntryKind::DocumentTombstone, &users)];
    let log = log::read(&tx, &tombstones, Etag::ZERO).unwrap();
    let log: Vec<_> = log.map(|entry| entry.unwrap().document_tombstone().unwrap()).collect();
    assert_eq!((log.len(), log[0].id(), log[0].lower_id()), (1, "Users/1", "users/1"));
    assert_eq!((log[0].etag(), log[0].deleted_etag()), (Etag(2), Etag(1)));
    database.delete("users/1");
    database.put("users/1", &in_collection("Users", "one"));
    counts(&[("Users", 1, 0), ("Dogs", 0, 1), ("Cats", 0, 1)]);
}

#[test]
fn expected_versions_hold_for_deletions() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    let current = version(1);
    let violation = "Optimistic concurrency violation, transaction will be aborted.";
    let missing = format!(
        "Document nope does not exist, but delete was called with change vector 'A:9-x'. {violation}"
    );
    let changed = |expected: &str| {
        format!(
            "Document u/1 has change vector {current}, but Delete was called with change vector \
             '{expected}'. {violation}"
        )
    };
    let cases = [
        ("nope", "A:9-x", missing, None, None),
        ("u/1", "A:9-x", changed("A:9-x"), Some("A:9-x"), Some(current.clone())),
        ("u/1", "", changed(""), Some(""), Some(current.clone())),
    ];
    for (id, version, expected_message, expected_version, expected_actual) in cases {
        let id = DocumentId::new(id).unwrap();
        let expected = ExpectedVersion::parse(Some(version));
        let error = database.write(|writer| writer.delete(&id, &expected)).unwrap_err();
        let DocumentError::Concurrency { id: named, expected, actual, message } = error else {
            panic!("another error");
        };
        assert_eq!(message, expected_message);
        assert_eq!(named.as_deref(), Some(id.as_str()));
        assert_eq!(expected.as_deref(), expected_version);
        assert_eq!(actual, expected_actual);
    }
    let id = DocumentId::new("u/1").unwrap();
    let expected = ExpectedVersion::Exactly(current);
    assert!(database.write(|writer| writer.delete(&id, &expected)).unwrap().is_some());
}

#[test]
fn a_prefix_deletes_what_starts_with_it_in_any_case() {
    let database = Database::new();
    for id in ["users/1", "USERS/2", "user", "users", "usersx", "orders/1", "zebra"] {
        database.put(id, &in_collection("All", id));
    }
    let delete = |prefix: &str| database.write(|writer| writer.delete_prefix(prefix)).unwrap();
    assert_eq!(delete("Users/"), 2);
    assert_eq!(delete("Users/"), 0);
    assert_eq!(delete("nothing"), 0);
    assert!(database.json("users").is_some() && database.json("user").is_some());
    assert_eq!(delete(""), 5);
    assert_eq!(database.collections(), [("All".to_owned(), 0, 7)]);
    let error = database.write(|writer| writer.delete_prefix(&"x".repeat(600))).unwrap_err();
    assert!(matches!(error, DocumentError::IdTooLong(_)));
}

#[test]
fn a_prefix_may_hold_more_documents_than_are_looked_up_at_once() {
    let database = Database::new();
    database
        .write(|writer| {
            for number in 0..2500 {
                let id = documents::RequestedId::parse(
                    Some(&format!("bulk/{number:05}")),
                    IdSeparator::default(),
                )?;
                writer.put(&id, &ExpectedVersion::Any, &crate::database::body(&user("x")))?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(database.write(|writer| writer.delete_prefix("bulk/")).unwrap(), 2500);
    assert_eq!(database.collections(), [("Users".to_owned(), 0, 2500)]);
}
