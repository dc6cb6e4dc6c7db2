//! What stops a whole index is among its errors.

use indexing::{Index, IndexKind, IndexingAction};
use model::{IndexDefinition, IndexState};
use platform::Platform;
use search::FIELDS_MAX;

use crate::fixture::Documents;

const FIELDS_PER_DOCUMENT: usize = 1024;
const CREATING: &str = "from d in docs.Users \
    select new { _ = d.Numbers.Select(n => CreateField(\"F\" + d.Name + \"_\" + n, n)) }";

#[test]
fn an_index_with_too_many_fields_says_so_among_its_errors() {
    let documents = Documents::new();
    let numbers = (0..FIELDS_PER_DOCUMENT).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let put = |name: usize| {
        let json = format!(
            r#"{{"Name":"{name}","Numbers":[{numbers}],"@metadata":{{"@collection":"Users"}}}}"#
        );
        documents.put(&format!("users/{name}"), &json);
    };
    put(0);
    let definition = IndexDefinition {
        name: "I".to_owned(),
        maps: [CREATING.to_owned()].into_iter().collect(),
        ..IndexDefinition::default()
    };
    let context = documents.context(&Platform::memory());
    let index = Index::open("I", IndexKind::Static(Box::new(definition)), context).unwrap();
    assert!(documents.follow(&index));
    assert_eq!((index.state(), index.error_count().unwrap()), (IndexState::Normal, 0));
    (1..=FIELDS_MAX / FIELDS_PER_DOCUMENT).for_each(put);
    assert!(!documents.follow(&index));
    assert_eq!((index.state(), index.error_count().unwrap()), (IndexState::Error, 1));
    let errors = index.errors().unwrap();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((error.action, error.document.as_str()), (IndexingAction::Write, ""));
    assert!(0 < error.ticks);
    assert_eq!(error.message, "an index has at most 16384 fields");
    assert_eq!(error.message, index.failure().unwrap().to_string());
}
