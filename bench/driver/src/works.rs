//! The works: the requests to a server in one round.
//!
//! Invariant: a round adds to the data of earlier rounds, or uses a separate database that is
//! deleted afterwards; only the work itself is within the measured time.

mod attachments;
mod compare_exchange;
mod counters;
mod indexes;
mod patches;
mod subscriptions;
mod table;
mod time_series;

use std::{cell::Cell, io::Write as _, net::SocketAddr, path::PathBuf, rc::Rc, time::Duration};

use crate::{
    bulk_insert::{Amount, bulk_insert},
    connection::{Connection, request, write_request},
    error::DriverError,
    generated::{Rendered, write_small},
    load::{Load, NextRequest, Stopwatch, run_load},
    node_client,
    options::Size,
    outcome::{Outcome, no_latencies},
    process::Process,
};

use self::table::{DOCUMENTS, REQUESTS_WITH_LATENCY};
pub(crate) use self::{
    compare_exchange::write_put as write_exchange,
    indexes::{
        INDEX_WORKS, asked, make_index, make_index_of, queries_path, wait_for_index, waiting,
    },
    table::{WORKS, Work, WorkFacts, index_title, title},
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

/// The input of the works, for all servers.
pub(crate) struct Equipment {
    cities: Rendered,
    people: Rendered,
    /// The program for [`Work::BulkInsertNode`], where it is installed.
    node_client: Option<PathBuf>,
}

impl Equipment {
    pub(crate) fn new(node_client: Option<PathBuf>) -> Self {
        Self { cities: Rendered::cities(), people: Rendered::people(), node_client }
    }
}

/// A server, as the works see it.
pub(crate) struct Target {
    address: SocketAddr,
    process: Process,
    equipment: Rc<Equipment>,
    /// Makes the ids and names of this run unique.
    numbers: Cell<u64>,
    /// The server's own memory in MB before the rounds of a work that measures it.
    memory_before: Cell<Option<f64>>,
    /// Whether the data that the works on time series query exists.
    has_measurements: Cell<bool>,
}

impl Target {
    pub(crate) fn new(address: SocketAddr, process: Process, equipment: Rc<Equipment>) -> Self {
        Self {
            address,
            process,
            equipment,
            numbers: Cell::default(),
            memory_before: Cell::default(),
            has_measurements: Cell::default(),
        }
    }

    /// Whether everything exists that the work needs in addition to the server.
    pub(crate) fn is_equipped_for(&self, work: Work) -> bool {
        work != Work::BulkInsertNode || self.equipment.node_client.is_some()
    }

    /// Creates the data that the work needs, before its first round.
    pub(crate) async fn prepare(&self, work: Work) -> Result<(), DriverError> {
        match work {
            Work::Index(work) => self.prepare_index_work(work).await,
            Work::TimeSeriesHours | Work::TimeSeriesDays | Work::TimeSeriesWhole => {
                self.fill_measurements().await
            }
            Work::AttachmentUp | Work::AttachmentDown => self.prepare_attachments().await,
            _ => Ok(()),
        }
    }

    /// Removes what [`Target::prepare`] created.
    pub(crate) async fn tidy(&self, work: Work) -> Result<(), DriverError> {
        match work {
            Work::Index(work) => self.tidy_index_work(work).await,
            _ => Ok(()),
        }
    }

    /// Creates the database that most works use and fills it.
    pub(crate) async fn fill(&self) -> Result<(), DriverError> {
        let mut connection = Connection::open(self.address).await?;
        create_database(&mut connection, DATABASE).await?;
        let amount = Amount::Documents(FILLED_DOCUMENTS);
        self.stream(DATABASE, "smalls/", amount, write_small).await?;
        Ok(())
    }

    /// The bodies of the server's responses to a GET of one document and to a PUT.
    pub(crate) async fn answer_bodies(&self) -> Result<[Vec<u8>; 2], DriverError> {
        let mut connection = Connection::open(self.address).await?;
        let (mut get, mut put) = (Vec::new(), Vec::new());
        write_get(&mut get, FILLED_DOCUMENTS / 2);
        self.next_put(&mut put);
        connection.succeed(&get).await?;
        let document = connection.body().to_vec();
        connection.succeed(&put).await?;
        Ok([document, connection.body().to_vec()])
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
            Work::BulkInsertNode => self.bulk_insert_by_client().await,
            Work::BulkInsertSustained => {
                let duration = if measured { size.sustained } else { size.warm_up };
                let amount = Amount::Time { duration, documents_max: SUSTAINED_DOCUMENTS_MAX };
                let write_city = |out: &mut Vec<u8>, number| {
                    out.extend_from_slice(self.equipment.cities.document(number));
                };
                self.bulk_insert_apart("cities/", amount, write_city).await
            }
            Work::PutMany => {
                self.load(MANY_CONNECTIONS, duration, 1, &mut |out| self.next_put(out))
            }
            Work::PutOne => self.load(1, duration, 1, &mut |out| self.next_put(out)),
            Work::BulkDocs => {
                let (mut body, documents) = (Vec::new(), BATCH_DOCUMENTS);
                let mut next = |out: &mut Vec<u8>| self.next_batch(out, &mut body);
                self.load(BATCH_CONNECTIONS, duration, documents, &mut next)
            }
            Work::PatchMany => self.load(MANY_CONNECTIONS, duration, 1, &mut patches::next_patch()),
            Work::PatchQuery => self.patch_by_query().await,
            Work::CountMany => {
                self.load(MANY_CONNECTIONS, duration, 1, &mut counters::next_increment())
            }
            Work::TimeSeriesAppend => self.append_points(duration),
            Work::TimeSeriesBulk => self.bulk_insert_points().await,
            Work::TimeSeriesHours => self.aggregate(Some("1 hour")).await,
            Work::TimeSeriesDays => self.aggregate(Some("1 day")).await,
            Work::TimeSeriesWhole => self.aggregate(None).await,
            Work::ComparePut => {
                let mut next = |out: &mut Vec<u8>| compare_exchange::write_put(out, self.take(1));
                self.load(MANY_CONNECTIONS, duration, 1, &mut next)
            }
            Work::SubscriptionRead => self.read_subscription().await,
            Work::SubscriptionLatency => self.wait_for_documents(duration).await,
            Work::AttachmentUp => self.put_attachments(duration),
            Work::AttachmentDown => self.get_attachments(duration),
            Work::GetOne => {
                let mut next = |out: &mut Vec<u8>| write_get(out, FILLED_DOCUMENTS / 2);
                self.load(MANY_CONNECTIONS, duration, 1, &mut next)
            }
            Work::GetRandom => self.load(MANY_CONNECTIONS, duration, 1, &mut next_random_get()),
            Work::Index(work) => self.index_round(work, size, measured).await,
        }
    }

    fn load(
        &self,
        connections: usize,
        duration: Duration,
        operations_per_request: u64,
        next: NextRequest<'_>,
    ) -> Result<Outcome, DriverError> {
        let load = Load { connections, duration, operations_per_request };
        run_load(self.address, self.process, load, next)
    }

    async fn create_databases(&self) -> Result<Outcome, DriverError> {
        let mut connection = Connection::open(self.address).await?;
        let names: Vec<String> = (0..DATABASES_PER_ROUND).map(|_| self.new_name()).collect();
        let stopwatch = Stopwatch::start(self.process)?;
        for name in &names {
            create_database(&mut connection, name).await?;
        }
        let outcome = stopwatch.stop(DATABASES_PER_ROUND, no_latencies())?;
        for name in &names {
            delete_database(&mut connection, name).await?;
        }
        Ok(outcome)
    }

    /// In a separate database, which is checked and deleted afterwards.
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

    /// Like [`Target::bulk_insert_apart`], by the Node.js client.
    async fn bulk_insert_by_client(&self) -> Result<Outcome, DriverError> {
        let Some(program) = &self.equipment.node_client else {
            return Err(DriverError::ClientFailed { printed: "it is not installed".to_owned() });
        };
        let (name, mut connection) = (self.new_name(), Connection::open(self.address).await?);
        create_database(&mut connection, &name).await?;
        let (address, process, documents) = (self.address, self.process, FILLED_DOCUMENTS);
        let outcome = node_client::bulk_insert(program, address, process, &name, documents).await?;
        check_count(&mut connection, &name, documents).await?;
        delete_database(&mut connection, &name).await?;
        Ok(outcome)
    }

    /// A bulk insert, and the check that the server counts all documents sent.
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
        check_count(&mut connection, database, outcome.operations).await?;
        Ok(outcome)
    }

    fn next_put(&self, out: &mut Vec<u8>) {
        let number = self.take(1);
        let path = format_args!("/databases/{DATABASE}/docs?id=people/{number}");
        write_request(out, "PUT", path, self.equipment.people.document(number));
    }

    /// `body` is a buffer that is reused.
    fn next_batch(&self, out: &mut Vec<u8>, body: &mut Vec<u8>) {
        let first = self.take(BATCH_DOCUMENTS);
        body.clear();
        body.extend_from_slice(b"{\"Commands\":[");
        for number in first..first + BATCH_DOCUMENTS {
            let separator = if number == first { "" } else { "," };
            write!(body, "{separator}{{\"Id\":\"people/{number}\",\"ChangeVector\":null,")
                .expect("writing to a Vec cannot fail");
            body.extend_from_slice(b"\"Type\":\"PUT\",\"Document\":");
            body.extend_from_slice(self.equipment.people.document(number));
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
        write_request(out, "POST", format_args!("/databases/{DATABASE}/bulk_docs"), body);
    }

    fn new_name(&self) -> String {
        format!("bench-{}", self.take(1))
    }

    /// The first of `count` numbers not yet used on this server.
    fn take(&self, count: u64) -> u64 {
        self.numbers.replace(self.numbers.get() + count)
    }
}

