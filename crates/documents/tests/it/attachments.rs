//! Attachments: contents are shared, staged, removed a few chunks at a time, and never lost.

use documents::{
    AttachmentTransfer, CONTENT_CHUNK_BYTES, ContentHasher, DeleteAttachment, DocumentError,
    ExpectedVersion, NewContent, PutAttachment, StoredAttachment,
};
use model::{AttachmentName, DocumentId, Etag, RevisionsConfiguration, RevisionsRule};
use storage::Transaction;

use crate::database::{Database, user, version};

fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

fn name(text: &str) -> AttachmentName {
    AttachmentName::new(text).unwrap()
}

fn small(bytes: &[u8]) -> NewContent {
    NewContent::Bytes { hash: documents::hash_of(bytes), bytes: bytes.to_vec() }
}

fn put(of: &str, called: &str, content: NewContent) -> PutAttachment {
    PutAttachment {
        id: id(of),
        name: name(called),
        content_type: "t/x".to_owned(),
        expected: ExpectedVersion::Any,
        content,
    }
}

impl Database {
    fn attach(&self, of: &str, called: &str, content: NewContent) -> StoredAttachment {
        self.write(|writer| writer.put_attachment(&put(of, called, content))).unwrap()
    }

    fn detach(&self, of: &str, called: &str) -> bool {
        let delete =
            DeleteAttachment { id: id(of), name: name(called), expected: ExpectedVersion::Any };
        self.write(|writer| writer.delete_attachment(&delete)).unwrap().deleted
    }

    /// The content of an attachment, read piece by piece.
    fn content_of(&self, of: &str, called: &str) -> Option<Vec<u8>> {
        let tx = self.read();
        let row = documents::attachment(&tx, &id(of), &name(called)).unwrap()?;
        let content = documents::content(&tx, &row.hash()).unwrap().unwrap();
        let mut bytes = Vec::new();
        while bytes.len() as u64 != content.bytes() {
            bytes.extend_from_slice(content.read_at(&tx, bytes.len() as u64).unwrap());
        }
        Some(bytes)
    }

    fn keep_revisions(&self) {
        let all = Some(RevisionsRule::default());
        *self.revisions.borrow_mut() = RevisionsConfiguration::new(all);
    }

    fn contents(&self) -> u64 {
        documents::attachment_counts(&self.read()).unwrap().contents
    }

    fn has_leftovers(&self) -> bool {
        documents::has_leftover_contents(&self.read()).unwrap()
    }

    /// Stages a content, chunk by chunk, each in a transaction of its own.
    fn stage(&self, bytes: &[u8]) -> NewContent {
        let mut hasher = ContentHasher::default();
        let mut number = None;
        for (index, chunk) in bytes.chunks(CONTENT_CHUNK_BYTES).enumerate() {
            hasher.update(chunk);
            number = Some(
                self.write(|writer| writer.stage_content(number, index as u32, chunk)).unwrap(),
            );
        }
        let (number, hash) = (number.unwrap(), hasher.finish());
        NewContent::Staged { number, bytes: bytes.len() as u64, hash }
    }
}

fn large(chunks: usize) -> Vec<u8> {
    let mut bytes = vec![0; chunks * CONTENT_CHUNK_BYTES - 5];
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 999) as u8);
    bytes
}

