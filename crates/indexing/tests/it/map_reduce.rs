//! The results of applications' reduces, and how they follow changes.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use indexing::{Index, IndexKind};
use model::IndexState;
use platform::Platform;

use crate::fixture::Documents;
use crate::results::{definition, kept_by, results_of, sorted_results_of};

const BY_COMPANY: &str = "from r in results group r by r.Company into g \
                          select new { Company = g.Key, Total = g.Sum(x => x.Total), \
                                       Count = g.Sum(x => x.Count) }";
const ORDERS: &str = "from o in docs.Orders select new { o.Company, o.Total, Count = 1 }";

fn order(company: &str, total: &str) -> String {
    format!(r#"{{"Company":"{company}","Total":{total},"@metadata":{{"@collection":"Orders"}}}}"#)
}

fn open(documents: &Documents, kind: &IndexKind) -> Index {
    documents.open(&Platform::memory(), kind).unwrap()
}

#[test]
fn results_follow_documents_that_come_change_move_and_go() {
    let documents = Documents::new();
    let index = open(&documents, &definition(&[ORDERS], BY_COMPANY));
    documents.put("orders/1", &order("a", "1"));
    documents.put("orders/2", &order("b", "2"));
    documents.put("orders/3", &order("a", "3"));
    assert!(documents.follow(&index));
    let of_a = |total: &str, count| format!(r#"{{"Company":"a","Total":{total},"Count":{count}}}"#);
    let of_b = |total: &str, count| format!(r#"{{"Company":"b","Total":{total},"Count":{count}}}"#);
    assert_eq!(sorted_results_of(&index), [of_a("4", 2), of_b("2", 1)]);

    documents.put("orders/1", &order("a", "1.5"));
    assert!(documents.follow(&index));
    assert_eq!(sorted_results_of(&index), [of_a("4.5", 2), of_b("2", 1)]);

    documents.put("orders/1", &order("b", "5"));
    assert!(documents.follow(&index));
    assert_eq!(sorted_results_of(&index), [of_a("3", 1), of_b("7", 2)]);

    documents.delete("orders/3");
    assert!(documents.follow(&index));
    assert_eq!(sorted_results_of(&index), [of_b("7", 2)], "a key without rows is gone");

    documents.delete("orders/1");
    documents.delete("orders/2");
    assert!(documents.follow(&index));
    assert_eq!(results_of(&index), [""; 0]);
    assert_eq!(kept_by(&index), [0; 4]);
}

#[test]
fn a_change_in_a_large_key_reduces_a_few_nodes() {
    const ROWS: u64 = 5_000;
    let documents = Documents::new();
    let index = open(&documents, &definition(&[ORDERS], BY_COMPANY));
    (0..ROWS).for_each(|number| documents.put(&format!("orders/{number}"), &order("a", "1")));
    assert!(documents.follow(&index));
    let result = |total| format!(r#"{{"Company":"a","Total":{total},"Count":{ROWS}}}"#);
    assert_eq!(results_of(&index), [result(ROWS)]);
    // 5,000 rows, 79 nodes of 64 of them, 2 nodes of 64 of those, and the top.
    assert_eq!(kept_by(&index), [ROWS, 1, ROWS, 79 + 2 + 1]);

    let before = index.record().reduce_attempts;
    documents.put("orders/77", &order("a", "3"));
    assert!(documents.follow(&index));
    assert_eq!(index.record().reduce_attempts - before, 64);
    assert_eq!(results_of(&index), [result(ROWS + 2)]);

    let before = index.record().reduce_attempts;
    documents.put("orders/77", &order("a", "3").replacen('{', "{\"Note\":\"seen\",", 1));
    assert!(documents.follow(&index));
    assert_eq!(index.record().reduce_attempts, before, "its rows are the same");

    (0..ROWS).for_each(|number| documents.delete(&format!("orders/{number}")));
    assert!(documents.follow(&index));
    assert_eq!((results_of(&index), kept_by(&index)), (Vec::new(), [0; 4]));
}

#[test]
fn several_maps_meet_in_one_reduce_and_loaded_documents_are_followed() {
    let documents = Documents::new();
    let maps = [
        "from o in docs.Orders let c = LoadDocument(o.Company, \"Companies\") \
         select new { City = c.Name, Total = o.Total }",
        "from c in docs.Cities select new { City = c.Name, Total = 0 }",
    ];
    let reduce = "results.GroupBy(r => r.City).Select(g => new { City = g.Key, \
                  Total = Enumerable.Sum(g, x => (long) x.Total) })";
    let index = open(&documents, &definition(&maps, reduce));
    let named = |name: &str, collection: &str| {
        format!(r#"{{"Name":"{name}","@metadata":{{"@collection":"{collection}"}}}}"#)
    };
    documents.put("companies/1", &named("Oz", "Companies"));
    documents.put("cities/1", &named("Oz", "Cities"));
    documents.put("cities/2", &named("Ur", "Cities"));
    documents.put("orders/1", &order("companies/1", "7"));
    assert!(documents.follow(&index));
    assert_eq!(
        sorted_results_of(&index),
        [r#"{"City":"Oz","Total":7}"#, r#"{"City":"Ur","Total":0}"#]
    );
    documents.put("companies/1", &named("Ur", "Companies"));
    assert!(documents.follow(&index));
    assert_eq!(
        sorted_results_of(&index),
        [r#"{"City":"Oz","Total":0}"#, r#"{"City":"Ur","Total":7}"#]
    );
}

#[test]
fn scripts_map_and_reduce() {
    let documents = Documents::new();
    let map = "map('Orders', o => ({ Company: o.Company, Total: o.Total, Count: 1 }))";
    let reduce = "groupBy(r => ({ Company: r.Company })).aggregate(g => ({ \
                  Company: g.key.Company, Total: g.values.reduce((a, v) => a + v.Total, 0), \
                  Count: g.values.reduce((a, v) => a + v.Count, 0) }))";
    let index = open(&documents, &definition(&[map], reduce));
    for number in 0..200 {
        let company = if number % 4 == 0 { "a" } else { "b" };
        documents.put(&format!("orders/{number}"), &order(company, "2"));
    }
    documents.put("orders/200", &order("a", "0.5"));
    assert!(documents.follow(&index));
    assert_eq!(
        sorted_results_of(&index),
        [
            r#"{"Company":"a","Total":100.5,"Count":51}"#,
            r#"{"Company":"b","Total":300,"Count":150}"#
        ]
    );
}

#[test]
fn a_reduce_that_fails_is_an_error_of_its_key() {
    let documents = Documents::new();
    let map = "from o in docs.Orders select new { o.Company, o.Total, Share = 0 }";
    let reduce = "from r in results group r by r.Company into g let total = g.Sum(x => x.Total) \
                  select new { Company = g.Key, Total = total, Share = 100 / (total - 5) }";
    let index = open(&documents, &definition(&[map], reduce));
    for number in 0..20 {
        documents.put(&format!("orders/{number}"), &order(&format!("c{number:02}"), "7"));
    }
    documents.put("orders/3", &order("c03", "5"));
    assert!(documents.follow(&index));
    let errors = index.errors().unwrap();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].document, "Reduce key: { 'Company' : c03 }");
    assert!(errors[0].message.contains("division by zero"), "{}", errors[0].message);
    // The document that was put twice may have been reduced twice.
    let record = index.record();
    assert_eq!(record.reduce_errors, 1);
    assert!((20..=21).contains(&record.reduce_attempts), "{}", record.reduce_attempts);
    assert_eq!(results_of(&index).len(), 19);
    assert_eq!(index.state(), IndexState::Normal);

    documents.put("orders/3", &order("c03", "6"));
    assert!(documents.follow(&index));
    assert_eq!(results_of(&index).len(), 20, "it comes back when it can be computed");
}

#[test]
fn what_a_script_maps_to_undefined_is_grouped_as_null() {
    let documents = Documents::new();
    let reduce = "groupBy(r => r.Key).aggregate(g => ({ Key: g.key, N: g.values.length }))";
    for (number, json) in ["1", "null", "{}"].into_iter().enumerate() {
        let json = format!(r#"{{"Key":{json},"@metadata":{{"@collection":"Orders"}}}}"#);
        documents.put(&format!("orders/{number}"), &json);
    }
    documents.put("orders/none", r#"{"@metadata":{"@collection":"Orders"}}"#);
    for (value, expected) in [
        ("o.Nope", vec![r#"{"Key":null,"N":4}"#]),
        ("undefined", vec![r#"{"Key":null,"N":4}"#]),
        ("o.Key === 1 ? 1 : o.Key?.Deep", vec![r#"{"Key":1,"N":1}"#, r#"{"Key":null,"N":3}"#]),
    ] {
        let map = format!("map('Orders', o => ({{ Key: {value} }}))");
        let index = open(&documents, &definition(&[&map], reduce));
        assert!(documents.follow(&index));
        assert_eq!(sorted_results_of(&index), expected, "{value}");
    }
}

#[test]
fn a_failed_node_of_a_large_key_takes_the_result_away_until_it_is_mended() {
    let documents = Documents::new();
    let map = "map('Orders', o => ({ Company: o.Company, Total: o.Total }))";
    let reduce = "groupBy(r => r.Company).aggregate(g => { \
                  if (g.values.some(v => v.Total === -1)) throw new Error('bad total'); \
                  return { Company: g.key, Total: g.values.reduce((a, v) => a + v.Total, 0) }; })";
    let index = open(&documents, &definition(&[map], reduce));
    (0..300).for_each(|number| documents.put(&format!("orders/{number}"), &order("a", "1")));
    assert!(documents.follow(&index));
    let result = |total| vec![format!(r#"{{"Company":"a","Total":{total}}}"#)];
    assert_eq!(results_of(&index), result(300));
    documents.put("orders/100", &order("a", "-1"));
    assert!(documents.follow(&index));
    assert_eq!(results_of(&index), [""; 0]);
    assert_eq!(index.errors().unwrap()[0].document, "Reduce key: { 'Company' : a }");
    // Another part of the key changes: the broken node is still there.
    documents.put("orders/250", &order("a", "4"));
    assert!(documents.follow(&index));
    assert_eq!(results_of(&index), [""; 0]);
    assert_eq!(index.errors().unwrap().len(), 1);
    documents.put("orders/100", &order("a", "1"));
    assert!(documents.follow(&index));
    assert_eq!(results_of(&index), result(303));
}

/// What the errors of an index name, and its results, for 20 orders of 20 companies.
fn outcome_of(map: &str, reduce: &str) -> (Vec<(String, String)>, usize) {
    let documents = Documents::new();
    let index = open(&documents, &definition(&[map], reduce));
    for number in 0..20 {
        documents.put(&format!("orders/{number:02}"), &order(&format!("c{number:02}"), "7"));
    }
    documents.follow(&index);
    let errors = index.errors().unwrap().into_iter();
    (errors.map(|error| (error.document, error.message)).collect(), results_of(&index).len())
}

#[test]
fn a_row_without_a_field_that_the_reduce_groups_by_is_an_error_of_its_document() {
    let reduce = "groupBy(r => r.Company).aggregate(g => ({ Company: g.key, N: g.values.length }))";
    let check = |map: &str, failed: &[&str], results: usize| {
        let (errors, found) = outcome_of(map, reduce);
        let named: Vec<_> = errors.iter().map(|(document, _)| document.as_str()).collect();
        assert_eq!((named.as_slice(), found), (failed, results), "{map}");
        assert!(errors.iter().all(|(_, message)| message.contains("'Company' is missing")));
    };
    check(
        "map('Orders', o => o.Company === 'c03' ? { N: 1 } : { Company: o.Company, N: 1 })",
        &["orders/03"],
        19,
    );
    check("map('Orders', o => ({ Company: o.Nope, N: 1 }))", &[], 1);
    check("map('Orders', o => ({ Company: undefined, N: 1 }))", &[], 1);
    check("map('Orders', o => ({ Company: null, N: 1 }))", &[], 1);
}

#[test]
fn a_reduce_that_gives_no_object_is_an_error_of_its_key() {
    let map = "map('Orders', o => ({ Company: o.Company, N: 1 }))";
    for (given, said) in [
        ("g.values.length", "a number"),
        ("null", "null"),
        ("undefined", "undefined"),
        ("'text'", "a text"),
        ("[{ Company: 'x' }, true]", "a boolean"),
    ] {
        let reduce = format!(
            "groupBy(r => r.Company).aggregate(g => \
             g.key === 'c05' ? {given} : ({{ Company: g.key, N: g.values.length }}))"
        );
        let (errors, results) = outcome_of(map, &reduce);
        assert_eq!((errors.len(), results), (1, 19), "{given}");
        let (key, message) = &errors[0];
        assert_eq!(key, "Reduce key: { 'Company' : c05 }");
        assert!(message.contains(&format!("returns {said} instead")), "{message}");
    }
}

#[test]
fn a_reduce_may_give_several_results_or_none() {
    let documents = Documents::new();
    let map = "from o in docs.Orders select new { o.Company, o.Total }";
    let each = "from r in results group r by r.Company into g from x in g \
                select new { Company = g.Key, Total = x.Total }";
    let large = "from r in results where r.Total > 2 group r by r.Company into g \
                 select new { Company = g.Key, Total = g.Sum(x => x.Total) }";
    let each = open(&documents, &definition(&[map], each));
    let large = open(&documents, &definition(&[map], large));
    for (number, (company, total)) in [("a", "1"), ("a", "2"), ("b", "3")].iter().enumerate() {
        documents.put(&format!("orders/{number}"), &order(company, total));
    }
    assert!(documents.follow(&each) && documents.follow(&large));
    let row = |company, total| format!(r#"{{"Company":"{company}","Total":{total}}}"#);
    assert_eq!(sorted_results_of(&each), [row("a", 1), row("a", 2), row("b", 3)]);
    assert_eq!(results_of(&large), [row("b", 3)]);
    documents.delete("orders/2");
    assert!(documents.follow(&each) && documents.follow(&large));
    assert_eq!(sorted_results_of(&each), [row("a", 1), row("a", 2)]);
    assert_eq!(results_of(&large), [""; 0]);
}

#[test]
fn definitions_that_do_not_fit_together_are_refused() {
    for (map, reduce, part) in [
        (ORDERS, "from r in results select new { r.Company }", "groups"),
        (
            ORDERS,
            "from r in results group r by r.Company into g select new { Company = g.Key }",
            "same fields",
        ),
        (ORDERS, "groupBy(r => r.Company).aggregate(g => ({ Company: g.key }))", "index"),
        ("map('Orders', o => ({ A: 1 }))", "results.GroupBy(r => r.A)", "reduce"),
    ] {
        let documents = Documents::new();
        let kind = definition(&[map], reduce);
        let context = documents.context(&Platform::memory());
        let error = Index::open("I", kind, context).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}