fn write_get(out: &mut Vec<u8>, number: u64) {
    write!(
        out,
        "GET /databases/{DATABASE}/docs?id=smalls/{number} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    )
    .expect("writing to a Vec cannot fail");
}

fn next_random_get() -> impl FnMut(&mut Vec<u8>) {
    let mut next = random_numbers();
    move |out| write_get(out, next())
}

/// Numbers of filled documents, the same in the same order in every round (xorshift).
fn random_numbers() -> impl FnMut() -> u64 {
    let mut state: u64 = 0x2545_F491_4F6C_DD1D;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % FILLED_DOCUMENTS + 1
    }
}

/// With nothing but a name.
pub(crate) async fn create_database(
    connection: &mut Connection,
    name: &str,
) -> Result<(), DriverError> {
    create_database_on(connection, name, 1).await
}

/// The same on several nodes of a cluster.
pub(crate) async fn create_database_on(
    connection: &mut Connection,
    name: &str,
    nodes: usize,
) -> Result<(), DriverError> {
    let body = format!("{{\"DatabaseName\":\"{name}\",\"Settings\":{{}},\"Disabled\":false}}");
    let path = format!("/admin/databases?name={name}&replicationFactor={nodes}");
    connection.succeed(&request("PUT", &path, body.as_bytes())).await
}

/// An error unless the server counts that many documents.
async fn check_count(
    connection: &mut Connection,
    database: &str,
    documents: u64,
) -> Result<(), DriverError> {
    let stats = request("GET", &format!("/databases/{database}/stats"), b"");
    connection.succeed(&stats).await?;
    let answer = serde_json::from_slice::<serde_json::Value>(connection.body());
    let counted = answer.ok().and_then(|stats| stats["CountOfDocuments"].as_u64());
    if counted != Some(documents) {
        return Err(connection.unexpected(&stats));
    }
    Ok(())
}

async fn delete_database(connection: &mut Connection, name: &str) -> Result<(), DriverError> {
    let body = format!("{{\"DatabaseNames\":[\"{name}\"],\"HardDelete\":true}}");
    connection.succeed(&request("DELETE", "/admin/databases", body.as_bytes())).await
}
