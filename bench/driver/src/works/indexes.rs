//! The works on indexes and queries.
//!
//! Most of them use the notes that [`Target::fill_notes`] creates and the index over them. The
//! others create a separate database before their first round and delete it after the last one.

use std::{cell::Cell, time::Instant};

use serde_json::{Value, json};

use super::{
    DATABASE, DOCUMENTS, MANY_CONNECTIONS, REQUESTS_WITH_LATENCY, Target, Work, WorkFacts,
    create_database, delete_database,
};
use crate::{
    bulk_insert::Amount,
    connection::{Connection, request, write_request},
    error::DriverError,
    generated::{
        CUSTOMERS, mixed, note_name, place, word, write_large, write_note, write_order,
        write_with_text,
    },
    load::Stopwatch,
    options::Size,
    outcome::{Figure, Outcome, no_latencies},
    stream_read::read_stream,
};

/// The number of small documents that are indexed and queried.
const NOTES: u64 = 100_000;
/// The number of documents that are large, or have a long text.
const LARGE_DOCUMENTS: u64 = 2_000;
/// The number of documents that are streamed.
const STREAMED_DOCUMENTS: u64 = 135_000;
/// The number of orders that are counted, queried by position, and reduced.
const ORDERS: u64 = 100_000;
/// The database for one work.
const APART: &str = "apart";
const INDEX: &str = "NotesByAll";
/// The index that is created in each round.
const INDEX_OF_ROUND: &str = "NotesAgain";
const INDEX_OF_ORDERS: &str = "OrdersByAll";
const INDEX_OF_PEOPLE: &str = "PeopleByAge";
/// The width of a range query.
const RANGE: u64 = 1_000;

/// The works on indexes and queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexWork {
    MapSmall,
    MapLarge,
    MapLongText,
    WriteVisible,
    QueryTerm,
    QueryRange,
    QueryText,
    QueryPrefix,
    QueryCollection,
    QueryFacet,
    QueryNearest,
    StreamCollection,
    StreamIndex,
    MapReduce,
}

const QUERY_AFTER_WRITE: &[Figure] = &[
    Figure::Rate("writes"),
    Figure::LatencyPercentile(50),
    Figure::LatencyPercentile(99),
    Figure::ServerTimeEach,
];
const STREAM: &[Figure] = &[
    Figure::Rate("documents"),
    Figure::MemoryGrowth,
    Figure::ServerTimeEach,
    Figure::DriverTimeEach,
];

/// All works on indexes, in the order in which they are run.
pub(crate) static INDEX_WORKS: &[WorkFacts] = &[
    facts(IndexWork::MapSmall, "index-small", DOCUMENTS),
    facts(IndexWork::MapLarge, "index-large", DOCUMENTS),
    facts(IndexWork::MapLongText, "index-long-text", DOCUMENTS),
    facts(IndexWork::WriteVisible, "write-visible", QUERY_AFTER_WRITE),
    facts(IndexWork::QueryTerm, "query-term", REQUESTS_WITH_LATENCY),
    facts(IndexWork::QueryRange, "query-range", REQUESTS_WITH_LATENCY),
    facts(IndexWork::QueryText, "query-text", REQUESTS_WITH_LATENCY),
    facts(IndexWork::QueryPrefix, "query-prefix", REQUESTS_WITH_LATENCY),
    facts(IndexWork::QueryCollection, "query-collection", REQUESTS_WITH_LATENCY),
    facts(IndexWork::QueryFacet, "query-facet", REQUESTS_WITH_LATENCY),
    facts(IndexWork::QueryNearest, "query-nearest", REQUESTS_WITH_LATENCY),
    facts(IndexWork::StreamCollection, "stream-collection", STREAM),
    facts(IndexWork::StreamIndex, "stream-index", STREAM),
    facts(IndexWork::MapReduce, "map-reduce", DOCUMENTS),
];

