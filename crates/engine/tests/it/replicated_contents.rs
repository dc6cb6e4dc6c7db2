//! Contents of attachments that other databases send.

use documents::{CONTENT_CHUNK_BYTES, hash_of};
use model::DatabaseId;
use replication::{ContentPiece, Reply};

use crate::with_database;

/// As sinks that all have the same new file.
#[test]
fn senders_of_the_same_content_do_not_disturb_each_other() {
    let (engine, database) = with_database();
    let content = vec![7; 3 * CONTENT_CHUNK_BYTES + 5];
    let hash = hash_of(&content);
    let mut positions = [0, 0];
    while positions.iter().any(|position| *position < content.len()) {
        for (sender, position) in positions.iter_mut().enumerate() {
            let end = content.len().min(*position + CONTENT_CHUNK_BYTES);
            let piece = ContentPiece {
                source: DatabaseId([sender as u8 + 1; 16]),
                hash,
                content_bytes: content.len() as u64,
                position: *position as u64,
                bytes: content[*position..end].to_vec(),
            };
            let answer = engine.receive_replication(&database, &piece.to_bytes(), false).unwrap();
            assert_eq!(Reply::read(&answer).unwrap(), Reply::Taken(end as u64));
            *position = end;
        }
    }
}
