//! Counters: what documents, revisions, deletions and salvage make of them.

use documents::{
    ChangeCounters, CounterStep, CountersChanged, DocumentError,
    log::{self, EntryKind, Selection},
};
use model::{CounterName, DocumentId, Etag, RevisionsConfiguration, RevisionsRule};
use storage::TreeName;

use crate::database::{Database, user};

fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

fn name(text: &str) -> CounterName {
    CounterName::new(text).unwrap()
}

fn increment(called: &str, by: i64) -> CounterStep {
    CounterStep::Increment { name: name(called), by }
}

fn remove(called: &str) -> CounterStep {
    CounterStep::Delete { name: name(called) }
}

impl Database {
    fn try_count(
        &self,
        of: &str,
        changes: &[CounterStep],
    ) -> Result<CountersChanged, DocumentError> {
        let request =
            ChangeCounters { id: id(of), steps: changes.to_vec(), ignores_missing: false };
        self.write(|writer| writer.change_counters(&request))
    }

    /// Changes counters; tells what those that were counted say.
    fn count(&self, of: &str, changes: &[CounterStep]) -> Vec<Option<i64>> {
        let changed = self.try_count(of, changes).unwrap();
        changed.counters.iter().map(|detail| detail.as_ref().map(|detail| detail.total)).collect()
    }

    /// Names and values of a document's counters.
    fn counters(&self, of: &str) -> Vec<(String, i64)> {
        let tx = self.read();
        let rows = documents::counters_of(&tx, &id(of)).unwrap();
        rows.map(|row| row.map(|row| (row.name().to_owned(), row.total())).unwrap()).collect()
    }

    fn metadata(&self, of: &str) -> String {
        let json = self.json(of).unwrap();
        json.split_once("\"@metadata\":").unwrap().1.to_owned()
    }

    /// How many counters there are, and how many documents have some.
    fn counts(&self) -> (u64, u64) {
        let tx = self.read();
        (documents::counters_count(&tx).unwrap(), documents::counted_documents(&tx).unwrap())
    }
}

#[test]
fn documents_with_counters_of_an_earlier_version_are_counted_once() {
    let database = Database::new();
    for number in 0..3 {
        let id = format!("users/{number}");
        database.put(&id, &user("a"));
        database.count(&id, &[increment("likes", 1), increment("b", 1)]);
    }
    assert!(!documents::lacks_counted_documents(&database.read()).unwrap());
    let mut tx = database.environment.write().unwrap();
    tx.tree_mut(&TreeName::from("Meta")).unwrap().delete(b"counted-documents").unwrap();
    tx.commit().unwrap();
    // An increment of a counter that exists stores no number.
    database.count("users/0", &[increment("likes", 1)]);
    assert!(documents::lacks_counted_documents(&database.read()).unwrap());
    assert_eq!(database.counts(), (6, 3));
    let mut tx = database.environment.write().unwrap();
    documents::store_counted_documents(&mut tx).unwrap();
    tx.commit().unwrap();
    assert!(!documents::lacks_counted_documents(&database.read()).unwrap());
    assert_eq!(database.counts(), (6, 3));
}

