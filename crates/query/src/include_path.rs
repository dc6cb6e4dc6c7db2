//! The path of an `include`, and the ids it finds in a document.
//!
//! `GET /docs?include=` has the same semantics, so the server uses this module for it.

use blittable::{Corrupt, Object, Value, write_json};

/// Maximum nesting of arrays that a path follows; deeper values are not included.
const NESTED_ARRAYS_MAX: u32 = 64;

/// A parsed path such as `Company`, `Lines[].Product`, `Contacts.$Values` or `Number(crews/)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludePath {
    text: String,
    steps: Vec<Step>,
    affix: Affix,
}

/// How the strings that a path finds become ids.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Affix {
    /// They are ids as they are.
    None,
    /// They are ids, and so are they with this prefix: the part in parentheses, as in
    /// `Number(crews/)`.
    Prefix(String),
    /// They are ids, and so are they with this suffix: `[{0}/x]` appends `/x`.
    Suffix(String),
    /// The affix is malformed and finds nothing.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    /// `[]`: the elements of an array, the values of an object, or a single value itself.
    Each,
    Values,
    Keys,
}

impl IncludePath {
    /// Parses a path; every string is one.
    pub fn parse(text: &str) -> IncludePath {
        let (path, affix) = split_affix(text);
        let mut steps = Vec::new();
        for step in path.split('.') {
            let name = step.trim_end_matches("[]");
            match name {
                "$Values" => steps.push(Step::Values),
                "$Keys" => steps.push(Step::Keys),
                name => steps.push(Step::Member(name.to_owned())),
            }
            let brackets = (step.len() - name.len()) / 2;
            steps.extend(std::iter::repeat_n(Step::Each, brackets));
        }
        IncludePath { text: text.to_owned(), steps, affix }
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Calls `include` with every id that the path finds in `object`, in document order; an id may
    /// occur more than once.
    ///
    /// # Errors
    /// When the document is damaged.
    pub fn ids(&self, object: Object<'_>, include: &mut dyn FnMut(&str)) -> Result<(), Corrupt> {
        match self.affix {
            Affix::Nothing => Ok(()),
            _ => follow(Value::Object(object), &self.steps, &self.affix, 0, include),
        }
    }
}

/// Follows members in a loop and arrays by recursion, `depth` of them so far. What is found in an
/// array without brackets, or after `$Values`, is an id without the affix only.
fn follow(
    mut value: Value<'_>,
    mut steps: &[Step],
    affix: &Affix,
    depth: u32,
    include: &mut dyn FnMut(&str),
) -> Result<(), Corrupt> {
    while let Some((step, rest)) = steps.split_first() {
        let affix = if *step == Step::Each { affix } else { &Affix::None };
        match (step, value) {
            (Step::Member(name), Value::Object(object)) => match object.get(name)? {
                Some(member) => (value, steps) = (member, rest),
                None => return Ok(()),
            },
            (Step::Keys, Value::Object(object)) => {
                return object.iter().try_for_each(|member| {
                    Affix::None.include(member?.0, include);
                    Ok(())
                });
            }
            _ if depth == NESTED_ARRAYS_MAX => return Ok(()),
            (Step::Each | Step::Values, Value::Object(object)) => {
                return object
                    .iter()
                    .try_for_each(|member| follow(member?.1, rest, affix, depth + 1, include));
            }
            (_, Value::Array(array)) => {
                let is_each = matches!(step, Step::Each | Step::Values);
                let steps = if is_each { rest } else { steps };
                return array
                    .iter()
                    .try_for_each(|element| follow(element?, steps, affix, depth + 1, include));
            }
            (Step::Each, _) => steps = rest,
            _ => return Ok(()),
        }
    }
    found(value, affix, include)
}

fn found(value: Value<'_>, affix: &Affix, include: &mut dyn FnMut(&str)) -> Result<(), Corrupt> {
    match value {
        Value::Array(array) => {
            array.iter().try_for_each(|element| found_one(element?, affix, include))
        }
        single => found_one(single, affix, include),
    }
}

fn found_one(
    value: Value<'_>,
    affix: &Affix,
    include: &mut dyn FnMut(&str),
) -> Result<(), Corrupt> {
    match value {
        Value::String(text) => affix.include(&text.as_cow()?, include),
        Value::Integer(_) | Value::Number(_) | Value::Bool(_) => {
            let mut json = Vec::new();
            write_json(&value, &mut json)?;
            affix.include(&String::from_utf8_lossy(&json), include);
        }
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
    Ok(())
}

impl Affix {
    fn include(&self, id: &str, include: &mut dyn FnMut(&str)) {
        if id.is_empty() {
            return;
        }
        include(id);
        match self {
            Affix::Prefix(prefix) => include(&format!("{prefix}{id}")),
            Affix::Suffix(suffix) => include(&format!("{id}{suffix}")),
            Affix::None | Affix::Nothing => {}
        }
    }
}

/// The placeholder of the found string in a suffix.
const PLACE: &str = "{0}";

/// The path without its affix, and the affix. A prefix counts only if it ends with a slash; a
/// suffix only if a slash follows the placeholder. Shorter brackets, such as an index, are ignored.
fn split_affix(text: &str) -> (&str, Affix) {
    if let Some((path, prefix)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        return match prefix {
            _ if path.ends_with("[]") => (path, Affix::Nothing),
            prefix if prefix.ends_with('/') => (path, Affix::Prefix(prefix.to_owned())),
            _ => (path, Affix::None),
        };
    }
    let Some((path, suffix)) = text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) else {
        return (text, Affix::None);
    };
    match suffix.strip_prefix(PLACE) {
        _ if suffix.is_empty() => (text, Affix::None),
        Some(suffix) if suffix.starts_with('/') => (path, Affix::Suffix(suffix.to_owned())),
        _ if suffix.len() < PLACE.len() => (path, Affix::None),
        _ => (path, Affix::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    #[test]
    fn a_path_finds_ids_wherever_they_are() {
        let document = r#"{
            "Boat": "boats/1", "Number": 5, "Fast": true, "Length": 1.50, "Numbers": [5, "6"], "None": null, "Blank": "",
            "Crew": ["people/1", null, 7, "people/2", ["people/3"]],
            "Stops": [{"Port": "ports/1"}, {}, {"Port": ["ports/2"]}],
            "ByRole": {"cook": "people/4", "mate": "people/5"},
            "Watches": {"dog": {"Id": "people/6"}}
        }"#;
        let document = parse_document(document.as_bytes(), &ParseLimits::default()).unwrap();
        let cases: [(&str, &[&str]); 28] = [
            ("Boat", &["boats/1"]),
            ("Nope.Boat", &[]),
            ("None", &[]),
            ("Blank", &[]),
            ("Number(boats/)", &["5", "boats/5"]),
            ("Number(boats)", &["5"]),
            ("Fast", &["true"]),
            ("Length", &["1.50"]),
            ("Numbers", &["5", "6"]),
            ("Numbers[]", &["5", "6"]),
            ("Numbers(boats/)", &["5", "boats/5", "6", "boats/6"]),
            ("Numbers[](boats/)", &[]),
            ("Stops[].Port(x/)", &["ports/1", "x/ports/1", "ports/2", "x/ports/2"]),
            ("Stops.Port(x/)", &["ports/1", "ports/2"]),
            ("ByRole.$Values(x/)", &["people/4", "people/5"]),
            ("Boat[]", &["boats/1"]),
            ("Number[{0}/x]", &["5", "5/x"]),
            ("Number[{0}-x]", &[]),
            ("Number[{0}]", &[]),
            ("Boat[0]", &["boats/1"]),
            ("Numbers[{0}/x/y]", &["5", "5/x/y", "6", "6/x/y"]),
            ("Crew", &["people/1", "7", "people/2"]),
            ("Stops[].Port", &["ports/1", "ports/2"]),
            ("Stops.Port", &["ports/1", "ports/2"]),
            ("ByRole.$Values", &["people/4", "people/5"]),
            ("ByRole.$Keys", &["cook", "mate"]),
            ("Watches[].Id", &["people/6"]),
            ("Watches", &[]),
        ];
        for (path, expected) in cases {
            let mut ids = Vec::new();
            let mut include = |id: &str| ids.push(id.to_owned());
            IncludePath::parse(path).ids(document.as_view().root(), &mut include).unwrap();
            assert_eq!(ids, expected, "{path}");
        }
    }

    #[test]
    fn the_deepest_document_is_followed_without_deep_recursion() {
        let depth = ParseLimits::default().depth_max - 1;
        let levels = NESTED_ARRAYS_MAX as usize;
        let deep_path = format!("A{}", ".x".repeat(depth));
        for (path, open, close, depth, expected) in [
            (deep_path.as_str(), r#"{"x":"#, "}", depth, 1),
            ("A.x", "[", "]", levels, 1),
            ("A.x", "[", "]", levels + 1, 0),
            ("A.x", "[", "]", depth - 1, 0),
        ] {
            let inner = if open == "[" { r#"{"x":"b/1"}"# } else { r#""b/1""# };
            let json = format!(r#"{{"A":{}{inner}{}}}"#, open.repeat(depth), close.repeat(depth));
            let document = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
            let mut count = 0;
            let mut include = |_: &str| count += 1;
            IncludePath::parse(path).ids(document.as_view().root(), &mut include).unwrap();
            assert_eq!(count, expected, "{open} {depth}");
        }
    }
}
