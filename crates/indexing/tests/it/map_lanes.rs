//! However many threads map, an index is the same.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::fmt::Write as _;

use indexing::{Index, IndexKind};
use model::IndexDefinition;
use platform::Platform;
use search::{IndexReader, Query, Scoring};

use crate::{
    fixture::Documents,
    results::{definition, results_of},
};

const DOCUMENTS: u64 = 4_000;

/// Name new fields now and then, with one of two options, fail for some documents, and return none,
/// one or two entries for the others.
const CREATING: [&str; 2] = [
    "from d in docs.Users where d.Even from part in d.Parts \
     select new { d.Name, Share = 100 / d.Number, d.Since, _ = CreateField(d.Field, part) }",
    "from d in docs.Users where !d.Even \
     select new { d.Name, Share = 1, d.Since, _ = CreateField(d.Field, d.Parts, false, true) }",
];
const BY_FIELD: &str = "from r in results group r by r.Field into g \
    select new { Field = g.Key, Total = g.Sum(x => x.Total) }";
const FIELDS: &str = "from d in docs.Users select new { d.Field, Total = 100 / d.Number }";

fn documents() -> Documents {
    let documents = Documents::new();
    for number in 0..DOCUMENTS {
        let parts = if number % 7 == 0 { "[]" } else { r#"["x y","z"]"# };
        let since = if number < 900 { "null" } else { "\"2020-03-05T10:20:30.1230000Z\"" };
        let json = format!(
            r#"{{"Name":"name {number}","Number":{},"Parts":{parts},"Since":{since},
               "Field":"F{}","Even":{},"@metadata":{{"@collection":"Users"}}}}"#,
            number % 50,
            number * number / 100_000,
            number % 2 == 0,
        );
        documents.put(&format!("users/{number}"), &json);
    }
    (0..DOCUMENTS).step_by(13).for_each(|number| documents.delete(&format!("users/{number}")));
    documents
}

fn open(documents: &Documents, kind: &IndexKind, threads: usize) -> Index {
    let context = documents.context_of(&Platform::memory(), threads);
    let index = Index::open("I", kind.clone(), context).unwrap();
    assert!(documents.follow(&index));
    index
}

/// Fields, entries in their order, and what went wrong.
fn everything_in(index: &Index) -> String {
    let tx = index.read();
    search::check(&tx).unwrap();
    let reader = IndexReader::open(&tx).unwrap();
    let mut text = format!("{:?}\n", reader.fields().unwrap());
    for hit in reader.stream(&Query::All, Scoring::Off).unwrap() {
        let entry = reader.entry(hit.unwrap().entry).unwrap().unwrap();
        writeln!(text, "{} {:?}", entry.document_id().unwrap(), entry.fields().unwrap()).unwrap();
    }
    let record = index.record();
    writeln!(text, "{} {} {}", record.map_attempts, record.map_errors, record.outputs_max).unwrap();
    let errors = index.errors().unwrap();
    let errors = errors.iter().map(|error| format!("{} {}\n", error.document, error.message));
    text.extend(errors);
    text
}

#[test]
fn an_index_with_new_fields_and_errors_is_the_same() {
    let documents = documents();
    let kind = IndexKind::Static(Box::new(IndexDefinition {
        name: "I".to_owned(),
        maps: CREATING.map(str::to_owned).to_vec(),
        ..IndexDefinition::default()
    }));
    let alone = everything_in(&open(&documents, &kind, 1));
    assert!(alone.contains("users/1 ") && alone.contains("name: \"F100\""), "{alone:.500}");
    for threads in [2, 3, 8] {
        assert!(alone == everything_in(&open(&documents, &kind, threads)), "{threads} threads");
    }
}

#[test]
fn results_are_the_same() {
    let documents = documents();
    let kind = definition(&[FIELDS], BY_FIELD);
    let alone = open(&documents, &kind, 1);
    let errors = alone.record().map_errors;
    assert!(0 < errors && 100 < results_of(&alone).len());
    for threads in [2, 8] {
        let index = open(&documents, &kind, threads);
        assert_eq!(results_of(&alone), results_of(&index), "{threads} threads");
        assert_eq!(errors, index.record().map_errors);
    }
}