#[test]
fn a_document_lists_the_counters_it_has_and_counting_leaves_it_alone() {
    let database = Database::new();
    database.put("Users/1", &user("a"));
    let counted = database.count(
        "users/1",
        &[increment("likes", 2), increment("_x", 1), increment("B", -1), increment("LIKES", 3)],
    );
    assert_eq!(counted, [Some(2), Some(1), Some(-1), Some(5)]);
    let metadata = database.metadata("users/1");
    assert!(metadata.contains(r#""@counters":["B","likes","_x"]"#), "{metadata}");
    assert!(metadata.contains(r#""@flags":"HasCounters""#), "{metadata}");
    assert!(!database.try_count("users/1", &[increment("b", 7)]).unwrap().touches_document);
    assert_eq!(database.metadata("users/1"), metadata);
    database.put("users/1", &user("b"));
    assert!(database.metadata("users/1").contains(r#""@counters":["B","likes","_x"]"#));
    let changed = database.try_count("users/1", &[remove("likes"), remove("nothing")]).unwrap();
    assert!(changed.touches_document && changed.counters.is_empty());
    assert!(database.metadata("users/1").contains(r#""@counters":["B","_x"]"#));
    assert_eq!(database.count("users/1", &[increment("likes", 1)]), [Some(1)], "counts from 0");
    database.count("users/1", &[remove("likes"), remove("B"), remove("_X")]);
    let metadata = database.metadata("users/1");
    assert!(!metadata.contains("@counters") && !metadata.contains("@flags"), "{metadata}");
    assert_eq!(database.counts(), (0, 0));
}

#[test]
fn a_deleted_document_takes_its_counters_along_and_leaves_tombstones() {
    let database = Database::new();
    for of in ["users/1", "users/10"] {
        database.put(of, &user("a"));
        database.count(of, &[increment("a", 1), increment("b", 2)]);
    }
    assert_eq!(database.counts(), (4, 2));
    database.count("users/10", &[remove("a"), increment("c", 1)]);
    assert_eq!(database.counts(), (4, 2));
    database.delete("USERS/1");
    assert_eq!(database.counts(), (2, 1));
    assert_eq!(database.counters("users/1"), []);
    assert_eq!(database.counters("users/10"), [("b".to_owned(), 2), ("c".to_owned(), 1)]);
    let gone = |of: &str| {
        let tx = database.read();
        let tombstones = [Selection::all(EntryKind::CounterTombstone)];
        let log = log::read(&tx, &tombstones, Etag::ZERO).unwrap().map(Result::unwrap);
        log.filter(|entry| entry.lower_document_id() == Some(of)).count()
    };
    assert_eq!((gone("users/1"), gone("users/10")), (2, 1));
    database.put("users/1", &user("again"));
    assert!(!database.metadata("users/1").contains("@counters"));
    database.count("users/1", &[increment("A", 9)]);
    assert_eq!(database.counters("users/1"), [("A".to_owned(), 9)]);
    assert_eq!(gone("users/1"), 1);
}

#[test]
fn documents_with_counters_are_counted_in_files_that_do_not_keep_their_number() {
    let database = Database::new();
    for of in ["users/1", "users/10", "users/2"] {
        database.put(of, &user("a"));
        database.count(of, &[increment("a", 1), increment("b", 2)]);
    }
    let forget = || {
        let mut tx = database.environment.write().unwrap();
        let meta = storage::TreeName::from("Meta");
        assert!(tx.tree_mut(&meta).unwrap().delete(b"counted-documents").unwrap());
        tx.commit().unwrap();
    };
    forget();
    assert_eq!(database.counts(), (6, 3));
    database.count("users/2", &[remove("a"), remove("b")]);
    assert_eq!(database.counts(), (4, 2));
    forget();
    database.count("users/2", &[increment("c", 1)]);
    assert_eq!(database.counts(), (5, 3));
}

#[test]
fn what_cannot_be_counted_is_refused_and_nothing_is_kept() {
    let database = Database::new();
    let error = database.try_count("nobody", &[increment("a", 1)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Document 'nobody' does not exist. Cannot operate on counters of a missing document."
    );
    assert!(database.try_count("nobody", &[remove("a")]).is_err());
    database.put("users/1", &user("a"));
    database.count("users/1", &[increment("big", i64::MAX)]);
    let error = database.try_count("users/1", &[increment("new", 1), increment("BIG", 1)]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "Could not increment counter 'BIG' from document 'users/1' with value \
         '9223372036854775807' by '1'."
    );
    assert_eq!(database.counters("users/1"), [("big".to_owned(), i64::MAX)]);
}

#[test]
fn a_revision_says_what_the_counters_said_and_reverting_makes_them_say_it_again() {
    let database = Database::new();
    let all = Some(RevisionsRule::default());
    *database.revisions.borrow_mut() = RevisionsConfiguration::new(all);
    database.put("users/1", &user("a"));
    database.pass(1);
    database.count("users/1", &[increment("k", 1), increment("J", 1)]);
    let moment = database.last_write();
    database.pass(1);
    database.count("users/1", &[increment("k", 5), remove("j"), increment("new", 7)]);
    database.pass(1);
    database.put("users/1", &user("b"));
    let snapshots = || {
        let tx = database.read();
        let revisions = documents::revisions_newest_first(&tx, &id("users/1")).unwrap();
        let snapshots = revisions.map(|revision| {
            let mut json = Vec::new();
            documents::write_revision_json(&revision.unwrap(), &mut json).unwrap();
            let json = String::from_utf8(json).unwrap();
            assert!(!json.contains("\"@counters\""), "{json}");
            let snapshot = json.split_once("\"@counters-snapshot\":").map(|(_, rest)| rest);
            snapshot.map(|rest| rest.split_once('}').unwrap().0.to_owned() + "}")
        });
        snapshots.map(Option::unwrap_or_default).collect::<Vec<_>>()
    };
    let before =
        [r#"{"k":6,"new":7}"#, r#"{"k":6,"new":7}"#, r#"{"J":1,"k":1}"#, ""].map(str::to_owned);
    assert_eq!(snapshots(), before);
    database.write(|writer| writer.revert_document(&id("users/1"), moment)).unwrap();
    assert_eq!(database.counters("users/1"), [("J".to_owned(), 1), ("k".to_owned(), 1)]);
    let metadata = database.metadata("users/1");
    assert!(metadata.contains(r#""@counters":["J","k"]"#), "{metadata}");
    assert!(!metadata.contains("snapshot"), "{metadata}");
    assert_eq!(snapshots()[0], r#"{"J":1,"k":1}"#);
    assert_eq!(snapshots().len(), 5);
    database.delete("users/1");
    database.write(|writer| writer.revert_document(&id("users/1"), moment)).unwrap();
    assert_eq!(database.counters("users/1"), [("J".to_owned(), 1), ("k".to_owned(), 1)]);
}