const fn facts(work: IndexWork, key: &'static str, figures: &'static [Figure]) -> WorkFacts {
    let title = match work {
        IndexWork::MapSmall => "map index over 100k small documents",
        IndexWork::MapLarge => "map index over 2,000 documents of 90 to 900 KB",
        IndexWork::MapLongText => "map index over 2,000 documents with a text of 300 KB",
        IndexWork::WriteVisible => "from a write's answer to its non-stale query, one at a time",
        IndexWork::QueryTerm => "query: exact term, 64 connections",
        IndexWork::QueryRange => "query: range, sorted, top 10, 64 connections",
        IndexWork::QueryText => "query: full text, top 10 by score, 64 connections",
        IndexWork::QueryPrefix => "query: startsWith, top 10, 64 connections",
        IndexWork::QueryCollection => "query: first 10 of a collection, 64 connections",
        IndexWork::QueryFacet => "query: facet of 1,000 terms over a range, 64 connections",
        IndexWork::QueryNearest => "query: within 100 km, nearest 10, 64 connections",
        IndexWork::StreamCollection => "stream 135k documents of a collection",
        IndexWork::StreamIndex => "stream 135k documents of an index",
        IndexWork::MapReduce => "map-reduce of 100k orders into 1,000 keys",
    };
    WorkFacts { work: Work::Index(work), key, title, figures }
}

impl Target {
    /// Creates the database that most works on indexes use, with its notes and their index.
    pub(crate) async fn fill_notes(&self) -> Result<(), DriverError> {
        let mut connection = Connection::open(self.address).await?;
        create_database(&mut connection, DATABASE).await?;
        self.stream(DATABASE, "notes/", Amount::Documents(NOTES), write_note).await?;
        make_index(&mut connection, DATABASE, INDEX, NOTE_MAP).await?;
        wait_for_index(&mut connection, DATABASE, INDEX, NOTES).await
    }

    /// Creates the additional data that the work needs.
    pub(super) async fn prepare_index_work(&self, work: IndexWork) -> Result<(), DriverError> {
        match work {
            IndexWork::MapLarge => self.fill_apart(LARGE_DOCUMENTS, write_large).await,
            IndexWork::MapLongText => self.fill_apart(LARGE_DOCUMENTS, write_with_text).await,
            IndexWork::MapReduce => self.fill_apart(ORDERS, write_order).await,
            IndexWork::QueryFacet | IndexWork::QueryNearest => {
                self.fill_apart(ORDERS, write_order).await?;
                let mut connection = Connection::open(self.address).await?;
                make_index(&mut connection, APART, INDEX_OF_ORDERS, ORDER_MAP).await?;
                wait_for_index(&mut connection, APART, INDEX_OF_ORDERS, ORDERS).await
            }
            IndexWork::StreamCollection | IndexWork::StreamIndex => {
                let people = &self.equipment.people;
                let write = |out: &mut Vec<u8>, number| {
                    out.extend_from_slice(people.document(number));
                };
                self.fill_apart(STREAMED_DOCUMENTS, write).await?;
                let mut connection = Connection::open(self.address).await?;
                make_index(&mut connection, APART, INDEX_OF_PEOPLE, PEOPLE_MAP).await?;
                wait_for_index(&mut connection, APART, INDEX_OF_PEOPLE, STREAMED_DOCUMENTS).await?;
                self.memory_before.set(self.process.memory().map(|memory| memory.anonymous));
                Ok(())
            }
            IndexWork::MapSmall
            | IndexWork::WriteVisible
            | IndexWork::QueryTerm
            | IndexWork::QueryRange
            | IndexWork::QueryText
            | IndexWork::QueryPrefix
            | IndexWork::QueryCollection => Ok(()),
        }
    }

