//! The works of a subscription worker: reading existing documents, and waiting for new ones.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use memchr::memmem;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{DATABASE, FILLED_DOCUMENTS, Target, create_database, delete_database};
use crate::{
    bulk_insert::Amount,
    connection::{Connection, request, write_request},
    error::DriverError,
    generated::write_small,
    load::Stopwatch,
    outcome::{Outcome, no_latencies},
};

const DATA: &[u8] = b"{\"Type\":\"Data\"";
const END_OF_BATCH: &[u8] = b"{\"Type\":\"EndOfBatch\"}";
const CONFIRM: &[u8] = b"{\"Type\":\"Confirm\"}";
const ACCEPTED: &[u8] = b"{\"Type\":\"ConnectionStatus\",\"Status\":\"Accepted\"}";
const ACKNOWLEDGE: &[u8] = b"{\"Type\":\"Acknowledge\",\"ChangeVector\":\"\"}";
const READ_BYTES: usize = 256 << 10;

/// A worker that parses only the parts of JSON it needs.
struct Worker {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Worker {
    async fn open(
        address: SocketAddr,
        database: &str,
        subscription: &str,
    ) -> Result<Self, DriverError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut worker = Worker { stream, received: Vec::new() };
        let header = format!(
            "{{\"DatabaseName\":\"{database}\",\"Operation\":\"Subscription\",\
             \"OperationVersion\":53000}}"
        );
        worker.stream.write_all(header.as_bytes()).await?;
        worker.until(b"\"Status\":\"Ok\"").await?;
        worker.received.clear();
        let options =
            format!("{{\"SubscriptionName\":\"{subscription}\",\"MaxDocsPerBatch\":4096}}");
        worker.stream.write_all(options.as_bytes()).await?;
        let end = worker.until(ACCEPTED).await?;
        worker.received.drain(..end);
        Ok(worker)
    }

    /// Receives until the text has arrived; returns where it ends.
    async fn until(&mut self, text: &[u8]) -> Result<usize, DriverError> {
        let mut searched = 0;
        loop {
            if let Some(at) = memmem::find(&self.received[searched..], text) {
                return Ok(searched + at + text.len());
            }
            searched = self.received.len().saturating_sub(text.len());
            self.received.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(DriverError::ClosedEarly);
            }
        }
    }

    /// Receives a batch; returns its number of documents.
    async fn batch(&mut self) -> Result<u64, DriverError> {
        let end = self.until(END_OF_BATCH).await?;
        let documents = memmem::find_iter(&self.received[..end], DATA).count();
        self.received.drain(..end);
        Ok(documents as u64)
    }

    async fn acknowledge(&mut self) -> Result<(), DriverError> {
        self.stream.write_all(ACKNOWLEDGE).await?;
        let end = self.until(CONFIRM).await?;
        self.received.drain(..end);
        Ok(())
    }
}

impl Target {
    /// All documents of a separate database.
    pub(super) async fn read_subscription(&self) -> Result<Outcome, DriverError> {
        let name = self.new_name();
        let mut connection = Connection::open(self.address).await?;
        create_database(&mut connection, &name).await?;
        let amount = Amount::Documents(FILLED_DOCUMENTS);
        self.stream(&name, "smalls/", amount, write_small).await?;
        let (address, subscription) =
            subscribe(&mut connection, self.address, &name, "from Smalls").await?;
        let stopwatch = Stopwatch::start(self.process)?;
        let mut worker = Worker::open(address, &name, &subscription).await?;
        let mut documents = 0;
        while documents < FILLED_DOCUMENTS {
            documents += worker.batch().await?;
            worker.acknowledge().await?;
        }
        let outcome = stopwatch.stop(documents, no_latencies())?;
        drop(worker);
        delete_database(&mut connection, &name).await?;
        Ok(outcome)
    }

    /// One document after the other, each after the worker has received the previous one.
    pub(super) async fn wait_for_documents(
        &self,
        duration: Duration,
    ) -> Result<Outcome, DriverError> {
        let mut connection = Connection::open(self.address).await?;
        let (address, subscription) =
            subscribe(&mut connection, self.address, DATABASE, "from Awaited").await?;
        let mut worker = Worker::open(address, DATABASE, &subscription).await?;
        let stopwatch = Stopwatch::start(self.process)?;
        let (began, mut latencies, mut documents) = (Instant::now(), no_latencies(), 0);
        let mut put = Vec::new();
        while began.elapsed() < duration {
            put.clear();
            let path = format_args!("/databases/{DATABASE}/docs?id=awaited/{}", self.take(1));
            let body = br#"{"Name":"somebody","@metadata":{"@collection":"Awaited"}}"#;
            write_request(&mut put, "PUT", path, body);
            connection.send(&put).await?;
            let answered = async {
                let status = connection.receive().await?;
                connection.check_success(status, &put)?;
                Ok::<_, DriverError>(Instant::now())
            };
            let received = async {
                worker.batch().await?;
                Ok::<_, DriverError>(Instant::now())
            };
            let (answered, received) = tokio::try_join!(answered, received)?;
            let waited = received.saturating_duration_since(answered);
            latencies += u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
            documents += 1;
            worker.acknowledge().await?;
        }
        let outcome = stopwatch.stop(documents, latencies)?;
        drop(worker);
        let path = format!("/databases/{DATABASE}/subscriptions?taskName={subscription}");
        connection.succeed(&request("DELETE", &path, b"")).await?;
        Ok(outcome)
    }
}

/// Creates a subscription to future changes; returns its name and the address for its workers.
async fn subscribe(
    connection: &mut Connection,
    server: SocketAddr,
    database: &str,
    query: &str,
) -> Result<(SocketAddr, String), DriverError> {
    let body = format!("{{\"Query\":\"{query}\"}}");
    let create = request("PUT", &format!("/databases/{database}/subscriptions"), body.as_bytes());
    connection.succeed(&create).await?;
    let created: Value = serde_json::from_slice(connection.body()).unwrap_or_default();
    let name = created["Name"].as_str().map(str::to_owned);
    // Servers return the address of the request.
    let ask = format!("GET /info/tcp?tag=Subscription HTTP/1.1\r\nHost: {server}\r\n\r\n");
    let ask = ask.into_bytes();
    connection.succeed(&ask).await?;
    let info: Value = serde_json::from_slice(connection.body()).unwrap_or_default();
    let address = info["Url"].as_str().and_then(|url| url.strip_prefix("tcp://")?.parse().ok());
    match (address, name) {
        (Some(address), Some(name)) => Ok((address, name)),
        _ => Err(connection.unexpected(&ask)),
    }
}
