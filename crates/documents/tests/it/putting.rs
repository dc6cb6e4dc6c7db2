//! Putting: ids, expected versions, collections, metadata.

use documents::{DocumentError, ExpectedVersion, RequestedId};
use model::{DocumentFlags, DocumentId, Etag};

use crate::database::{Database, body, in_collection, user, version};

const VIOLATION: &str = "Optimistic concurrency violation, transaction will be aborted.";

#[test]
fn a_document_is_read_back_as_the_protocol_shows_it() {
    let database = Database::new();
    let stored = database.put("users/1-A", &user("Oscar"));
    assert_eq!(stored.id.as_str(), "users/1-A");
    assert_eq!(stored.etag, Etag(1));
    assert_eq!(stored.change_vector.as_str(), version(1));
    assert_eq!(stored.collection.as_str(), "Users");
    assert_eq!(stored.flags, DocumentFlags::NONE);
    let modified = model::date::format(stored.last_modified_ticks);
    let expected = format!(
        r#"{{"Name":"Oscar","@metadata":{{"@collection":"Users","@change-vector":"{}","@id":"users/1-A","@last-modified":"{modified}"}}}}"#,
        version(1)
    );
    assert_eq!(database.json("users/1-A").unwrap(), expected);
    assert_eq!(database.json("users/2-A"), None);
    assert_eq!(database.json(""), None);
}

