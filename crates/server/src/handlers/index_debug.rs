//! Views into an index for diagnosing its results: its fields, the documents that it reduced, what
//! is stored for their reduce keys, and its definition as code.

use std::sync::Arc;

use http::StatusCode;
use indexing::{Index, IndexError, IndexKind, MapError, ReduceItems, ReduceNode, ReduceTree};
use model::{DocumentId, IndexDefinition, IndexPriority, IndexSourceType, NamedEnum, lower_case};
use search::IndexReader;
use serde_json::json;
use wire::ErrorKind;

use crate::{
    answers::{
        answer::Answer,
        json_text::{JsonArray, JsonObject, write_elements},
    },
    api_error::ApiError,
    call::Call,
    handlers::indexes::{known_or_all, results},
};

/// How many ids of documents are returned by default, …
const IDS_DEFAULT: usize = 1024;
/// … and the maximum that can be requested.
const IDS_MAX: usize = 1 << 16;
/// Maximum number of documents whose reduce keys can be requested together.
const DOCUMENTS_MAX: usize = 64;
/// The index version that clients of the protocol see.
const SHOWN_VERSION: u32 = 54_004;

/// The index that a request names; `None` if it does not exist.
fn index_of(call: &Call) -> Result<Option<Arc<Index>>, ApiError> {
    let query = call.query();
    Ok(call.database()?.indexes().get(query.single_non_empty("name")?))
}

fn not_found() -> Answer {
    Answer::empty(StatusCode::NOT_FOUND)
}

/// `GET /indexes/debug`: depending on `op`.
pub(crate) fn debug(call: &Call) -> Result<Answer, ApiError> {
    let Some(index) = index_of(call)? else { return Ok(not_found()) };
    let query = call.query();
    let Some(operation) = query.get("op") else {
        let message = "Query string op is mandatory, but wasn't specified.";
        return Err(ApiError::argument(message));
    };
    match operation.to_ascii_lowercase().as_str() {
        "entries-fields" => entries_fields(&index),
        "source-doc-ids" => source_ids(call, &index),
        "map-reduce-tree" if index.has_reduce() => trees(&index, &documents_of(call)?),
        "map-reduce-tree" => {
            let message = format!("{} is not map-reduce index", index.name());
            Ok(Answer::shape(StatusCode::BAD_REQUEST, &json!({"Error": message})))
        }
        _ => {
            let message = format!("{operation} is not supported");
            Err(ApiError::new(ErrorKind::NotSupported, message))
        }
    }
}

/// The fields in the definition, and those that only documents define.
fn entries_fields(index: &Index) -> Result<Answer, ApiError> {
    let mut named = index.fields();
    if !index.shows_results() {
        named.push("id()".to_owned());
    }
    let tx = index.read();
    let failed = |error| ApiError::from(IndexError::from(error));
    let reader = IndexReader::open(&tx).map_err(failed)?;
    let mut others = Vec::new();
    if index.has_created_fields() {
        let known = reader.fields().map_err(failed)?;
        let names = known.into_iter().map(|field| field.name);
        others.extend(names.filter(|name| is_shown(name) && !named.contains(name)));
    }
    Ok(Answer::shape(StatusCode::OK, &json!({"Static": named, "Dynamic": others})))
}

/// Whether a field belongs to the definition, rather than being derived by the server.
fn is_shown(name: &str) -> bool {
    !name.contains('(') && name != indexing::RESULT_FIELD
}

/// The documents that have rows.
fn source_ids(call: &Call, index: &Index) -> Result<Answer, ApiError> {
    if !index.has_reduce() {
        let message = "Getting doc ids for map indexes is not supported";
        return Err(ApiError::new(ErrorKind::NotSupported, message));
    }
    let query = call.query();
    let number = |name: &str| -> Result<Option<usize>, ApiError> {
        Ok(query.int(name)?.and_then(|number| usize::try_from(number).ok()))
    };
    let prefix = lower_case(query.get("startsWith").unwrap_or_default());
    let skip = number("start")?.unwrap_or(0);
    let take = number("pageSize")?.unwrap_or(IDS_DEFAULT).min(IDS_MAX);
    let ids = index.reduced_documents(&prefix, skip, take)?;
    Ok(Answer::shape(StatusCode::OK, &json!({"Results": ids, "Count": ids.len()})))
}

fn documents_of(call: &Call) -> Result<Vec<DocumentId>, ApiError> {
    let query = call.query();
    let ids = query.all("docId").filter(|id| !id.is_empty());
    let ids: Vec<_> = ids.filter_map(|id| DocumentId::new(id).ok()).collect();
    if DOCUMENTS_MAX < ids.len() {
        let message =
            format!("The trees of at most {DOCUMENTS_MAX} documents can be requested together");
        return Err(ApiError::argument(message));
    }
    Ok(ids)
}

