//! The difference between two documents, as a patch that turns one into the other.
//!
//! The operations are those of RFC 6902 (JSON Patch), to be applied in order; in addition to the
//! standard, each includes the `old` value. Objects are compared property by property, arrays
//! element by element between their common beginning and end; so the patch is not always the
//! shortest, but its cost is linear in the size of the documents. Metadata is part of a document
//! like anything else.

use blittable::{Array, Object, Value, equal, write_json, write_json_string};

use crate::error::DocumentError;

/// Objects or arrays that are at the same place in both documents and differ.
enum Pair<'a, 'b> {
    Objects(Object<'a>, Object<'b>),
    Arrays(Array<'a>, Array<'b>),
}

struct Patch<'a, 'b, 'o> {
    /// What is still to be compared, with its place.
    pending: Vec<(String, Pair<'a, 'b>)>,
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

/// Appends the patch that turns `old` into `new`, an array of operations.
///
/// # Errors
/// When one of them is damaged; `out` then ends in the middle of it.
pub fn write_difference(
    old: Object<'_>,
    new: Object<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DocumentError> {
    out.push(b'[');
    let mut patch = Patch { pending: Vec::new(), out, is_empty: true };
    patch.pending.push((String::new(), Pair::Objects(old, new)));
    // A list instead of recursion: documents may be nested more deeply than the stack allows.
    while let Some((place, pair)) = patch.pending.pop() {
        match pair {
            Pair::Objects(old, new) => patch.objects(&place, old, new)?,
            Pair::Arrays(old, new) => patch.arrays(&place, old, new)?,
        }
    }
    out.push(b']');
    Ok(())
}

impl<'a, 'b> Patch<'a, 'b, '_> {
    fn objects(
        &mut self,
        place: &str,
        old: Object<'a>,
        new: Object<'b>,
    ) -> Result<(), DocumentError> {
        for property in old.iter() {
            let (name, value) = property?;
            let at = below(place, name);
            match new.get(name)? {
                Some(other) => self.values(at, value, other)?,
                None => self.operation("remove", &at, None, Some(&value))?,
            }
        }
        for property in new.iter() {
            let (name, value) = property?;
            if !old.contains(name)? {
                self.operation("add", &below(place, name), Some(&value), None)?;
            }
        }
        Ok(())
    }

    fn arrays(&mut self, place: &str, old: Array<'a>, new: Array<'b>) -> Result<(), DocumentError> {
        let shorter = old.len().min(new.len());
        let mut start = 0;
        while start < shorter && are_equal(&old, start, &new, start)? {
            start += 1;
        }
        let mut end = 0;
        while end < shorter - start
            && are_equal(&old, old.len() - 1 - end, &new, new.len() - 1 - end)?
        {
            end += 1;
        }
        let (old_end, new_end) = (old.len() - end, new.len() - end);
        let both_end = old_end.min(new_end);
        // From the end, so that no index shifts before it is used.
        for index in (both_end..old_end).rev() {
            let value = element(&old, index)?;
            self.operation("remove", &below_index(place, index), None, Some(&value))?;
        }
        for index in both_end..new_end {
            let value = element(&new, index)?;
            self.operation("add", &below_index(place, index), Some(&value), None)?;
        }
        for index in start..both_end {
            let at = below_index(place, index);
            self.values(at, element(&old, index)?, element(&new, index)?)?;
        }
        Ok(())
    }

    /// Two values at the same place.
    fn values(&mut self, at: String, old: Value<'a>, new: Value<'b>) -> Result<(), DocumentError> {
        if equal(&old, &new)? {
            return Ok(());
        }
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                self.pending.push((at, Pair::Objects(old, new)));
            }
            (Value::Array(old), Value::Array(new)) => {
                self.pending.push((at, Pair::Arrays(old, new)));
            }
            (old, new) => self.operation("replace", &at, Some(&new), Some(&old))?,
        }
        Ok(())
    }

    fn operation(
        &mut self,
        name: &str,
        place: &str,
        new: Option<&Value<'_>>,
        old: Option<&Value<'_>>,
    ) -> Result<(), DocumentError> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.extend_from_slice(b"{\"op\":\"");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\",\"path\":");
        write_json_string(place, self.out);
        for (name, value) in [("value", new), ("old", old)] {
            let Some(value) = value else { continue };
            self.out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            write_json(value, self.out)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

fn are_equal(
    old: &Array<'_>,
    old_index: usize,
    new: &Array<'_>,
    new_index: usize,
) -> Result<bool, DocumentError> {
    Ok(equal(&element(old, old_index)?, &element(new, new_index)?)?)
}

fn element<'a>(array: &Array<'a>, index: usize) -> Result<Value<'a>, DocumentError> {
    let element = array.get(index)?;
    element.ok_or(DocumentError::Corrupt { detail: "an array is shorter than it says" })
}

