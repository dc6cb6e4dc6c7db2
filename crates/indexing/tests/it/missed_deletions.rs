//! Indexes whose files are older than the tombstones that are left.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use documents::{RemoveTombstones, TombstoneKind, removable_tombstones};
use indexing::{Index, IndexKind};
use model::{Etag, IndexDefinition};
use platform::Platform;
use search::IndexReader;

use crate::fixture::Documents;

impl Documents {
    fn remove_tombstones(&self) -> u64 {
        let kind = TombstoneKind::Documents;
        let found =
            removable_tombstones(&self.environment.read(), kind, None, |_| Etag(u64::MAX)).unwrap();
        let request = RemoveTombstones { kind, rows: found.rows };
        let mut removed = 0;
        self.write(|writer| removed = writer.remove_tombstones(&request).unwrap());
        removed
    }

    fn open_users(&self, platform: &Platform) -> Index {
        let definition = IndexDefinition {
            name: "I".to_owned(),
            maps: vec!["from u in docs.Users select new { u.Name }".to_owned()],
            ..IndexDefinition::default()
        };
        self.open(platform, &IndexKind::Static(Box::new(definition))).unwrap()
    }

    fn put_in(&self, id: &str, collection: &str) {
        let json = format!(r#"{{"Name":"n","@metadata":{{"@collection":"{collection}"}}}}"#);
        self.put(id, &json);
    }
}

fn entries(index: &Index) -> u64 {
    let tx = index.read();
    IndexReader::open(&tx).unwrap().entry_count()
}

#[test]
fn an_older_copy_of_an_index_begins_anew_when_tombstones_are_gone() {
    let (documents, platform) = (Documents::new(), Platform::memory());
    documents.put_in("users/1", "Users");
    documents.put_in("users/2", "Users");
    let index = documents.open_users(&platform);
    assert!(documents.follow(&index));
    index.close();
    // Closed, it is as old as a copy; everything that it needs goes, and nothing says that it is stale.
    documents.delete("users/2");
    assert_eq!(documents.remove_tombstones(), 1);
    let index = documents.open_users(&platform);
    assert!(documents.follow(&index));
    assert_eq!(entries(&index), 1);
    index.close();
    // Of other collections, nothing is needed; the files are used as they are.
    let created = |index: &Index| index.record().created_ticks;
    let before = created(&index);
    documents.put_in("dogs/1", "Dogs");
    documents.delete("dogs/1");
    assert_eq!(documents.remove_tombstones(), 1);
    let index = documents.open_users(&platform);
    assert_eq!(created(&index), before);
    assert!(documents.follow(&index));
}

#[test]
fn an_index_that_begins_needs_no_older_tombstones_also_when_it_is_closed_halfway() {
    let (documents, platform) = (Documents::new(), Platform::memory());
    documents.put_in("users/1", "Users");
    documents.put_in("users/2", "Users");
    documents.delete("users/2");
    assert_eq!(documents.remove_tombstones(), 1);
    let index = documents.open_users(&platform);
    assert!(documents.follow(&index));
    let before = index.record().created_ticks;
    assert_eq!((entries(&index), index.progress()), (1, Etag(3)));
    index.close();
    let index = documents.open_users(&platform);
    assert_eq!(index.record().created_ticks, before, "the deletion was before its time");
    assert!(documents.follow(&index));
}

#[test]
fn an_index_that_runs_stops_when_tombstones_are_gone_that_it_needed() {
    let (documents, platform) = (Documents::new(), Platform::memory());
    documents.put_in("users/1", "Users");
    let index = documents.open_users(&platform);
    assert!(documents.follow(&index));
    index.pause();
    documents.delete("users/1");
    assert_eq!(documents.remove_tombstones(), 1);
    documents.put_in("users/2", "Users");
    index.resume();
    assert!(!documents.follow(&index));
    let reason = index.failure().unwrap().to_string();
    assert!(reason.contains("tombstones that the index has not read were removed"), "{reason}");
}
