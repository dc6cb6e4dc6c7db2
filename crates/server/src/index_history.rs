//! The definitions that indexes had, in the record of the database.
//!
//! Invariant: of each index that there is, at most [`REVISIONS_MAX`] definitions are kept, the newest
//! first; of an index that is gone none is.

use serde_json::{Map, Value, json};
use wire::database_shapes::NODE_TAG;

use crate::stored_record::section_of;

const HISTORY: &str = "IndexesHistory";
/// Definitions kept of one index.
const REVISIONS_MAX: usize = 10;

/// Notes that an index has got this definition.
pub(crate) fn add(body: &mut Map<String, Value>, name: &str, definition: Value, created: &str) {
    let indexes: Vec<String> = section_of(body, "Indexes").keys().cloned().collect();
    let history = section_of(body, HISTORY);
    history.retain(|known, _| indexes.contains(known));
    let entry = history.entry(name).or_insert_with(|| json!([]));
    if !entry.is_array() {
        *entry = json!([]);
    }
    let revisions = entry.as_array_mut().expect("it was made an array");
    let revision = json!({
        "Definition": definition, "CreatedAt": created, "Source": NODE_TAG, "RollingDeployment": {}
    });
    revisions.insert(0, revision);
    revisions.truncate(REVISIONS_MAX);
}

/// The definitions of an index, the newest first; `None` when there are none.
pub(crate) fn of<'b>(body: &'b Map<String, Value>, name: &str) -> Option<&'b Value> {
    let history = body.get(HISTORY)?.as_object()?;
    history.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_definitions_of_indexes_that_there_are_are_kept() {
        let mut body = Map::new();
        for number in 0..REVISIONS_MAX + 2 {
            section_of(&mut body, "Indexes").insert("I".to_owned(), json!({}));
            add(&mut body, "I", json!(number), "now");
        }
        let history = of(&body, "i").unwrap().as_array().unwrap();
        assert_eq!(history.len(), REVISIONS_MAX);
        assert_eq!(history[0]["Definition"], REVISIONS_MAX + 1);
        assert_eq!(of(&body, "J"), None);
        section_of(&mut body, "Indexes").remove("I");
        add(&mut body, "J", json!(1), "now");
        assert_eq!(of(&body, "I"), None);
    }
}
