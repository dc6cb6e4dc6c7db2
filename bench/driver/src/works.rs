//! The works: what a server is asked to do in one round.
//!
//! Invariant: a round adds to what earlier rounds left, or works in a database of its own which is
//! deleted afterwards; only the work itself is inside of the measured time.

use std::{
    cell::{Cell, RefCell},
    io::Write as _,
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use crate::{
    bulk_insert::{Amount, bulk_insert},
    connection::{Connection, request, write_request},
    error::DriverError,
    generated::{Cities, write_person, write_small},
    load::{Load, NextRequest, Stopwatch, run_load},
    options::Size,
    outcome::{Figure, Outcome},
    process::Process,
};

/// Documents that GET chooses from.
pub(crate) const FILLED_DOCUMENTS: u64 = 100_000;
const DATABASE: &str = "bench";
const MANY_CONNECTIONS: usize = 64;
const BATCH_CONNECTIONS: usize = 4;
const BATCH_DOCUMENTS: u64 = 100;
/// Databases created in one round.
const DATABASES_PER_ROUND: u64 = 3;
/// Ends a sustained bulk insert that is faster than any disk: about 10 GB.
const SUSTAINED_DOCUMENTS_MAX: u64 = 10_000_000;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    NewDatabase,
    BulkInsertSmall,
    BulkInsertSustained,
    PutMany,
    PutOne,
    BulkDocs,
    GetOne,
    GetRandom,
}

/// A work, its names and what it shows.
pub(crate) struct WorkFacts {
    pub(crate) work: Work,
    /// For the command line.
    pub(crate) key: &'static str,
    /// For the table.
    pub(crate) title: &'static str,
    pub(crate) figures: &'static [Figure],
}

const DOCUMENTS: &[Figure] =
    &[Figure::Rate("documents"), Figure::ServerTimeEach, Figure::DriverTimeEach];
const DOCUMENTS_WITH_LATENCY: &[Figure] = &[
    Figure::Rate("documents"),
    Figure::LatencyPercentile(50),
    Figure::LatencyPercentile(99),
    Figure::ServerTimeEach,
    Figure::DriverTimeEach,
];
const REQUESTS_WITH_LATENCY: &[Figure] = &[
    Figure::Rate("requests"),
    Figure::LatencyPercentile(50),
    Figure::LatencyPercentile(99),
    Figure::ServerTimeEach,
    Figure::DriverTimeEach,
];

/// All works, in the order in which they are run.
pub(crate) static WORKS: &[WorkFacts] = &[
    facts(Work::NewDatabase, "new-database", &[Figure::MillisecondsEach, Figure::ServerTimeEach]),
    facts(Work::BulkInsertSmall, "bulk-insert-small", DOCUMENTS),
    facts(Work::PutMany, "put-64", DOCUMENTS_WITH_LATENCY),
    facts(Work::PutOne, "put-1", DOCUMENTS_WITH_LATENCY),
    facts(Work::BulkDocs, "bulk-docs", DOCUMENTS_WITH_LATENCY),
    facts(Work::GetOne, "get-one", REQUESTS_WITH_LATENCY),
    facts(Work::GetRandom, "get-random", REQUESTS_WITH_LATENCY),
    // The last one, because it leaves the servers with the most to tidy up.
    facts(Work::BulkInsertSustained, "bulk-insert-sustained", DOCUMENTS),
];

const fn facts(work: Work, key: &'static str, figures: &'static [Figure]) -> WorkFacts {
    let title = match work {
        Work::NewDatabase => "new database",
        Work::BulkInsertSmall => "bulk insert, 100k small documents",
        Work::BulkInsertSustained => "bulk insert, 1 KB cities, sustained",
        Work::PutMany => "PUT new 300-byte documents, 64 connections",
        Work::PutOne => "PUT new 300-byte documents, 1 connection",
        Work::BulkDocs => "bulk_docs, 100 documents of 300 bytes each, 4 connections",
        Work::GetOne => "GET one document, 64 connections",
        Work::GetRandom => "GET random of 100k documents, 64 connections",
    };
    WorkFacts { work, key, title, figures }
}

/// The title of the work of that key, for tables of data.
///
/// # Panics
/// When there is none: in a `static` that is an error of compilation.
pub(crate) const fn title(key: &str) -> &'static str {
    let mut index = 0;
    while index < WORKS.len() {
        if is_same(WORKS[index].key.as_bytes(), key.as_bytes()) {
            return WORKS[index].title;
        }
        index += 1;
    }
    panic!("no work has this key")
}

