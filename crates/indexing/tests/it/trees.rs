//! What can be seen of reduce keys, and of definitions without an index.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use indexing::{
    IndexKind, MapContext, ReduceItems, ReduceNode, ReduceTree, TRIAL_ITEMS, Trial, TrialFailure,
    TrialSource, source_of, try_definition,
};
use model::DocumentId;
use platform::Platform;
use script::ScriptPool;
use storage::WorkingMemory;

use crate::fixture::Documents;
use crate::results::definition;

const MAP: &str = "from o in docs.Orders select new { o.Company, o.Total }";
const REDUCE: &str = "from r in results group r by r.Company into g \
                      select new { Company = g.Key, Total = g.Sum(x => x.Total) }";

fn order(company: &str, total: i64) -> String {
    format!(r#"{{"Company":"{company}","Total":{total},"@metadata":{{"@collection":"Orders"}}}}"#)
}

fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

fn text(json: &[u8]) -> String {
    String::from_utf8(json.to_vec()).unwrap()
}

fn result_of(node: &ReduceNode) -> String {
    let results = node.results.as_ref().unwrap();
    assert_eq!(results.len(), 1);
    text(&results[0])
}

/// The shown rows below a node and the documents that they are of; how many nodes are shown.
fn shown(node: &ReduceNode) -> (Vec<(String, Option<String>)>, usize) {
    match &node.items {
        ReduceItems::Rows(rows) => {
            let rows = rows.iter().map(|row| (text(&row.data), row.source.clone()));
            (rows.collect(), 1)
        }
        ReduceItems::Nodes(nodes) => {
            nodes.iter().map(shown).fold((Vec::new(), 1), |(mut rows, count), below| {
                rows.extend(below.0);
                (rows, count + below.1)
            })
        }
    }
}

fn trees(documents: &Documents, ids: &[&str]) -> Vec<ReduceTree> {
    let index = documents.open(&Platform::memory(), &definition(&[MAP], REDUCE)).unwrap();
    assert!(documents.follow(&index));
    index.reduce_trees(&ids.iter().map(|text| id(text)).collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_small_key_is_one_node_with_its_rows() {
    let documents = Documents::new();
    documents.put("orders/1", &order("a", 1));
    documents.put("orders/2", &order("b", 2));
    documents.put("orders/3", &order("a", 3));
    assert_eq!(trees(&documents, &["nope"]), []);
    let trees = trees(&documents, &["Orders/3", "nope"]);
    let [tree] = trees.as_slice() else { panic!("{trees:?}") };
    assert_eq!(text(&tree.key), r#"{"Company":"a"}"#);
    assert_eq!((tree.is_spread, tree.depth, tree.nodes, tree.rows), (false, 1, 1, 2));
    assert_eq!(result_of(&tree.root), r#"{"Company":"a","Total":4}"#);
    let row = |total, source: Option<&str>| {
        (format!(r#"{{"Company":"a","Total":{total}}}"#), source.map(str::to_owned))
    };
    assert_eq!(shown(&tree.root).0, [row(1, None), row(3, Some("Orders/3"))]);
}

#[test]
fn a_key_of_many_rows_is_a_tree_and_a_large_one_is_shown_where_it_leads_to_a_document() {
    let documents = Documents::new();
    let put_all = |numbers: std::ops::Range<i64>| {
        numbers.for_each(|number| documents.put(&format!("o/{number}"), &order("a", number)));
    };
    put_all(0..500);
    let small = &trees(&documents, &["o/7", "o/8"])[0];
    assert_eq!((small.is_spread, small.depth, small.nodes, small.rows), (true, 2, 9, 500));
    assert_eq!(result_of(&small.root), r#"{"Company":"a","Total":124750}"#);
    let (rows, nodes) = shown(&small.root);
    assert_eq!((rows.len(), nodes), (500, 9));
    let sources: Vec<_> = rows.iter().filter_map(|(_, source)| source.as_deref()).collect();
    assert_eq!(sources, ["o/7", "o/8"]);

    put_all(500..5_000);
    let large = &trees(&documents, &["o/4999", "o/70"])[0];
    assert_eq!((large.depth, large.nodes, large.rows), (3, 79 + 2 + 1, 5_000));
    assert_eq!(result_of(&large.root), r#"{"Company":"a","Total":12497500}"#);
    let (rows, nodes) = shown(&large.root);
    assert_eq!(rows.len(), 64 + 8, "the two leaves");
    assert_eq!(nodes, 1 + 2 + 79);
    let sources: Vec<_> = rows.iter().filter_map(|(_, source)| source.as_deref()).collect();
    assert_eq!(sources, ["o/70", "o/4999"]);
}

#[test]
fn documents_with_rows_are_listed_by_prefix() {
    let documents = Documents::new();
    for number in 0..12 {
        documents.put(&format!("Orders/{number:02}"), &order("a", 1));
    }
    documents.put("other/1", &order("a", 1));
    documents.put("users/1", r#"{"@metadata":{"@collection":"Users"}}"#);
    let index = documents.open(&Platform::memory(), &definition(&[MAP], REDUCE)).unwrap();
    assert!(documents.follow(&index));
    let listed = |prefix, skip, take| index.reduced_documents(prefix, skip, take).unwrap();
    assert_eq!(listed("", 0, 100).len(), 13);
    assert_eq!(listed("orders/", 10, 100), ["orders/10", "orders/11"]);
    assert_eq!(listed("orders/", 0, 1), ["orders/00"]);
    assert_eq!(listed("users", 0, 10), [""; 0]);
}

fn tried(kind: &IndexKind, documents: &Documents, ids: &[&str]) -> Result<Trial, String> {
    let IndexKind::Static(definition) = kind else { panic!("it is no definition") };
    let scripts = ScriptPool::new(documents.platform.clock.clone());
    let ids: Vec<_> = ids.iter().map(|text| id(text)).collect();
    let context = MapContext { documents: &documents.environment.read(), values: None };
    let source = match ids.as_slice() {
        [] => TrialSource::Oldest(TRIAL_ITEMS),
        ids => TrialSource::Documents(ids),
    };
    let memory = WorkingMemory::default();
    try_definition(definition, &scripts, context, source, TrialFailure::Ends, &memory)
        .map_err(|error| error.to_string())
}

fn texts(jsons: &[Vec<u8>]) -> Vec<String> {
    jsons.iter().map(|json| text(json)).collect()
}

#[test]
fn a_definition_is_tried_on_documents() {
    let documents = Documents::new();
    for number in 0..15 {
        documents.put(&format!("orders/{number}"), &order(["a", "b"][number % 2], 1));
    }
    documents.put("users/1", r#"{"Name":"u","@metadata":{"@collection":"Users"}}"#);
    for (map, reduce) in [
        (MAP, REDUCE),
        (
            "map('Orders', o => ({ Company: o.Company, Total: o.Total }))",
            "groupBy(r => r.Company).aggregate(g => ({ Company: g.key, \
             Total: g.values.reduce((a, v) => a + v.Total, 0) }))",
        ),
    ] {
        let kind = definition(&[map], reduce);
        let trial = tried(&kind, &documents, &[]).unwrap();
        assert_eq!(trial.mapped.len(), 10, "the oldest of the collection");
        let row = |company, total| format!(r#"{{"Company":"{company}","Total":{total}}}"#);
        assert_eq!(texts(&trial.mapped[..2]), [row("a", 1), row("b", 1)]);
        assert_eq!(texts(&trial.reduced.unwrap()), [row("a", 5), row("b", 5)]);
        let trial = tried(&kind, &documents, &["orders/14", "users/1", "nope"]).unwrap();
        assert_eq!(texts(&trial.mapped), [row("a", 1)]);
    }
}

#[test]
fn a_trial_ends_with_a_document_that_becomes_too_much() {
    let documents = Documents::new();
    documents.put("orders/1", &order("a", 1));
    let map =
        "from o in docs.Orders from n in Enumerable.Range(0, 20000) select new { K = n, C = 1 }";
    let reduce =
        "from r in results group r by r.K into g select new { K = g.Key, C = g.Sum(x => x.C) }";
    let kind = definition(&[map], reduce);
    let message = tried(&kind, &documents, &[]).unwrap_err();
    assert!(message.contains("more or larger results for one document"), "{message}");
}

#[test]
fn a_trial_without_a_reduce_shows_what_is_no_plain_value_too() {
    let documents = Documents::new();
    documents.put("u/1", r#"{"N":"x","L":1.5,"@metadata":{"@collection":"Us"}}"#);
    let mut definition = model::IndexDefinition { name: "T".to_owned(), ..Default::default() };
    for (map, shown) in [
        (
            "from u in docs.Us select new { u.N, u.Nope, P = CreateSpatialField(u.L, 2), \
             _ = CreateField(\"f_\" + u.N, 3) }",
            r#"{"N":"x","P":{"Latitude":1.5,"Longitude":2.0},"f_x":3}"#,
        ),
        (
            "map('Us', u => ({ N: u.N, U: undefined, S: createSpatialField('POINT(1 2)'), \
             P: createSpatialField(u.L, 2), F: createField('f_' + u.N, 3) }))",
            r#"{"N":"x","S":"POINT(1 2)","P":{"Latitude":1.5,"Longitude":2},"f_x":3}"#,
        ),
    ] {
        definition.maps = vec![map.to_owned()];
        let kind = IndexKind::Static(Box::new(definition.clone()));
        let trial = tried(&kind, &documents, &[]).unwrap();
        assert_eq!((texts(&trial.mapped), trial.reduced), (vec![shown.to_owned()], None), "{map}");
    }
    let check = |map: &str, expected: &str| {
        let kind = IndexKind::Static(Box::new(model::IndexDefinition {
            maps: vec![map.to_owned()],
            ..definition.clone()
        }));
        let error = tried(&kind, &documents, &[]).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    check("map('Us', u => { throw new Error('boo'); })", "boo");
    check("map('Us', u => {", "Failed to compile index T");
    check("from u in docs.Us select new { A = 1 / (u.N.Length - 1) }", "division by zero");
}

#[test]
fn the_source_of_a_definition_says_what_was_understood() {
    let IndexKind::Static(definition) = definition(&[MAP], REDUCE) else { panic!("it is written") };
    let source = source_of(&definition).unwrap().unwrap();
    assert_eq!(
        source,
        format!(
            "// map of Orders; fields: Company, Total\n{MAP}\n\n\
             // reduce by Company; fields: Company, Total\n{REDUCE}"
        )
    );
}
