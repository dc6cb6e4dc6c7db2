//! The documents of the tables, a host over them, and outputs as the terms of an index.

use std::collections::BTreeSet;

use blittable::{BlittableBuf, ObjectBuilder, ParseLimits, parse_document, write_json};
use linq::{
    AttachmentInput, Budget, DocumentInput, EvaluationError, FieldIndexing, Host, HostError, Map,
    Output, Reduce, SourceKind, SpatialValue, Tracking, Value, put_value,
};

const FIRST: &str = r#"{"Name":"John Smith","Age":30,"Price":2.5,"Dec":10.10,"Null":null,"Empty":"",
"Active":true,"Date":"2020-03-05T10:20:30.1230000Z","DateL":"2020-03-05T10:20:30",
"Tags":["a","B",null],"Lines":[{"P":"x","Q":2,"Pr":1.5},{"P":"y","Q":3,"Pr":2}],
"Addr":{"City":"Oz","Geo":{"Lat":10.5,"Lng":20.25}},"Dict":{"k1":1,"k2":"v2"},"Ref":"r/1",
"Refs":["r/1","r/2","r/nope"],
"Children":[{"Name":"c1","Children":[{"Name":"c11","Children":[]}]},{"Name":"c2"}],
"Span":"01:02:03","Guid":"f3a0c0de-0000-0000-0000-000000000001","Num":"42",
"Big":9007199254740993,"WKT":"POINT(20 10)","Nest":[[1,2],[3]],
"@metadata":{"@collection":"Docs","Foo":"bar"}}"#;
const SECOND: &str =
    r#"{"Name":null,"Age":7,"Tags":[],"Lines":[],"@metadata":{"@collection":"Docs"}}"#;
/// What the measured tables have beyond the others.
const MORE: &str = r#""False":false,"Off":"2020-03-05T10:20:30.5+02:00","DateOnly":"2020-03-05","Nums":[3,1,2],"Dbls":[1.5,2.25],"Mixed":[1,"a",2.5,null,true],"Neg":-7.25,"E":1e3,"Huge":123456789012345678901234567890,"Whole":2.0,"Parent":null,"Uni":"ÄÖü ß","Time":"12:30","Day":"1.02:03:04""#;
const LAST_MODIFIED_TICKS: i64 = 639_000_000_000_000_000;

/// A document of a test.
pub(crate) struct TestDocument {
    pub(crate) id: &'static str,
    pub(crate) body: BlittableBuf,
}

impl TestDocument {
    pub(crate) fn new(id: &'static str, json: &str) -> TestDocument {
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        TestDocument { id, body }
    }

    pub(crate) fn input(&self) -> DocumentInput<'_> {
        DocumentInput {
            id: self.id,
            body: self.body.as_view().root(),
            change_vector: "A:1-AAAAAAAAAAAAAAAAAAAAAA",
            last_modified_ticks: LAST_MODIFIED_TICKS,
        }
    }

    fn collection(&self) -> String {
        let metadata = self.body.as_view().root().get_object("@metadata").unwrap();
        metadata.unwrap().get_str("@collection").unwrap().unwrap().into_owned()
    }
}

/// The documents of the tables: two of `Docs` and two of `Refs`.
pub(crate) struct Fixture {
    pub(crate) documents: Vec<TestDocument>,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let reference = |title: &str, n: i64| {
            format!(r#"{{"Title":"{title}","N":{n},"@metadata":{{"@collection":"Refs"}}}}"#)
        };
        Fixture {
            documents: vec![
                TestDocument::new("d/1", FIRST),
                TestDocument::new("d/2", SECOND),
                TestDocument::new("r/1", &reference("Ref One", 5)),
                TestDocument::new("r/2", &reference("Ref Two", 6)),
            ],
        }
    }

    /// One document that has an attachment.
    pub(crate) fn with_photo() -> Fixture {
        let json = r#"{"Title":"Tree","@metadata":{"@collection":"Photos","@attachments":
            [{"Name":"photo.jpg","Hash":"h","ContentType":"image/jpeg","Size":7}]}}"#;
        Fixture { documents: vec![TestDocument::new("p/1", json)] }
    }

    /// The documents of the measured tables, where the first one has more properties.
    pub(crate) fn measured() -> Fixture {
        let mut fixture = Fixture::new();
        let (before, metadata) = FIRST.split_once("\"@metadata\"").unwrap();
        let first = format!("{before}{MORE},\"@metadata\"{metadata}");
        fixture.documents[0] = TestDocument::new("d/1", &first);
        let own_id = r#"{"Id":"own","id":"lower","@metadata":{"@collection":"Ids"}}"#;
        fixture.documents.push(TestDocument::new("i/1", own_id));
        fixture
    }

    pub(crate) fn host(&self) -> FixtureHost<'_> {
        FixtureHost { documents: &self.documents, asked: Vec::new() }
    }

    /// The documents that a map reads.
    pub(crate) fn sources(&self, map: &Map) -> impl Iterator<Item = &TestDocument> {
        let collections: Vec<String> =
            map.collections().iter().map(|name| name.to_lowercase()).collect();
        self.documents.iter().filter(move |document| {
            let is_of = |name: &String| *name == document.collection().to_lowercase();
            let reads = collections.is_empty() || collections.iter().any(is_of);
            reads && map.source_kind() == SourceKind::Documents
        })
    }
}

