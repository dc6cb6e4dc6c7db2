//! Documents that are deleted and recreated in another collection while an index is paused.

use platform::Platform;

use crate::{
    fixture::Documents,
    results::{definition, sorted_results_of},
};

fn body(collection: &str) -> String {
    format!(r#"{{"X":1,"@metadata":{{"@collection":"{collection}"}}}}"#)
}

#[test]
fn an_index_forgets_what_is_in_another_collection_now() {
    let reduce = "from r in results group r by r.N into g select new { N = g.Key }";
    let map = |collection| format!("from d in docs.{collection} select new {{ N = d.X }}");
    let (of_d, of_e) = (map("D"), map("E"));
    let cases: [(&[&str], [usize; 3]); 3] =
        [(&[&of_d], [0, 1, 0]), (&[&of_e], [1, 0, 0]), (&[&of_d, &of_e], [1, 1, 0])];
    for (maps, expected) in cases {
        let documents = Documents::new();
        let kind = definition(maps, reduce);
        let platform = Platform::memory();
        documents.put("d/1", &body("D"));
        for (then, expected) in
            [vec!["E"], vec!["E", "D"], vec!["E", "D", "F"]].iter().zip(expected)
        {
            let index = documents.open(&platform, &kind).expect("opens");
            assert!(documents.follow(&index));
            index.close();
            for collection in then {
                documents.delete("d/1");
                documents.put("d/1", &body(collection));
            }
            let index = documents.open(&platform, &kind).expect("opens");
            assert!(documents.follow(&index));
            assert_eq!(sorted_results_of(&index).len(), expected, "{maps:?} {then:?}");
            index.close();
        }
    }
}
