//! Collections for a studio: a table of documents with some of their columns, the fields of
//! documents, and deleting all documents of a collection.

use std::collections::{BTreeSet, HashSet};

use blittable::{Document, Value, write_json_string};
use documents::{DocumentError, DocumentRow};
use engine::BulkWork;
use http::StatusCode;
use model::{CollectionName, DocumentId};
use serde_json::{Map, json};
use storage::{ReadTransaction, pass_over};
use wire::QueryRequest;

use crate::{
    answers::{
        answer::Answer,
        json_text::{JsonArray, JsonObject, write_texts},
        long_answer::{LongAnswer, reason_after_results},
        piece_sender::PieceSender,
    },
    api_error::ApiError,
    call::Call,
    handlers::bulk_operations::{begin, options_of},
    http::router::Answering,
    request_json::{read_object, texts_of},
};

/// How many columns of a collection are shown by default.
const COLUMNS_DEFAULT: usize = 10;
/// Maximum length of a string in a column, in characters.
const TEXT_CHARACTERS_MAX: usize = 255;
/// Maximum number of column names in a response.
const COLUMNS_MAX: usize = 10_000;
/// The name for all documents, whatever their collection.
const EVERYTHING: &str = "@all_docs";

/// `GET /studio/collections/preview`: a page of a collection, or of all documents, newest first.
pub(crate) fn preview(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let table = Table {
        collection: collection_of(call)?,
        skip: usize::try_from(query.start()?).unwrap_or(0),
        take: usize::try_from(query.page_size()?).unwrap_or(0),
        shown: query.all("binding").map(str::to_owned).collect(),
        shown_whole: query.all("fullBinding").map(str::to_owned).collect(),
    };
    let tx = call.read()?;
    let etag = etag_of(&tx, table.collection.as_ref())?;
    if call.if_none_match() == Some(etag.as_str()) && !etag.is_empty() {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let write =
        async move |sender: &PieceSender, out: &mut Vec<u8>| table.write(&tx, sender, out).await;
    let long =
        LongAnswer::new(call.database()?, "a table of documents", reason_after_results, write);
    Ok(Answer::long(long).with_quoted_etag(&etag))
}

/// The collection in a request; `None` for all documents.
fn collection_of(call: &Call) -> Result<Option<CollectionName>, ApiError> {
    let query = call.query();
    let name = query.get("collection").filter(|name| !name.is_empty());
    let name = name.map(CollectionName::new).transpose();
    name.map_err(|error| ApiError::argument(error.to_string()))
}

/// Changes whenever any of the documents does; empty when there is none.
fn etag_of(tx: &ReadTransaction, collection: Option<&CollectionName>) -> Result<String, ApiError> {
    let total = total_of(tx, collection)?;
    let mut rows = rows_of(tx, collection)?;
    let newest = rows.next().transpose().map_err(failed)?;
    Ok(newest.map_or_else(String::new, |newest| format!("{}/{total}", newest.change_vector())))
}

fn total_of(tx: &ReadTransaction, collection: Option<&CollectionName>) -> Result<u64, ApiError> {
    match collection {
        None => Ok(documents::progress(tx).map_err(failed)?.documents),
        Some(name) => {
            let found = documents::collection(tx, name).map_err(failed)?;
            Ok(found.map_or(0, |collection| collection.documents))
        }
    }
}

type Rows<'t> = Box<dyn Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + 't>;

fn rows_of<'t>(
    tx: &'t ReadTransaction,
    collection: Option<&CollectionName>,
) -> Result<Rows<'t>, ApiError> {
    Ok(match collection {
        None => Box::new(documents::newest_first(tx).map_err(failed)?),
        Some(name) => Box::new(documents::newest_first_of_collection(tx, name).map_err(failed)?),
    })
}

fn failed(error: DocumentError) -> ApiError {
    ApiError::from(error)
}

/// A page of documents with some of their columns.
struct Table {
    collection: Option<CollectionName>,
    skip: usize,
    take: usize,
    /// Columns that show short values.
    shown: Vec<String>,
    /// Columns that show complete values.
    shown_whole: Vec<String>,
}