    /// Removes what [`Target::prepare_index_work`] created.
    pub(super) async fn tidy_index_work(&self, work: IndexWork) -> Result<(), DriverError> {
        match work {
            IndexWork::MapLarge
            | IndexWork::MapLongText
            | IndexWork::QueryFacet
            | IndexWork::QueryNearest
            | IndexWork::StreamCollection
            | IndexWork::StreamIndex
            | IndexWork::MapReduce => {
                delete_database(&mut Connection::open(self.address).await?, APART).await
            }
            IndexWork::MapSmall
            | IndexWork::WriteVisible
            | IndexWork::QueryTerm
            | IndexWork::QueryRange
            | IndexWork::QueryText
            | IndexWork::QueryPrefix
            | IndexWork::QueryCollection => Ok(()),
        }
    }

    async fn fill_apart(
        &self,
        documents: u64,
        write_document: impl FnMut(&mut Vec<u8>, u64),
    ) -> Result<(), DriverError> {
        create_database(&mut Connection::open(self.address).await?, APART).await?;
        self.stream(APART, "docs/", Amount::Documents(documents), write_document).await?;
        Ok(())
    }

    /// One round.
    pub(super) async fn index_round(
        &self,
        work: IndexWork,
        size: &Size,
        measured: bool,
    ) -> Result<Outcome, DriverError> {
        let duration = if measured { size.round } else { size.warm_up };
        let load_of = |database: &str, query: &mut dyn FnMut(u64) -> Value| {
            let mut next = |out: &mut Vec<u8>| {
                let body = query(mixed(self.take(1))).to_string();
                write_request(out, "POST", queries_path(database), body.as_bytes());
            };
            self.load(MANY_CONNECTIONS, duration, 1, &mut next)
        };
        let query_load = |query: &mut dyn FnMut(u64) -> Value| load_of(DATABASE, query);
        match work {
            IndexWork::MapSmall => self.index_once(DATABASE, NOTES, NOTES, (NOTE_MAP, None)).await,
            IndexWork::MapLarge | IndexWork::MapLongText => {
                self.index_once(APART, LARGE_DOCUMENTS, LARGE_DOCUMENTS, (LARGE_MAP, None)).await
            }
            IndexWork::MapReduce => {
                let code = (MAP_OF_CUSTOMERS, Some(REDUCE_OF_CUSTOMERS));
                self.index_once(APART, ORDERS, CUSTOMERS, code).await
            }
            IndexWork::QueryFacet => load_of(APART, &mut facet_query),
            IndexWork::QueryNearest => load_of(APART, &mut nearest_query),
            IndexWork::WriteVisible => self.write_and_ask(duration).await,
            IndexWork::QueryTerm => query_load(&mut term_query),
            IndexWork::QueryRange => query_load(&mut range_query),
            IndexWork::QueryText => query_load(&mut text_query),
            IndexWork::QueryPrefix => query_load(&mut prefix_query),
            IndexWork::QueryCollection => query_load(&mut |_| asked("from Notes limit 10", "")),
            IndexWork::StreamCollection => self.stream_once("from People"),
            IndexWork::StreamIndex => {
                self.stream_once(&format!("from index '{INDEX_OF_PEOPLE}' where Age >= 18"))
            }
        }
    }

    /// An index from its definition until it contains all documents, and the expected number of
    /// entries; it is deleted again.
    async fn index_once(
        &self,
        database: &str,
        documents: u64,
        entries: u64,
        code: (&str, Option<&str>),
    ) -> Result<Outcome, DriverError> {
        let mut connection = Connection::open(self.address).await?;
        let stopwatch = Stopwatch::start(self.process)?;
        make_index_of(&mut connection, database, INDEX_OF_ROUND, code).await?;
        wait_for_index(&mut connection, database, INDEX_OF_ROUND, entries).await?;
        let outcome = stopwatch.stop(documents, no_latencies())?;
        let path = format!("/databases/{database}/indexes?name={INDEX_OF_ROUND}");
        connection.succeed(&request("DELETE", &path, b"")).await?;
        Ok(outcome)
    }

