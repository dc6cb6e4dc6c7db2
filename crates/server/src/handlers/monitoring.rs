//! Metrics of the server for monitoring programs such as Telegraf, Prometheus and Datadog.
//!
//! Only open databases are measured, and none is opened for it.

use bytes::Bytes;
use database::DatabaseLease;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::{
    answers::answer::{Answer, AnswerBody},
    api_error::ApiError,
    call::Call,
    measures::{Labels, Measure, PROMETHEUS_TYPE, to_json, write_prometheus},
    measures::{database_measures, server_measures},
};

/// Maximum number of databases in one response.
const DATABASES_MAX: usize = 1024;

/// `GET /admin/monitoring/v1/server`.
pub(crate) fn server(call: &Call) -> Result<Answer, ApiError> {
    let answer = to_json(server_measures::measures(&call.state));
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /admin/monitoring/v1/databases?name=`.
pub(crate) fn databases(call: &Call) -> Result<Answer, ApiError> {
    let of_one = |(name, database): &(String, DatabaseLease)| {
        database_measures::of_one(&call.state, name, database).map(to_json)
    };
    let results: Result<Vec<Value>, _> = open(call).iter().map(of_one).collect();
    Ok(list(call, &results?))
}

/// `GET /admin/monitoring/v1/indexes?name=`.
pub(crate) fn indexes(call: &Call) -> Result<Answer, ApiError> {
    by_database(call, "Indexes", |database| database_measures::of_indexes(&call.state, database))
}

/// `GET /admin/monitoring/v1/collections?name=`.
pub(crate) fn collections(call: &Call) -> Result<Answer, ApiError> {
    by_database(call, "Collections", |database| database_measures::of_collections(&database.read()))
}

type Named = Vec<(String, Vec<Measure>)>;

fn by_database(
    call: &Call,
    parts: &str,
    measure: impl Fn(&DatabaseLease) -> Result<Named, ApiError>,
) -> Result<Answer, ApiError> {
    let mut results = Vec::new();
    for (name, database) in open(call) {
        let measured = measure(&database)?;
        let shown: Vec<Value> =
            measured.into_iter().map(|(_, measures)| to_json(measures)).collect();
        let mut result = Map::from_iter([("DatabaseName".to_owned(), name.into())]);
        result.insert(parts.to_owned(), shown.into());
        results.push(result.into());
    }
    Ok(list(call, &results))
}

fn list(call: &Call, results: &[Value]) -> Answer {
    let public = call.state.engine.settings().public_server_url.as_ref().map(ToString::to_string);
    let answer =
        json!({"PublicServerUrl": public, "NodeTag": call.state.node_tag(), "Results": results});
    Answer::shape(StatusCode::OK, &answer)
}

/// The open databases, or those of them that are named.
fn open(call: &Call) -> Vec<(String, DatabaseLease)> {
    let query = call.query();
    let named: Vec<&str> = query.all("name").filter(|name| !name.is_empty()).collect();
    let is_wanted = |name: &str| {
        named.is_empty() || named.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    let records = call.state.engine.records();
    let wanted = records.iter().map(|record| record.name.as_str()).filter(|name| is_wanted(name));
    let open = wanted.filter_map(|name| Some((name.to_owned(), call.state.engine.if_open(name)?)));
    open.take(DATABASES_MAX).collect()
}

/// `GET /admin/monitoring/v1/prometheus`: all numeric metrics.
pub(crate) fn prometheus(call: &Call) -> Result<Answer, ApiError> {
    let mut text = String::new();
    write_server(call, &mut text);
    let open = open(call);
    let of_one = |(name, database): &(String, DatabaseLease)| {
        let measures = database_measures::of_one(&call.state, name, database)?;
        Ok((Labels::new([("database_name", name)]), measures))
    };
    let databases: Result<Vec<_>, ApiError> = open.iter().map(of_one).collect();
    write_prometheus(&mut text, &databases?);
    let of_indexes =
        |database: &DatabaseLease| database_measures::of_indexes(&call.state, database);
    write_prometheus(&mut text, &labelled(&open, "index_name", of_indexes)?);
    let of_collections =
        |database: &DatabaseLease| database_measures::of_collections(&database.read());
    write_prometheus(&mut text, &labelled(&open, "collection_name", of_collections)?);
    let mut answer = Answer::empty(StatusCode::OK).with_content_type(PROMETHEUS_TYPE);
    answer.body = AnswerBody::Whole(Bytes::from(text));
    Ok(answer)
}

fn write_server(call: &Call, text: &mut String) {
    let name = "ravendb_server_info";
    let identity = server_measures::identity(&call.state);
    let labels = Labels::new(identity.each_ref().map(|(label, value)| (*label, value.as_str())));
    text.push_str(&format!(
        "# HELP {name} Which server it is.\n# TYPE {name} gauge\n{name}{labels} 1\n"
    ));
    write_prometheus(text, &[(Labels::default(), server_measures::measures(&call.state))]);
}

fn labelled(
    open: &[(String, DatabaseLease)],
    label: &'static str,
    measure: impl Fn(&DatabaseLease) -> Result<Named, ApiError>,
) -> Result<Vec<(Labels, Vec<Measure>)>, ApiError> {
    let mut all = Vec::new();
    for (name, database) in open {
        for (part, measures) in measure(database)? {
            all.push((
                Labels::new([("database_name", name.as_str()), (label, part.as_str())]),
                measures,
            ));
        }
    }
    Ok(all)
}
