//! Numbers that a studio shows continuously, and its tables of revisions.

use std::{collections::BTreeMap, ops::Bound};

use documents::{DocumentError, RevisionRow};
use http::StatusCode;
use model::{CollectionName, Etag, date, lower_case};
use serde_json::{Value, json};
use storage::ReadTransaction;

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    handlers::{
        index_faults::{Known, all_known},
        indexes::action_name,
    },
};

/// Maximum number of rows in one response.
const ROWS_MAX: usize = 4096;
/// Maximum number of revisions scanned for one response.
const LOOKED_AT_MAX: usize = 1_000_000;

/// `GET /studio/footer/stats`.
pub(crate) fn footer(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let tx = database.read();
    let documents = documents::progress(&tx).map_err(failed)?.documents;
    let known = all_known(database.indexes());
    let (mut stale, mut errors) = (Vec::new(), 0);
    for index in &known {
        errors += index.error_count()?;
        if let Known::Open(index) = index
            && index.is_stale(&tx)?
        {
            stale.push(index.name().to_owned());
        }
    }
    let answer = json!({
        "CountOfDocuments": documents, "CountOfIndexes": known.len(), "StaleIndexes": stale,
        "CountOfStaleIndexes": stale.len(), "CountOfIndexingErrors": errors
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /studio/indexes/errors-count`: the number of errors of the indexes, by action.
pub(crate) fn index_errors(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let names: Vec<&str> = query.all("name").filter(|name| !name.is_empty()).collect();
    let mut results = Vec::new();
    for index in all_known(call.database()?.indexes()) {
        let is_wanted = |name: &&str| name.eq_ignore_ascii_case(index.name());
        if names.is_empty() || names.iter().any(is_wanted) {
            let counts = counts_of(&index)?;
            let shown = counts
                .into_iter()
                .map(|(action, count)| json!({"Action": action, "NumberOfErrors": count}));
            results.push(json!({"Name": index.name(), "Errors": shown.collect::<Vec<_>>()}));
        }
    }
    Ok(Answer::shape(StatusCode::OK, &json!({"Results": results})))
}

fn counts_of(index: &Known) -> Result<BTreeMap<&'static str, u64>, ApiError> {
    let mut counts = BTreeMap::new();
    let index = match index {
        Known::Open(index) => index,
        Known::Faulty(_) => return Ok(BTreeMap::from([("Initialization", 1)])),
    };
    for error in index.errors()? {
        *counts.entry(action_name(error.action)).or_insert(0) += 1;
    }
    Ok(counts)
}

/// `GET /studio/revisions/ids`: documents with revisions whose ids start with a prefix.
pub(crate) fn revised_ids(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let prefix = lower_case(query.required("prefix")?).into_owned();
    let take = usize::try_from(query.page_size()?).unwrap_or(0).min(ROWS_MAX);
    let tx = call.read()?;
    let mut results = Vec::new();
    for id in documents::revised_ids(&tx, Bound::Included(&prefix)).map_err(failed)? {
        let id = id.map_err(failed)?;
        if results.len() == take || !id.lower_cased().starts_with(&prefix) {
            break;
        }
        let newest = documents::revisions_newest_first(&tx, &id).map_err(failed)?.next();
        if let Some(newest) = newest.transpose().map_err(failed)? {
            results.push(json!({"Id": newest.id()}));
        }
    }
    Ok(Answer::shape(StatusCode::OK, &json!({"Results": results})))
}

/// Which revisions a table has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    All,
    Regular,
    Deleted,
}

impl Kind {
    fn of(text: Option<&str>) -> Result<Kind, ApiError> {
        match text.unwrap_or("all").to_ascii_lowercase().as_str() {
            "" | "all" => Ok(Kind::All),
            "regular" => Ok(Kind::Regular),
            "deleted" => Ok(Kind::Deleted),
            _ => {
                let text = text.unwrap_or("");
                Err(ApiError::argument(format!(
                    "Invalid value '{text}' provided for 'type'. Please use one of the following \
                     options: All, Regular, Deleted."
                )))
            }
        }
    }

    fn has(self, revision: &RevisionRow<'_>) -> bool {
        match self {
            Kind::All => true,
            Kind::Regular => !revision.is_deletion(),
            Kind::Deleted => revision.is_deletion(),
        }
    }
}

/// `GET /studio/revisions/preview`: revisions of all documents, or of a collection, newest first.
pub(crate) fn revisions(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let kind = Kind::of(query.get("type"))?;
    let collection = query.get("collection").filter(|name| !name.is_empty());
    let collection = collection.map(CollectionName::new).transpose();
    let collection = collection.map_err(|error| ApiError::argument(error.to_string()))?;
    let skip = usize::try_from(query.start()?).unwrap_or(0);
    let take = usize::try_from(query.page_size()?).unwrap_or(0).min(ROWS_MAX);
    let tx = call.read()?;
    let total = match &collection {
        None => documents::revisions_total(&tx),
        Some(name) => documents::revisions_of_collection_count(&tx, name),
    };
    let total = total.map_err(failed)?;
    let mut rows = newest_first(&tx, collection.as_ref())?.peekable();
    let etag = match rows.peek() {
        Some(Ok(newest)) => format!("{}/{total}", newest.change_vector()),
        // It is reported as the first row.
        Some(Err(_)) | None => String::new(),
    };
    if call.if_none_match() == Some(etag.as_str()) && !etag.is_empty() {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let mut names = CollectionNames { tx: &tx, names: BTreeMap::new() };
    let (mut results, mut passed_over) = (Vec::new(), 0);
    for (looked_at, row) in rows.enumerate() {
        if results.len() == take {
            break;
        }
        if looked_at == LOOKED_AT_MAX {
            return Err(ApiError::invalid_operation(format!(
                "The page is beyond the newest {LOOKED_AT_MAX} revisions. Choose a collection, or ask \
                 for the revisions of one document."
            )));
        }
        let row = row.map_err(failed)?;
        if !kind.has(&row) {
            continue;
        }
        if passed_over < skip {
            passed_over += 1;
            continue;
        }
        results.push(shown(&row, &mut names)?);
    }
    let answer = json!({"TotalResults": total, "Results": results});
    Ok(Answer::shape(StatusCode::OK, &answer).with_quoted_etag(&etag))
}

type Revisions<'t> = Box<dyn Iterator<Item = Result<RevisionRow<'t>, DocumentError>> + 't>;

fn newest_first<'t>(
    tx: &'t ReadTransaction,
    collection: Option<&CollectionName>,
) -> Result<Revisions<'t>, ApiError> {
    let from = Etag(u64::MAX);
    Ok(match collection {
        None => Box::new(documents::revision_log_newest_first(tx, from).map_err(failed)?),
        Some(name) => Box::new(
            documents::revision_log_of_collection_newest_first(tx, name, from).map_err(failed)?,
        ),
    })
}

fn shown(row: &RevisionRow<'_>, names: &mut CollectionNames<'_>) -> Result<Value, ApiError> {
    Ok(json!({
        "Id": row.id(), "Etag": row.etag().0, "LastModified": date::format(row.last_modified_ticks()),
        "ChangeVector": row.change_vector(), "Flags": row.flags().to_string(),
        "Collection": names.get(row.collection_number())?
    }))
}

/// Names of collections by their numbers, looked up once.
struct CollectionNames<'t> {
    tx: &'t ReadTransaction,
    names: BTreeMap<u32, String>,
}

impl CollectionNames<'_> {
    fn get(&mut self, number: u32) -> Result<&str, ApiError> {
        if !self.names.contains_key(&number) {
            let found = documents::collection_numbered(self.tx, number).map_err(failed)?;
            self.names.insert(number, found.name.as_str().to_owned());
        }
        Ok(self.names.get(&number).map_or("", String::as_str))
    }
}

fn failed(error: DocumentError) -> ApiError {
    ApiError::from(error)
}