    /// Writes a document, and queries it after the response. The latencies are those of the query,
    /// which waits until the index contains the document.
    async fn write_and_ask(&self, duration: std::time::Duration) -> Result<Outcome, DriverError> {
        let mut connection = Connection::open(self.address).await?;
        let (mut latencies, mut document) = (no_latencies(), Vec::new());
        let stopwatch = Stopwatch::start(self.process)?;
        let began = Instant::now();
        while began.elapsed() < duration {
            let number = NOTES + 1 + self.take(1);
            document.clear();
            write_note(&mut document, number);
            let path = format!("/databases/{DATABASE}/docs?id=fresh/{number}");
            connection.succeed(&request("PUT", &path, &document)).await?;
            let written = Instant::now();
            let text = format!("from index '{INDEX}' where Name = $p0");
            let body = waiting(asked(&text, &note_name(number)));
            check_found(&mut connection, DATABASE, &body, 1).await?;
            latencies += written.elapsed().as_nanos() as u64;
        }
        stopwatch.stop(latencies.len(), latencies)
    }

    fn stream_once(&self, text: &str) -> Result<Outcome, DriverError> {
        let body = asked(text, "").to_string();
        let path = format!("/databases/{APART}/streams/queries");
        let request = request("POST", &path, body.as_bytes());
        let highest = Cell::new(0.0_f64);
        let look = || {
            let memory = self.process.memory().map_or(0.0, |memory| memory.anonymous);
            highest.set(highest.get().max(memory));
        };
        let stopwatch = Stopwatch::start(self.process)?;
        let documents = read_stream(self.address, &request, seldom(look))?;
        let outcome = stopwatch.stop(documents, no_latencies())?;
        if documents != STREAMED_DOCUMENTS {
            let body = format!("{documents} documents");
            return Err(DriverError::UnexpectedAnswer { request: text.to_owned(), body });
        }
        look();
        let memory_growth_megabytes = match self.memory_before.get() {
            Some(before) => (highest.get() - before).max(0.0),
            None => 0.0,
        };
        Ok(Outcome { memory_growth_megabytes, ..outcome })
    }
}

/// Every so many times.
fn seldom(look: impl Fn()) -> impl FnMut() {
    const TIMES: u32 = 16;
    let mut calls: u32 = 0;
    move || {
        calls += 1;
        if calls.is_multiple_of(TIMES) {
            look();
        }
    }
}

const NOTE_MAP: &str = "from note in docs.Notes select new { note.Name, note.Number, note.Text }";
const LARGE_MAP: &str = "from note in docs.Notes select new { note.Name, note.Number }";
const ORDER_MAP: &str = "from order in docs.Orders select new { order.Customer, order.Total, \
                         Place = CreateSpatialField(order.Lat, order.Lng) }";
const MAP_OF_CUSTOMERS: &str =
    "from order in docs.Orders select new { order.Customer, order.Total, Count = 1 }";
/// The reduce for [`MAP_OF_CUSTOMERS`].
const REDUCE_OF_CUSTOMERS: &str = "from result in results group result by result.Customer into g \
                                   select new { Customer = g.Key, Total = g.Sum(x => x.Total), \
                                   Count = g.Sum(x => x.Count) }";
const PEOPLE_MAP: &str = "from person in docs.People select new { person.Age, person.Name }";

/// The path of queries.
pub(crate) fn queries_path(database: &str) -> String {
    format!("/databases/{database}/queries")
}

/// The body of a query with one parameter.
pub(crate) fn asked(text: &str, parameter: &str) -> Value {
    json!({"Query": text, "QueryParameters": {"p0": parameter}})
}

/// The same, waiting for non-stale results.
pub(crate) fn waiting(mut body: Value) -> Value {
    body["WaitForNonStaleResults"] = json!(true);
    body["WaitForNonStaleResultsTimeout"] = json!("00:15:00");
    body
}

