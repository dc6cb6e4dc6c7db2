//! Running a query: on which snapshots, and by which plan.
//!
//! A query is bound to its parameters ([`BoundQuery`]), its target is determined
//! ([`BoundQuery::target`]), then it runs on a [`QuerySnapshot`]. It can run again on the same
//! snapshot, on another thread, without the work of planning and counting ([`QueryPlan::Again`]).

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
};

use blittable::{BlittableBuf, Corrupt, Object, Value};
use cluster_state::DatabaseValues;
use database::{Database, DatabaseLease, HeldSnapshot};
use indexing::Index;
use query::{
    BoundScripts, IndexSnapshot, Paging, Plan, PlannedQuery, QueryError, QueryResult, QueryScripts,
    RowOptions,
};
use rql::Query;
use script::ScriptPool;
use storage::ReadTransaction;

use crate::{
    error::EngineError,
    query_target::{QueryTarget, check_index_answers, query_target},
    recorded_series::RecordedSeries,
};

/// What a syntax tree takes for each byte of its text, roughly.
const TEXT_FACTOR: u64 = 32;
/// What one value takes, besides its text: as a value of the query, and as a term of an index.
const VALUE_BYTES: u64 = 128;

/// A query and what it runs with.
pub struct BoundQuery {
    /// The query.
    pub query: Query,
    /// The values of its parameters: an object.
    pub parameters: Option<BlittableBuf>,
    /// The page that the request names, besides that of the query.
    pub paging: Paging,
    /// How rows are returned.
    pub rows: RowOptions,
    /// Determines the order of `random()`.
    pub seed: u64,
    /// Set when the query is to stop.
    pub stop: Arc<AtomicBool>,
}

/// By which plan a query runs.
pub enum QueryPlan {
    /// It is planned when it runs: on the index of the snapshot, or on the documents if there is none.
    Unplanned,
    /// By a scan of the documents.
    Documents(Arc<Plan>),
    /// As it ran before on the same snapshot, with what was found and counted then.
    Again(PlannedQuery),
}

impl BoundQuery {
    /// The values of the parameters.
    pub fn parameters(&self) -> Option<Object<'_>> {
        self.parameters.as_ref().map(|values| values.as_view().root())
    }

    /// Approximately how many bytes the query takes while it is planned and runs, besides its rows: each
    /// mention of a parameter has a copy of its values.
    ///
    /// # Errors
    /// The parameters are damaged.
    pub fn bytes(&self) -> Result<u64, QueryError> {
        let text = self.query.text.as_str();
        let mut bytes = text.len() as u64 * TEXT_FACTOR;
        let Some(parameters) = self.parameters() else { return Ok(bytes) };
        let mut mentions = HashMap::new();
        for name in mentioned(text) {
            *mentions.entry(name).or_insert(0_u64) += 1;
        }
        for (name, mentions) in mentions {
            let value = parameters.get(name)?;
            let of_value = value.map_or(Ok(0), |value| value_bytes(&value))?;
            bytes = bytes.saturating_add(of_value.saturating_mul(mentions));
        }
        Ok(bytes)
    }

    /// Determines what runs the query. Does not block.
    ///
    /// # Errors
    /// The query is invalid, or names an index that does not exist ([`QueryError::MissingIndex`]) or
    /// could not be opened.
    pub fn target(&self, database: &Database) -> Result<QueryTarget, EngineError> {
        query_target(database, &self.query, self.parameters(), self.paging)
    }

    /// Compiles the scripts of the query; `None` if it has none.
    ///
    /// # Errors
    /// A script cannot be compiled.
    pub fn scripts(&self, pool: &ScriptPool) -> Result<Option<QueryScripts>, QueryError> {
        QueryScripts::of(&self.query, self.parameters(), pool)
    }

    /// Binds the scripts to the parameters.
    ///
    /// # Errors
    /// A parameter is missing, or a script cannot be run.
    pub fn bind<'s>(
        &self,
        scripts: Option<&'s QueryScripts>,
    ) -> Result<Option<BoundScripts<'s>>, QueryError> {
        scripts.map(|scripts| scripts.bind(&self.query, self.parameters())).transpose()
    }

    /// The entries of the snapshot, as this query reads them; `None` without an index.
    pub fn entries<'s>(
        &self,
        snapshot: &'s QuerySnapshot,
    ) -> Option<IndexSnapshot<'s, ReadTransaction>> {
        let (index, tx) = snapshot.index.as_ref()?;
        let (values, seed, stop) = (Some(&snapshot.values), self.seed, Arc::clone(&self.stop));
        Some(IndexSnapshot { index, tx, values, seed, stop })
    }

    /// Runs the query. Its rows are read while they are taken from the result.
    ///
    /// # Errors
    /// The query is invalid on this snapshot; storage errors; it was stopped.
    pub fn run<'s>(
        &self,
        snapshot: &'s QuerySnapshot,
        plan: &QueryPlan,
    ) -> Result<QueryResult<'s, ReadTransaction>, QueryError> {
        let (documents, values) = (&snapshot.documents, Some(&snapshot.values));
        let (query, parameters, paging) = (&self.query, self.parameters(), self.paging);
        let entries = self.entries(snapshot);
        let result = match (plan, &entries) {
            (QueryPlan::Again(planned), entries) => {
                planned.run(documents, entries.as_ref(), values)
            }
            (QueryPlan::Documents(plan), _) => {
                query::execute_plan(documents, Arc::clone(plan), values)
            }
            (QueryPlan::Unplanned, Some(entries)) => {
                let rows = self.rows;
                query::execute_on_index(documents, entries, query, parameters, paging, rows)
            }
            (QueryPlan::Unplanned, None) => {
                query::execute(documents, query, parameters, paging, values)
            }
        };
        Ok(result?.stopped_by(Arc::clone(&self.stop)))
    }
}

