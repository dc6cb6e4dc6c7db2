//! The database of a trial: created and filled over HTTP, and read for the first time.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::{
    bulk_insert::{Amount, bulk_insert},
    connection::{Connection, request},
    error::DriverError,
    server::RunningServer,
    works::create_database,
};

pub(super) const DATABASE: &str = "bench";
/// A database that does not respond for this long is no longer considered to be opening.
const OPENING_TIME_MAX: Duration = Duration::from_secs(120);
/// Both servers return this while a database is opened or closed.
const UNAVAILABLE: u16 = 503;
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Creates the database and fills it with the documents `docs/1`, `docs/2`, …
pub(super) async fn create_filled(
    server: &RunningServer,
    documents: u64,
    write_document: impl FnMut(&mut Vec<u8>, u64),
) -> Result<(), DriverError> {
    let mut connection = Connection::open(server.address).await?;
    create_database(&mut connection, DATABASE).await?;
    fill(server, "docs/", documents, write_document).await
}

/// Adds this many documents, whose ids start with `id_prefix`.
pub(super) async fn fill(
    server: &RunningServer,
    id_prefix: &str,
    documents: u64,
    write_document: impl FnMut(&mut Vec<u8>, u64),
) -> Result<(), DriverError> {
    let amount = Amount::Documents(documents);
    let (address, process) = (server.address, server.process);
    bulk_insert(address, process, DATABASE, id_prefix, amount, write_document).await?;
    Ok(())
}

/// Waits until the document is returned. Returns the time since the start of the process.
pub(super) async fn first_document(
    server: &RunningServer,
    id: &str,
) -> Result<Duration, DriverError> {
    let get = request("GET", &format!("/databases/{DATABASE}/docs?id={id}"), b"");
    succeed_once_open(&mut Connection::open(server.address).await?, &get).await?;
    Ok(server.began.elapsed())
}

/// Repeats the request while the server reports that the database is not open yet.
pub(super) async fn succeed_once_open(
    connection: &mut Connection,
    request: &[u8],
) -> Result<(), DriverError> {
    let deadline = Instant::now() + OPENING_TIME_MAX;
    loop {
        let status = connection.exchange(request).await?;
        if status != UNAVAILABLE || Instant::now() >= deadline {
            return connection.check_success(status, request);
        }
        sleep(RETRY_INTERVAL).await;
    }
}