fn term_query(chance: u64) -> Value {
    let text = format!("from index '{INDEX}' where Name = $p0");
    asked(&text, &note_name(chance % NOTES + 1))
}

fn range_query(chance: u64) -> Value {
    let text = format!(
        "from index '{INDEX}' where Number between $p0 and $p1 order by Number as long desc limit 10"
    );
    let low = chance % (NOTES - RANGE);
    json!({"Query": text, "QueryParameters": {"p0": low, "p1": low + RANGE}})
}

fn text_query(chance: u64) -> Value {
    let text = format!("from index '{INDEX}' where search(Text, $p0) order by score() limit 10");
    asked(&text, &word(chance).to_string())
}

fn prefix_query(chance: u64) -> Value {
    const PREFIX_BYTES: usize = 5;
    let text = format!("from index '{INDEX}' where startsWith(Name, $p0) limit 10");
    let name = note_name(chance % NOTES + 1);
    asked(&text, &name[..PREFIX_BYTES.min(name.len())])
}

fn facet_query(chance: u64) -> Value {
    let text = format!(
        "from index '{INDEX_OF_ORDERS}' where Total between $p0 and $p1 select facet(Customer)"
    );
    let low = chance % 500;
    json!({"Query": text, "QueryParameters": {"p0": low, "p1": low + 250}})
}

fn nearest_query(chance: u64) -> Value {
    let text = format!(
        "from index '{INDEX_OF_ORDERS}' where spatial.within(Place, spatial.circle(100, $p0, $p1)) \
         order by spatial.distance(Place, spatial.point($p0, $p1)) limit 10"
    );
    let (latitude, longitude) = place(chance);
    json!({"Query": text, "QueryParameters": {"p0": latitude, "p1": longitude}})
}

/// Creates an index with one map; a field `Text` or `Words` is for full-text search.
pub(crate) async fn make_index(
    connection: &mut Connection,
    database: &str,
    name: &str,
    map: &str,
) -> Result<(), DriverError> {
    make_index_of(connection, database, name, (map, None)).await
}

/// The same, perhaps with a reduce.
pub(crate) async fn make_index_of(
    connection: &mut Connection,
    database: &str,
    name: &str,
    (map, reduce): (&str, Option<&str>),
) -> Result<(), DriverError> {
    let mut fields = json!({});
    for field in ["Text", "Words"].into_iter().filter(|field| map.contains(field)) {
        fields[field] = json!({"Indexing": "Search"});
    }
    let mut definition = json!({"Name": name, "Maps": [map], "Type": "Map", "Fields": fields});
    if let Some(reduce) = reduce {
        definition["Reduce"] = json!(reduce);
        definition["Type"] = json!("MapReduce");
    }
    let body = json!({"Indexes": [definition]}).to_string();
    let path = format!("/databases/{database}/admin/indexes");
    connection.succeed(&request("PUT", &path, body.as_bytes())).await
}

/// Waits until the index is not stale and has this many entries.
pub(crate) async fn wait_for_index(
    connection: &mut Connection,
    database: &str,
    name: &str,
    entries: u64,
) -> Result<(), DriverError> {
    let body = waiting(asked(&format!("from index '{name}' limit 1"), ""));
    check_found(connection, database, &body, entries).await
}

/// An error unless a non-stale index returns the expected number of results.
async fn check_found(
    connection: &mut Connection,
    database: &str,
    body: &Value,
    found: u64,
) -> Result<(), DriverError> {
    let request = request("POST", &queries_path(database), body.to_string().as_bytes());
    connection.succeed(&request).await?;
    let answer: Value = serde_json::from_slice(connection.body()).unwrap_or_default();
    if answer["TotalResults"] != json!(found) || answer["IsStale"] != json!(false) {
        return Err(connection.unexpected(&request));
    }
    Ok(())
}