#[test]
fn the_document_tells_of_its_attachments() {
    let database = Database::new();
    database.put("users/1", &user("Ann"));
    let stored = database.attach("Users/1", "B.txt", small(b"hello"));
    assert_eq!((stored.etag, stored.change_vector.as_str()), (Etag(2), version(2).as_str()));
    database.attach("users/1", "a", small(b""));
    let listed = r#""@metadata":{"@attachments":[{"Name":"a","Hash":"DldRwCblQ7Loqy6wYJnaodHl30d3j3eH+qtFzfEv46g=","ContentType":"t/x","Size":0},{"Name":"B.txt","Hash":"Mk3PAn3UowqTLEQfNlol6GsXPe+kuOWJSCU0cbgbcs8=","ContentType":"t/x","Size":5}],"@collection":"Users","@change-vector":"#;
    let json = database.json("users/1").unwrap();
    assert!(json.contains(listed), "{json}");
    assert!(json.contains(r#""@flags":"HasAttachments","@id":"users/1""#), "{json}");
    // What a client says about attachments does not count, and what it leaves out stays.
    let bogus = r#"{"@metadata":{"@attachments":[{"Name":"z"}],"@collection":"Users"}}"#;
    for body in
        [user("Bea"), bogus.to_owned(), "{\"@metadata\":{\"@collection\":\"Users\"}}".into()]
    {
        let stored = database.put("users/1", &body);
        assert!(!stored.flags.is_empty());
        assert!(database.json("users/1").unwrap().contains(listed));
    }
    database.put("users/2", bogus);
    assert!(!database.json("users/2").unwrap().contains("@attachments"));
    assert!(database.detach("users/1", "A") && database.detach("users/1", "b.TXT"));
    assert!(!database.detach("users/1", "a"));
    let json = database.json("users/1").unwrap();
    assert!(!json.contains("@attachments") && !json.contains("@flags"), "{json}");
}

#[test]
fn a_document_without_metadata_gets_some() {
    let database = Database::new();
    database.put("d", r#"{"A":1}"#);
    database.attach("d", "a", small(b"x"));
    assert!(database.json("d").unwrap().starts_with(r#"{"A":1,"@metadata":{"@attachments":[{"#));
    database.put("d", r#"{"A":2}"#);
    assert!(database.json("d").unwrap().starts_with(r#"{"A":2,"@metadata":{"@attachments":[{"#));
}

#[test]
fn a_deleted_document_takes_its_attachments_with_it() {
    let database = Database::new();
    database.put("users/1", &user("Ann"));
    database.attach("users/1", "a", small(b"a"));
    database.attach("users/1", "b", small(b"b"));
    assert!(database.delete("users/1"));
    assert_eq!(database.contents(), 0);
    database.put("users/1", &user("Ann"));
    assert_eq!(database.content_of("users/1", "a"), None);
    assert!(!database.json("users/1").unwrap().contains("@attachments"));
    // Also when they came in the same batch.
    database
        .write(|writer| {
            writer.put_attachment(&put("users/1", "c", small(b"c")))?;
            writer.delete(&id("users/1"), &ExpectedVersion::Any)
        })
        .unwrap();
    assert_eq!(database.contents(), 0);
}

#[test]
fn contents_are_kept_once_and_as_long_as_somebody_has_them() {
    let database = Database::new();
    database.put("users/1", &user("Ann"));
    database.put("users/2", &user("Bea"));
    database.attach("users/1", "a", small(b"same"));
    database.attach("users/2", "b", small(b"same"));
    let transfer = |name_in, to, name_out| AttachmentTransfer {
        id: id("users/1"),
        name: name(name_in),
        destination_id: id(to),
        destination_name: name(name_out),
        expected: ExpectedVersion::Any,
    };
    database.write(|writer| writer.copy_attachment(&transfer("a", "users/2", "c"))).unwrap();
    let hash = documents::hash_of(b"same");
    assert_eq!(documents::references_of(&database.read(), &hash).unwrap(), 3);
    assert_eq!(database.contents(), 1);
    database.write(|writer| writer.move_attachment(&transfer("a", "users/1", "d"))).unwrap();
    assert_eq!(database.content_of("users/1", "a"), None);
    assert_eq!(database.content_of("users/1", "d").unwrap(), b"same");
    let taken = database.write(|writer| writer.copy_attachment(&transfer("d", "users/2", "B")));
    assert!(matches!(taken, Err(DocumentError::Concurrency { .. })));
    let gone = database.write(|writer| writer.copy_attachment(&transfer("a", "users/2", "e")));
    assert!(matches!(gone, Err(DocumentError::AttachmentMissing { .. })));
    database.attach("users/2", "b", small(b"other"));
    database.detach("users/2", "c");
    assert_eq!(database.contents(), 2);
    database.detach("users/1", "d");
    assert_eq!(database.contents(), 1);
    assert_eq!(database.content_of("users/2", "b").unwrap(), b"other");
}

#[test]
fn large_contents_come_in_chunks_and_go_in_steps() {
    let database = Database::new();
    database.put("users/1", &user("Ann"));
    let bytes = large(20);
    let content = database.stage(&bytes);
    assert!(database.has_leftovers() && database.contents() == 0);
    database.attach("users/1", "large", content.clone());
    assert!(!database.has_leftovers());
    assert_eq!(database.content_of("users/1", "large").unwrap(), bytes);
    // What is not there as a whole is not put.
    let NewContent::Staged { number, hash, .. } = database.stage(&large(2)) else { panic!() };
    let cut = NewContent::Staged { number, bytes: 3 * CONTENT_CHUNK_BYTES as u64, hash };
    let cut = database.write(|writer| writer.put_attachment(&put("users/1", "cut", cut)));
    assert!(matches!(cut, Err(DocumentError::ContentGone { .. })));
    database.write(|writer| writer.discard_staged_content(number)).unwrap();
    let again = database.write(|writer| writer.put_attachment(&put("users/1", "b", content)));
    assert!(again.is_err(), "it is staged no more");
    // Staged once more, it is the content that is there already.
    let content = database.stage(&bytes);
    database.attach("users/1", "copy", content);
    assert_eq!(database.contents(), 1);
    let steps = |database: &Database| {
        let mut steps = 0;
        while database.has_leftovers() {
            database
                .write(|writer| {
                    writer.remove_leftover_contents();
                    Ok(())
                })
                .unwrap();
            steps += 1;
        }
        steps
    };
    assert!((1..4).contains(&steps(&database)));
    assert_eq!(database.content_of("users/1", "copy").unwrap(), bytes);
    database.delete("users/1");
    assert_eq!(database.contents(), 0);
    assert!((1..4).contains(&steps(&database)));
    assert!(database.read().table(documents::TABLES[5]).is_empty().unwrap());
}

#[test]
fn what_is_staged_can_be_given_up() {
    let database = Database::new();
    let NewContent::Staged { number, .. } = database.stage(&large(1)) else { panic!("staged") };
    database.write(|writer| writer.discard_staged_content(number)).unwrap();
    assert!(!database.has_leftovers());
    database.write(|writer| writer.discard_staged_content(number)).unwrap();
    let late = database.write(|writer| writer.stage_content(Some(number), 1, b"x"));
    assert!(matches!(late, Err(DocumentError::ContentGone { .. })));
    database.stage(&large(2));
    database.stage(&large(1));
    database.write(|writer| writer.discard_all_staged_contents()).unwrap();
    assert!(!database.has_leftovers());
    assert!(database.read().table(documents::TABLES[5]).is_empty().unwrap());
}

#[test]
fn revisions_hold_the_attachments_of_their_version() {
    let database = Database::new();
    database.put("users/1", &user("Ann"));
    database.attach("users/1", "a", small(b"one"));
    database.keep_revisions();
    database.attach("users/1", "a", small(b"two"));
    database.detach("users/1", "a");
    database.put("users/1", &user("Bea"));
    let tx = database.read();
    let held: Vec<Vec<_>> = documents::revisions_newest_first(&tx, &id("users/1"))
        .unwrap()
        .map(|revision| {
            let held = documents::attachments_of_revision(&tx, revision.unwrap().etag()).unwrap();
            held.map(|row| row.unwrap().hash()).collect()
        })
        .collect();
    let [one, two] = [b"one", b"two"].map(|bytes| documents::hash_of(bytes));
    assert_eq!(held, [vec![], vec![], vec![two], vec![one]]);
    assert_eq!(database.contents(), 2);
    drop(tx);
    let remove = documents::RevisionsToRemove::All { with_forced: false };
    database.write(|writer| writer.remove_revisions(&id("users/1"), remove)).unwrap();
    assert_eq!(database.contents(), 0);
}

#[test]
fn setting_a_document_back_sets_its_attachments_back() {
    let database = Database::new();
    database.keep_revisions();
    database.put("users/1", &user("Ann"));
    database.attach("users/1", "a", small(b"one"));
    database.attach("users/1", "b", small(b"two"));
    database.pass(10);
    let then = database.simulation.platform.clock.now().ticks();
    database.pass(10);
    database.detach("users/1", "a");
    database.attach("users/1", "b", small(b"three"));
    database.attach("users/1", "c", small(b"four"));
    for delete_first in [false, true] {
        if delete_first {
            assert!(database.delete("users/1"));
        }
        database.write(|writer| writer.revert_document(&id("users/1"), then)).unwrap();
        assert_eq!(database.content_of("users/1", "A").unwrap(), b"one");
        assert_eq!(database.content_of("users/1", "b").unwrap(), b"two");
        assert_eq!(database.content_of("users/1", "c"), None);
    }
}

#[test]
fn ids_and_names_do_not_run_into_each_other() {
    let database = Database::new();
    let long = "x".repeat(512);
    for of in ["a", "a\u{1e}b", "a\u{ff}", &long] {
        database.put(of, &user("Ann"));
    }
    for (of, called) in [("a", "b\u{1e}c"), ("a\u{1e}b", "c"), ("a", "\u{ff}c"), ("a\u{ff}", "c")] {
        database.attach(of, called, small(of.as_bytes()));
    }
    database.attach(&long, &long, small(b"long"));
    assert_eq!(database.content_of("a", "b\u{1e}c").unwrap(), b"a");
    assert_eq!(database.content_of("a\u{1e}b", "c").unwrap(), b"a\x1eb");
    assert_eq!(database.content_of(&long, &long).unwrap(), b"long");
    let tx = database.read();
    assert_eq!(documents::attachments_of(&tx, &id("a")).unwrap().count(), 2);
}