/// The place of a property, as a JSON pointer (RFC 6901).
fn below(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn below_index(place: &str, index: usize) -> String {
    format!("{place}/{index}")
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};
    use proptest::prelude::*;
    use serde_json::{Map, Value as Json, json};

    use super::*;

    fn difference(old: &Json, new: &Json) -> Vec<Json> {
        let limits = ParseLimits::default();
        let read = |json: &Json| parse_document(json.to_string().as_bytes(), &limits).unwrap();
        let (old, new) = (read(old), read(new));
        let mut out = Vec::new();
        write_difference(old.as_view().root(), new.as_view().root(), &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    /// Applies RFC 6902 naively.
    fn apply(document: &mut Json, patch: &[Json]) {
        for operation in patch {
            let path = operation["path"].as_str().unwrap();
            let (parent, last) = path.rsplit_once('/').unwrap();
            let last = last.replace("~1", "/").replace("~0", "~");
            let value = operation.get("value").cloned();
            let parent = document.pointer_mut(parent).unwrap();
            match (operation["op"].as_str().unwrap(), parent) {
                ("add", Json::Array(array)) => array.insert(last.parse().unwrap(), value.unwrap()),
                ("remove", Json::Array(array)) => {
                    let old = array.remove(last.parse().unwrap());
                    assert_eq!(old, operation["old"]);
                }
                ("replace", Json::Array(array)) => {
                    array[last.parse::<usize>().unwrap()] = value.unwrap();
                }
                ("remove", Json::Object(object)) => {
                    assert_eq!(object.remove(&last).as_ref(), operation.get("old"));
                }
                (_, Json::Object(object)) => {
                    object.insert(last, value.unwrap());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn each_change_is_named_with_its_place_and_old_value() {
        let old =
            json!({"Name": "a", "Gone": 1, "In": {"x/y": 1, "Same": [1]}, "List": [1, 2, 3, 9]});
        let new =
            json!({"Name": "b", "In": {"x/y": 2, "Same": [1]}, "List": [1, 5, 9], "New": null});
        let expected = json!([
            {"op": "replace", "path": "/Name", "value": "b", "old": "a"},
            {"op": "remove", "path": "/Gone", "old": 1},
            {"op": "add", "path": "/New", "value": null},
            {"op": "remove", "path": "/List/2", "old": 3},
            {"op": "replace", "path": "/List/1", "value": 5, "old": 2},
            {"op": "replace", "path": "/In/x~1y", "value": 2, "old": 1}
        ]);
        assert_eq!(Json::from(difference(&old, &new)), expected);
        assert!(difference(&old, &old).is_empty());
    }

    #[test]
    fn deep_documents_need_no_stack() {
        let nested = |leaf: &str| format!("{}{leaf}{}", "{\"a\":".repeat(900), "}".repeat(900));
        let limits = ParseLimits::default();
        let read = |json: String| parse_document(json.as_bytes(), &limits).unwrap();
        let (old, new) = (read(nested("1")), read(nested("2")));
        let mut out = Vec::new();
        write_difference(old.as_view().root(), new.as_view().root(), &mut out).unwrap();
        assert!(out.ends_with(b"/a/a\",\"value\":2,\"old\":1}]"));
    }

    fn value() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            (0..4i64).prop_map(Json::from),
            "[ab~/]{0,2}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                proptest::collection::vec(("[abc~/]{1,2}", inner), 0..5).prop_map(|members| {
                    Json::Object(members.into_iter().collect::<Map<String, Json>>())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_old_into_the_new(old in value(), new in value()) {
            let (mut old, new) = (json!({"v": old}), json!({"v": new}));
            let patch = difference(&old, &new);
            apply(&mut old, &patch);
            prop_assert_eq!(old, new);
        }
    }
}