/// Answers from the documents of the fixture.
pub(crate) struct FixtureHost<'a> {
    documents: &'a [TestDocument],
    pub(crate) asked: Vec<String>,
}

impl<'a> Host<'a> for FixtureHost<'a> {
    fn load_document(
        &mut self,
        id: &str,
        collection: &str,
        _: Tracking,
    ) -> Result<Option<DocumentInput<'a>>, HostError> {
        self.asked.push(id.to_owned());
        let found = self.documents.iter().find(|document| {
            document.id.eq_ignore_ascii_case(id)
                && document.collection().eq_ignore_ascii_case(collection)
        });
        Ok(found.map(TestDocument::input))
    }

    fn counter_names(&mut self, id: &str) -> Result<Vec<&'a str>, HostError> {
        Ok(if id == "r/1" { vec!["Likes", "Views"] } else { Vec::new() })
    }

    fn time_series_names(&mut self, id: &str) -> Result<Vec<&'a str>, HostError> {
        Ok(if id == "r/1" { vec!["Heartrate"] } else { Vec::new() })
    }

    fn attachment(
        &mut self,
        id: &str,
        name: &str,
    ) -> Result<Option<AttachmentInput<'a>>, HostError> {
        let mut found = self.attachments(id)?.into_iter();
        Ok(found.find(|attachment| attachment.name.eq_ignore_ascii_case(name)))
    }

    fn attachment_content(&mut self, hash: &str) -> Result<Option<Vec<u8>>, HostError> {
        Ok((hash == "h").then(|| b"picture".to_vec()))
    }

    fn attachments(&mut self, id: &str) -> Result<Vec<AttachmentInput<'a>>, HostError> {
        let attachment = |name, hash: &str, size| {
            let hash = hash.to_owned();
            AttachmentInput { name, hash, content_type: "image/jpeg", size }
        };
        let large = attachment("large", "l", i64::MAX);
        let photo = attachment("photo.jpg", "h", 7);
        Ok(if id == "p/1" { vec![large, photo] } else { Vec::new() })
    }

    fn compare_exchange_value(
        &mut self,
        key: &str,
    ) -> Result<Option<blittable::Value<'a>>, HostError> {
        match key {
            "known" => Ok(Some(blittable::Value::Integer(8))),
            "broken" => Err("the store is closed".into()),
            _ => Ok(None),
        }
    }
}

/// The outputs of a map for one document, each through `show`.
pub(crate) fn outputs<'a, T>(
    map: &'a Map,
    document: &'a TestDocument,
    host: &mut dyn Host<'a>,
    mut show: impl FnMut(Output<'_, 'a>) -> T,
) -> Result<Vec<T>, EvaluationError> {
    let mut shown = Vec::new();
    map.evaluate(&document.input(), host, &Budget::default(), &mut |output| {
        shown.push(show(output));
    })?;
    Ok(shown)
}