const fn is_same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

impl Work {
    /// Whether a server that only answers GET can do it.
    pub(crate) fn only_reads(self) -> bool {
        matches!(self, Self::GetOne | Self::GetRandom)
    }

    pub(crate) fn rounds(self, size: &Size) -> usize {
        match self {
            Self::BulkInsertSustained => size.sustained_rounds,
            Self::NewDatabase
            | Self::BulkInsertSmall
            | Self::PutMany
            | Self::PutOne
            | Self::BulkDocs
            | Self::GetOne
            | Self::GetRandom => size.rounds,
        }
    }
}

/// A server, as the works see it.
pub(crate) struct Target {
    address: SocketAddr,
    process: Process,
    cities: Rc<Cities>,
    /// Makes the ids and names of this run new.
    numbers: Rc<Cell<u64>>,
}

impl Target {
    pub(crate) fn new(address: SocketAddr, process: Process, cities: Rc<Cities>) -> Self {
        Self { address, process, cities, numbers: Rc::default() }
    }

    /// Creates the database that most works use and fills it.
    pub(crate) async fn fill(&self) -> Result<(), DriverError> {
        let mut connection = Connection::open(self.address).await?;
        create_database(&mut connection, DATABASE).await?;
        let amount = Amount::Documents(FILLED_DOCUMENTS);
        self.stream(DATABASE, "smalls/", amount, write_small).await?;
        Ok(())
    }

    /// The body that the server answers a GET of one document with.
    pub(crate) async fn document_body(&self) -> Result<Vec<u8>, DriverError> {
        let mut connection = Connection::open(self.address).await?;
        let mut get = Vec::new();
        write_get(&mut get, FILLED_DOCUMENTS / 2);
        connection.succeed(&get).await?;
        Ok(connection.body().to_vec())
    }

    /// One round; `measured` is false while warming up.
    pub(crate) async fn round(
        &self,
        work: Work,
        size: &Size,
        measured: bool,
    ) -> Result<Outcome, DriverError> {
        let duration = if measured { size.round } else { size.warm_up };
        match work {
            Work::NewDatabase => self.create_databases().await,
            Work::BulkInsertSmall => {
                let amount = Amount::Documents(FILLED_DOCUMENTS);
                self.bulk_insert_apart("smalls/", amount, write_small).await
            }
            Work::BulkInsertSustained => {
                let duration = if measured { size.sustained } else { size.warm_up };
                let amount = Amount::Time { duration, documents_max: SUSTAINED_DOCUMENTS_MAX };
                let cities = self.cities.clone();
                let write_city = move |out: &mut Vec<u8>, number| cities.write(out, number);
                self.bulk_insert_apart("cities/", amount, write_city).await
            }
            Work::PutMany => self.load(MANY_CONNECTIONS, duration, 1, self.next_put()).await,
            Work::PutOne => self.load(1, duration, 1, self.next_put()).await,
            Work::BulkDocs => {
                let next = self.next_batch();
                self.load(BATCH_CONNECTIONS, duration, BATCH_DOCUMENTS, next).await
            }
            Work::GetOne => {
                let next = |out: &mut Vec<u8>| write_get(out, FILLED_DOCUMENTS / 2);
                self.load(MANY_CONNECTIONS, duration, 1, Rc::new(RefCell::new(next))).await
            }
            Work::GetRandom => self.load(MANY_CONNECTIONS, duration, 1, next_random_get()).await,
        }
    }

    async fn load(
        &self,
        connections: usize,
        duration: Duration,
        operations_per_request: u64,
        next: NextRequest,
    ) -> Result<Outcome, DriverError> {
        let load = Load { connections, duration, operations_per_request };
        run_load(self.address, self.process, load, next).await
    }

    async fn create_databases(&self) -> Result<Outcome, DriverError> {
        let mut connection = Connection::open(self.address).await?;
        let names: Vec<String> = (0..DATABASES_PER_ROUND).map(|_| self.new_name()).collect();
        let stopwatch = Stopwatch::start(self.process)?;
        for name in &names {
            create_database(&mut connection, name).await?;
        }
        let outcome = stopwatch.stop(DATABASES_PER_ROUND, Vec::new())?;
        for name in &names {
            delete_database(&mut connection, name).await?;
        }
        Ok(outcome)
    }

