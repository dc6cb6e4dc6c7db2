//! The path of an `include`, and the ids it finds in a document.
//!
//! Also what `GET /docs?include=` means, so the server uses it there.

use blittable::{Array, Corrupt, Object, Value};

/// A parsed path such as `Company`, `Lines[].Product`, `Contacts.$Values` or `Number(crews/)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludePath {
    text: String,
    steps: Vec<Step>,
    /// Put in front of every id found: the part in parentheses.
    prefix: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Each,
    Keys,
}

impl IncludePath {
    /// Reads a path; every text is one.
    pub fn parse(text: &str) -> IncludePath {
        let (path, prefix) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((path, prefix)) => (path, Some(prefix.to_owned())),
            None => (text, None),
        };
        let mut steps = Vec::new();
        for step in path.split('.') {
            let name = step.trim_end_matches("[]");
            match name {
                "$Values" => steps.push(Step::Each),
                "$Keys" => steps.push(Step::Keys),
                name => steps.push(Step::Member(name.to_owned())),
            }
            let brackets = (step.len() - name.len()) / 2;
            steps.extend(std::iter::repeat_n(Step::Each, brackets));
        }
        IncludePath { text: text.to_owned(), steps, prefix }
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Calls `include` with every id that the path finds in `object`, in document order; an id may
    /// come more than once. Recursion is bounded by the depth of the document.
    ///
    /// # Errors
    /// When the document is damaged.
    pub fn ids(&self, object: Object<'_>, include: &mut dyn FnMut(&str)) -> Result<(), Corrupt> {
        self.follow(Value::Object(object), &self.steps, include)
    }

    fn follow(
        &self,
        value: Value<'_>,
        steps: &[Step],
        include: &mut dyn FnMut(&str),
    ) -> Result<(), Corrupt> {
        let Some((step, rest)) = steps.split_first() else { return self.found(value, include) };
        match (step, value) {
            (Step::Member(name), Value::Object(object)) => match object.get(name)? {
                Some(member) => self.follow(member, rest, include),
                None => Ok(()),
            },
            (Step::Each, Value::Object(object)) => {
                for member in object.iter() {
                    self.follow(member?.1, rest, include)?;
                }
                Ok(())
            }
            (Step::Keys, Value::Object(object)) => {
                for member in object.iter() {
                    self.include(member?.0, include);
                }
                Ok(())
            }
            (Step::Each, Value::Array(array)) => self.follow_each(array, rest, include),
            (Step::Member(_) | Step::Keys, Value::Array(array)) => {
                self.follow_each(array, steps, include)
            }
            (_, Value::Null | Value::Bool(_) | Value::Integer(_)) => Ok(()),
            (_, Value::Number(_) | Value::String(_)) => Ok(()),
        }
    }

    fn follow_each(
        &self,
        array: Array<'_>,
        steps: &[Step],
        include: &mut dyn FnMut(&str),
    ) -> Result<(), Corrupt> {
        for element in array.iter() {
            self.follow(element?, steps, include)?;
        }
        Ok(())
    }

    fn found(&self, value: Value<'_>, include: &mut dyn FnMut(&str)) -> Result<(), Corrupt> {
        match value {
            Value::String(text) => self.include(&text.as_cow()?, include),
            Value::Integer(number) => self.include(&number.to_string(), include),
            Value::Array(array) => {
                for element in array.iter() {
                    if let Value::String(text) = element? {
                        self.include(&text.as_cow()?, include);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
        Ok(())
    }

    fn include(&self, id: &str, include: &mut dyn FnMut(&str)) {
        match &self.prefix {
            _ if id.is_empty() => {}
            Some(prefix) => include(&format!("{prefix}{id}")),
            None => include(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    #[test]
    fn a_path_finds_ids_wherever_they_are() {
        let document = r#"{
            "Boat": "boats/1", "Number": 5, "None": null, "Blank": "",
            "Crew": ["people/1", null, 7, "people/2", ["people/3"]],
            "Stops": [{"Port": "ports/1"}, {}, {"Port": ["ports/2"]}],
            "ByRole": {"cook": "people/4", "mate": "people/5"},
            "Watches": {"dog": {"Id": "people/6"}}
        }"#;
        let document = parse_document(document.as_bytes(), &ParseLimits::default()).unwrap();
        let cases: [(&str, &[&str]); 12] = [
            ("Boat", &["boats/1"]),
            ("Nope.Boat", &[]),
            ("None", &[]),
            ("Blank", &[]),
            ("Number(boats/)", &["boats/5"]),
            ("Crew", &["people/1", "people/2"]),
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
}