impl Table {
    async fn write(
        mut self,
        tx: &ReadTransaction,
        sender: &PieceSender,
        out: &mut Vec<u8>,
    ) -> Result<bool, ApiError> {
        let mut columns = Columns::default();
        if self.shown.is_empty() && self.collection.is_some() {
            // The columns of the first row are known when all rows have been read.
            for row in self.page(tx)? {
                columns.add_of(&row.map_err(failed)?)?;
            }
            self.shown = columns.names.iter().take(COLUMNS_DEFAULT).cloned().collect();
        }
        // Once the rows are written, a reason for a failure could not be appended any more.
        let total = total_of(tx, self.collection.as_ref())?;
        let mut page = JsonObject::begin(out);
        let mut results = JsonArray::begin(page.name("Results"));
        for row in self.page(tx)? {
            let row = row.map_err(failed)?;
            columns.add_of(&row)?;
            let end = results.out().len();
            if let Err(error) = self.write_row(&row, results.element()) {
                // The reason is appended after whole rows.
                results.out().truncate(end);
                return Err(error);
            }
            if !sender.send_if_enough(results.out()).await {
                return Ok(false);
            }
        }
        results.end();
        page.number("TotalResults", total);
        write_texts(&columns.names, page.name("AvailableColumns"));
        page.end();
        Ok(true)
    }

    fn page<'t>(&self, tx: &'t ReadTransaction) -> Result<Rows<'t>, ApiError> {
        let rows = rows_of(tx, self.collection.as_ref())?;
        Ok(Box::new(rows.skip_while(pass_over(self.skip)).take(self.take)))
    }

    fn write_row(&self, row: &DocumentRow<'_>, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let mut left_out = LeftOut::default();
        let body = row.body().map_err(failed)?;
        self.note_left_out(&body, &mut left_out).map_err(failed)?;
        let is_left_out =
            |name: &str| left_out.arrays.contains_key(name) || left_out.objects.contains_key(name);
        let is_shown =
            |name: &str| self.is_whole(name) || (self.is_column(name) && !is_left_out(name));
        let mut beside_id = Vec::new();
        left_out.write(&mut beside_id);
        let shorten = |name: &str, value: &Value<'_>, out: &mut Vec<u8>| match value {
            Value::String(text) if !self.is_whole(name) => {
                let text = text.as_cow()?;
                let cut = cut(&text);
                if let Some(cut) = cut {
                    write_json_string(cut, out);
                }
                Ok(cut.is_some())
            }
            _ => Ok(false),
        };
        documents::write_part_of_document_json(row, is_shown, &beside_id, shorten, out)
            .map_err(failed)
    }

    fn note_left_out(
        &self,
        body: &Document<'_>,
        left_out: &mut LeftOut,
    ) -> Result<(), DocumentError> {
        for member in body.root().iter() {
            let (name, value) = member?;
            if name == METADATA || self.is_whole(name) || !self.is_column(name) {
                continue;
            }
            match value {
                Value::Array(array) => {
                    left_out.arrays.insert(name.to_owned(), array.len().into());
                }
                Value::Object(object) => {
                    left_out.objects.insert(name.to_owned(), object.len().into());
                }
                Value::String(text) if cut(&text.as_cow()?).is_some() => {
                    left_out.texts.push(name.to_owned());
                }
                Value::Null
                | Value::Bool(_)
                | Value::Integer(_)
                | Value::Number(_)
                | Value::String(_) => {}
            }
        }
        Ok(())
    }

    fn is_column(&self, name: &str) -> bool {
        self.shown.iter().any(|column| column == name)
    }

    fn is_whole(&self, name: &str) -> bool {
        self.shown_whole.iter().any(|column| column == name)
    }
}

/// The property names of documents, in the order of first occurrence.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    met: HashSet<String>,
}

impl Columns {
    fn add_of(&mut self, row: &DocumentRow<'_>) -> Result<(), ApiError> {
        for member in row.body().map_err(failed)?.root().iter() {
            let (name, _) = member.map_err(DocumentError::from).map_err(failed)?;
            let is_new = name != METADATA && !self.met.contains(name);
            if is_new && self.names.len() < COLUMNS_MAX {
                self.met.insert(name.to_owned());
                self.names.push(name.to_owned());
            }
        }
        Ok(())
    }
}

const METADATA: &str = "@metadata";

/// The start of a string that is too long for a column.
fn cut(text: &str) -> Option<&str> {
    let (end, _) = text.char_indices().nth(TEXT_CHARACTERS_MAX)?;
    Some(&text[..end])
}

