//! Imports: what a dump contains is stored as it was, and agrees with everything that is stored beside it.

use documents::{
    ChangeCounters, CounterStep, CounterValue, Import, Imported, ImportedAttachment,
    ImportedCounters, ImportedVersion, NewContent, hash_of,
    time_series::{Entry, TimeSeriesChange},
};
use model::{
    AttachmentName, CounterName, DatabaseId, DocumentFlags, DocumentId, Etag, NodeTag,
    TimeSeriesName,
};

use crate::{
    database::{Database, body, in_collection, user},
    revisions::rule,
};

const THEN: i64 = 637_000_000_000_000_000;
const OTHER: &str = "IXFvUGNOcU6aQXF0gg4kKQ";
const THIRD: &str = "E/bJlYuSXk2YiDE/tSNSAg";

fn version(id: &str, etag: u64, flags: DocumentFlags, json: &str) -> ImportedVersion {
    ImportedVersion {
        id: DocumentId::new(id).unwrap(),
        change_vector: Some(format!("A:{etag}-{OTHER}").parse().unwrap()),
        last_modified_ticks: Some(THEN),
        flags,
        body: body(json),
        attachments: Vec::new(),
        contents: Vec::new(),
        is_revised: true,
    }
}

fn import(database: &Database, imports: Vec<Import>) -> Vec<Imported> {
    let imported = database.write(|writer| {
        let imported: Result<_, _> = imports.iter().map(|import| writer.import(import)).collect();
        writer.settle()?;
        imported
    });
    imported.unwrap()
}

/// Version, time and flags of a document.
fn facts(database: &Database, id: &str) -> (String, i64, String) {
    let tx = database.read();
    let document = documents::get(&tx, &DocumentId::new(id).unwrap()).unwrap().unwrap();
    let version = document.change_vector().to_owned();
    (version, document.last_modified_ticks(), document.flags().to_string())
}

#[test]
fn a_document_keeps_its_version_and_time_and_replaces_one_of_another_collection() {
    let database = Database::new();
    database.put("u/1", &in_collection("Others", "before"));
    let imported = import(
        &database,
        vec![Import::Document(version("u/1", 9, DocumentFlags::NONE, &user("after")))],
    );
    assert_eq!(imported, [Imported::Stored]);
    assert_eq!(facts(&database, "u/1"), (format!("A:9-{OTHER}"), THEN, String::new()));
    assert!(database.json("u/1").unwrap().contains("after"));
}

#[test]
fn a_document_without_an_id_is_numbered_and_one_that_is_refused_costs_nothing_else() {
    let database = Database::new();
    let new = |prefix: &str, json: &str| Import::NewDocument {
        prefix: DocumentId::new(prefix).unwrap(),
        body: body(json),
    };
    let long = format!("{}/", "x".repeat(480));
    let not_text = r#"{"@metadata":{"@id":1}}"#;
    let imports = vec![
        new("Us/", &user("a")),
        new(&long, "{}"),
        new("Us/", not_text),
        new("Us/", &user("b")),
    ];
    let imported = import(&database, imports);
    assert_eq!((&imported[0], &imported[3]), (&Imported::Stored, &Imported::Stored));
    for refused in &imported[1..3] {
        assert!(matches!(refused, Imported::Refused { .. }), "{refused:?}");
    }
    let tx = database.read();
    let ids: Vec<String> = documents::by_prefix(&tx, "Us/", None)
        .unwrap()
        .map(|row| row.unwrap().id().to_owned())
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|id| id.starts_with("Us/000") && id.ends_with("-A")), "{ids:?}");
}

