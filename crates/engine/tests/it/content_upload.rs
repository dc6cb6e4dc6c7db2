//! Contents of attachments on their way into the database.

use std::sync::Arc;

use blittable::{ParseLimits, parse_document};
use commands::{Batch, Command};
use database::DatabaseLease;
use documents::{
    CONTENT_CHUNK_BYTES, ContentHasher, ExpectedVersion, NewContent, PutAttachment, PutDocument,
    RequestedId, hash_of,
};
use engine::{Backlog, ContentUpload, Engine, StagedContent, StagedContents};
use model::{AttachmentName, DocumentId};

use crate::with_database;

/// An engine with a document, to which attachments can be put.
fn with_document() -> (Arc<Engine>, DatabaseLease) {
    let (engine, database) = with_database();
    let body = parse_document(b"{}", &ParseLimits::default()).unwrap();
    let id = RequestedId::Exactly(DocumentId::new("users/1").unwrap());
    let put = PutDocument { id, expected: ExpectedVersion::Any, body };
    engine.execute(&database, Batch::one(Command::Put(put))).unwrap();
    (Arc::new(engine), database)
}

/// Uploads a content as a caller that blocks.
fn upload(
    engine: &Arc<Engine>,
    database: &DatabaseLease,
    content: &[u8],
) -> (NewContent, StagedContents) {
    let mut upload = ContentUpload::new(database, usize::MAX);
    let mut hasher = ContentHasher::default();
    let mut rest = content;
    while !rest.is_empty() {
        if upload.room_bytes() == 0 {
            send(engine, database, &mut upload, &mut hasher);
        }
        let (taken, behind) = rest.split_at(upload.room_bytes().min(rest.len()));
        upload.fill(taken);
        rest = behind;
    }
    if let Some(carried) = upload.carried() {
        return (carried, StagedContents::default());
    }
    send(engine, database, &mut upload, &mut hasher);
    upload.end(hasher.finish()).unwrap()
}

fn send(
    engine: &Arc<Engine>,
    database: &DatabaseLease,
    upload: &mut ContentUpload,
    hasher: &mut ContentHasher,
) {
    let chunk = upload.take_chunk().unwrap();
    hasher.update(&chunk.bytes);
    let outcome = engine.execute(database, chunk.batch).unwrap();
    if upload.is_staged() {
        upload.note_stored();
    } else {
        let (engine, database) = (Arc::clone(engine), database.clone());
        upload.stage(StagedContent::of_first_chunk(engine, database, &outcome).unwrap());
    }
}

fn put(content: NewContent) -> Batch {
    Batch::one(Command::PutAttachment(PutAttachment {
        id: DocumentId::new("users/1").unwrap(),
        name: AttachmentName::new("a".to_owned()).unwrap(),
        content_type: String::new(),
        expected: ExpectedVersion::Any,
        content,
    }))
}

#[test]
fn a_small_content_is_carried_and_a_large_one_is_staged() {
    let (engine, database) = with_document();
    let bytes = vec![7; CONTENT_CHUNK_BYTES];
    match upload(&engine, &database, &bytes).0 {
        NewContent::Bytes { bytes: carried, hash } => {
            assert_eq!((carried.len(), hash), (bytes.len(), hash_of(&bytes)));
        }
        NewContent::Staged { .. } => panic!("one chunk is carried"),
    }
    let bytes = vec![7; 2 * CONTENT_CHUNK_BYTES + 1];
    let (content, mut staged) = upload(&engine, &database, &bytes);
    let NewContent::Staged { bytes: length, hash, .. } = content else { panic!("it is staged") };
    assert_eq!((length, hash), (bytes.len() as u64, hash_of(&bytes)));
    engine.execute(&database, put(content)).unwrap();
    staged.are_put();
}

#[test]
fn a_staged_content_that_is_not_put_is_discarded() {
    let (engine, database) = with_document();
    let (content, staged) = upload(&engine, &database, &vec![7; CONTENT_CHUNK_BYTES + 1]);
    drop(staged);
    assert!(engine.execute(&database, put(content)).is_err());
}

#[test]
fn only_a_few_chunks_are_on_their_way_at_a_time() {
    let (engine, database) = with_document();
    let mut upload = ContentUpload::new(&database, 10);
    upload.fill(&[7; 11]);
    send(&engine, &database, &mut upload, &mut ContentHasher::default());
    let mut taken = 0;
    while upload.may_submit() {
        upload.take_chunk().unwrap();
        taken += 1;
    }
    assert_eq!(taken, 3, "the first one is stored");
    upload.note_stored();
    assert!(upload.may_submit());
    upload.take_chunk().unwrap();
    assert!(!upload.may_submit());
}

#[test]
fn the_backlog_grows_with_what_is_not_flushed() {
    let (engine, database) = with_document();
    let mut upload = ContentUpload::new(&database, 10);
    let mut backlogs = vec![upload.backlog()];
    while upload.backlog() != Backlog::TooLarge {
        assert!(backlogs.len() < 30, "the database is flushed too early: {backlogs:?}");
        upload.fill(&vec![7; CONTENT_CHUNK_BYTES]);
        send(&engine, &database, &mut upload, &mut ContentHasher::default());
        backlogs.push(upload.backlog());
    }
    backlogs.dedup();
    assert_eq!(backlogs, [Backlog::Small, Backlog::Large, Backlog::TooLarge]);
    database.environment().flush().unwrap();
    assert_eq!(upload.backlog(), Backlog::Small);
}

#[test]
fn what_is_longer_than_may_be_carried_is_staged() {
    let (_engine, database) = with_document();
    let mut upload = ContentUpload::new(&database, 10);
    upload.fill(&[7; 11]);
    assert!(upload.carried().is_none());
    let mut upload = ContentUpload::new(&database, 10);
    upload.fill(&[7; 10]);
    assert!(upload.carried().is_some());
    let mut upload = ContentUpload::new(&database, 0);
    assert!(upload.carried().is_some(), "an empty content");
}