/// What a row omits of its columns, for its metadata.
#[derive(Default)]
struct LeftOut {
    arrays: Map<String, serde_json::Value>,
    objects: Map<String, serde_json::Value>,
    texts: Vec<String>,
}

impl LeftOut {
    fn write(&self, out: &mut Vec<u8>) {
        let (arrays, objects) = (json!(self.arrays), json!(self.objects));
        let text = format!(",\"$a\":{arrays},\"$o\":{objects},\"$t\":{}", json!(self.texts));
        out.extend_from_slice(text.as_bytes());
    }
}

/// `GET /studio/collections/fields`: the types of the properties of the newest document of a
/// collection, or of each collection; of nested properties if a prefix names their parent.
pub(crate) fn fields(call: &Call) -> Result<Answer, ApiError> {
    let (query, tx) = (call.query(), call.read()?);
    let collection = collection_of(call)?;
    let etag = etag_of(&tx, collection.as_ref())?;
    if call.if_none_match() == Some(etag.as_str()) && !etag.is_empty() {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let path: Vec<&str> = query
        .get("prefix")
        .filter(|prefix| !prefix.is_empty())
        .into_iter()
        .flat_map(|prefix| prefix.split('.'))
        .collect();
    let collections = match collection {
        Some(name) => vec![name],
        None => {
            let all = documents::collections(&tx).map_err(failed)?;
            all.into_iter().map(|collection| collection.name).collect()
        }
    };
    let mut fields = Map::new();
    for name in &collections {
        let newest = documents::newest_first_of_collection(&tx, name).map_err(failed)?.next();
        let Some(newest) = newest.transpose().map_err(failed)? else { continue };
        let body = newest.body().map_err(failed)?;
        add_fields(&body, &path, &mut fields).map_err(failed)?;
    }
    Ok(Answer::shape(StatusCode::OK, &fields).with_quoted_etag(&etag))
}

/// Adds the types of the values at a path; in an array the path continues in its first element.
fn add_fields(
    body: &Document<'_>,
    path: &[&str],
    fields: &mut Map<String, serde_json::Value>,
) -> Result<(), DocumentError> {
    let mut place = body.root();
    for name in path {
        let below = match place.get(name)? {
            Some(Value::Array(array)) => array.get(0)?,
            other => other,
        };
        let Some(Value::Object(object)) = below else { return Ok(()) };
        place = object;
    }
    for member in place.iter() {
        let (name, value) = member?;
        let kind = type_name(&value)?;
        let known = fields.entry(name).or_insert_with(|| json!(""));
        let types: BTreeSet<&str> = known
            .as_str()
            .unwrap_or("")
            .split(", ")
            .filter(|one| !one.is_empty())
            .chain([kind.as_str()])
            .collect();
        *known = types.into_iter().collect::<Vec<_>>().join(", ").into();
    }
    Ok(())
}

fn type_name(value: &Value<'_>) -> Result<String, DocumentError> {
    Ok(match value {
        Value::Null => "Null".to_owned(),
        Value::Bool(_) => "Boolean".to_owned(),
        Value::Integer(_) | Value::Number(_) => "Number".to_owned(),
        Value::String(_) => "String".to_owned(),
        Value::Object(_) => "Object".to_owned(),
        Value::Array(array) => match array.get(0)? {
            None | Some(Value::Null) => "Array".to_owned(),
            Some(Value::Array(_)) => "ArrayArray".to_owned(),
            Some(first) => format!("Array{}", type_name(&first)?),
        },
    })
}

/// `DELETE /studio/collections/docs`: an operation that deletes all documents of a collection
/// except some.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let name = query.single_non_empty("name")?;
        let body = read_object(&call.body)?;
        let kept = texts_of(&body, "ExcludeIds")?.into_iter().map(DocumentId::new);
        let kept: Result<HashSet<_>, _> = kept.collect();
        let kept = kept.map_err(|error| ApiError::argument(error.to_string()))?;
        let source = match name {
            EVERYTHING => EVERYTHING.to_owned(),
            name => format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'")),
        };
        let text = format!("from {source}");
        let request = QueryRequest { text, ..QueryRequest::default() };
        let chosen = query::parse(&request.text)?;
        let options = options_of(&call)?;
        begin(&call, options, chosen, request, BulkWork::DeleteOthers(kept)).await
    })
}