    /// In a database of its own, which is checked and deleted afterwards.
    async fn bulk_insert_apart(
        &self,
        id_prefix: &str,
        amount: Amount,
        write_document: impl FnMut(&mut Vec<u8>, u64),
    ) -> Result<Outcome, DriverError> {
        let name = self.new_name();
        let mut connection = Connection::open(self.address).await?;
        create_database(&mut connection, &name).await?;
        let outcome = self.stream(&name, id_prefix, amount, write_document).await?;
        delete_database(&mut connection, &name).await?;
        Ok(outcome)
    }

    /// A bulk insert, and the check that the server counts what it was sent.
    async fn stream(
        &self,
        database: &str,
        id_prefix: &str,
        amount: Amount,
        write_document: impl FnMut(&mut Vec<u8>, u64),
    ) -> Result<Outcome, DriverError> {
        let (address, process) = (self.address, self.process);
        let outcome =
            bulk_insert(address, process, database, id_prefix, amount, write_document).await?;
        let mut connection = Connection::open(self.address).await?;
        let stats = request("GET", &format!("/databases/{database}/stats"), b"");
        connection.succeed(&stats).await?;
        let answer = serde_json::from_slice::<serde_json::Value>(connection.body());
        let counted = answer.ok().and_then(|stats| stats["CountOfDocuments"].as_u64());
        if counted != Some(outcome.operations) {
            return Err(connection.unexpected(&stats));
        }
        Ok(outcome)
    }

    fn next_put(&self) -> NextRequest {
        let numbers = self.numbers.clone();
        let mut body = Vec::new();
        Rc::new(RefCell::new(move |out: &mut Vec<u8>| {
            let number = take(&numbers, 1);
            body.clear();
            write_person(&mut body, number);
            let path = format!("/databases/{DATABASE}/docs?id=people/{number}");
            write_request(out, "PUT", &path, &body);
        }))
    }

    fn next_batch(&self) -> NextRequest {
        let numbers = self.numbers.clone();
        let mut body = Vec::new();
        Rc::new(RefCell::new(move |out: &mut Vec<u8>| {
            let first = take(&numbers, BATCH_DOCUMENTS);
            body.clear();
            body.extend_from_slice(b"{\"Commands\":[");
            for number in first..first + BATCH_DOCUMENTS {
                let separator = if number == first { "" } else { "," };
                write!(body, "{separator}{{\"Id\":\"people/{number}\",\"ChangeVector\":null,")
                    .expect("writing to a Vec cannot fail");
                body.extend_from_slice(b"\"Type\":\"PUT\",\"Document\":");
                write_person(&mut body, number);
                body.push(b'}');
            }
            body.extend_from_slice(b"]}");
            write_request(out, "POST", &format!("/databases/{DATABASE}/bulk_docs"), &body);
        }))
    }

    fn new_name(&self) -> String {
        format!("bench-{}", take(&self.numbers, 1))
    }
}

fn take(numbers: &Cell<u64>, count: u64) -> u64 {
    let first = numbers.get();
    numbers.set(first + count);
    first
}

fn write_get(out: &mut Vec<u8>, number: u64) {
    write!(
        out,
        "GET /databases/{DATABASE}/docs?id=smalls/{number} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    )
    .expect("writing to a Vec cannot fail");
}

/// The same documents in the same order in every round (xorshift).
fn next_random_get() -> NextRequest {
    let mut state: u64 = 0x2545_F491_4F6C_DD1D;
    Rc::new(RefCell::new(move |out: &mut Vec<u8>| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        write_get(out, state % FILLED_DOCUMENTS + 1);
    }))
}

async fn create_database(connection: &mut Connection, name: &str) -> Result<(), DriverError> {
    let body = format!("{{\"DatabaseName\":\"{name}\",\"Settings\":{{}},\"Disabled\":false}}");
    let path = format!("/admin/databases?name={name}&replicationFactor=1");
    connection.succeed(&request("PUT", &path, body.as_bytes())).await
}

async fn delete_database(connection: &mut Connection, name: &str) -> Result<(), DriverError> {
    let body = format!("{{\"DatabaseNames\":[\"{name}\"],\"HardDelete\":true}}");
    connection.succeed(&request("DELETE", "/admin/databases", body.as_bytes())).await
}