#[test]
fn ids_are_found_in_any_case_and_keep_the_newest_spelling() {
    let database = Database::new();
    database.put("users/1-A", &user("one"));
    database.put("USERS/1-a", &user("two"));
    let json = database.json("Users/1-A").unwrap();
    assert!(json.contains(r#""Name":"two""#) && json.contains(r#""@id":"USERS/1-a""#), "{json}");
    assert_eq!(database.collections(), [("Users".to_owned(), 1, 0)]);
    for (stored, asked, is_found) in
        [("Éa", "éA", true), ("İx", "ix", false), ("İx", "İX", true), ("Σς", "σς", true)]
    {
        database.put(stored, "{}");
        assert_eq!(database.json(asked).is_some(), is_found, "{stored} as {asked}");
    }
}

#[test]
fn the_server_numbers_and_names_documents() {
    let database = Database::new();
    assert_eq!(database.put("users/", &user("a")).id.as_str(), "users/0000000000000000001-A");
    assert_eq!(database.put("  /", &user("a")).id.as_str(), "  /0000000000000000002-A");
    database.put("orders/0000000000000000004-a", &user("taken"));
    let other = database.put("orders/", &user("b")).id;
    let random = other.as_str().strip_prefix("orders/0000000000000000004-").unwrap();
    assert_uuid(random);
    assert_uuid(database.put("", &user("c")).id.as_str());
    assert_uuid(database.put(" ", &user("c")).id.as_str());
}

fn assert_uuid(text: &str) {
    let lengths: Vec<_> = text.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{text}");
    assert_eq!(text.as_bytes()[14], b'4', "{text}");
    assert!(text.bytes().all(|byte| matches!(byte, b'-' | b'0'..=b'9' | b'a'..=b'f')), "{text}");
}

#[test]
fn ids_have_at_most_512_bytes_once_they_are_complete() {
    let database = Database::new();
    let longest = "x".repeat(512);
    assert_eq!(database.put(&longest, "{}").id.as_str(), longest);
    let numbered = format!("{}/", "a".repeat(505));
    let error = database.try_put(&numbered, None, "{}").unwrap_err();
    let expected = format!(
        "Document ID cannot exceed 512 bytes, but the ID was 527 bytes. The invalid ID is \
         '{numbered}0000000000000000002-A'. (Parameter 'str')"
    );
    assert_eq!(error.to_string(), expected);
    let long_collection = in_collection(&"c".repeat(600), "x");
    let error = database.try_put("c/1", None, &long_collection).unwrap_err();
    assert!(matches!(error, DocumentError::IdTooLong(_)), "{error}");
}

#[test]
fn identities_must_be_resolved_before() {
    let database = Database::new();
    let error = database.try_put("zz|", None, "{}").unwrap_err();
    let expected = "Document ids cannot end with '|', but was called with zz|. Identities are only \
                    generated for external requests, not calls to PutDocument and such.";
    assert_eq!(error.to_string(), expected);
}

/// What is expected, and what the answer is: none when the put succeeds.
type Case<'a> = (&'a str, Option<&'a str>, Option<(String, Option<String>)>);

#[test]
fn expected_versions_are_compared_as_text() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    let current = version(1);
    let cases: [Case<'_>; 5] = [
        (
            "nope",
            Some("A:9-x"),
            Some((
                format!(
                    "Document nope does not exist, but Put was called with change vector: A:9-x. {VIOLATION}"
                ),
                None,
            )),
        ),
        (
            "U/1",
            Some("A:9-x"),
            Some((
                format!(
                    "Document U/1 has change vector {current}, but Put was called with change vector A:9-x. {VIOLATION}"
                ),
                Some(current.clone()),
            )),
        ),
        (
            "u/1",
            Some(""),
            Some((
                format!(
                    "Document u/1 has change vector {current}, but Put was called with expecting new document. {VIOLATION}"
                ),
                Some(current.clone()),
            )),
        ),
        ("new", Some(""), None),
        ("u/1", Some(&current), None),
    ];
    for (id, expected_version, answer) in cases {
        let result = database.try_put(id, expected_version, &user("two"));
        let Some((expected_message, expected_actual)) = answer else {
            result.unwrap();
            continue;
        };
        let DocumentError::Concurrency { id: named, expected, actual, message } =
            result.unwrap_err()
        else {
            panic!("another error for {id}");
        };
        assert_eq!(message, expected_message);
        assert_eq!(named.as_deref(), Some(id));
        assert_eq!(expected.as_deref(), expected_version);
        assert_eq!(actual, expected_actual);
    }
}

#[test]
fn a_document_stays_in_its_collection() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    for (json, requested) in [("{}", "@empty"), (&*in_collection("Z", "x"), "Z")] {
        let error = database.try_put("U/1", None, json).unwrap_err();
        let expected = format!(
            "Changing 'U/1' from 'Users' to '{requested}' via update is not supported. Delete it \
             and recreate the document 'U/1'."
        );
        assert_eq!(error.to_string(), expected);
    }
    let stored = database.put("u/1", &in_collection("uSERS", "two"));
    assert_eq!(stored.collection.as_str(), "Users", "the collection keeps its first spelling");
    assert!(database.json("u/1").unwrap().contains(r#""@collection":"uSERS""#));
    assert!(database.delete("u/1"));
    database.put("u/1", &in_collection("Z", "three"));
    let expected = [("Users".to_owned(), 0, 1), ("Z".to_owned(), 1, 0)];
    assert_eq!(database.collections(), expected);
}

#[test]
fn collections_are_listed_in_the_order_of_their_first_documents() {
    let database = Database::new();
    for (id, collection) in
        [("1", "Users"), ("2", ""), ("3", "Orders"), ("4", "users"), ("5", "@hilo")]
    {
        database.put(id, &in_collection(collection, "x"));
    }
    database.put("6", "{}");
    database.delete("3");
    let names = |counts: &[(&str, u64, u64)]| {
        counts
            .iter()
            .map(|(name, live, dead)| ((*name).to_owned(), *live, *dead))
            .collect::<Vec<_>>()
    };
    let expected =
        names(&[("Users", 2, 0), ("", 1, 0), ("Orders", 0, 1), ("@hilo", 1, 0), ("@empty", 1, 0)]);
    assert_eq!(database.collections(), expected);
}

#[test]
fn what_the_server_adds_comes_back_without_being_stored_twice() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    let shown = database.json("u/1").unwrap();
    database.pass(1);
    database.put("u/1", &shown);
    let again = database.json("u/1").unwrap();
    assert_eq!(again.matches("@change-vector").count(), 1);
    assert_eq!(again.len(), shown.len());
    assert!(again.contains(&version(2)));
}

#[test]
fn a_failed_put_leaves_nothing() {
    let database = Database::new();
    let failed = database.write(|writer| {
        let id = RequestedId::Exactly(DocumentId::new("a")?);
        writer.put(&id, &ExpectedVersion::Any, &body(&in_collection("New", "x")))?;
        writer.put(&id, &ExpectedVersion::New, &body(&in_collection("New", "y")))
    });
    assert!(matches!(failed, Err(DocumentError::Concurrency { .. })));
    assert_eq!(database.json("a"), None);
    assert_eq!(database.collections(), []);
    assert_eq!(documents::progress(&database.read()).unwrap().last_etag, Etag::ZERO);
}

#[test]
fn large_documents_come_back_whole() {
    let database = Database::new();
    for size in [5_000, 100_000, 3_000_000] {
        let text = "word ".repeat(size / 5);
        database.put("big", &format!(r#"{{"Text":"{text}"}}"#));
        let json = database.json("big").unwrap();
        assert!(json.starts_with(&format!(r#"{{"Text":"{text}""#)), "{size}");
    }
    assert!(database.delete("big"));
}