#[test]
fn what_belongs_to_a_document_changes_neither_its_time_nor_its_history() {
    let database = Database::new();
    database.keep(Some(rule(None)));
    let content = b"content".to_vec();
    let attachment = |hash| ImportedAttachment {
        name: AttachmentName::new("A.txt").unwrap(),
        content_type: "text/plain".to_owned(),
        hash,
    };
    let mut document = version("u/1", 9, DocumentFlags::NONE, &user("a"));
    document.attachments = vec![attachment(hash_of(&content))];
    document.contents = vec![NewContent::Bytes { hash: hash_of(&content), bytes: content }];
    let counted = CounterValue {
        node_tag: NodeTag::A,
        database_id: DatabaseId::parse(OTHER).unwrap(),
        value: 5,
        etag: Etag(7),
    };
    let id = || DocumentId::new("u/1").unwrap();
    let counters = |value| ImportedCounters {
        id: id(),
        counters: vec![(CounterName::new("Likes").unwrap(), vec![value])],
        replaces: false,
    };
    let mut series = TimeSeriesChange::new(id(), TimeSeriesName::new("INC:Visits").unwrap());
    series.imported.push(Entry { timestamp_ms: 5, values: &[1.0], tag: Some("TC:INC-x") });
    let all = vec![
        Import::Document(document),
        Import::Counters(counters(counted)),
        Import::TimeSeries(Box::new(series)),
    ];
    for _ in 0..2 {
        assert_eq!(import(&database, all.clone()), vec![Imported::Stored; 3]);
    }
    let (_, modified, flags) = facts(&database, "u/1");
    assert_eq!(modified, THEN);
    assert_eq!(flags, "HasRevisions, HasAttachments, HasCounters, HasTimeSeries");
    // An older value of a database does not replace a newer one.
    import(
        &database,
        vec![Import::Counters(counters(CounterValue { value: 1, etag: Etag(6), ..counted }))],
    );
    let likes = || CounterName::new("likes").unwrap();
    let total = documents::counter(&database.read(), &id(), &likes()).unwrap().unwrap().total();
    assert_eq!(total, 5);
    let increment = CounterStep::Increment { name: likes(), by: 2 };
    let request = ChangeCounters { id: id(), steps: vec![increment], ignores_missing: false };
    let changed = database.write(|writer| writer.change_counters(&request)).unwrap();
    assert_eq!(changed.counters[0].as_ref().unwrap().total, 7);
    // In a later file of a backup, it was deleted and counted anew.
    let database_id = DatabaseId::parse(THIRD).unwrap();
    let anew = CounterValue { value: 1, etag: Etag(9), database_id, ..counted };
    import(
        &database,
        vec![Import::Counters(ImportedCounters { replaces: true, ..counters(anew) })],
    );
    let tx = database.read();
    let stored = documents::counter(&tx, &id(), &likes()).unwrap().unwrap();
    assert_eq!((stored.total(), stored.values().count()), (1, 1));
}

#[test]
fn revisions_are_in_the_order_of_the_dump_and_mark_their_document() {
    let database = Database::new();
    let revision = |etag, name: &str| {
        Import::Revision(version("u/1", etag, DocumentFlags::REVISION, &user(name)))
    };
    let deletion = DocumentFlags::DELETE_REVISION;
    let deleted = Import::Revision(version("gone", 8, deletion, &in_collection("Users", "")));
    let mut document = version("u/1", 6, DocumentFlags::HAS_REVISIONS, &user("new"));
    document.is_revised = false;
    let all = vec![Import::Document(document), revision(1, "old"), revision(6, "new"), deleted];
    for _ in 0..2 {
        assert_eq!(import(&database, all.clone()), vec![Imported::Stored; 4]);
        let tx = database.read();
        let id = DocumentId::new("u/1").unwrap();
        let revisions = documents::revisions_newest_first(&tx, &id).unwrap();
        let versions: Vec<String> =
            revisions.map(|revision| revision.unwrap().change_vector().to_owned()).collect();
        assert_eq!(versions, [format!("A:6-{OTHER}"), format!("A:1-{OTHER}")]);
        assert_eq!(documents::deleted_documents(&tx).unwrap().count(), 1);
        assert_eq!(facts(&database, "u/1").2, "HasRevisions");
    }
    assert!(database.delete("u/1"));
}

#[test]
fn what_is_refused_leaves_the_rest_of_the_batch() {
    let database = Database::new();
    let bad = r#"{"@metadata":{"@expires":"nonsense"}}"#;
    let lost = ImportedAttachment {
        name: AttachmentName::new("lost").unwrap(),
        content_type: String::new(),
        hash: hash_of(b"nowhere"),
    };
    let mut without = version("c", 3, DocumentFlags::NONE, &user("c"));
    without.attachments = vec![lost];
    let counters = ImportedCounters {
        id: DocumentId::new("nope").unwrap(),
        counters: Vec::new(),
        replaces: false,
    };
    let imported = import(
        &database,
        vec![
            Import::Document(version("a", 1, DocumentFlags::NONE, &user("a"))),
            Import::Document(version("b", 2, DocumentFlags::NONE, bad)),
            Import::Document(without),
            Import::Counters(counters),
        ],
    );
    assert!(matches!(&imported[0], Imported::Stored));
    assert!(
        matches!(&imported[1], Imported::Refused { reason, .. } if reason.contains("nonsense"))
    );
    assert!(
        matches!(&imported[2], Imported::WithoutAttachments { names, .. } if *names == ["lost"])
    );
    assert!(matches!(&imported[3], Imported::Refused { id, .. } if id.as_str() == "nope"));
    assert!(database.json("c").is_some() && database.json("b").is_none());
    // What this database wrote itself gets a new version.
    let own = database.put("a", &user("own")).change_vector;
    let again = ImportedVersion {
        change_vector: Some(own.clone()),
        ..version("a", 1, DocumentFlags::NONE, &user("again"))
    };
    import(&database, vec![Import::Document(again)]);
    assert_ne!(facts(&database, "a").0, own.to_string());
}