/// What is stored for the reduce keys of documents.
fn trees(index: &Index, documents: &[DocumentId]) -> Result<Answer, ApiError> {
    let trees = index.reduce_trees(documents).map_err(|error| match error {
        MapError::Index(error) => ApiError::from(error),
        MapError::Document { message } => ApiError::invalid_operation(message),
    })?;
    let mut out = Vec::new();
    let mut shape = JsonObject::begin(&mut out);
    let mut results = JsonArray::begin(shape.name("Results"));
    trees.iter().for_each(|tree| write_tree(tree, results.element()));
    results.end();
    shape.end();
    Ok(Answer::json(out))
}

fn write_tree(tree: &ReduceTree, out: &mut Vec<u8>) {
    let kind = if tree.is_spread { "reduce-tree" } else { "nested-section" };
    let mut shape = JsonObject::begin(out);
    shape.text("Name", &format!("__raven/map-reduce/#{kind}-{}", tree.hash));
    shape.text("DisplayName", &String::from_utf8_lossy(&tree.key));
    shape.number("Depth", tree.depth);
    shape.number("PageCount", tree.nodes);
    shape.number("NumberOfEntries", tree.rows);
    write_node(&tree.root, &mut 0, shape.name("Root"));
    shape.end();
}

/// Nodes are numbered in the order in which they are written. Trees are a few levels deep.
fn write_node(node: &ReduceNode, last: &mut u64, out: &mut Vec<u8>) {
    *last += 1;
    let mut shape = JsonObject::begin(out);
    shape.number("PageNumber", *last);
    let result = shape.name("AggregationResult");
    match node.results.as_deref() {
        None | Some([]) => result.extend_from_slice(b"null"),
        Some([only]) => result.extend_from_slice(only),
        Some(several) => write_elements(several, result),
    }
    match &node.items {
        ReduceItems::Nodes(nodes) => {
            let mut children = JsonArray::begin(shape.name("Children"));
            nodes.iter().for_each(|node| write_node(node, last, children.element()));
            children.end();
            shape.name("Entries").extend_from_slice(b"null");
        }
        ReduceItems::Rows(rows) => {
            shape.name("Children").extend_from_slice(b"null");
            let mut entries = JsonArray::begin(shape.name("Entries"));
            for row in rows {
                let mut entry = JsonObject::begin(entries.element());
                entry.name("Data").extend_from_slice(&row.data);
                entry.optional_text("Source", row.source.as_deref());
                entry.end();
            }
            entries.end();
        }
    }
    shape.end();
}

/// `GET /indexes/debug/metadata`: metadata of all indexes or of those named.
pub(crate) fn metadata(call: &Call) -> Result<Answer, ApiError> {
    let of_one = |index: Arc<Index>| {
        let definition = index.shown_definition();
        json!({
            "Name": index.name(), "Version": SHOWN_VERSION, "Type": definition.index_type.map(NamedEnum::name),
            "State": index.state().name(), "LockMode": definition.lock_mode.map(NamedEnum::name),
            "SourceType": definition.source_type.unwrap_or(IndexSourceType::Documents).name(),
            "Priority": definition.priority.unwrap_or(IndexPriority::Normal).name(),
            "SearchEngineType": definition.search_engine(), "HasDynamicFields": index.has_created_fields(),
            "HasCompareExchange": index.reads_values(), "HasTimeFields": false, "TimeFields": []
        })
    };
    Ok(results(call, known_or_all(call)?.into_iter().map(of_one).collect()))
}

/// The definition of a static index.
fn written(index: &Index, refusal: &str) -> Result<IndexDefinition, ApiError> {
    match index.kind().as_ref() {
        IndexKind::Static(definition) => Ok((**definition).clone()),
        IndexKind::Auto(_) => Err(ApiError::invalid_operation(refusal)),
    }
}

/// `GET /indexes/source`: the definition as compiled.
pub(crate) fn source(call: &Call) -> Result<Answer, ApiError> {
    let Some(index) = index_of(call)? else { return Ok(not_found()) };
    let definition = written(&index, "Source can be only retrieved for static indexes.")?;
    let source = indexing::source_of(&definition)?;
    match source {
        Some(source) => {
            let shape = json!({"Index": index.name(), "Source": source});
            Ok(Answer::shape(StatusCode::OK, &shape))
        }
        None => {
            let message = "Could not retrieve source for given index.";
            Err(ApiError::invalid_operation(message))
        }
    }
}

/// `GET /indexes/c-sharp-index-definition`: a C# class that defines the index, for an application.
pub(crate) fn class(call: &Call) -> Result<Answer, ApiError> {
    let Some(index) = index_of(call)? else { return Ok(not_found()) };
    let refusal = "Can't create C# index definition from auto indexes";
    let text = wire::csharp_class_of(&written(&index, refusal)?);
    Ok(Answer::json(text.into_bytes()).with_content_type("text/plain; charset=utf-8"))
}
