//! The path of a field inside documents, `Address.City` or `Lines[].Product`, and what it finds.
//!
//! A step without brackets visits the elements of arrays and skips those that lack the member; a
//! step `[]` keeps their places as `null` and flattens nested arrays. Projections return the values
//! found; automatic indexes index them.

use blittable::{Array, Corrupt, Object, Value, write_json};

/// A path from the root of a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldPath {
    steps: Vec<FieldStep>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldStep {
    /// The member of that name. A number is a name like any other: no array has such a member.
    Member(String),
    /// `[]`: every element of an array.
    Each,
}

/// The values that a path found.
#[derive(Debug)]
pub enum Found<'a> {
    /// Nothing.
    Missing,
    /// A value of the document.
    One(Value<'a>),
    /// The values found in the elements of an array.
    List(Vec<Found<'a>>),
    /// The length of an array or text.
    Length(usize),
}

/// The maximum depth of arrays inside arrays; values below it are not found. Members of objects do
/// not count.
const NESTED_ARRAYS_MAX: u32 = 64;

impl FieldPath {
    /// The path with these steps.
    pub fn new(steps: Vec<FieldStep>) -> Self {
        Self { steps }
    }

    /// Parses `Lines[].Product`. A name cannot contain a dot; see [`FieldPath::new`] for one that
    /// does.
    pub fn parse(text: &str) -> Self {
        let mut steps = Vec::new();
        for part in text.split('.') {
            let name = part.trim_end_matches("[]");
            steps.push(FieldStep::Member(name.to_owned()));
            let brackets = (part.len() - name.len()) / "[]".len();
            steps.extend(std::iter::repeat_n(FieldStep::Each, brackets));
        }
        Self { steps }
    }

    /// The steps from the root on.
    pub fn steps(&self) -> &[FieldStep] {
        &self.steps
    }

    /// The path as [`FieldPath::parse`] reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            match step {
                FieldStep::Each => text.push_str("[]"),
                FieldStep::Member(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
            }
        }
        text
    }

    /// Follows the path from `object`.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] when the document is damaged.
    pub fn find<'a>(&self, object: Object<'a>) -> Result<Found<'a>, Corrupt> {
        find_in(Value::Object(object), &self.steps, 0)
    }
}

/// Follows members in a loop and arrays by recursion; `depth` counts the recursion so far.
fn find_in<'a>(
    mut value: Value<'a>,
    mut steps: &[FieldStep],
    depth: u32,
) -> Result<Found<'a>, Corrupt> {
    while let Some((step, rest)) = steps.split_first() {
        let name = match step {
            FieldStep::Member(name) => name.as_str(),
            FieldStep::Each => return find_in_all(value, rest, depth),
        };
        match value {
            Value::Object(object) => match object.get(name)? {
                Some(member) => (value, steps) = (member, rest),
                None => return Ok(Found::Missing),
            },
            Value::Array(array) if is_length(name, rest) => {
                return Ok(Found::Length(array.len()));
            }
            Value::String(text) if is_length(name, rest) => {
                return Ok(Found::Length(text.as_cow()?.encode_utf16().count()));
            }
            Value::Array(array) => return find_in_elements(array, steps, depth),
            Value::String(_) | Value::Number(_) => return Ok(Found::Missing),
            Value::Null | Value::Bool(_) | Value::Integer(_) => return Ok(Found::Missing),
        }
    }
    Ok(Found::One(value))
}

/// Applies a step without brackets to an array.
fn find_in_elements<'a>(
    array: Array<'a>,
    steps: &[FieldStep],
    depth: u32,
) -> Result<Found<'a>, Corrupt> {
    if depth == NESTED_ARRAYS_MAX {
        return Ok(Found::Missing);
    }
    let mut found = Vec::new();
    for element in array.iter() {
        match find_in(element?, steps, depth + 1)? {
            Found::Missing => {}
            there => found.push(there),
        }
    }
    Ok(Found::List(found))
}

fn is_length(name: &str, rest: &[FieldStep]) -> bool {
    rest.is_empty() && matches!(name, "Length" | "Count")
}

/// Applies a step `[]`. On an object it visits the values that are objects themselves.
fn find_in_all<'a>(value: Value<'a>, rest: &[FieldStep], depth: u32) -> Result<Found<'a>, Corrupt> {
    if depth == NESTED_ARRAYS_MAX {
        return Ok(Found::Missing);
    }
    let mut found = Vec::new();
    match value {
        Value::Array(array) => {
            for element in array.iter() {
                push_flat(&mut found, find_in(element?, rest, depth + 1)?)?;
            }
            return Ok(Found::List(found));
        }
        Value::Object(object) => {
            for member in object.iter() {
                let (_, value) = member?;
                if value.as_object().is_some() {
                    push_flat(&mut found, find_in(value, rest, depth + 1)?)?;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) | Value::String(_) => {}
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
    /// Whether nothing was found.
    pub fn is_missing(&self) -> bool {
        matches!(self, Found::Missing)
    }

    /// Appends the values found as JSON; `null` when nothing was found.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] when the document is damaged; `out` then ends in the middle of it.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
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
    use super::*;
    use blittable::{ParseLimits, parse_document};

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
            ("Stops.0.Port", "[]"),
            ("Stops.Length", "3"),
            ("Stops.Count", "3"),
            ("Name.Length", "3"),
            ("Tags", r#"["a",null,["b"]]"#),
            ("Tags.x", "[[]]"),
            ("Crew[].Id", r#"["c/1","c/2"]"#),
            ("Names[].Id", "missing"),
        ] {
            let found = FieldPath::parse(path).find(document.as_view().root()).unwrap();
            let mut json = Vec::new();
            match found.is_missing() {
                true => json.extend_from_slice(b"missing"),
                false => found.write_json(&mut json).unwrap(),
            }
            assert_eq!(String::from_utf8(json).unwrap(), expected, "{path}");
        }
    }

    /// What `path` finds in the deepest document that may be stored, as JSON.
    fn found_in_the_deepest(path: &str, open: &str, close: &str) -> String {
        let depth = ParseLimits::default().depth_max - 1;
        let json = format!(r#"{{"A":{}1{}}}"#, open.repeat(depth), close.repeat(depth));
        let document = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let mut printed = Vec::new();
        let found = FieldPath::parse(path).find(document.as_view().root()).unwrap();
        found.write_json(&mut printed).unwrap();
        String::from_utf8(printed).unwrap()
    }

    #[test]
    fn the_deepest_document_is_followed_without_deep_recursion() {
        let deep_path = format!("A{}", ".x".repeat(ParseLimits::default().depth_max - 1));
        assert_eq!(found_in_the_deepest(&deep_path, r#"{"x":"#, "}"), "1");
        let levels = NESTED_ARRAYS_MAX as usize;
        let lists = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(found_in_the_deepest("A.x", "[", "]"), lists);
        // Brackets lay one level flat.
        let flat = &lists[1..lists.len() - 1];
        assert_eq!(found_in_the_deepest("A[].x", "[", "]"), flat);
    }
}
