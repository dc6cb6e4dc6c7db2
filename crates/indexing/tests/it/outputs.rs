//! The documents that an index writes: which definitions may write any, and what is in the way.

use std::sync::Arc;

use indexing::{IndexKind, IndexSet, IndexSetContext, IndexingPool};
use model::IndexDefinition;
use platform::Platform;
use script::ScriptPool;
use storage::EnvironmentOptions;

use crate::fixture::{DEFINITION_FORMAT, Documents, Outputs};

const REDUCE: &str = "from r in results group r by r.K into g \
                      select new { K = g.Key, Count = g.Sum(x => x.Count) }";

fn set_over(documents: &Documents) -> Arc<IndexSet> {
    let clock = &documents.platform.clock;
    let environment = Arc::clone(&documents.environment);
    IndexSet::new(IndexSetContext {
        platform: Platform { clock: Arc::clone(clock), ..Platform::memory() },
        documents: Arc::clone(&environment),
        values: None,
        directory: "/indexes".into(),
        environment: EnvironmentOptions::new("/"),
        on_open: Arc::new(|_| ()),
        scripts: ScriptPool::new(Arc::clone(clock)),
        pool: IndexingPool::new(Arc::clone(clock), 1),
        outputs: Arc::new(Outputs { platform: documents.platform.clone(), environment }),
        definition_format: DEFINITION_FORMAT,
        on_event: Arc::new(|_| ()),
    })
}

/// An index over a collection that writes to another; a pattern and a collection of references too.
fn writing(name: &str, map: &str, output: &str, pattern: &str, references: &str) -> IndexKind {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let from = format!("from d in docs{map} select new {{ d.K, Count = 1 }}");
    IndexKind::Static(Box::new(IndexDefinition {
        name: name.to_owned(),
        maps: vec![from],
        reduce: Some(REDUCE.to_owned()),
        output_reduce_to_collection: text(output),
        pattern_for_output_reduce_to_collection_references: text(pattern),
        pattern_references_collection_name: text(references),
        ..IndexDefinition::default()
    }))
}

#[test]
fn an_index_that_would_feed_itself_is_refused() {
    let documents = Documents::new();
    let set = set_over(&documents);
    let refused = |kind: &IndexKind| set.check(kind).unwrap_err().to_string();
    let forbidden = |name: &str, collection: &str, why: &str| {
        format!(
            "It is forbidden to create the '{name}' index which would output reduce results to \
             documents in the '{collection}' collection, as {why}"
        )
    };
    let itself = "this index is mapping or referencing the 'orders' collection and this will result \
                  in an infinite loop.";
    assert_eq!(
        refused(&writing("A", ".Orders", "orders", "", "")),
        forbidden("A", "orders", itself)
    );
    let all = "this index is mapping all documents and this will result in an infinite loop.";
    assert_eq!(refused(&writing("A", "", "Sums", "", "")), forbidden("A", "Sums", all));
    let refers = refused(&writing("A", ".Orders", "Sums", "x/{K}", "Orders"));
    assert_eq!(refers, forbidden("A", "Orders", &itself.replace("'orders'", "'Orders'")));
    let same = refused(&writing("A", ".Orders", "Sums", "x/{K}", "sums"));
    assert!(same.starts_with("Collection defined in PatternReferencesCollectionName"), "{same}");

    for (name, from, to) in [("C1", ".One", "Two"), ("C3", ".Two", "Three")] {
        let kind = writing(name, from, to, "", "");
        set.check(&kind).unwrap();
        set.open(name, kind).unwrap();
    }
    set.check(&writing("C1", ".One", "two", "x/{K}", "")).unwrap();
    let unique = "there is another index named 'C1' which also output reduce results to documents in \
                  the same 'two' collection. OutputReduceToCollection must by set to unique value for \
                  each index or be null.";
    assert_eq!(refused(&writing("A", ".Orders", "two", "", "")), forbidden("A", "two", unique));
    let cycle = "'One' collection is consumed by other index in a way that would lead to an infinite \
                 loop.\nC1: One => Two\nC3: Two => Three\n--> C4: Three => *One*";
    assert_eq!(refused(&writing("C4", ".Three", "One", "", "")), forbidden("C4", "One", cycle));
    let through_references = refused(&writing("C4", ".Three", "Four", "x/{K}", "One"));
    assert!(through_references.ends_with("--> C4: Three => *One*"), "{through_references}");
}

#[test]
fn outputs_come_into_a_collection_that_holds_nothing_else() {
    let documents = Documents::new();
    let set = set_over(&documents);
    let kind = writing("A", ".Orders", "Used", "", "");
    let mine = r#"{"A":1,"@metadata":{"@collection":"Used"}}"#;
    documents.put("u/1", mine);
    let refusal = |count: &str| {
        format!(
            "Index 'A' is defined to output the Reduce results to documents in Collection 'Used'. \
             This collection currently has {count}. All documents in Collection 'Used' must be \
             deleted first."
        )
    };
    assert_eq!(set.check(&kind).unwrap_err().to_string(), refusal("1 document "));
    documents.put("u/2", mine);
    assert_eq!(set.check(&kind).unwrap_err().to_string(), refusal("2 documents"));
    documents.delete("u/1");
    documents.delete("u/2");
    set.check(&kind).unwrap();
    set.open("A", kind.clone()).unwrap();
    documents.put("u/1", mine);
    set.check(&kind).unwrap();
    set.check(&writing("A", ".Orders", "used", "x/{K}", "")).unwrap();
}

#[test]
fn a_document_in_the_way_is_an_error_and_stays() {
    let documents = Documents::new();
    documents.put("by/b", r#"{"Mine":1,"@metadata":{"@collection":"Mine"}}"#);
    for (number, key) in ["\"a\"", "\"b\"", "null"].iter().enumerate() {
        let json = format!(r#"{{"K":{key},"@metadata":{{"@collection":"Orders"}}}}"#);
        documents.put(&format!("orders/{number}"), &json);
    }
    let kind = writing("I", ".Orders", "Sums", "by/{K}", "");
    let index = documents.open(&Platform::memory(), &kind).unwrap();
    assert!(documents.follow(&index));
    let shown = |id: &str| {
        let tx = documents.environment.read();
        let id = model::DocumentId::new(id).unwrap();
        let row = documents::get(&tx, &id).unwrap()?;
        Some(String::from_utf8(row.body().unwrap().to_json().unwrap()).unwrap())
    };
    let zero = r#"{"K":null,"Count":1,"@metadata":{"@collection":"Sums"}}"#;
    assert_eq!(shown("Sums/0/0").as_deref(), Some(zero), "nulls alone are the key 0");
    assert!(shown("by/a").is_some_and(|json| json.starts_with(r#"{"ReduceOutputs":["Sums/0/"#)));
    assert!(shown("by/b").is_some_and(|json| json.starts_with(r#"{"Mine":1"#)));
    let tx = documents.environment.read();
    let sums = model::CollectionName::new("Sums").unwrap();
    assert_eq!(documents::collection(&tx, &sums).unwrap().unwrap().documents, 3);
    let errors = index.errors().unwrap();
    let messages: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].ends_with("Field 'K' was null"), "{messages:?}");
    assert!(messages[1].contains("'by/b'"), "{messages:?}");
    assert_eq!(index.record().reduce_errors, 0);
}