/// The names of parameters in the text of a query, as often as they are there. Those in strings and
/// comments are among them.
fn mentioned(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).map(|rest| {
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        &rest[..rest.find(|letter| !is_name(letter)).unwrap_or(rest.len())]
    })
}

/// What the values in a parameter take as the terms of conditions.
fn value_bytes(value: &Value<'_>) -> Result<u64, Corrupt> {
    let mut bytes = 0_u64;
    let mut pending = vec![*value];
    while let Some(value) = pending.pop() {
        bytes += VALUE_BYTES;
        match value {
            Value::Array(array) => {
                for element in array.iter() {
                    match element? {
                        Value::String(text) => bytes += VALUE_BYTES + text.len() as u64,
                        element @ (Value::Array(_) | Value::Object(_)) => pending.push(element),
                        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) => {
                            bytes += VALUE_BYTES;
                        }
                    }
                }
            }
            Value::Object(object) => {
                let mut json = Vec::new();
                blittable::write_json(&Value::Object(object), &mut json)?;
                bytes += json.len() as u64;
            }
            Value::String(text) => bytes += text.len() as u64,
            Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) => {}
        }
    }
    Ok(bytes)
}

/// The snapshots that a query reads. That of the entries is older than that of the documents, so
/// the document of every entry exists, or was deleted since.
pub struct QuerySnapshot {
    index: Option<(Arc<Index>, ReadTransaction)>,
    documents: ReadTransaction,
    series: RecordedSeries,
    /// Compare exchange: always the newest, since it belongs to no snapshot of a database.
    values: DatabaseValues,
}

impl QuerySnapshot {
    /// The newest of both, or the held ones.
    ///
    /// # Errors
    /// The held snapshots do not include the index ([`EngineError::IndexNotInSnapshot`]).
    pub fn take(
        database: &DatabaseLease,
        index: Option<Arc<Index>>,
        held: Option<&HeldSnapshot>,
    ) -> Result<Self, EngineError> {
        let entries_of = |index: Arc<Index>| {
            let entries = match held {
                None => index.read(),
                Some(held) => held.entries(&index).cloned().ok_or_else(|| {
                    EngineError::IndexNotInSnapshot { name: index.name().to_owned() }
                })?,
            };
            Ok::<_, EngineError>((index, entries))
        };
        let index = index.map(entries_of).transpose()?;
        let documents = held.map_or_else(|| database.read(), |held| held.documents().clone());
        let (series, values) = (RecordedSeries::of(database), database.values());
        Ok(Self { index, documents, series, values })
    }

    /// The documents.
    pub fn documents(&self) -> &ReadTransaction {
        &self.documents
    }

    /// The index whose entries are read.
    pub fn index(&self) -> Option<&Arc<Index>> {
        self.index.as_ref().map(|(index, _)| index)
    }

    /// The time series settings of the database.
    pub fn series(&self) -> &RecordedSeries {
        &self.series
    }
}

/// The index that answers a query for which `index` was chosen: it may have been replaced while the
/// query waited for it.
///
/// # Errors
/// As [`check_index_answers`].
pub fn answering_index(database: &Database, index: Arc<Index>) -> Result<Arc<Index>, EngineError> {
    let index = database.indexes().current(index);
    check_index_answers(&index)?;
    Ok(index)
}

#[cfg(test)]
mod tests {
    use blittable::ParseLimits;

    use super::*;

    fn bound(text: &str, parameters: &str) -> BoundQuery {
        let parameters =
            blittable::parse_document(parameters.as_bytes(), &ParseLimits::default()).unwrap();
        BoundQuery {
            query: query::parse(text).unwrap(),
            parameters: Some(parameters),
            paging: Paging::default(),
            rows: RowOptions::default(),
            seed: 0,
            stop: Arc::default(),
        }
    }

    #[test]
    fn each_mention_of_a_parameter_counts_with_all_its_values() {
        let parameters = r#"{"p":["aaaa","bbbb",[1,2]],"other":[1,2,3]}"#;
        let bytes = |text: &str| {
            let bound = bound(text, parameters);
            bound.bytes().unwrap() - TEXT_FACTOR * text.len() as u64
        };
        assert_eq!(bytes("from X where a = 1"), 0);
        let once = bytes("from X where a in ($p)");
        // The arrays count as values, too.
        assert_eq!(once, 6 * VALUE_BYTES + 8);
        assert_eq!(bytes("from X where a in ($p) or b in ($p) or c = $missing"), 2 * once);
    }
}
