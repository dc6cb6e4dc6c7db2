//! Documents that indexes write.

use documents::{OutputChange, OutputReferences, OutputWritten};
use model::{CollectionName, DocumentId};

use crate::database::{Database, body, in_collection, user};
use crate::revisions::rule;

impl Database {
    fn output(&self, change: &OutputChange) -> OutputWritten {
        self.write(|writer| writer.write_output(change)).unwrap()
    }

    fn last_etag(&self) -> u64 {
        documents::progress(&self.read()).unwrap().last_etag.0
    }

    /// The document without what changes with each write.
    fn shown(&self, id: &str) -> Option<String> {
        let json = self.json(id)?;
        let (start, rest) = json.split_once(r#""@change-vector":""#).unwrap();
        let (_, rest) = rest.split_once(r#"","#).unwrap();
        let (end, _) = rest.split_once(r#","@last-modified""#).unwrap();
        Some(format!("{start}{end}"))
    }
}

fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

fn put(to: &str, total: u32) -> OutputChange {
    let json = format!(r#"{{"Total":{total},"@metadata":{{"@collection":"Sums"}}}}"#);
    OutputChange::Put { id: id(to), body: body(&json) }
}

fn refer(from: &str, collection: &str, removed: &[&str], added: &[&str]) -> OutputChange {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    OutputChange::Refer(OutputReferences {
        id: id(from),
        collection: CollectionName::new(collection).unwrap(),
        removed: texts(removed),
        added: texts(added),
    })
}

#[test]
fn an_output_is_marked_and_the_same_one_is_written_once() {
    let database = Database::new();
    assert_eq!(database.output(&put("Sums/1/7", 3)), OutputWritten::Done);
    let expected = r#"{"Total":3,"@metadata":{"@collection":"Sums","@flags":"Artificial, FromIndex","@id":"Sums/1/7""#;
    assert_eq!(database.shown("Sums/1/7").unwrap(), expected);
    let before = database.last_etag();
    assert_eq!(database.output(&put("Sums/1/7", 3)), OutputWritten::Done);
    assert_eq!(database.last_etag(), before, "nothing to write");
    database.output(&put("Sums/1/7", 4));
    assert_eq!(database.last_etag(), before + 1);
    database.output(&OutputChange::Delete { id: id("sums/1/7") });
    assert_eq!(database.json("Sums/1/7"), None);
    database.output(&OutputChange::Delete { id: id("sums/1/7") });
    assert_eq!(database.last_etag(), before + 2);
}

#[test]
fn what_somebody_else_wrote_is_replaced_but_not_deleted() {
    let database = Database::new();
    database.output(&put("Sums/1/7", 3));
    database.put("Sums/1/7", &in_collection("Sums", "edited"));
    assert!(!database.json("Sums/1/7").unwrap().contains("@flags"), "a write takes the marks away");
    database.output(&OutputChange::Delete { id: id("Sums/1/7") });
    assert!(database.json("Sums/1/7").unwrap().contains("edited"));
    assert_eq!(database.output(&put("Sums/1/7", 3)), OutputWritten::Done);
    assert!(database.shown("Sums/1/7").unwrap().contains("FromIndex"));

    database.put("Sums/1/8", &user("x"));
    let before = database.last_etag();
    assert_eq!(database.output(&put("Sums/1/8", 3)), OutputWritten::InTheWay);
    assert_eq!(database.last_etag(), before);
}

#[test]
fn a_document_refers_to_outputs_while_there_are_any() {
    let database = Database::new();
    let listed = |id: &str| {
        let shown = database.shown(id)?;
        Some(shown.split_once(r#","@flags""#).unwrap().0.to_owned())
    };
    let change = |removed: &[&str], added: &[&str]| {
        let done = database.output(&refer("days/1", "Sums/References", removed, added));
        assert_eq!(done, OutputWritten::Done);
        listed("days/1")
    };
    let of = |outputs: &str| {
        let metadata = r#""@metadata":{"@collection":"Sums/References""#;
        Some(format!(r#"{{"ReduceOutputs":[{outputs}],{metadata}"#))
    };
    assert_eq!(change(&["Sums/1/1"], &[]), None);
    assert_eq!(change(&[], &["Sums/1/1", "Sums/1/2"]), of(r#""Sums/1/1","Sums/1/2""#));
    let before = database.last_etag();
    assert_eq!(change(&["nope"], &["Sums/1/2"]), of(r#""Sums/1/1","Sums/1/2""#));
    assert_eq!(database.last_etag(), before, "nothing to write");
    assert_eq!(change(&["Sums/1/1"], &["Sums/1/3"]), of(r#""Sums/1/2","Sums/1/3""#));
    database.output(&refer("days/1", "Others", &[], &["Others/2/1"]));
    assert!(database.json("days/1").unwrap().contains(r#""@collection":"Others""#), "it moves");
    assert!(database.json("days/1").unwrap().contains("Sums/1/3"));
    assert_eq!(change(&["Others/2/1", "Sums/1/2", "Sums/1/3"], &[]), None, "it goes with the last");

    database.put("days/2", &in_collection("Days", "mine"));
    let before = database.last_etag();
    let refused = database.output(&refer("days/2", "Sums/References", &[], &["Sums/1/1"]));
    assert_eq!(refused, OutputWritten::InTheWay);
    let untouched = database.output(&refer("days/2", "Sums/References", &["Sums/1/1"], &[]));
    assert_eq!((untouched, database.last_etag()), (OutputWritten::Done, before));
}

#[test]
fn an_output_has_no_revisions() {
    let database = Database::new();
    database.keep(Some(rule(None)));
    database.output(&put("Sums/1/7", 3));
    database.output(&put("Sums/1/7", 4));
    database.output(&OutputChange::Delete { id: id("Sums/1/7") });
    assert_eq!(documents::revisions_total(&database.read()).unwrap(), 0);
    database.put("Sums/1/7", &in_collection("Sums", "mine"));
    assert_eq!(documents::revisions_total(&database.read()).unwrap(), 1);
}
