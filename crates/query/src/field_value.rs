//! What a path finds in a document, as projections show it.
//!
//! A step without brackets goes through arrays element by element and leaves out the elements that
//! lack the member; a step `[]` keeps their places with `null` and lays nested arrays flat.

use blittable::{Array, Corrupt, Object, Value, write_json};
use rql::PathStep;

/// What was found.
pub(crate) enum Found<'a> {
    /// Nothing.
    Missing,
    /// A value of the document.
    One(Value<'a>),
    /// What was found in the elements of an array.
    List(Vec<Found<'a>>),
    /// The length of an array or text.
    Length(usize),
}

/// Follows `steps` from `object`. Recursion is bounded by the depth of the document.
pub(crate) fn find<'a>(object: Object<'a>, steps: &[PathStep]) -> Result<Found<'a>, Corrupt> {
    find_in(Value::Object(object), steps)
}

fn find_in<'a>(value: Value<'a>, steps: &[PathStep]) -> Result<Found<'a>, Corrupt> {
    let Some((step, rest)) = steps.split_first() else { return Ok(Found::One(value)) };
    match (step, value) {
        (PathStep::Each, Value::Array(array)) => find_in_each(array, rest),
        (PathStep::Each, Value::Object(object)) => find_in_members(object, rest),
        (PathStep::Each, _) => Ok(Found::Missing),
        (PathStep::Name { name, .. }, value) => find_member(value, name, steps, rest),
        // An index is a name like any other: no array has such a member.
        (PathStep::Index(index), value) => find_member(value, &index.to_string(), steps, rest),
    }
}

fn find_member<'a>(
    value: Value<'a>,
    name: &str,
    steps: &[PathStep],
    rest: &[PathStep],
) -> Result<Found<'a>, Corrupt> {
    match value {
        Value::Object(object) => match object.get(name)? {
            Some(member) => find_in(member, rest),
            None => Ok(Found::Missing),
        },
        Value::Array(array) if is_length(name, rest) => Ok(Found::Length(array.len())),
        Value::Array(array) => {
            let mut found = Vec::new();
            for element in array.iter() {
                match find_in(element?, steps)? {
                    Found::Missing => {}
                    there => found.push(there),
                }
            }
            Ok(Found::List(found))
        }
        Value::String(text) if is_length(name, rest) => {
            Ok(Found::Length(text.as_cow()?.encode_utf16().count()))
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) => {
            Ok(Found::Missing)
        }
    }
}

fn is_length(name: &str, rest: &[PathStep]) -> bool {
    rest.is_empty() && matches!(name, "Length" | "Count")
}

fn find_in_each<'a>(array: Array<'a>, rest: &[PathStep]) -> Result<Found<'a>, Corrupt> {
    let mut found = Vec::new();
    for element in array.iter() {
        push_flat(&mut found, find_in(element?, rest)?)?;
    }
    Ok(Found::List(found))
}

/// `[]` on an object goes through the values that are objects themselves.
fn find_in_members<'a>(object: Object<'a>, rest: &[PathStep]) -> Result<Found<'a>, Corrupt> {
    let mut found = Vec::new();
    for member in object.iter() {
        let (_, value) = member?;
        if value.as_object().is_some() {
            push_flat(&mut found, find_in(value, rest)?)?;
        }
    }
    Ok(if found.is_empty() { Found::Missing } else { Found::List(found) })
}

fn push_flat<'a>(found: &mut Vec<Found<'a>>, next: Found<'a>) -> Result<(), Corrupt> {
    match next {
        Found::List(list) => found.extend(list),
        Found::One(Value::Array(array)) => {
            for element in array.iter() {
                found.push(Found::One(element?));
            }
        }
        Found::Missing => found.push(Found::One(Value::Null)),
        single => found.push(single),
    }
    Ok(())
}

impl Found<'_> {
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Found::Missing)
    }

    /// Appends what was found as JSON; nothing is `null`.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        match self {
            Found::Missing => out.extend_from_slice(b"null"),
            Found::One(value) => write_json(value, out)?,
            Found::Length(length) => out.extend_from_slice(length.to_string().as_bytes()),
            Found::List(list) => {
                out.push(b'[');
                for (number, found) in list.iter().enumerate() {
                    if 0 < number {
                        out.push(b',');
                    }
                    found.write_json(out)?;
                }
                out.push(b']');
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};
    use rql::{Expression, parse};

    use super::*;

    const DOCUMENT: &str = r#"{
        "Name": "Ann", "Hull": {"Length": 9, "Mast": {"Height": 12.50}},
        "Stops": [{"Port": "p/1"}, {"Wind": 3}, {"Port": ["p/2", "p/3"]}],
        "Tags": ["a", null, ["b"]], "Crew": {"one": {"Id": "c/1"}, "two": {"Id": "c/2"}},
        "Names": {"one": "x"}, "Empty": null
    }"#;

    #[test]
    fn a_path_finds_what_a_projection_shows() {
        let document = parse_document(DOCUMENT.as_bytes(), &ParseLimits::default()).unwrap();
        for (path, expected) in [
            ("Name", "\"Ann\""),
            ("Hull.Mast", r#"{"Height":12.50}"#),
            ("Hull.Mast.Height", "12.50"),
            ("Hull.Length", "9"),
            ("Hull.Keel", "missing"),
            ("Name.x", "missing"),
            ("Empty", "null"),
            ("Stops[].Port", r#"["p/1",null,"p/2","p/3"]"#),
            ("Stops.Port", r#"["p/1",["p/2","p/3"]]"#),
            ("Stops.Nope", "[]"),
            ("Stops[].Nope", "[null,null,null]"),
            ("Stops[0].Port", "[]"),
            ("Stops.Length", "3"),
            ("Stops.Count", "3"),
            ("Name.Length", "3"),
            ("Tags", r#"["a",null,["b"]]"#),
            ("Tags.x", "[[]]"),
            ("Crew[].Id", r#"["c/1","c/2"]"#),
            ("Names[].Id", "missing"),
            ("'Name'", "\"Ann\""),
        ] {
            let query = parse(&format!("from C where {path} = 1")).unwrap();
            let Some(Expression::Compare { left, .. }) = &query.condition else { panic!("{path}") };
            let Expression::Field(field) = left.as_ref() else { panic!("{path}") };
            let found = find(document.as_view().root(), &field.steps).unwrap();
            let mut json = Vec::new();
            match found.is_missing() {
                true => json.extend_from_slice(b"missing"),
                false => found.write_json(&mut json).unwrap(),
            }
            assert_eq!(String::from_utf8(json).unwrap(), expected, "{path}");
        }
    }
}