/// The terms of a value, in lower case, as the entries of an index show them: one, or a sorted
/// list, or a word for none.
pub(crate) fn terms(value: &Value<'_>) -> String {
    if matches!(value, Value::Missing) {
        return "∅".to_owned();
    }
    let mut all = BTreeSet::new();
    if !add_terms(value, &mut all) {
        return all.pop_first().unwrap_or_default();
    }
    match all.len() {
        0 => "(entry, no field)".to_owned(),
        1 => all.pop_first().unwrap(),
        _ => format!("[{}]", all.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// Adds the terms of a value; `true` when it is a sequence.
fn add_terms(value: &Value<'_>, all: &mut BTreeSet<String>) -> bool {
    let term = match value {
        Value::Missing => return false,
        Value::Array(array) => {
            for element in array.iter() {
                add_document_term(element.unwrap(), all);
            }
            return true;
        }
        Value::List(list) => {
            list.items.iter().for_each(|item| {
                add_terms(item, all);
            });
            return true;
        }
        Value::Group(group) => {
            group.items.iter().for_each(|item| {
                add_terms(item, all);
            });
            return true;
        }
        Value::Boosted(boosted) => return add_terms(&boosted.value, all),
        Value::ExplicitNull | Value::Null => "NULL".to_owned(),
        Value::Text(text) if text.is_empty() => "EMPTY_STRING".to_owned(),
        Value::Text(text) => text.to_lowercase().replace('"', "\\"),
        // As a double of an index is written.
        Value::Number(digits) if digits.contains('.') => {
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        Value::Number(digits) => (*digits).to_owned(),
        Value::Double(double) if double.is_infinite() => "Infinity".to_owned(),
        Value::Double(double) => double.to_string(),
        Value::Date(date) => date.index_text(),
        Value::OffsetDate(date) => date.index_text(),
        Value::Char(character) => character.to_lowercase().to_string(),
        Value::Bool(bool) => bool.to_string(),
        other => json(other).trim_matches('"').to_lowercase().replace('"', "\\"),
    };
    all.insert(term);
    false
}

fn add_document_term(value: blittable::Value<'_>, all: &mut BTreeSet<String>) {
    let term = match value {
        blittable::Value::Null => "NULL".to_owned(),
        blittable::Value::Array(array) => {
            for element in array.iter() {
                add_document_term(element.unwrap(), all);
            }
            return;
        }
        other => {
            let mut json = Vec::new();
            write_json(&other, &mut json).unwrap();
            let json = String::from_utf8(json).unwrap();
            json.trim_matches('"').to_lowercase().replace('"', "\\")
        }
    };
    all.insert(term);
}

/// A value as JSON.
pub(crate) fn json(value: &Value<'_>) -> String {
    let mut builder = ObjectBuilder::new();
    put_value(&mut builder, "v", value).unwrap();
    let document = builder.finish().unwrap();
    let mut json = Vec::new();
    let value = document.as_view().root().get("v").unwrap().unwrap();
    write_json(&value, &mut json).unwrap();
    String::from_utf8(json).unwrap()
}

/// An output as the tables show an entry: `{A: x, B: [y, z]}`, fields in the order of their names,
/// those without terms left out; `None` when there is no entry.
pub(crate) fn entry(output: Output<'_, '_>) -> Option<String> {
    if output.is_empty() {
        return None;
    }
    let mut fields = Vec::new();
    for (name, value) in output.fields() {
        add_field(name, value, &mut fields);
    }
    Some(joined(fields))
}

fn joined(mut fields: Vec<(String, String)>) -> String {
    fields.sort();
    let fields: Vec<String> =
        fields.into_iter().map(|(name, terms)| format!("{name}: {terms}")).collect();
    format!("{{{}}}", fields.join(", "))
}

fn add_field(name: &str, value: &Value<'_>, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Field(field) if field.options.indexing == Some(FieldIndexing::Search) => {
            let text = terms(&field.value);
            let words: Vec<&str> = text.split(' ').collect();
            let shown = if words.len() == 1 { text } else { format!("[{}]", words.join(", ")) };
            fields.push((field.name.to_string(), shown));
        }
        Value::Field(field) => add_field(&field.name, &field.value, fields),
        Value::List(list) if name == "_" => {
            list.items.iter().for_each(|item| add_field(name, item, fields));
        }
        Value::Spatial(spatial) => match &**spatial {
            SpatialValue::Point(Some((latitude, longitude))) => {
                fields.push((name.to_owned(), format!("point {latitude} {longitude}")));
            }
            SpatialValue::Shape(Value::Text(text)) => {
                fields.push((name.to_owned(), format!("shape {text}")));
            }
            SpatialValue::Point(None) | SpatialValue::Shape(_) => {}
        },
        value => {
            let terms = terms(value);
            if terms != "∅" && terms != "(entry, no field)" {
                fields.push((name.to_owned(), terms));
            }
        }
    }
}

/// Runs a map over the fixture, and a reduce over its results, grouped as an index would.
pub(crate) fn entries(
    fixture: &Fixture,
    map: &Map,
    reduce: Option<&Reduce>,
) -> Result<Vec<String>, EvaluationError> {
    let mut shown = Vec::new();
    let mut mapped: Vec<BlittableBuf> = Vec::new();
    for document in fixture.sources(map) {
        let mut host = fixture.host();
        let result = outputs(map, document, &mut host, |output| {
            if reduce.is_some() {
                mapped.push(stored(output));
            } else if let Some(entry) = entry(output) {
                shown.push(format!("{}:{entry}", document.id));
            }
        });
        if let Err(error) = result {
            shown.push(format!("{}:!{:?}", document.id, error.kind));
        }
    }
    let Some(reduce) = reduce else { return Ok(shown) };
    let mut groups: Vec<(String, Vec<&BlittableBuf>)> = Vec::new();
    for item in &mapped {
        let root = item.as_view().root();
        let key: Vec<String> = reduce
            .group_by()
            .iter()
            .map(|field| format!("{:?}", root.get(field).unwrap()))
            .collect();
        let key = key.join("|");
        match groups.iter_mut().find(|(own, _)| *own == key) {
            Some((_, items)) => items.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    for (_, items) in &groups {
        let mut roots = items.iter().map(|item| item.as_view().root());
        reduce.evaluate(&mut roots, &Budget::default(), &mut |output| {
            // Results of a reduce are stored before they are indexed, which turns missing values
            // into null.
            let mut fields = Vec::new();
            for (name, value) in output.fields() {
                let value = if value.is_null() { &Value::Null } else { value };
                add_field(name, value, &mut fields);
            }
            shown.push(joined(fields));
        })?;
    }
    Ok(shown)
}

fn stored(output: Output<'_, '_>) -> BlittableBuf {
    let mut builder = ObjectBuilder::new();
    for (name, value) in output.fields() {
        put_value(&mut builder, name, value).unwrap();
    }
    builder.finish().unwrap()
}
